/* Factorisations of dense matrices, and what is solved with them. T: the elements. Matrices lie packed, column after
 * column, one batch entry after the other; a group takes one of them. Inner loops run down a column; where several
 * columns are independent, the work-items of the group share them. */
#include "numbers.h"
#define LINALG_LANES 16

/* With `adjoint`, of the conjugates of b. */
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

/* y += factor * x */
HP_FN void linalg_add(HP_GLOBAL T* y, HP_GLOBAL const T* x, T factor, hp_i64 n) {
  HP_VECTORISE
  for (hp_i64 i = 0; i < n; ++i) y[i] = number_add(y[i], number_mul(factor, x[i]));
}

HP_FN void linalg_scale(HP_GLOBAL T* x, T factor, hp_i64 n) {
  HP_VECTORISE
  for (hp_i64 i = 0; i < n; ++i) x[i] = number_mul(x[i], factor);
}

/* x = x - v * tau * (v' x), where v has a 1 in front of the n elements that are kept of it. A prime is the adjoint. */
HP_FN void linalg_reflect(HP_GLOBAL T* x, HP_GLOBAL const T* v, T tau, hp_i64 n) {
  const T part = number_mul(tau, number_add(x[0], linalg_dot(x + 1, v, n, 1)));
  x[0] = number_sub(x[0], part);
  linalg_add(x + 1, v, number_neg(part), n);
}

/* Of complex numbers, the conjugates. */
HP_KERNEL(conjugate)(HP_GLOBAL T* x, hp_i64 elements) {
  HP_FOR_ELEMENTS(i, elements) { x[i] = number_conj(x[i]); }
}

/* A = P L U as LAPACK's getrf: pivots count from 1, info is the first one that is zero. PIVOT: 0 leaves the rows. */
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
      T_part largest = number_weight(column[k]);
      for (hp_i64 i = k + 1; i < m; ++i) {
        const T_part size = number_weight(column[i]);
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

/* Swaps rows of x, n x width, as the pivots say; BACK: in the opposite order, which undoes it. */
HP_KERNEL(swap_rows)(HP_GLOBAL T* x, HP_GLOBAL const hp_i32* pivots, hp_i64 n, hp_i64 width, hp_i64 steps) {
  x += hp_group * n * width;
  pivots += hp_group * steps;
  HP_FOR_LOCAL(j, width) {
    HP_GLOBAL T* const column = x + j * n;
    for (hp_i64 step = 0; step < steps; ++step) {
      const hp_i64 k = BACK ? steps - 1 - step : step, other = pivots[k] - 1;
      /* Pivots may come from anywhere: none reaches outside. */
      if (other >= 0 && other < n) {
        const T kept = column[k];
        column[k] = column[other];
        column[other] = kept;
      }
    }
  }
}

/* Solves op(A) X = B in place of B, n x width; op transposes with TRANS. UNIT: the diagonal counts as 1. */
HP_KERNEL(triangular)(HP_GLOBAL T* x, HP_GLOBAL const T* a, hp_i64 n, hp_i64 width) {
  x += hp_group * n * width;
  a += hp_group * n * n;
  HP_FOR_LOCAL(j, width) {
    HP_GLOBAL T* const column = x + j * n;
    for (hp_i64 step = 0; step < n; ++step) {
      /* An upper triangle is solved from below, a transposed one the other way round. */
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

/* A matrix, m x n, with ones on the diagonal. */
HP_KERNEL(identity)(HP_GLOBAL T* x, hp_i64 m, hp_i64 n) {
  x += hp_group * m * n;
  HP_FOR_LOCAL(j, n) {
    for (hp_i64 i = 0; i < m; ++i) x[j * m + i] = number((T_part)(i == j));
  }
}

/* One triangle of `from`, which has m rows and more than n columns or fewer, as a matrix of `rows` x n; zero elsewhere.
 * UNIT: ones on the diagonal. In place where the shapes agree. */
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

/* The sign and the logarithm of the determinant's size, or with LOGARITHM 0 the determinant itself in `result`. */
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
      sum += T_P(log)(number_size(pivot));
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

/* The lower triangle becomes L of A = L L'. info: the first leading minor that is not positive. */
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
    HP_FOR_LOCAL(i, n - k) column[k + i] = i == 0 ? number(root) : number_shrink(column[k + i], root);
    hp_barrier();
    HP_FOR_LOCAL(j, n - k - 1) {
      const hp_i64 place = k + 1 + j;
      linalg_add(a + place * n + place, column + place, number_neg(number_conj(column[place])), n - place);
    }
    hp_barrier();
  }
}

/* The length of x, without overflow or underflow on the way. */
HP_FN T_part linalg_norm(HP_GLOBAL const T* x, hp_i64 n) {
  T_part largest = 0, sum = 0;
  for (hp_i64 i = 0; i < n; ++i) {
    const T_part size = number_size(x[i]);
    largest = size > largest || size != size ? size : largest;
  }
  if (!(largest > 0) || largest == HP_INFINITY) return largest;
  for (hp_i64 i = 0; i < n; ++i) sum += number_square(number_shrink(x[i], largest));
  return largest * T_P(sqrt)(sum);
}

/* Householder's reflections as LAPACK's geqrf leaves them: R above, below the diagonal their vectors. */
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
        const T_part whole = T_P(hypot)(number_size(front), size), made = number_re(front) < 0 ? whole : -whole;
        const T divisor = number_sub(front, number(made));
        tau[k] = number_shrink(number_neg(divisor), made);
        for (hp_i64 i = 0; i < below; ++i) column[1 + i] = number_div(column[1 + i], divisor);
        column[0] = number(made);
      }
    }
    hp_barrier();
    HP_FOR_LOCAL(j, n - k - 1) linalg_reflect(column + (1 + j) * m, column + 1, number_conj(tau[k]), below);
    hp_barrier();
  }
}

/* The first n columns of the product of `count` reflections, whose vectors are in q already. */
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

/* Applies the product Q of `count` reflections, or with TRANS its adjoint, to x, m x width. The vectors are columns
 * of `a`, which has m rows and `columns` columns. */
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

/* HERMITIAN: a prime below is the adjoint, and the diagonal is real; if not, it is the transpose. */
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

/* The lower triangle becomes L and D of A = L D L', as LAPACK's sytrf or hetrf: D has blocks of 1 or 2 rows, which the
 * pivots tell by their sign. Each step needs the one before, so that one work-item takes the matrix. */
HP_KERNEL(ldl)(HP_GLOBAL T* a, HP_GLOBAL hp_i32* pivots, HP_GLOBAL hp_i32* info, hp_i64 n) {
  const T_part alpha = (T_part)0.6403882032022076f; /* (1 + sqrt(17)) / 8 bounds the growth of elements */
  a += hp_group * n * n;
  pivots += hp_group * n;
  info += hp_group;
  if (hp_lid != 0) return;
  *info = 0;
  for (hp_i64 k = 0, step; k < n; k += step) {
    HP_GLOBAL T* const column = a + k * n;
    column[k] = linalg_diagonal(column[k]);
    const T_part size = number_weight(column[k]);
    hp_i64 chosen = k, row = k;
    T_part below = 0;
    for (hp_i64 i = k + 1; i < n; ++i) {
      if (number_weight(column[i]) > below) {
        below = number_weight(column[i]);
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
        const T_part other = number_weight(j < row ? a[j * n + row] : a[row * n + j]);
        across = other > across ? other : across;
      }
      if (size < alpha * below * (below / across)) {
        chosen = row;
        if (number_weight(linalg_diagonal(a[row * n + row])) < alpha * across) step = 2;
      }
    }
    const hp_i64 moved = k + step - 1;
    HP_GLOBAL T* const next = a + moved * n;
    if (chosen != moved) {
      for (hp_i64 i = chosen + 1; i < n; ++i) linalg_swap(next + i, a + chosen * n + i);
      /* These change over to the other triangle. */
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

/* Solves L D L' X = B in place of B, n x width. */
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
      /* Pivots may come from anywhere: none reaches outside. */
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
