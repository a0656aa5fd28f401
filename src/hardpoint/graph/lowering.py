"""Lower FX graphs to adapter programs: instructions over numbered registers (csrc/torch/graph/program.h)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from hardpoint.graph import nodes
from hardpoint.graph.converters import KERNEL, Call, convert
from hardpoint.graph.fusion import Fused, fuse

#: Integer functions that the executor implements.
INTEGERS = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.floordiv: "floordiv",
    operator.mod: "mod",
    operator.pow: "pow",
    operator.neg: "neg",
    torch.sym_max: "max",
    torch.sym_min: "min",
}


@dataclass
class Lowered:
    """A lowered program and its statistics for reports."""

    runner: Any
    nodes: int
    fused: list[Fused]
    kernels: list[tuple[str, str]]  #: (node, kernel) by converters
    python: list[str]  #: nodes that call Python functions
    delegated: list[tuple[str, int]] = field(default_factory=list)  #: (subgraph compiler, node count)


def lower(module: torch.fx.GraphModule, name: str) -> Lowered:
    """Lower a graph of ATen operators."""
    return _Lowering(module, name).run()


class _Lowering:
    def __init__(self, module: torch.fx.GraphModule, name: str) -> None:
        from hardpoint.torch import _adapter

        self.adapter = _adapter.load()
        self.module, self.name = module, name
        self.registers: dict[Any, Any] = {}  # node -> register, or list of registers
        self.count = 0
        self.constants: list[torch.Tensor] = []
        self.kernels: list[tuple[str, str]] = []
        self.python: list[str] = []

    def run(self) -> Lowered:
        nodes = list(self.module.graph.nodes)
        inputs = [node for node in nodes if node.op == "placeholder"]
        for node in inputs:
            self.registers[node] = self._new()
        for node in nodes:
            if node.op == "get_attr" and isinstance(value := _attribute(self.module, node.target), torch.Tensor):
                self.registers[node] = self._new()
                self.constants.append(value)
        work = [node for node in nodes if node.op == "call_function" and not self._is_item(node)]
        units = fuse(work)
        for node in work:
            self._allot(node)
        for node in nodes:
            if self._is_item(node):
                self.registers[node] = self.registers[node.args[0]][node.args[1]]
        instructions = [self._unit(unit) for unit in units]
        outputs = next(node for node in reversed(nodes) if node.op == "output").args[0]
        given = [self._value(value) for value in (outputs if isinstance(outputs, (list, tuple)) else [outputs])]
        self._release(instructions, given, len(inputs))
        runner = self.adapter.GraphRunner(len(inputs), self.count, self.name, instructions, given, self.constants)
        fused = [unit for unit in units if isinstance(unit, Fused)]
        return Lowered(runner, len(work), fused, self.kernels, self.python)

    # ---- Registers

    def _new(self) -> int:
        self.count += 1
        return self.count - 1

    @staticmethod
    def _is_item(node: Any) -> bool:
        """Whether the node selects one result of another: a register, not an instruction."""
        return (
            node.op == "call_function"
            and node.target is operator.getitem
            and isinstance(node.args[0].meta.get("val"), (list, tuple))
        )

    def _allot(self, node: Any) -> None:
        value = node.meta.get("val")
        many = isinstance(value, (list, tuple))
        self.registers[node] = [self._new() for _ in value] if many else self._new()

    def _results(self, node: Any) -> list[int]:
        found = self.registers[node]
        return found if isinstance(found, list) else [found]

    def _value(self, given: Any) -> Any:
        """Replace nodes in an argument by registers."""
        if isinstance(given, torch.fx.Node):
            found = self.registers[given]
            if isinstance(found, list):
                return [self.adapter.GraphRegister(k) for k in found]
            return self.adapter.GraphRegister(found)
        if isinstance(given, (list, tuple)):
            return [self._value(item) for item in given]
        return given

    # ---- Instructions

    def _instruction(self, kind: str, name: str, arguments: list[Any], results: list[int], **more: Any) -> Any:
        plain = {"kind": kind, "name": name, "arguments": arguments, "results": results, "unpack": False}
        return {**plain, "releases": [], "plain": [], **more}

    def _unit(self, unit: Any) -> Any:
        if isinstance(unit, Fused):
            return self._fused(unit)
        if KERNEL in unit.meta:
            return self._kernel(unit, unit.meta[KERNEL])
        call = convert(unit)
        if call is None:
            return self._node(unit)
        self.kernels.append((unit.name, call.kernel))
        return self._kernel(unit, call)

    def _node(self, node: Any) -> Any:
        target = node.target
        if isinstance(target, torch._ops.OpOverload):
            return self._operator(node)
        value = node.meta.get("val")
        if target in INTEGERS and isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
            arguments = [self._value(a) for a in node.args]
            return self._instruction("integer", node.name, arguments, self._results(node), integer=INTEGERS[target])
        return self._python(node, target)

    def _operator(self, node: Any) -> Any:
        schema = node.target._schema
        arguments = [self._value(given) for given in nodes.arguments(node).values()]
        returns = [str(r.type) for r in schema.returns]
        return self._instruction(
            "operator",
            f"{node.name} ({node.target})",
            arguments,
            self._results(node) if returns else [],
            operator=(schema.name, schema.overload_name),
            unpack=returns == ["List[Tensor]"],
        )

    def _python(self, node: Any, function: Callable[..., Any]) -> Any:
        """Instruction that calls a Python function."""
        flat, spec = pytree.tree_flatten((node.args, dict(node.kwargs)))
        positions = [k for k, item in enumerate(flat) if isinstance(item, torch.fx.Node) and item in self.registers]
        fixed = [
            _attribute(self.module, item.target) if isinstance(item, torch.fx.Node) and k not in positions else item
            for k, item in enumerate(flat)
        ]

        def call(*values: Any) -> Any:
            items = list(fixed)
            for position, value in zip(positions, values, strict=True):
                items[position] = value
            args, kwargs = pytree.tree_unflatten(items, spec)
            return function(*args, **kwargs)

        self.python.append(node.name)
        return self._instruction(
            "python",
            f"{node.name} ({getattr(function, '__name__', function)})",
            [self._value(flat[k]) for k in positions],
            self._results(node),
            function=call,
            unpack=isinstance(self.registers[node], list),
        )

    def _kernel(self, node: Any, call: Call) -> Any:
        arguments = [self._value(given) for given in (*call.inputs, *call.attributes)]
        outputs = [
            (o.dtype, [self._size(s) for s in o.shape], [self._size(s) for s in o.stride()]) for o in call.outputs
        ]
        return self._instruction(
            "kernel",
            f"{node.name} (kernel {call.kernel})",
            arguments,
            self._results(node),
            kernel=call.kernel,
            inputs=len(call.inputs),
            outputs=outputs,
            plain=[self._node(node)],
        )

    def _size(self, size: Any) -> Any:
        """A static size, or the register that holds a dynamic one."""
        if isinstance(size, int):
            return size
        for node, register in self.registers.items():
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt) and str(value) == str(size):
                return self.adapter.GraphRegister(register)
        raise NotImplementedError(f"no node of the graph has the size {size}")

    def _fused(self, unit: Fused) -> Any:
        outputs = [(node.meta["val"].dtype, _order(node.meta["val"])) for node in unit.outputs]
        plain = [self._node(node) for node in unit.nodes]
        results = [register for node in unit.outputs for register in self._results(node)]
        last = _last_uses(plain)
        for register in {r for each in plain for r in each["results"]} - set(results):
            plain[last[register]]["releases"].append(register)
        return self._instruction(
            "fused",
            unit.name,
            [self._value(given) for given in (*unit.inputs, *unit.numbers)],
            results,
            operator=unit.name,
            region=unit.region.text(),
            outputs=outputs,
            whole=list(unit.region.numbers),
            plain=plain,
        )

    def _release(self, instructions: list[Any], outputs: list[Any], inputs: int) -> None:
        """Release registers after their last use, except constants and outputs."""
        kept = set(_read(outputs)) | set(range(inputs, inputs + len(self.constants)))
        for register, k in _last_uses(instructions).items():
            if register not in kept:
                instructions[k]["releases"].append(register)


def _read(value: Any) -> list[int]:
    """Registers in nested arguments."""
    if isinstance(value, (list, tuple)):
        return [register for item in value for register in _read(item)]
    return [value.index] if type(value).__name__ == "GraphRegister" else []


def _last_uses(instructions: list[Any]) -> dict[int, int]:
    """Register -> index of the last instruction that uses it."""
    last: dict[int, int] = {}
    for k, each in enumerate(instructions):
        for register in (*_read(each["arguments"]), *_read(each.get("outputs", [])), *each["results"]):
            last[register] = k
    return last


def _order(value: torch.Tensor) -> list[int]:
    """Dimensions of a tensor in memory order, slowest first."""

    def hint(number: Any) -> int:
        return number if isinstance(number, int) else int(number.node.hint or 1)

    strides = [hint(s) for s in value.stride()]
    sizes = [hint(s) for s in value.shape]
    for d in reversed(range(value.dim())):
        if sizes[d] == 1:  # may have any stride: take the one that keeps its position
            strides[d] = next((strides[k] * sizes[k] for k in range(d + 1, len(sizes)) if sizes[k] != 1), 1)
    return sorted(range(value.dim()), key=lambda d: (-strides[d], d))


def _attribute(module: torch.nn.Module, target: str) -> Any:
    value: Any = module
    for name in target.split("."):
        value = getattr(value, name)
    return value
