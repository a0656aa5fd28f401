/* Data-dependent selection, in three steps: each work-group counts its outputs (count, heads), one group turns the
 * counts into offsets (scan), each group writes. A work-item handles a chunk of consecutive elements, which preserves
 * the order. Operands are contiguous unless the kernel takes a geometry. */
#include "fault.h"
#include "index_math.h"

#define CHUNK (HP_ELEMENTS / HP_LSIZE)
/* This work-item's range of `all` elements. */
#define CHUNK_RANGE(begin, end, all)                          \
  hp_i64 begin = hp_group * HP_ELEMENTS + hp_lid * CHUNK;     \
  hp_i64 end = begin + CHUNK < (all) ? begin + CHUNK : (all); \
  begin = begin < (all) ? begin : (all);                      \
  end = begin < end ? end : begin
/* First output of this work-item, given its count: the group's offset plus the counts of the work-items before it. The
 * barrier publishes the counts. */
#define CHUNK_BASE(base, count)           \
  HP_LOCAL hp_i64 chunk_counts[HP_LSIZE]; \
  chunk_counts[hp_lid] = (count);         \
  hp_barrier();                           \
  hp_i64 base = counts[hp_group];         \
  for (hp_i64 k = 0; k < hp_lid; ++k) base += chunk_counts[k]
/* Adds up the counts of the work-items and writes the group's count. */
#define CHUNK_TOTAL(count)                                          \
  HP_LOCAL hp_i64 chunk_counts[HP_LSIZE];                           \
  chunk_counts[hp_lid] = (count);                                   \
  hp_barrier();                                                     \
  if (hp_lid == 0) {                                                \
    hp_i64 total = 0;                                               \
    for (hp_i64 k = 0; k < HP_LSIZE; ++k) total += chunk_counts[k]; \
    counts[hp_group] = total;                                       \
  }

/* PARTS: 2 for complex numbers. */
#if PARTS == 2
#define CHOSEN(i) (T_get(self[2 * (i)]) != 0 || T_get(self[2 * (i) + 1]) != 0)
#else
#define CHOSEN(i) (T_get(self[i]) != 0)
#endif
/* Positions of the chosen elements in a chunk, relative to its start. */
#define CHUNK_FIND(found, count, begin, end) \
  hp_i32 found[CHUNK];                       \
  hp_i32 count = 0;                          \
  for (hp_i64 i = begin; i < end; ++i) {     \
    found[count] = (hp_i32)(i - begin);      \
    count += CHOSEN(i);                      \
  }

typedef struct {
  hp_i64 size[8];
} shape;

HP_KERNEL(count)(HP_GLOBAL hp_i64* counts, HP_GLOBAL const T* self, hp_i64 elements) {
  CHUNK_RANGE(begin, end, elements);
  hp_i32 count = 0;
  for (hp_i64 i = begin; i < end; ++i) count += CHOSEN(i);
  CHUNK_TOTAL(count)
}

/* Exclusive prefix sums of `all` counts, followed by the total. One work-group. */
HP_KERNEL(scan)(HP_GLOBAL hp_i64* counts, hp_i64 all) {
  if (hp_lid == 0) {
    hp_i64 total = 0;
    for (hp_i64 k = 0; k < all; ++k) {
      const hp_i64 count = counts[k];
      counts[k] = total;
      total += count;
    }
    counts[all] = total;
  }
}

/* Coordinates of the chosen elements, DIMS each; at most `limit` rows. row, column: strides of out. s: fastest
 * dimension first. */
HP_KERNEL(coordinates)(HP_GLOBAL hp_i64* out, HP_GLOBAL const T* self, HP_GLOBAL const hp_i64* counts, hp_i64 elements,
                       hp_i64 limit, hp_i64 row, hp_i64 column, shape s) {
  CHUNK_RANGE(begin, end, elements);
  CHUNK_FIND(found, count, begin, end)
  CHUNK_BASE(base, count);
  hp_i64 coordinate[DIMS];
  hp_unravel_index(begin, s.size, DIMS, coordinate);
  hp_i64 line = begin - coordinate[0]; /* index of the start of the current line */
  for (hp_i32 k = 0; k < count && base + k < limit; ++k) {
    coordinate[0] = begin + found[k] - line;
    while (DIMS > 1 && coordinate[0] >= s.size[0]) {
      coordinate[0] -= s.size[0];
      line += s.size[0];
#if DIMS > 1
      ++coordinate[1];
      hp_carry_coordinates(s.size + 1, DIMS - 1, coordinate + 1);
#endif
    }
    for (int d = 0; d < DIMS; ++d) out[(base + k) * row + (DIMS - 1 - d) * column] = coordinate[d];
  }
}

/* masked_select: out = the elements of `from` where the mask `self` is set. An element is WORDS of R. */
HP_KERNEL(pick)(HP_GLOBAL R* out, HP_GLOBAL const R* from, HP_GLOBAL const T* self, HP_GLOBAL const hp_i64* counts,
                hp_i64 elements) {
  CHUNK_RANGE(begin, end, elements);
  CHUNK_FIND(found, count, begin, end)
  CHUNK_BASE(base, count);
  for (hp_i32 k = 0; k < count; ++k) {
    for (int w = 0; w < WORDS; ++w) out[(base + k) * WORDS + w] = from[(begin + found[k]) * WORDS + w];
  }
}

/* masked_scatter: where the mask `self` is set, out = the next element of `from`, which has `limit` elements. */
HP_KERNEL(place)(HP_GLOBAL R* out, HP_GLOBAL const R* from, HP_GLOBAL const T* self, HP_GLOBAL const hp_i64* counts,
                 HP_GLOBAL hp_i64* fault, hp_i64 code, hp_i64 elements, hp_i64 limit) {
  CHUNK_RANGE(begin, end, elements);
  CHUNK_FIND(found, count, begin, end)
  CHUNK_BASE(base, count);
  for (hp_i32 k = 0; k < count; ++k) {
    if (base + k >= limit) {
      HP_FAULT(base + k, limit);
      break;
    }
    for (int w = 0; w < WORDS; ++w) out[(begin + found[k]) * WORDS + w] = from[(base + k) * WORDS + w];
  }
}

/* Counts elements that differ from their predecessor. */
HP_KERNEL(heads)(HP_GLOBAL hp_i64* counts, HP_GLOBAL const T* self, hp_i64 elements) {
  CHUNK_RANGE(begin, end, elements);
  hp_i32 count = begin == 0 && end > 0;
  for (hp_i64 i = begin > 0 ? begin : 1; i < end; ++i) count += T_get(self[i]) != T_get(self[i - 1]);
  CHUNK_TOTAL(count)
}

/* Writes those elements, the start of each run, and for every element the index of its run, at position `order[i]`
 * (ORDERED) or i. */
HP_KERNEL(distinct)(HP_GLOBAL T* out, HP_GLOBAL hp_i64* starts, HP_GLOBAL hp_i64* inverse, HP_GLOBAL const T* self,
                    HP_GLOBAL const hp_i64* order, HP_GLOBAL const hp_i64* counts, hp_i64 elements) {
  CHUNK_RANGE(begin, end, elements);
  hp_i32 count = begin == 0 && end > 0;
  for (hp_i64 i = begin > 0 ? begin : 1; i < end; ++i) count += T_get(self[i]) != T_get(self[i - 1]);
  CHUNK_BASE(base, count);
  for (hp_i64 i = begin; i < end; ++i) {
    if (i == 0 || T_get(self[i]) != T_get(self[i - 1])) {
      out[base] = self[i];
      starts[base] = i;
      ++base;
    }
#if INVERSE
    inverse[ORDERED ? order[i] : i] = base - 1;
#endif
  }
}

/* Run lengths from run starts; `elements` is their sum. */
HP_KERNEL(lengths)(HP_GLOBAL hp_i64* out, HP_GLOBAL const hp_i64* starts, hp_i64 runs, hp_i64 elements) {
  HP_FOR_ELEMENTS(i, runs) out[i] = (i + 1 < runs ? starts[i + 1] : elements) - starts[i];
}

/* Sum of each group's repeats. A negative repeat makes the total negative. */
HP_KERNEL(repeats)(HP_GLOBAL hp_i64* counts, HP_GLOBAL const T* self, hp_i64 elements) {
  CHUNK_RANGE(begin, end, elements);
  hp_i64 count = 0;
  for (hp_i64 i = begin; i < end; ++i) count += self[i] < 0 ? -((hp_i64)1 << 52) : (hp_i64)self[i];
  CHUNK_TOTAL(count)
}

/* repeat_interleave: writes each element's index as often as its value; `limit` outputs in all. */
HP_KERNEL(repeat)(HP_GLOBAL T* out, HP_GLOBAL const T* self, HP_GLOBAL const hp_i64* counts, hp_i64 elements,
                  hp_i64 limit) {
  CHUNK_RANGE(begin, end, elements);
  hp_i64 count = 0;
  for (hp_i64 i = begin; i < end; ++i) count += self[i] < 0 ? 0 : (hp_i64)self[i];
  CHUNK_BASE(base, count);
  for (hp_i64 i = begin; i < end; ++i) {
    for (hp_i64 k = 0; k < (hp_i64)self[i] && base < limit; ++k) out[base++] = (T)i;
  }
}

/* searchsorted: position before which each element belongs in a sorted row of `length` elements. RIGHT: 1 for the
 * position after equal elements. `width` elements share a row of boundaries. SORTER: 1 if `sorter` is the permutation
 * that sorts them. */
HP_KERNEL(search)(HP_GLOBAL R* out, HP_GLOBAL const T* self, HP_GLOBAL const T* sorted, HP_GLOBAL const hp_i64* sorter,
                  hp_i64 elements, hp_i64 width, hp_i64 length) {
  HP_FOR_ELEMENTS(i, elements) {
    const T_c value = T_get(self[i]);
    const hp_i64 row = i / width * length;
    hp_i64 low = 0, high = length;
    while (low < high) {
      const hp_i64 middle = low + (high - low) / 2;
#if SORTER
      const hp_i64 there = sorter[row + middle];
      const T_c found = T_get(sorted[row + (HP_INSIDE(there, length) ? there : 0)]);
#else
      const T_c found = T_get(sorted[row + middle]);
#endif
      /* NaN is greater than any number, and not less than itself. */
      const int before = RIGHT ? !(found > value) : !(found >= value);
      low = before ? middle + 1 : low;
      high = before ? high : middle;
    }
    out[i] = (R)low;
  }
}

/* isin: whether each element is among `length` others, sorted or, with LINEAR, few. */
HP_KERNEL(member)(HP_GLOBAL hp_u8* out, HP_GLOBAL const T* self, HP_GLOBAL const T* among, hp_i64 elements,
                  hp_i64 length, hp_i64 invert) {
  HP_FOR_ELEMENTS(i, elements) {
    const T_c value = T_get(self[i]);
#if LINEAR
    int found = 0;
    for (hp_i64 k = 0; k < length; ++k) found |= T_get(among[k]) == value;
#else
    hp_i64 low = 0, high = length;
    while (low < high) {
      const hp_i64 middle = low + (high - low) / 2;
      const int before = T_get(among[middle]) < value;
      low = before ? middle + 1 : low;
      high = before ? high : middle;
    }
    const int found = low < length && T_get(among[low < length ? low : 0]) == value;
#endif
    out[i] = (hp_u8)(found != (int)invert);
  }
}

typedef struct {
  hp_i64 size[8], self[8], mask[8];
} mask_geometry;

/* masked_fill. UNIT: 1 if both operands are contiguous along the fastest dimension. */
HP_KERNEL(fill)(HP_GLOBAL T* self, HP_GLOBAL const hp_u8* mask, HP_GLOBAL const T* value, hp_i64 elements,
                mask_geometry g) {
  const T given = value[0];
#if HP_LSIZE == 1
  HP_ELEMENT_RANGE(begin, end, elements);
  const hp_i64 q_step = UNIT ? 1 : g.self[0], p_step = UNIT ? 1 : g.mask[0];
  hp_i64 coordinate[DIMS];
  hp_unravel_index(begin, g.size, DIMS, coordinate);
  while (begin < end) {
    hp_i64 run = g.size[0] - coordinate[0];
    run = run < end - begin ? run : end - begin;
    HP_GLOBAL T* q = self;
    HP_GLOBAL const hp_u8* p = mask;
    for (int d = 0; d < DIMS; ++d) {
      q += coordinate[d] * g.self[d];
      p += coordinate[d] * g.mask[d];
    }
    HP_VECTORIZE
    for (hp_i64 j = 0; j < run; ++j) {
      const T old = q[j * q_step];
      q[j * q_step] = p[j * p_step] != 0 ? given : old;
    }
    begin += run;
    coordinate[0] += run;
    hp_carry_coordinates(g.size, DIMS, coordinate);
  }
#else
  HP_FOR_ELEMENTS(i, elements) {
    hp_i64 rest = i, to = 0, from = 0;
    for (int d = 0; d < DIMS; ++d) {
      to += rest % g.size[d] * g.self[d];
      from += rest % g.size[d] * g.mask[d];
      rest /= g.size[d];
    }
    if (mask[from] != 0) self[to] = given;
  }
#endif
}

/* tril_indices and triu_indices: row, then column coordinates of a triangle with `rows` lines from first_row on. UPPER:
 * 1 from the diagonal to the right, 0 from the left to the diagonal. */
HP_KERNEL(triangle)(HP_GLOBAL T* out, hp_i64 first_row, hp_i64 rows, hp_i64 columns, hp_i64 offset, hp_i64 total,
                    hp_i64 per_group) {
  const hp_i64 last = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  for (hp_i64 r = hp_group * per_group; r < last; ++r) {
    const hp_i64 row = first_row + r;
#if UPPER
    /* Rows up to -offset are full; each further row is one element shorter. */
    const hp_i64 whole = -offset + 1 < 0 ? 0 : -offset + 1, full = r < whole ? r : whole, begin0 = row + offset;
    const hp_i64 begin = begin0 > 0 ? begin0 : 0, length = columns - begin;
    const hp_i64 shorter = r - full, top = columns - (full + offset > 0 ? full + offset : 0);
    const hp_i64 start = full * columns + shorter * top - shorter * (shorter - 1) / 2;
#else
    /* Each row is one element longer than the one before, until rows are full. */
    const hp_i64 begin = 0, long0 = first_row + offset + 1, growing0 = columns - long0;
    const hp_i64 growing = growing0 < 0 ? 0 : growing0, grown = r < growing ? r : growing;
    const hp_i64 length0 = row + offset + 1, length = length0 < columns ? length0 : columns;
    const hp_i64 start = grown * long0 + grown * (grown - 1) / 2 + (r - grown) * columns;
#endif
    HP_FOR_LOCAL(j, length) {
      out[start + j] = (T)row;
      out[total + start + j] = (T)(begin + j);
    }
  }
}
