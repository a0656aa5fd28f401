"""Reads the text of TTIR: Triton's Python bindings give no access to constants and array attributes."""

from __future__ import annotations

import re

from hardpoint.triton import calls
from hardpoint.triton.ir import Block, Function, LoweringError, Op, Type, Value
from hardpoint.triton.locations import Locations, cut_locations

VALUE = re.compile(r"%[\w$.\-]+(?:#\d+)?")
#: A string outside of attributes, or a list of attributes.
STRING_OR_ATTRIBUTES = re.compile(r'"((?:[^"\\]|\\.)*)"|<?\{((?:[^{}"]|"(?:[^"\\]|\\.)*")*)\}>?')
COMPARISONS = ("arith.cmpi", "arith.cmpf")


def parse(text: str) -> Function:
    """Return the kernel of a module."""
    return _Parser(text).kernel()


def parse_type(text: str) -> Type:
    """``tensor<4x!tt.ptr<f32>>``, ``!tt.ptr<f32>``, ``f32``."""
    text = text.strip()
    if text.startswith("tensor<"):
        inside = text[len("tensor<") : -1]
        dims = re.match(r"(?:\d+x)*", inside)
        assert dims is not None
        return Type(tuple(map(int, dims[0].split("x")[:-1])), parse_type(inside[dims.end() :]).element)
    if text.startswith("!tt.ptr<"):
        return Type((), "*" + parse_type(split(text[len("!tt.ptr<") : -1])[0]).element)
    return Type((), text)


def split(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        if character in "<([{":
            depth += 1
        elif character in ")]}" or (character == ">" and text[at - 1] != "-"):
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def _types(text: str) -> list[Type]:
    text = text.strip()
    return [parse_type(part) for part in split(text[1:-1] if text.startswith("(") else text)]


class _Parser:
    def __init__(self, text: str) -> None:
        self.locations = Locations()
        self.lines: list[tuple[str, str]] = []
        for raw in text.splitlines():
            line = raw.strip()
            if line.startswith("#loc"):
                self.locations.define(line)
            elif line and not line.startswith("#"):
                self.lines.append(cut_locations(line))
        self.at = 0
        self.closing = ""
        self.scopes: list[dict[str, Value]] = [{}]

    def kernel(self) -> Function:
        kernel, functions = None, {}
        while self.at < len(self.lines):
            line = self.next_line()[0]
            if line.startswith("tt.func"):
                function = self.function(line)
                functions[function.name] = function
                if line.startswith("tt.func public"):
                    kernel = function
        if kernel is None:
            raise LoweringError("the module has no kernel")
        calls.expand(kernel, functions)
        return kernel

    def next_line(self) -> tuple[str, str]:
        self.at += 1
        return self.lines[self.at - 1]

    # ---- values

    def define(self, name: str, kind: Type, op: Op | None = None) -> Value:
        value = self.scopes[-1][name] = Value(kind, op)
        return value

    def use(self, name: str) -> Value:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        raise LoweringError(f"the value {name} is used before its definition")

    def values(self, text: str) -> list[Value]:
        return [self.use(name) for name in VALUE.findall(text)]

    def arguments(self, text: str) -> list[Value]:
        """``%a: f32, %b: i32 {tt.divisibility = 16 : i32}``."""
        found = []
        for part in split(text):
            name, _, kind = part.partition(":")
            found.append(self.define(name.strip(), parse_type(kind.partition("{")[0])))
        return found

    # ---- structure

    def function(self, line: str) -> Function:
        head = re.match(r"tt\.func \w* ?@(?:\"([^\"]*)\"|([\w.$]+))\(", line)
        assert head is not None, line
        depth, end = 1, head.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(line[end], 0)
            end += 1
        self.scopes.append({})
        arguments = self.arguments(line[head.end() : end - 1])
        blocks = self.region()
        self.scopes.pop()
        return Function(head[1] or head[2], arguments, blocks)

    def region(self, arguments: list[tuple[str, Type]] | None = None) -> list[Block]:
        """The blocks up to the closing brace. That line stays in ``self.closing``."""
        self.scopes.append({})
        blocks = [Block(arguments=[self.define(name, kind) for name, kind in arguments or ()])]
        branches: list[tuple[Op, str]] = []
        while True:
            line, location = self.next_line()
            if line.startswith("}"):
                self.closing = line
                break
            if line.startswith("^"):
                self.start_block(line, blocks)
                continue
            op = self.operation(line, location)
            op.block = blocks[-1]
            blocks[-1].ops.append(op)
            if op.kind in ("cf.br", "cf.cond_br"):
                branches.append((op, line))
        for op, line in branches:  # last: a branch may use values of blocks that are printed later
            self.branch(op, line)
        for block in blocks:
            for op in block.ops:
                for value in op.operands:
                    value.users.append(op)
                for _, passed in op.targets:
                    for value in passed:
                        value.users.append(op)
        self.scopes.pop()
        return blocks

    def start_block(self, line: str, blocks: list[Block]) -> None:
        if blocks[-1].ops or blocks[-1].label:
            blocks.append(Block())
        label = re.match(r"\^(\w+)", line)
        assert label is not None
        blocks[-1].label = label[1]
        head = line.partition("//")[0]
        if "(" in head:
            blocks[-1].arguments += self.arguments(head[head.index("(") + 1 : head.rindex(")")])

    def branch(self, op: Op, line: str) -> None:
        for target in re.finditer(r"\^(\w+)(?:\(([^)]*)\))?", line):
            op.targets.append((target[1], self.values((target[2] or "").partition(" : ")[0])))

    # ---- operations

    def operation(self, line: str, location: str) -> Op:
        left, _, rest = line.partition(" = ") if line.startswith("%") else ("", "", line)
        names: list[str] = []
        for part in split(left):
            name, _, count = part.partition(":")
            names += [f"{name}#{i}" for i in range(int(count))] if count else [name]
        found = re.match(r'"?([\w.]+)"?', rest)
        assert found is not None, line
        op = Op(found[1], [])
        op.location = self.locations.resolve(location)
        body = rest[found.end() :]
        special = {"scf.for": self.for_loop, "scf.while": self.while_loop, "scf.if": self.condition}
        if op.kind in special:
            types = special[op.kind](op, body)
        elif body.rstrip().endswith("({"):  # tt.reduce and similar: the types follow the region
            self.head(op, body.rstrip()[:-2])
            op.regions.append(self.region())
            types = _types(self.closing.rpartition("->")[2])
        else:
            text, colon, kinds = self.head(op, body).rpartition(" : ")
            op.modifiers = (text if colon else kinds).strip()
            types = self.result_types(op, kinds if colon else "", len(names))
        if op.kind == "tt.load" and op.attributes.get("isVolatile") == "true":
            op.kind = "tt.volatile_load"  # which is an effect, and no value that may be loaded late or twice
        op.results = [self.define(name, kind, op) for name, kind in zip(names, types, strict=True)]
        return op

    def head(self, op: Op, body: str) -> str:
        """Remove strings and attributes from an operation's text, and set the operands."""
        for found in STRING_OR_ATTRIBUTES.finditer(body):
            if found[2] is None:
                op.strings.append(found[1])
                continue
            for part in split(found[2]):
                key, _, value = part.partition(" = ")
                op.attributes[key.strip()] = value.strip()
        body = STRING_OR_ATTRIBUTES.sub("", body)
        if op.kind == "cf.cond_br":
            op.operands = self.values(body.partition(",")[0])
        elif op.kind != "cf.br":
            op.operands = self.values(body)
        return body

    def result_types(self, op: Op, text: str, count: int) -> list[Type]:
        if count == 0:
            return []
        if "->" in text:
            found = _types(text.rpartition("->")[2])
            return found * count if len(found) == 1 else found
        if " to " in text:
            return [parse_type(text.partition(" to ")[2])]
        kinds = split(text)
        if op.kind in COMPARISONS:
            return [Type(parse_type(kinds[0]).shape, "i1")]
        if op.kind == "tt.load":
            pointer = parse_type(kinds[0])
            return [Type(pointer.shape, pointer.element[1:])]
        if op.kind == "tt.unsplat":
            return [Type((), parse_type(kinds[0]).element)]
        if not kinds:  # `arith.constant true`, `tt.get_program_id x`
            return [Type((), "i1" if op.kind == "arith.constant" else "i32")]
        return [parse_type(kinds[-1] if op.kind == "arith.select" else kinds[0])] * count

    def carried(self, text: str) -> tuple[list[str], list[Value]]:
        names, values = [], []
        for part in split(text):
            name, _, value = part.partition(" = ")
            names.append(name)
            values.append(self.use(value))
        return names, values

    def for_loop(self, op: Op, body: str) -> list[Type]:
        head = re.match(r"\s*(unsigned )?(%\S+) = (%\S+) to (%\S+) step (%\S+)", body)
        assert head is not None, body
        names: list[str] = []
        values: list[Value] = []
        types: list[Type] = []
        if found := re.search(r"iter_args\((.*?)\) -> \((.*)\)", body):
            names, values = self.carried(found[1])
            types = _types(found[2])
        counter = body.removesuffix("{").rpartition(" : ")[2] if " : " in body[head.end() :] else "index"
        op.modifiers = "unsigned" if head[1] else ""
        op.operands = [self.use(head[i]) for i in (3, 4, 5)] + values
        op.regions = [self.region([(head[2], parse_type(counter)), *zip(names, types, strict=True)])]
        return types

    def while_loop(self, op: Op, body: str) -> list[Type]:
        carried, _, kinds = body.removesuffix("{").rpartition(" : ")
        before, _, after = kinds.partition("->")
        carried = carried.strip()
        names, op.operands = self.carried(carried[1:-1]) if carried.startswith("(") else ([], [])
        op.regions.append(self.region(list(zip(names, _types(before), strict=True))))
        op.regions.append(self.region())
        return _types(after)

    def condition(self, op: Op, body: str) -> list[Type]:
        head, _, kinds = body.rstrip().removesuffix("{").partition("->")
        op.operands = self.values(head)
        op.regions.append(self.region())
        op.regions.append(self.region() if "else" in self.closing else [])
        return _types(kinds)
