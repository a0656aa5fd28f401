"""Writes portable reduction kernels for devices where a group is one work-item (a CPU).

Each output element is computed by one group, in an order that depends on the shape alone: results do not depend on the
number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from string import Template

from hardpoint.kernels.pointwise import COMPUTE, FLOATS, STORAGE, Operand, load, store
from hardpoint.ops import Op

MAX_DIMENSIONS = 8
#: Independent accumulators: enough for the widest vectors, so that the compiler need not reorder a sum.
LANES = 32
#: Output elements a group computes: along rows each is a whole row; by columns they lie side by side.
ROWS, COLUMNS = 4, 256


@dataclass(frozen=True)
class Specialisation:
    """What the adapter asks for; parsed from its text."""

    compute: str
    output: str
    input: str
    reduced: int  # number of dimensions, fastest first
    kept: int
    layout: str  # "rows": reduced along the fastest dimension; "columns": outputs lie side by side in the input too
    inner: str  # "contiguous" or "strided"

    @staticmethod
    def parse(text: str) -> Specialisation:
        """Read ``compute=f32 output=f32 input=f32 reduced=1 kept=1 layout=rows inner=contiguous``."""
        fields = dict(part.split("=", 1) for part in text.split())
        numbers = int(fields.pop("reduced")), int(fields.pop("kept"))
        return Specialisation(**fields, reduced=numbers[0], kept=numbers[1])


def combine(op: Op, compute: str) -> str | None:
    """The expression that adds an element, for this class of dtypes."""
    assert op.reduction is not None
    kind = "float" if compute in FLOATS else "bool" if compute == "bool" else "int"
    if kind not in op.reduction.classes:
        return None
    chosen = op.reduction.combine
    return chosen.get(kind) if isinstance(chosen, Mapping) else chosen


def source(op: Op, spec: Specialisation, preamble: str) -> tuple[str, str, int] | None:
    """The kernel's source, its name, and the output elements a group handles; None if there is no such kernel."""
    expression = combine(op, spec.compute)
    if expression is None or op.reduction is None:
        return None
    name = f"hp_{op.name}"
    place = "((const S*)q)[j]" if spec.inner == "contiguous" else "*(const S*)(q + j * step)"
    per_group = ROWS if spec.layout == "rows" else COLUMNS
    values = {
        "reduced": str(spec.reduced),
        "kept": str(spec.kept),
        "lanes": str(LANES if spec.layout == "rows" else COLUMNS),
        "dimensions": str(MAX_DIMENSIONS),
        "compute": COMPUTE[spec.compute],
        "input": STORAGE[spec.input],
        "output": STORAGE[spec.output],
        "suffix": {"f16": "f32", "bf16": "f32", "bool": "u8"}.get(spec.compute, spec.compute),
        "combine": expression,
        "element": load(Operand(spec.input, spec.inner), place, spec.compute),
        # The first element may be combined twice where it is also the start: largest and smallest do not mind.
        "start": "hp_element(base, 0, step)" if op.reduction.initial == "x" else f"(T){op.reduction.initial}",
        "restart": "total[l]" if op.reduction.initial == "x" else f"(T){op.reduction.initial}",
        "finish": store(spec.output, f"(T)({op.reduction.finish})"),
        "name": name,
        "per_group": str(per_group),
        "body": ROWS_BODY if spec.layout == "rows" else COLUMNS_BODY,
    }
    text = KERNEL
    for _ in range(2):  # the body has places to fill in, too
        text = Template(text).safe_substitute(values)
    return f"{preamble}\n{text}", name, per_group


KERNEL = """
typedef ${compute} T;
typedef ${input} S;
typedef ${output} R;
#define M(name) hp_##name##_${suffix}
enum { REDUCED = ${reduced}, KEPT = ${kept}, LANES = ${lanes}, BLOCK = 256 };
typedef struct {
  hp_i64 outputs, count;
  hp_i64 reduced_shape[${dimensions}], reduced_stride[${dimensions}];
  hp_i64 kept_shape[${dimensions}], kept_stride[${dimensions}], output_stride[${dimensions}];
} hp_geometry;

HP_FN T hp_combine(T acc, T x) { return (T)(${combine}); }
HP_FN T hp_element(const char* q, hp_i64 j, hp_i64 step) { (void)step; return ${element}; }
/* Adds what the lanes gathered to the totals, and starts anew: long sums keep their accuracy in two levels. */
HP_FN void hp_flush(T* total, T* acc, hp_i64 lanes, T start) {
  for (hp_i64 l = 0; l < lanes; ++l) {
    total[l] = hp_combine(total[l], acc[l]);
    acc[l] = start;
  }
}
/* Where the start is an element of its own for each lane, the total may stand in for it. */
HP_FN void hp_flush_columns(T* total, T* acc, hp_i64 lanes) {
  for (hp_i64 l = 0; l < lanes; ++l) {
    total[l] = hp_combine(total[l], acc[l]);
    acc[l] = ${restart};
  }
}
HP_FN R hp_finish(T acc, hp_i64 count) { (void)count; return ${finish}; }

void ${name}(void* const* args, const hp_u32* groups, hp_u64 first, hp_u64 last) {
  (void)groups;
  char* const output = *(char* const*)args[0];
  const char* const input = *(const char* const*)args[1];
  const hp_geometry g = *(const hp_geometry*)args[2];
  const hp_i64 begin = (hp_i64)first * ${per_group};
  const hp_i64 limit = (hp_i64)last * ${per_group}, end = limit < g.outputs ? limit : g.outputs;
  for (hp_i64 o = begin; o < end;) {
    const char* base = input;
    char* out = output;
    hp_i64 rest = o, place = 0;
    for (int d = 0; d < KEPT; ++d) {
      const hp_i64 i = rest % g.kept_shape[d];
      rest /= g.kept_shape[d];
      base += i * g.kept_stride[d];
      out += i * g.output_stride[d];
      if (d == 0) place = i;
    }
    (void)place;
${body}
  }
}
"""

#: One output at a time: the lanes share a row.
ROWS_BODY = """
    const hp_i64 step = g.reduced_stride[0], inner = g.reduced_shape[0], rows = g.count / inner;
    const T start = ${start};
    T acc[LANES], total[LANES];
    for (int l = 0; l < LANES; ++l) acc[l] = total[l] = start;
    hp_i64 index[REDUCED] = {0};
    const char* q = base;
    int terms = 0;
    for (hp_i64 r = 0; r < rows; ++r) {
      hp_i64 j = 0;
      while (j + LANES <= inner) {
        hp_i64 stop = j + (hp_i64)(BLOCK - terms) * LANES;
        stop = stop < inner ? stop : inner;
        for (; j + LANES <= stop; j += LANES, ++terms)
          for (int l = 0; l < LANES; ++l) acc[l] = hp_combine(acc[l], hp_element(q, j + l, step));
        if (terms == BLOCK) hp_flush(total, acc, LANES, start), terms = 0;
      }
      for (int l = 0; j < inner; ++j, ++l) acc[l] = hp_combine(acc[l], hp_element(q, j, step));
      if (inner % LANES != 0 && ++terms == BLOCK) hp_flush(total, acc, LANES, start), terms = 0;
      for (int d = 1; d < REDUCED; ++d) {
        q += g.reduced_stride[d];
        if (++index[d] < g.reduced_shape[d]) break;
        q -= index[d] * g.reduced_stride[d];
        index[d] = 0;
      }
    }
    hp_flush(total, acc, LANES, start);
    for (int w = LANES / 2; w > 0; w /= 2)
      for (int l = 0; l < w; ++l) total[l] = hp_combine(total[l], total[l + w]);
    *(R*)out = hp_finish(total[0], g.count);
    ++o;
"""

#: Neighbouring outputs together: each lane is one of them.
COLUMNS_BODY = """
    const hp_i64 step = g.kept_stride[0];
    hp_i64 run = g.kept_shape[0] - place;
    run = run < end - o ? run : end - o;
    run = run < LANES ? run : LANES;
    T acc[LANES], total[LANES];
    for (hp_i64 l = 0; l < run; ++l) {
      const char* const here = base;
      base = here + l * step;
      acc[l] = total[l] = ${start};
      base = here;
    }
    hp_i64 index[REDUCED] = {0};
    const char* q = base;
    for (hp_i64 r = 0; r < g.count; ++r) {
      for (hp_i64 j = 0; j < run; ++j) acc[j] = hp_combine(acc[j], hp_element(q, j, step));
      if (r % BLOCK == BLOCK - 1) hp_flush_columns(total, acc, run);
      for (int d = 0; d < REDUCED; ++d) {
        q += g.reduced_stride[d];
        if (++index[d] < g.reduced_shape[d]) break;
        q -= index[d] * g.reduced_stride[d];
        index[d] = 0;
      }
    }
    hp_flush_columns(total, acc, run);
    for (hp_i64 l = 0; l < run; ++l) *(R*)(out + l * g.output_stride[0]) = hp_finish(total[l], g.count);
    o += run;
"""
