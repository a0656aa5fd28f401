/* Softmax and log-softmax along one dimension. T: input type, R: output type (backward: T is the type of the forward
 * result, R that of the input's gradient). LOG: 0 softmax, 1 log-softmax, 2 logsumexp, one output per row. `rows`
 * kernels reduce the innermost dimension; `columns` kernels have `inner` contiguous elements per step, a block of which
 * belongs to a work-group. */
#include "row_reduction.h"
#if HP_LSIZE > 1
#include "row_vector_access.h"
#endif

/* Elements of a row that are buffered, widened, between the passes. */
#define ROW_BUFFER 4096
#define COLUMNS 64

#if defined(R_IS_F16) || defined(R_IS_BF16)
#define R_IS_HALF 1
#else
#define R_IS_HALF 0
#endif

#if HP_LSIZE == 1
HP_FN T_a largest_of(const T* x, hp_i64 n) {
  T_a buffer[HP_T_IS_HALF ? HP_CHUNK : 1], largest = -HP_INFINITY;
  for (hp_i64 at = 0; at < n; at += HP_CHUNK) {
    const hp_i64 part = n - at < HP_CHUNK ? n - at : HP_CHUNK;
    largest = hp_max(hp_widen(x + at, buffer, part), part, largest);
  }
  return largest;
}
#endif

/* If all elements are infinite, the difference would be NaN. */
#define SHIFT(largest) (LOG == 2 && ((largest) == HP_INFINITY || (largest) == -HP_INFINITY) ? (T_a)0 : (largest))

#if HP_LSIZE > 1
/* Shift of the elements seen so far. If all were -infinity, their exponentials are 0. */
#define RUNNING_SHIFT(largest) ((largest) == -HP_INFINITY ? (T_a)0 : SHIFT(largest))

/* Online softmax: adds elements to the running maximum and the sum of exponentials relative to it. */
HP_FN void softmax_accumulate(T_a* largest, T_a* total, const T_a* values, int count) {
  T_a top = *largest, part[4] = {0, 0, 0, 0};
  HP_UNROLL
  for (int e = 0; e < count; ++e) top = values[e] > top ? values[e] : top;
  /* Branch-free: PoCL 3.1 vectorizes a branch incorrectly here. */
  *total *= *largest == -HP_INFINITY ? (T_a)1 : T_M(exp)(RUNNING_SHIFT(*largest) - RUNNING_SHIFT(top));
  *largest = top;
  const T_a shift = RUNNING_SHIFT(top);
  HP_UNROLL
  for (int e = 0; e < count; ++e) part[e % 4] += T_M(exp)(values[e] - shift);
  *total += (part[0] + part[1]) + (part[2] + part[3]);
}
#endif

HP_KERNEL(rows)(HP_GLOBAL R* out, HP_GLOBAL const T* in, hp_i64 rows, hp_i64 n, hp_i64 per_group) {
#if HP_LSIZE > 1
  HP_LOCAL T_a scratch[HP_LSIZE];
#endif
  const hp_i64 end = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  for (hp_i64 row = hp_group * per_group; row < end; ++row) {
    HP_GLOBAL const T* const x = in + row * n;
    HP_GLOBAL R* const y = out + row * (LOG == 2 ? 1 : n);
#if HP_LSIZE == 1
    T_a powers[ROW_BUFFER], total = 0;
    const T_a largest = largest_of(x, n), shift = SHIFT(largest);
    for (hp_i64 at = 0; at < n; at += ROW_BUFFER) {
      const hp_i64 part = n - at < ROW_BUFFER ? n - at : ROW_BUFFER;
      T_a* const to = LOG == 0 && !R_IS_HALF ? (T_a*)(y + at) : powers;
      HP_VECTORIZE
      for (hp_i64 j = 0; j < part; ++j) to[j] = T_M(exp)(T_get(x[at + j]) - shift);
      total += hp_sum(to, part);
    }
    const T_a inverse = (T_a)1 / total, lse = T_M(log)(total);
    if (LOG == 2) {
      y[0] = R_put(lse + shift);
    } else if (LOG == 1) {
      HP_VECTORIZE
      for (hp_i64 j = 0; j < n; ++j) y[j] = R_put(T_get(x[j]) - shift - lse);
    } else if (!R_IS_HALF) {
      HP_VECTORIZE
      for (hp_i64 j = 0; j < n; ++j) y[j] = R_put(R_get(y[j]) * inverse);
    } else if (n <= ROW_BUFFER) {
      HP_VECTORIZE
      for (hp_i64 j = 0; j < n; ++j) y[j] = R_put(powers[j] * inverse);
    } else {
      HP_VECTORIZE
      for (hp_i64 j = 0; j < n; ++j) y[j] = R_put(T_M(exp)(T_get(x[j]) - shift) * inverse);
    }
#else
    T_a largest = -HP_INFINITY, total = 0, values[ROW_EACH];
    if (n <= ROW_SHORT) {
      const int vectors =
          n % ROW_PACK == 0 && HP_ALIGNED(x, sizeof(row_pack_in)) && (LOG == 2 || HP_ALIGNED(y, sizeof(row_pack_out)));
      const int used = row_used((int)n, vectors);
      row_load(values, x, (int)n, vectors, -HP_INFINITY);
      ROW_FOR_LOADED(e, used) largest = values[e] > largest ? values[e] : largest;
      HP_GROUP_MAX(scratch, largest);
      const T_a shift = SHIFT(largest);
      ROW_FOR_LOADED(e, used) {
        const T_a power = T_M(exp)(values[e] - shift);
        values[e] = LOG ? values[e] - shift : power;
        total += power;
      }
      HP_GROUP_SUM(scratch, total);
      const T_a inverse = (T_a)1 / total, lse = T_M(log)(total);
      if (LOG == 2) {
        if (hp_lid == 0) y[0] = R_put(lse + shift);
        continue;
      }
      ROW_FOR_LOADED(e, used) values[e] = LOG ? values[e] - lse : values[e] * inverse;
      row_store(y, values, (int)n, vectors);
      continue;
    }
    const row_segments parts = row_split(x, n, LOG == 2 || ROW_SAME_ALIGNMENT(x, y));
    ROW_FOR_PACKS(first, parts) {
      row_read(values, x + parts.head, first, parts.packs, 0, -HP_INFINITY);
      softmax_accumulate(&largest, &total, values, ROW_EACH);
    }
    ROW_FOR_SINGLE(j, n, parts) {
      values[0] = T_get(x[j]);
      softmax_accumulate(&largest, &total, values, 1);
    }
    T_a top = largest;
    HP_GROUP_MAX(scratch, top);
    const T_a shift = SHIFT(top);
    if (largest != -HP_INFINITY) total *= T_M(exp)(RUNNING_SHIFT(largest) - shift);
    HP_GROUP_SUM(scratch, total);
    const T_a inverse = (T_a)1 / total, lse = T_M(log)(total);
    if (LOG == 2) {
      if (hp_lid == 0) y[0] = R_put(lse + shift);
      continue;
    }
#define SOFTMAX_OF(v) (LOG ? (v) - shift - lse : T_M(exp)((v) - shift) * inverse)
    /* Backwards: the elements read last may still be in cache. */
    ROW_FOR_PACKS(first, parts) {
      row_read(values, x + parts.head, first, parts.packs, 1, 0);
      HP_UNROLL
      for (int e = 0; e < ROW_EACH; ++e) values[e] = SOFTMAX_OF(values[e]);
      row_write(y + parts.head, values, first, parts.packs, 1);
    }
    ROW_FOR_SINGLE(j, n, parts) y[j] = R_put(SOFTMAX_OF(T_get(x[j])));
#endif
  }
}

#if HP_LSIZE == 1
/* A block of columns. The width is usually a compile-time constant. */
HP_FN void columns_of(R* y, const T* x, hp_i64 n, hp_i64 inner, hp_i64 width) {
  T_a largest[COLUMNS], total[COLUMNS];
  for (hp_i64 j = 0; j < width; ++j) {
    largest[j] = -HP_INFINITY;
    total[j] = 0;
  }
  for (hp_i64 i = 0; i < n; ++i) {
    HP_VECTORIZE
    for (hp_i64 j = 0; j < width; ++j) {
      const T_a v = T_get(x[i * inner + j]);
      largest[j] = v > largest[j] ? v : largest[j];
    }
  }
  for (hp_i64 i = 0; i < n; ++i) {
    HP_VECTORIZE
    for (hp_i64 j = 0; j < width; ++j) {
      const T_a e = T_M(exp)(T_get(x[i * inner + j]) - largest[j]);
      if (LOG == 0 && !R_IS_HALF) y[i * inner + j] = R_put(e);
      total[j] += e;
    }
  }
  for (hp_i64 j = 0; j < width; ++j) total[j] = LOG ? T_M(log)(total[j]) : (T_a)1 / total[j];
  for (hp_i64 i = 0; i < n; ++i) {
    HP_VECTORIZE
    for (hp_i64 j = 0; j < width; ++j) {
      if (LOG == 0 && !R_IS_HALF) {
        y[i * inner + j] = R_put(R_get(y[i * inner + j]) * total[j]);
      } else {
        const T_a v = T_get(x[i * inner + j]) - largest[j];
        y[i * inner + j] = R_put(LOG ? v - total[j] : T_M(exp)(v) * total[j]);
      }
    }
  }
}
#endif

/* One work-group per block of columns and outer index. */
HP_KERNEL(columns)(HP_GLOBAL R* out, HP_GLOBAL const T* in, hp_i64 n, hp_i64 inner, hp_i64 blocks) {
  const hp_i64 column = hp_group % blocks * COLUMNS;
  const hp_i64 width = inner - column < COLUMNS ? inner - column : COLUMNS;
  const hp_i64 first = hp_group / blocks * n * inner + column;
  HP_GLOBAL const T* const x = in + first;
  HP_GLOBAL R* const y = out + first;
#if HP_LSIZE == 1
  if (width == COLUMNS) {
    columns_of(y, x, n, inner, COLUMNS);
  } else {
    columns_of(y, x, n, inner, width);
  }
#else
  HP_FOR_LOCAL(j, width) {
    T_a largest = -HP_INFINITY, total = 0;
    for (hp_i64 i = 0; i < n; ++i) {
      const T_a v = T_get(x[i * inner + j]);
      largest = v > largest ? v : largest;
    }
    for (hp_i64 i = 0; i < n; ++i) total += T_M(exp)(T_get(x[i * inner + j]) - largest);
    total = LOG ? T_M(log)(total) : (T_a)1 / total;
    for (hp_i64 i = 0; i < n; ++i) {
      const T_a v = T_get(x[i * inner + j]) - largest;
      y[i * inner + j] = R_put(LOG ? v - total : T_M(exp)(v) * total);
    }
  }
#endif
}

/* Gradient of an input from the gradient and value of its output and the row's `total`. */
#define SOFTMAX_GRADIENT(g, y) (LOG ? (g) - T_M(exp)(y) * total : ((g) - total) * (y))

HP_KERNEL(rows_backward)(HP_GLOBAL R* out, HP_GLOBAL const T* grad, HP_GLOBAL const T* output, hp_i64 rows, hp_i64 n,
                         hp_i64 per_group) {
#if HP_LSIZE > 1
  HP_LOCAL T_a scratch[HP_LSIZE];
#endif
  const hp_i64 end = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  for (hp_i64 row = hp_group * per_group; row < end; ++row) {
    HP_GLOBAL const T* const g = grad + row * n;
    HP_GLOBAL const T* const y = output + row * n;
    HP_GLOBAL R* const dx = out + row * n;
    T_a total = 0;
#if HP_LSIZE == 1
    T_a a[HP_T_IS_HALF ? HP_CHUNK : 1], b[HP_T_IS_HALF ? HP_CHUNK : 1];
    for (hp_i64 at = 0; at < n; at += HP_CHUNK) {
      const hp_i64 part = n - at < HP_CHUNK ? n - at : HP_CHUNK;
      total += LOG ? hp_sum(hp_widen(g + at, a, part), part)
                   : hp_sum_products(hp_widen(g + at, a, part), hp_widen(y + at, b, part), part);
    }
    if (HP_T_IS_HALF && !LOG && n <= HP_CHUNK) { /* still in the buffers, widened */
      HP_VECTORIZE
      for (hp_i64 j = 0; j < n; ++j) dx[j] = R_put((a[j] - total) * b[j]);
      continue;
    }
    HP_VECTORIZE
    for (hp_i64 j = 0; j < n; ++j) {
      const T_a gj = T_get(g[j]), yj = T_get(y[j]);
      dx[j] = R_put(SOFTMAX_GRADIENT(gj, yj));
    }
#else
    T_a gs[ROW_EACH], ys[ROW_EACH];
    if (n <= ROW_SHORT) {
      const int vectors = n % ROW_PACK == 0 && HP_ALIGNED(g, sizeof(row_pack_in)) &&
                          HP_ALIGNED(y, sizeof(row_pack_in)) && HP_ALIGNED(dx, sizeof(row_pack_out));
      const int used = row_used((int)n, vectors);
      row_load(gs, g, (int)n, vectors, 0);
      row_load(ys, y, (int)n, vectors, 0);
      ROW_FOR_LOADED(e, used) total += LOG ? gs[e] : gs[e] * ys[e];
      HP_GROUP_SUM(scratch, total);
      ROW_FOR_LOADED(e, used) gs[e] = SOFTMAX_GRADIENT(gs[e], ys[e]);
      row_store(dx, gs, (int)n, vectors);
      continue;
    }
    const row_segments parts = row_split(g, n, ROW_SAME_ALIGNMENT(g, y) && ROW_SAME_ALIGNMENT(g, dx));
    T_a part[4] = {0, 0, 0, 0};
    ROW_FOR_PACKS(first, parts) {
      row_read(gs, g + parts.head, first, parts.packs, 0, 0);
      if (!LOG) row_read(ys, y + parts.head, first, parts.packs, 0, 0);
      HP_UNROLL
      for (int e = 0; e < ROW_EACH; ++e) part[e % 4] += LOG ? gs[e] : gs[e] * ys[e];
    }
    ROW_FOR_SINGLE(j, n, parts) total += LOG ? T_get(g[j]) : T_get(g[j]) * T_get(y[j]);
    total += (part[0] + part[1]) + (part[2] + part[3]);
    HP_GROUP_SUM(scratch, total);
    ROW_FOR_PACKS(first, parts) {
      row_read(gs, g + parts.head, first, parts.packs, 1, 0);
      row_read(ys, y + parts.head, first, parts.packs, 1, 0);
      HP_UNROLL
      for (int e = 0; e < ROW_EACH; ++e) gs[e] = SOFTMAX_GRADIENT(gs[e], ys[e]);
      row_write(dx + parts.head, gs, first, parts.packs, 1);
    }
    ROW_FOR_SINGLE(j, n, parts) {
      const T_a gj = T_get(g[j]), yj = T_get(y[j]);
      dx[j] = R_put(SOFTMAX_GRADIENT(gj, yj));
    }
#endif
  }
}

HP_KERNEL(columns_backward)(HP_GLOBAL R* out, HP_GLOBAL const T* grad, HP_GLOBAL const T* output, hp_i64 n,
                            hp_i64 inner, hp_i64 blocks) {
  const hp_i64 column = hp_group % blocks * COLUMNS;
  const hp_i64 width = inner - column < COLUMNS ? inner - column : COLUMNS;
  const hp_i64 first = hp_group / blocks * n * inner + column;
#if HP_LSIZE == 1
  T_a total[COLUMNS];
  for (hp_i64 j = 0; j < width; ++j) total[j] = 0;
  for (hp_i64 i = 0; i < n; ++i) {
    const T *const g = grad + first + i * inner, *const y = output + first + i * inner;
    HP_VECTORIZE
    for (hp_i64 j = 0; j < width; ++j) total[j] += LOG ? T_get(g[j]) : T_get(g[j]) * T_get(y[j]);
  }
  for (hp_i64 i = 0; i < n; ++i) {
    const T *const g = grad + first + i * inner, *const y = output + first + i * inner;
    R* const dx = out + first + i * inner;
    HP_VECTORIZE
    for (hp_i64 j = 0; j < width; ++j) {
      const T_a gj = T_get(g[j]), yj = T_get(y[j]);
      dx[j] = R_put(LOG ? gj - T_M(exp)(yj) * total[j] : (gj - total[j]) * yj);
    }
  }
#else
  HP_FOR_LOCAL(j, width) {
    T_a total = 0;
    for (hp_i64 i = 0; i < n; ++i) {
      const hp_i64 at = first + i * inner + j;
      total += LOG ? T_get(grad[at]) : T_get(grad[at]) * T_get(output[at]);
    }
    for (hp_i64 i = 0; i < n; ++i) {
      const hp_i64 at = first + i * inner + j;
      const T_a gj = T_get(grad[at]), yj = T_get(output[at]);
      out[at] = R_put(LOG ? gj - T_M(exp)(yj) * total : (gj - total) * yj);
    }
  }
#endif
}
