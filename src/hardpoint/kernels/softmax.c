/* Softmax and its logarithm along one dimension. T: read, R: written (backward: T is the dtype of the result of the
 * forward pass, R that of the gradient for its input). LOG: 0 softmax, 1 its logarithm, 2 the logarithm of the sum of
 * exponentials, one element a row. `rows` has the dimension innermost; `columns` has `inner` elements beside each
 * other, a block of which is a group's. */
#include "row_sums.h"

/* Rows that fit are kept widened between the passes. */
#define KEPT 4096
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

/* All of them infinite: the difference would be NaN. */
#define SHIFT(largest) (LOG == 2 && ((largest) == HP_INFINITY || (largest) == -HP_INFINITY) ? (T_a)0 : (largest))

HP_KERNEL(rows)(HP_GLOBAL R* out, HP_GLOBAL const T* in, hp_i64 rows, hp_i64 n, hp_i64 per_group) {
#if HP_LSIZE > 1
  HP_LOCAL T_a box[HP_LSIZE];
#endif
  const hp_i64 end = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  for (hp_i64 row = hp_group * per_group; row < end; ++row) {
    HP_GLOBAL const T* const x = in + row * n;
    HP_GLOBAL R* const y = out + row * (LOG == 2 ? 1 : n);
#if HP_LSIZE == 1
    T_a kept[KEPT], total = 0;
    const T_a largest = largest_of(x, n), shift = SHIFT(largest);
    for (hp_i64 at = 0; at < n; at += KEPT) {
      const hp_i64 part = n - at < KEPT ? n - at : KEPT;
      T_a* const to = LOG == 0 && !R_IS_HALF ? (T_a*)(y + at) : kept;
      HP_VECTORISE
      for (hp_i64 j = 0; j < part; ++j) to[j] = T_M(exp)(T_get(x[at + j]) - shift);
      total += hp_sum(to, part);
    }
    const T_a inverse = (T_a)1 / total, lse = T_M(log)(total);
    if (LOG == 2) {
      y[0] = R_put(lse + shift);
    } else if (LOG == 1) {
      HP_VECTORISE
      for (hp_i64 j = 0; j < n; ++j) y[j] = R_put(T_get(x[j]) - shift - lse);
    } else if (!R_IS_HALF) {
      HP_VECTORISE
      for (hp_i64 j = 0; j < n; ++j) y[j] = R_put(R_get(y[j]) * inverse);
    } else if (n <= KEPT) {
      HP_VECTORISE
      for (hp_i64 j = 0; j < n; ++j) y[j] = R_put(kept[j] * inverse);
    } else {
      HP_VECTORISE
      for (hp_i64 j = 0; j < n; ++j) y[j] = R_put(T_M(exp)(T_get(x[j]) - shift) * inverse);
    }
#else
    T_a largest = -HP_INFINITY, total = 0;
    HP_FOR_LOCAL(j, n) {
      const T_a v = T_get(x[j]);
      largest = v > largest ? v : largest;
    }
    HP_GROUP_MAX(box, largest);
    const T_a shift = SHIFT(largest);
    HP_FOR_LOCAL(j, n) total += T_M(exp)(T_get(x[j]) - shift);
    HP_GROUP_SUM(box, total);
    const T_a inverse = (T_a)1 / total, lse = T_M(log)(total);
    if (LOG == 2) {
      if (hp_lid == 0) y[0] = R_put(lse + shift);
    } else {
      HP_FOR_LOCAL(j, n) {
        const T_a v = T_get(x[j]) - shift;
        y[j] = R_put(LOG ? v - lse : T_M(exp)(v) * inverse);
      }
    }
#endif
  }
}

#if HP_LSIZE == 1
/* A block of columns; its width is mostly a constant. */
HP_FN void columns_of(R* y, const T* x, hp_i64 n, hp_i64 inner, hp_i64 width) {
  T_a largest[COLUMNS], total[COLUMNS];
  for (hp_i64 j = 0; j < width; ++j) {
    largest[j] = -HP_INFINITY;
    total[j] = 0;
  }
  for (hp_i64 i = 0; i < n; ++i) {
    HP_VECTORISE
    for (hp_i64 j = 0; j < width; ++j) {
      const T_a v = T_get(x[i * inner + j]);
      largest[j] = v > largest[j] ? v : largest[j];
    }
  }
  for (hp_i64 i = 0; i < n; ++i) {
    HP_VECTORISE
    for (hp_i64 j = 0; j < width; ++j) {
      const T_a e = T_M(exp)(T_get(x[i * inner + j]) - largest[j]);
      if (LOG == 0 && !R_IS_HALF) y[i * inner + j] = R_put(e);
      total[j] += e;
    }
  }
  for (hp_i64 j = 0; j < width; ++j) total[j] = LOG ? T_M(log)(total[j]) : (T_a)1 / total[j];
  for (hp_i64 i = 0; i < n; ++i) {
    HP_VECTORISE
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

/* A group has one block of columns of one outer index. */
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

HP_KERNEL(rows_backward)(HP_GLOBAL R* out, HP_GLOBAL const T* grad, HP_GLOBAL const T* output, hp_i64 rows, hp_i64 n,
                         hp_i64 per_group) {
#if HP_LSIZE > 1
  HP_LOCAL T_a box[HP_LSIZE];
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
    if (HP_T_IS_HALF && !LOG && n <= HP_CHUNK) { /* still there, widened */
      HP_VECTORISE
      for (hp_i64 j = 0; j < n; ++j) dx[j] = R_put((a[j] - total) * b[j]);
      continue;
    }
#else
    HP_FOR_LOCAL(j, n) total += LOG ? T_get(g[j]) : T_get(g[j]) * T_get(y[j]);
    HP_GROUP_SUM(box, total);
#endif
    HP_VECTORISE
    HP_FOR_LOCAL(j, n) {
      const T_a gj = T_get(g[j]), yj = T_get(y[j]);
      dx[j] = R_put(LOG ? gj - T_M(exp)(yj) * total : (gj - total) * yj);
    }
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
    HP_VECTORISE
    for (hp_i64 j = 0; j < width; ++j) total[j] += LOG ? T_get(g[j]) : T_get(g[j]) * T_get(y[j]);
  }
  for (hp_i64 i = 0; i < n; ++i) {
    const T *const g = grad + first + i * inner, *const y = output + first + i * inner;
    R* const dx = out + first + i * inner;
    HP_VECTORISE
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
