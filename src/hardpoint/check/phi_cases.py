"""Arguments for calls of Paddle's operators: the table ``phi_cases.txt``, and defaults from Paddle's signatures."""

from __future__ import annotations

import ast
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TABLE = Path(__file__).with_name("phi_cases.txt")
#: Shapes for operators that are not in the table, by number of tensors.
DEFAULT_SHAPES: dict[int, tuple[tuple[str, ...], ...]] = {
    1: (("[3,4]",), ("[]",), ("[0,3]",), ("[2,3,4,5]",), ("[9,131]",)),
    2: (("[3,4]", "[3,4]"), ("[3,4]", "[4]"), ("[2,1,4]", "[3,1]"), ("[]", "[3]"), ("[0,3]", "[3]"), ("[9,131]",) * 2),
    3: (("[3,4]",) * 3,),
}
#: Dtypes with their own letter.
_FIXED = {"f": "float32", "b": "bool", "i": "int64", "j": "int32", "e": "uint8"}
_TENSOR = re.compile(r"([xpqunalfbije])(?:(\[[\d,\s]*\])(?:<(\d+))?|=(.+))$")
_TOKEN = re.compile(
    r'"[^"]*"'
    r"|[A-Za-z]=\[\[.*?\]\](?=[\s}]|$)"
    r"|(?:[A-Za-z]=?)?\[(?:[^\[\]]|\[[^\]]*\])*\](?:<\d+)?"
    r"|[{}]|[^\s{}]+"
)


class DtypeMarker:
    """A dtype among the arguments: a name, or empty for the tested one."""

    def __init__(self, name: str) -> None:
        self.name = name


class PlaceMarker:
    """The device among the arguments."""


@dataclass(frozen=True)
class TensorSpec:
    """A tensor to generate."""

    kind: str
    shape: tuple[int, ...]
    below: int = 0
    values: Any = None

    @property
    def tested(self) -> bool:
        """Whether it has the tested dtype."""
        return self.kind not in _FIXED

    def dtype(self, tested: str) -> str:
        """Its dtype when ``tested`` is the tested dtype."""
        return _FIXED.get(self.kind, tested)

    def array(self, tested: str, rng: np.random.Generator) -> NDArray[Any]:
        """Its elements; bfloat16 as float32."""
        name = self.dtype(tested)
        dtype = np.dtype("float32" if name == "bfloat16" else name)
        if self.values is not None:
            return np.asarray(self.values).astype(dtype)
        if self.below:
            return rng.integers(0, self.below, self.shape).astype(dtype)
        return _elements(self.kind, self.shape, dtype, rng)


def _elements(kind: str, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> NDArray[Any]:
    if dtype.kind == "c":
        real = np.dtype("float64" if dtype == np.complex128 else "float32")
        parts = [_elements(kind, shape, real, rng) for _ in range(2)]
        if kind in "al":  # keep it Hermitian
            return parts[0].astype(dtype)
        return (parts[0] + 1j * parts[1]).astype(dtype)
    if dtype.kind == "b":
        return np.ones(shape, dtype) if kind == "p" else rng.integers(0, 2, shape).astype(dtype)
    if kind == "n":
        size = int(np.prod(shape))
        distinct = rng.permutation(size).astype("float64") - (0 if dtype.kind == "u" else size // 2)
        return (distinct if dtype.kind in "iu" else distinct * 0.25).reshape(shape).astype(dtype)
    if dtype.kind in "iu":
        low, high = {"p": (1, 6), "q": (0, 2)}.get(kind, (0 if dtype.kind == "u" else -5, 6))
        return rng.integers(low, high, shape).astype(dtype)
    if kind in "al":
        matrix = rng.uniform(-1, 1, shape)
        eye = np.eye(shape[-1])
        positive = matrix @ np.swapaxes(matrix, -1, -2) + shape[-1] * eye
        return (positive if kind == "a" else np.tril(matrix) + 2 * eye).astype(dtype)
    ranges = {"p": (0.5, 2.5), "q": (0.05, 0.95), "u": (-0.9, 0.9)}
    if kind in ranges:
        return rng.uniform(*ranges[kind], shape).astype(dtype)
    return np.asarray(rng.standard_normal(shape) + 0.1).astype(dtype)


@dataclass(frozen=True)
class Case:
    """One call. ``outputs`` are given for a kernel that is called directly, whose inputs come before ``split``."""

    target: str
    text: str
    arguments: tuple[Any, ...]
    dtypes: tuple[str, ...] = ()
    split: int = -1
    outputs: tuple[TensorSpec, ...] = ()

    @property
    def direct(self) -> bool:
        """Whether it calls a kernel, not an operator."""
        return self.split >= 0

    @property
    def tested_dtype(self) -> bool:
        """Whether the tested dtype makes a difference."""
        return any(
            spec.tested if isinstance(spec, TensorSpec) else isinstance(spec, DtypeMarker) and not spec.name
            for spec in flat(self.arguments)
        )

    @property
    def first_shape(self) -> tuple[int, ...]:
        """The shape of the first tensor."""
        return next((spec.shape for spec in flat(self.arguments) if isinstance(spec, TensorSpec)), ())

    def generator(self, dtype: str) -> np.random.Generator:
        """Random numbers that depend on the call only."""
        return np.random.default_rng(zlib.crc32(f"{self.target} {self.text} {dtype}".encode()))


def flat(values: Iterable[Any]) -> Iterator[Any]:
    """Arguments with lists of tensors flattened."""
    for value in values:
        if isinstance(value, list) and any(isinstance(item, TensorSpec) for item in value):
            yield from value
        else:
            yield value


def _parse_one(token: str) -> Any:
    if token == "place":
        return PlaceMarker()
    if token.startswith("@"):
        return DtypeMarker(token[1:])
    if found := _TENSOR.match(token):
        kind, shape, below, values = found.groups()
        if values is not None:
            given = ast.literal_eval(values)
            return TensorSpec(kind, np.asarray(given).shape, values=given)
        return TensorSpec(kind, tuple(ast.literal_eval(shape)), int(below or 0))
    return float("inf") if token == "inf" else ast.literal_eval(token)


def parse_arguments(text: str) -> tuple[Any, ...]:
    """Parse the arguments of a line."""
    found: list[Any] = []
    group: list[Any] | None = None
    for token in _TOKEN.findall(text):
        if token == "{":
            group = []
        elif token == "}":
            found.append(group)
            group = None
        else:
            (found if group is None else group).append(_parse_one(token))
    return tuple(found)


@dataclass
class Table:
    """The cases by operator or kernel, patterns of names that are not generated, and kernels that are wrong on the CPU,
    each with the reason."""

    cases: dict[str, list[Case]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    wrong_on_cpu: dict[str, str] = field(default_factory=dict)

    def reason(self, name: str) -> str:
        """Why the name is not generated; empty if it may be."""
        base = re.sub(r"(_double|_triple)?_grad$", "", name).rstrip("_")
        for pattern, reason in self.reasons.items():
            if name not in self.cases and (fnmatchcase(name, pattern) or fnmatchcase(base, pattern)):
                return reason
        return ""


def _parse_line(line: str) -> Case:
    head, _, text = line.partition(": ")
    names, _, listed = head.partition("<")
    direct = names.startswith("kernel ")
    target = names.removeprefix("kernel ").strip()
    dtypes = tuple(listed.rstrip(">").split())
    if not direct:
        return Case(target, text, parse_arguments(text), dtypes)
    inputs, _, rest = text.partition("|")
    attributes, _, outputs = rest.partition("->")
    given = parse_arguments(inputs)
    return Case(target, text, given + parse_arguments(attributes), dtypes, len(given), parse_arguments(outputs))


def read_table(path: Path = TABLE) -> Table:
    """Read the table. Raises ``ValueError`` with the line's number."""
    table = Table()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if found := re.match(r"([\w*]+) ([!~]) (.+)$", line):
            (table.reasons if found[2] == "!" else table.wrong_on_cpu)[found[1]] = found[3]
            continue
        try:
            case = _parse_line(line.strip())
        except (ValueError, SyntaxError) as error:
            raise ValueError(f"{path.name}:{number}: {error}") from None
        table.cases.setdefault(case.target, []).append(case)
    return table


#: An operator in the type stubs that Paddle ships.
_STUB = re.compile(r'def \w+\((.*?)\)\s*(?:->.*?)?:\n    """\n    C\+\+ interface function for (\w+)')
_PARAMETER = re.compile(r"(\w+): ('[^']*'|[^,=\[]+(?:\[[^\]]*\])?)(\s*=\s*[^,]+)?")


def signatures(paddle_folder: Path) -> dict[str, list[tuple[str, str, bool]]]:
    """Parameters of ``paddle._C_ops`` as name, type, and whether they have a default."""
    found: dict[str, list[tuple[str, str, bool]]] = {}
    stubs = paddle_folder / "_typing" / "libs" / "libpaddle"
    # Operators that take several kinds of tensors have a signature in the second file only.
    for path in (stubs / "eager" / "ops" / "__init__.pyi", stubs / "pir" / "ops.pyi"):
        for parameters, name in _STUB.findall(path.read_text() if path.exists() else ""):
            if "*args" not in parameters and name not in found:
                listed = _PARAMETER.findall(parameters.split(", *,")[0])
                found[name] = [(n, t.strip("' "), bool(default)) for n, t, default in listed]
    return found


def default_cases(name: str, parameters: list[tuple[str, str, bool]]) -> list[Case]:
    """Cases of an operator that takes tensors only, or whose other parameters have defaults."""
    kinds = [kind.removeprefix("paddle.") for _, kind, default in parameters if not default]
    if not kinds or any(kind != "Tensor" for kind in kinds) or len(kinds) not in DEFAULT_SHAPES:
        return []
    texts = [" ".join(f"x{shape}" for shape in shapes) for shapes in DEFAULT_SHAPES[len(kinds)]]
    return [Case(name, text, parse_arguments(text)) for text in texts]
