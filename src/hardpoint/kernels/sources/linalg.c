/* Factorizations of dense matrices, and solvers that use them. T: elements. Matrices are packed in column-major order,
 * one batch entry after the other; one work-group per matrix. Inner loops run down a column. Independent columns are
 * distributed over the work-items; barriers separate the steps of a factorization. */
#include "real_or_complex.h"
#define LINALG_LANES 16

/* Dot product; with `adjoint`, b is conjugated. */
HP_FN T linalg_dot(HP_GLOBAL const T* a, HP_GLOBAL const T* b, hp_i64 n, int adjoint) {
  T lane[LINALG_LANES];
  for (int l = 0; l < LINALG_LANES; ++l) lane[l] = number(0);
  hp_i64 i = 0;
  for (; i + LINALG_LANES <= n; i += LINALG_LANES) {
    for (int l = 0; l < LINALG_LANES; ++l) {
      lane[l] = number_add(lane[l], number_mul(a[i + l], adjoint ? number_conj(b[i + l]) : b[i + l]));
    }
  }
  for (; i < n; ++i) lane[0] = number_add(lane[0], number_mul(a[i], adjoint ? number_conj(b[i]) : b[i]));
  for (int half = LINALG_LANES / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) lane[l] = number_add(lane[l], lane[l + half]);
  }
  return lane[0];
}

/* y += factor * x. */
HP_FN void linalg_add(HP_GLOBAL T* y, HP_GLOBAL const T* x, T factor, hp_i64 n) {
  HP_VECTORIZE
  for (hp_i64 i = 0; i < n; ++i) y[i] = number_add(y[i], number_mul(factor, x[i]));
}

HP_FN void linalg_scale(HP_GLOBAL T* x, T factor, hp_i64 n) {
  HP_VECTORIZE
  for (hp_i64 i = 0; i < n; ++i) x[i] = number_mul(x[i], factor);
}

/* Householder reflection x -= v tau (v^H x), where v[0] = 1 is implicit and `v` points to the n remaining elements. */
HP_FN void linalg_reflect(HP_GLOBAL T* x, HP_GLOBAL const T* v, T tau, hp_i64 n) {
  const T part = number_mul(tau, number_add(x[0], linalg_dot(x + 1, v, n, 1)));
  x[0] = number_sub(x[0], part);
  linalg_add(x + 1, v, number_neg(part), n);
}

/* Complex conjugate, in diagonal. */
HP_KERNEL(conjugate)(HP_GLOBAL T* x, hp_i64 elements) {
  HP_FOR_ELEMENTS(i, elements) { x[i] = number_conj(x[i]); }
}

/* A = P L U as in LAPACK's getrf: pivots count from 1, info is the first zero pivot. PIVOT: 0 disables pivoting. */
HP_KERNEL(lu)(HP_GLOBAL T* a, HP_GLOBAL hp_i32* pivots, HP_GLOBAL hp_i32* info, hp_i64 m, hp_i64 n) {
  const hp_i64 steps = m < n ? m : n;
  a += hp_group * m * n;
  pivots += hp_group * steps;
  info += hp_group;
  if (hp_lid == 0) *info = 0;
  for (hp_i64 k = 0; k < steps; ++k) {
    HP_GLOBAL T* const column = a + k * m;
    if (hp_lid == 0) {
      hp_i64 best = k;
#if PIVOT
      T_part largest = number_abs1(column[k]);
      for (hp_i64 i = k + 1; i < m; ++i) {
        const T_part size = number_abs1(column[i]);
        if (size > largest) {
          largest = size;
          best = i;
        }
      }
#endif
      pivots[k] = (hp_i32)(best + 1);
      if (number_is_zero(column[best]) && *info == 0) *info = (hp_i32)(k + 1);
    }
    hp_barrier();
    const hp_i64 chosen = pivots[k] - 1;
    if (chosen != k) {
      HP_FOR_LOCAL(j, n) {
        const T kept = a[j * m + k];
        a[j * m + k] = a[j * m + chosen];
        a[j * m + chosen] = kept;
      }
    }
    hp_barrier();
    const T pivot = column[k];
    if (!number_is_zero(pivot)) {
      HP_FOR_LOCAL(i, m - k - 1) column[k + 1 + i] = number_div(column[k + 1 + i], pivot);
    }
    hp_barrier();
    HP_FOR_LOCAL(j, n - k - 1) {
      HP_GLOBAL T* const other = a + (k + 1 + j) * m + k;
      linalg_add(other + 1, column + k + 1, number_neg(other[0]), m - k - 1);
    }
    hp_barrier();
  }
}

/* Swaps rows of x, n x width, by the pivots. BACK: 1 for the opposite order, which undoes it. */
HP_KERNEL(swap_rows)(HP_GLOBAL T* x, HP_GLOBAL const hp_i32* pivots, hp_i64 n, hp_i64 width, hp_i64 steps) {
  x += hp_group * n * width;
  pivots += hp_group * steps;
  HP_FOR_LOCAL(j, width) {
    HP_GLOBAL T* const column = x + j * n;
    for (hp_i64 step = 0; step < steps; ++step) {
      const hp_i64 k = BACK ? steps - 1 - step : step, other = pivots[k] - 1;
      /* Pivots may be user input: ignore those out of range. */
      if (other >= 0 && other < n) {
        const T kept = column[k];
        column[k] = column[other];
        column[other] = kept;
      }
    }
  }
}

/* Solves op(A) X = B in diagonal, B is n x width. TRANS: 1 if op transposes. UNIT: 1 for an implicit unit diagonal. */
HP_KERNEL(triangular)(HP_GLOBAL T* x, HP_GLOBAL const T* a, hp_i64 n, hp_i64 width) {
  x += hp_group * n * width;
  a += hp_group * n * n;
  HP_FOR_LOCAL(j, width) {
    HP_GLOBAL T* const column = x + j * n;
    for (hp_i64 step = 0; step < n; ++step) {
      /* Back substitution for an upper triangle, forward for a lower one; the reverse if transposed. */
      const hp_i64 k = UPPER == TRANS ? step : n - 1 - step;
      HP_GLOBAL const T* const factors = a + k * n;
#if TRANS
#if UPPER
      column[k] = number_sub(column[k], linalg_dot(column, factors, k, 0));
#else
      column[k] = number_sub(column[k], linalg_dot(column + k + 1, factors + k + 1, n - k - 1, 0));
#endif
#endif
#if !UNIT
      column[k] = number_div(column[k], factors[k]);
#endif
#if !TRANS
#if UPPER
      linalg_add(column, factors, number_neg(column[k]), k);
#else
      linalg_add(column + k + 1, factors + k + 1, number_neg(column[k]), n - k - 1);
#endif
#endif
    }
  }
}

/* Identity matrix, m x n. */
HP_KERNEL(identity)(HP_GLOBAL T* x, hp_i64 m, hp_i64 n) {
  x += hp_group * m * n;
  HP_FOR_LOCAL(j, n) {
    for (hp_i64 i = 0; i < m; ++i) x[j * m + i] = number((T_part)(i == j));
  }
}

/* Copies one triangle of `from` to a matrix of `rows` x n, zero elsewhere. UNIT: 1 for ones on the diagonal. May run in
 * diagonal if the shapes match. */
HP_KERNEL(triangle)(HP_GLOBAL T* to, HP_GLOBAL const T* from, hp_i64 rows, hp_i64 n, hp_i64 from_rows,
                    hp_i64 from_columns) {
  to += hp_group * rows * n;
  from += hp_group * from_rows * from_columns;
  HP_FOR_LOCAL(j, n) {
    for (hp_i64 i = 0; i < rows; ++i) {
      const int inside = (UPPER ? i <= j : i >= j) && i < from_rows && j < from_columns;
      T value = inside ? from[j * from_rows + i] : number(0);
      if (UNIT && i == j) value = number(1);
      to[j * rows + i] = value;
    }
  }
}

/* Sign and logarithm of the absolute determinant, or with LOGARITHM 0 the determinant itself in `result`. */
HP_KERNEL(determinant)(HP_GLOBAL T* result, HP_GLOBAL T_part* logarithm, HP_GLOBAL const T* lu,
                       HP_GLOBAL const hp_i32* pivots, hp_i64 n, hp_i64 batch) {
  HP_FOR_ELEMENTS(b, batch) {
    int odd = 0;
    T sign = number(1);
    T_part sum = 0;
    for (hp_i64 k = 0; k < n; ++k) {
      const T pivot = lu[(b * n + k) * n + k];
      odd ^= pivots[b * n + k] != k + 1;
#if LOGARITHM
      sign = number_mul(sign, number_sign(pivot));
      sum += T_P(log)(number_abs(pivot));
#else
      sign = number_mul(sign, pivot);
#endif
    }
    result[b] = odd ? number_neg(sign) : sign;
#if LOGARITHM
    logarithm[b] = sum;
#endif
  }
}

/* A = L L^H in the lower triangle. info: the first leading minor that is not positive. */
HP_KERNEL(cholesky)(HP_GLOBAL T* a, HP_GLOBAL hp_i32* info, hp_i64 n) {
  a += hp_group * n * n;
  info += hp_group;
  if (hp_lid == 0) *info = 0;
  for (hp_i64 k = 0; k < n; ++k) {
    HP_GLOBAL T* const column = a + k * n;
    const T_part pivot = number_re(column[k]);
    hp_barrier();
    if (!(pivot > 0)) {
      if (hp_lid == 0) *info = (hp_i32)(k + 1);
      break;
    }
    const T_part root = T_P(sqrt)(pivot);
    HP_FOR_LOCAL(i, n - k) column[k + i] = i == 0 ? number(root) : number_div_real(column[k + i], root);
    hp_barrier();
    HP_FOR_LOCAL(j, n - k - 1) {
      const hp_i64 diagonal = k + 1 + j;
      linalg_add(a + diagonal * n + diagonal, column + diagonal, number_neg(number_conj(column[diagonal])),
                 n - diagonal);
    }
    hp_barrier();
  }
}

/* 2-norm of x without intermediate overflow or underflow. */
HP_FN T_part linalg_norm(HP_GLOBAL const T* x, hp_i64 n) {
  T_part largest = 0, sum = 0;
  for (hp_i64 i = 0; i < n; ++i) {
    const T_part size = number_abs(x[i]);
    largest = size > largest || size != size ? size : largest;
  }
  if (!(largest > 0) || largest == HP_INFINITY) return largest;
  for (hp_i64 i = 0; i < n; ++i) sum += number_abs_squared(number_div_real(x[i], largest));
  return largest * T_P(sqrt)(sum);
}

/* QR by Householder reflections, in the layout of LAPACK's geqrf: R in the upper triangle, reflection vectors below. */
HP_KERNEL(reflections)(HP_GLOBAL T* a, HP_GLOBAL T* tau, hp_i64 m, hp_i64 n) {
  const hp_i64 steps = m < n ? m : n;
  a += hp_group * m * n;
  tau += hp_group * steps;
  for (hp_i64 k = 0; k < steps; ++k) {
    HP_GLOBAL T* const column = a + k * m + k;
    const hp_i64 below = m - k - 1;
    if (hp_lid == 0) {
      const T_part size = linalg_norm(column + 1, below);
      const T front = column[0];
      if (size == 0 && number_im(front) == 0) {
        tau[k] = number(0);
      } else {
        const T_part whole = T_P(hypot)(number_abs(front), size), made = number_re(front) < 0 ? whole : -whole;
        const T divisor = number_sub(front, number(made));
        tau[k] = number_div_real(number_neg(divisor), made);
        for (hp_i64 i = 0; i < below; ++i) column[1 + i] = number_div(column[1 + i], divisor);
        column[0] = number(made);
      }
    }
    hp_barrier();
    HP_FOR_LOCAL(j, n - k - 1) linalg_reflect(column + (1 + j) * m, column + 1, number_conj(tau[k]), below);
    hp_barrier();
  }
}

/* First n columns of the product of `count` reflections, whose vectors are already in q (LAPACK's orgqr). */
HP_KERNEL(reflections_product)(HP_GLOBAL T* q, HP_GLOBAL const T* tau, hp_i64 m, hp_i64 n, hp_i64 count) {
  q += hp_group * m * n;
  tau += hp_group * count;
  HP_FOR_LOCAL(j, n - count) {
    for (hp_i64 i = 0; i < m; ++i) q[(count + j) * m + i] = number((T_part)(i == count + j));
  }
  hp_barrier();
  for (hp_i64 k = count - 1; k >= 0; --k) {
    HP_GLOBAL T* const column = q + k * m;
    HP_FOR_LOCAL(j, n - k - 1) linalg_reflect(column + (1 + j) * m + k, column + k + 1, tau[k], m - k - 1);
    hp_barrier();
    HP_FOR_LOCAL(i, m) {
      const T scaled = i == k ? tau[k] : number_mul(tau[k], column[i]);
      column[i] = i < k ? number(0) : number_sub(number((T_part)(i == k)), scaled);
    }
    hp_barrier();
  }
}

/* Applies the product Q of `count` reflections, or with TRANS its adjoint, to x, m x width (LAPACK's ormqr). The
 * vectors are columns of `a`, m x `columns`. */
HP_KERNEL(reflect)(HP_GLOBAL T* x, HP_GLOBAL const T* a, HP_GLOBAL const T* tau, hp_i64 m, hp_i64 width, hp_i64 columns,
                   hp_i64 count) {
  x += hp_group * m * width;
  a += hp_group * m * columns;
  tau += hp_group * count;
  HP_FOR_LOCAL(j, width) {
    for (hp_i64 step = 0; step < count; ++step) {
      const hp_i64 k = TRANS ? step : count - 1 - step;
      linalg_reflect(x + j * m + k, a + k * m + k + 1, TRANS ? number_conj(tau[k]) : tau[k], m - k - 1);
    }
  }
}

HP_FN void linalg_swap(HP_GLOBAL T* a, HP_GLOBAL T* b) {
  const T kept = *a;
  *a = *b;
  *b = kept;
}

/* HERMITIAN: 1 if ' below is the adjoint, and the diagonal is real; 0 if it is the transpose. */
HP_FN T linalg_mirrored(T x) {
#if defined(HERMITIAN) && HERMITIAN
  return number_conj(x);
#else
  return x;
#endif
}
HP_FN T linalg_diagonal(T x) {
#if defined(HERMITIAN) && HERMITIAN
  return number(number_re(x));
#else
  return x;
#endif
}

/* A = L D L' in the lower triangle, by Bunch-Kaufman pivoting as in LAPACK's sytrf or hetrf. D has blocks of 1 or 2
 * rows, which the sign of the pivots tells apart. Steps depend on each other, so one work-item handles the matrix. */
HP_KERNEL(ldl)(HP_GLOBAL T* a, HP_GLOBAL hp_i32* pivots, HP_GLOBAL hp_i32* info, hp_i64 n) {
  const T_part alpha = (T_part)0.6403882032022076f; /* (1 + sqrt(17)) / 8 bounds the element growth */
  a += hp_group * n * n;
  pivots += hp_group * n;
  info += hp_group;
  if (hp_lid != 0) return;
  *info = 0;
  for (hp_i64 k = 0, step; k < n; k += step) {
    HP_GLOBAL T* const column = a + k * n;
    column[k] = linalg_diagonal(column[k]);
    const T_part size = number_abs1(column[k]);
    hp_i64 chosen = k, row = k;
    T_part below = 0;
    for (hp_i64 i = k + 1; i < n; ++i) {
      if (number_abs1(column[i]) > below) {
        below = number_abs1(column[i]);
        row = i;
      }
    }
    step = 1;
    if (!(size > 0 || below > 0)) {
      if (*info == 0) *info = (hp_i32)(k + 1);
      pivots[k] = (hp_i32)(k + 1);
      continue;
    }
    if (size < alpha * below) {
      T_part across = 0;
      for (hp_i64 j = k; j < n; ++j) {
        if (j == row) continue;
        const T_part other = number_abs1(j < row ? a[j * n + row] : a[row * n + j]);
        across = other > across ? other : across;
      }
      if (size < alpha * below * (below / across)) {
        chosen = row;
        if (number_abs1(linalg_diagonal(a[row * n + row])) < alpha * across) step = 2;
      }
    }
    const hp_i64 moved = k + step - 1;
    HP_GLOBAL T* const next = a + moved * n;
    if (chosen != moved) {
      for (hp_i64 i = chosen + 1; i < n; ++i) linalg_swap(next + i, a + chosen * n + i);
      /* These elements move to the other triangle. */
      for (hp_i64 i = moved + 1; i < chosen; ++i) {
        const T kept = linalg_mirrored(next[i]);
        next[i] = linalg_mirrored(a[i * n + chosen]);
        a[i * n + chosen] = kept;
      }
      next[chosen] = linalg_mirrored(next[chosen]);
      linalg_swap(next + moved, a + chosen * n + chosen);
      if (step == 2) linalg_swap(column + k + 1, column + chosen);
    }
    next[moved] = linalg_diagonal(next[moved]);
    if (step == 1) {
      const T inverse = number_div(number(1), column[k]);
      for (hp_i64 j = k + 1; j < n; ++j) {
        linalg_add(a + j * n + j, column + j, number_neg(number_mul(inverse, linalg_mirrored(column[j]))), n - j);
        a[j * n + j] = linalg_diagonal(a[j * n + j]);
      }
      linalg_scale(column + k + 1, inverse, n - k - 1);
      pivots[k] = (hp_i32)(chosen + 1);
    } else {
      const T side = column[k + 1], above = linalg_mirrored(side);
      const T d1 = number_div(next[k + 1], side), d2 = number_div(column[k], above);
      const T factor = number_div(number(1), number_sub(number_mul(d1, d2), number(1)));
      const T first = number_div(factor, above), second = number_div(factor, side);
      for (hp_i64 j = k + 2; j < n; ++j) {
        const T x = number_mul(first, number_sub(number_mul(d1, column[j]), next[j]));
        const T y = number_mul(second, number_sub(number_mul(d2, next[j]), column[j]));
        linalg_add(a + j * n + j, column + j, number_neg(linalg_mirrored(x)), n - j);
        linalg_add(a + j * n + j, next + j, number_neg(linalg_mirrored(y)), n - j);
        a[j * n + j] = linalg_diagonal(a[j * n + j]);
        column[j] = x;
        next[j] = y;
      }
      pivots[k] = pivots[k + 1] = (hp_i32)(-(chosen + 1));
    }
  }
}

/* Solves L D L' X = B in diagonal, B is n x width. */
HP_KERNEL(ldl_solve)(HP_GLOBAL T* x, HP_GLOBAL const T* a, HP_GLOBAL const hp_i32* pivots, hp_i64 n, hp_i64 width) {
  x += hp_group * n * width;
  a += hp_group * n * n;
  pivots += hp_group * n;
  HP_FOR_LOCAL(j, width) {
    HP_GLOBAL T* const b = x + j * n;
    hp_i64 k = 0;
    while (k < n) {
      HP_GLOBAL const T* const column = a + k * n;
      const int pair = pivots[k] < 0 && k + 1 < n;
      const hp_i64 moved = k + pair, other = (pair ? -pivots[k] : pivots[k]) - 1;
      /* Pivots may be user input: ignore those out of range. */
      if (other >= 0 && other < n) linalg_swap(b + moved, b + other);
      linalg_add(b + moved + 1, column + moved + 1, number_neg(b[k]), n - moved - 1);
      if (pair) {
        HP_GLOBAL const T* const next = column + n;
        linalg_add(b + k + 2, next + k + 2, number_neg(b[k + 1]), n - k - 2);
        const T side = column[k + 1], above = linalg_mirrored(side);
        const T d1 = number_div(column[k], above), d2 = number_div(next[k + 1], side);
        const T determinant = number_sub(number_mul(d1, d2), number(1));
        const T y = number_div(b[k], above), z = number_div(b[k + 1], side);
        b[k] = number_div(number_sub(number_mul(d2, y), z), determinant);
        b[k + 1] = number_div(number_sub(number_mul(d1, z), y), determinant);
      } else {
        b[k] = number_div(b[k], column[k]);
      }
      k = moved + 1;
    }
    k = n - 1;
    while (k >= 0) {
      const int pair = pivots[k] < 0 && k > 0;
      const hp_i64 other = (pair ? -pivots[k] : pivots[k]) - 1, after = n - k - 1;
      b[k] = number_sub(b[k], linalg_dot(b + k + 1, a + k * n + k + 1, after, HERMITIAN));
      if (pair) b[k - 1] = number_sub(b[k - 1], linalg_dot(b + k + 1, a + (k - 1) * n + k + 1, after, HERMITIAN));
      if (other >= 0 && other < n) linalg_swap(b + k, b + other);
      k -= 1 + pair;
    }
  }
}
