/* Factorisations of dense matrices, and what is solved with them. T: the elements. Matrices lie packed, column after
 * column, one batch entry after the other; a group takes one of them. Inner loops run down a column; where several
 * columns are independent, the work-items of the group share them. */
#define LINALG_LANES 16

HP_FN T linalg_dot(HP_GLOBAL const T* a, HP_GLOBAL const T* b, hp_i64 n) {
  T lane[LINALG_LANES];
  for (int l = 0; l < LINALG_LANES; ++l) lane[l] = (T)0;
  hp_i64 i = 0;
  for (; i + LINALG_LANES <= n; i += LINALG_LANES) {
    for (int l = 0; l < LINALG_LANES; ++l) lane[l] += a[i + l] * b[i + l];
  }
  for (; i < n; ++i) lane[0] += a[i] * b[i];
  for (int half = LINALG_LANES / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
  }
  return lane[0];
}

/* y += factor * x */
HP_FN void linalg_add(HP_GLOBAL T* y, HP_GLOBAL const T* x, T factor, hp_i64 n) {
  HP_VECTORISE
  for (hp_i64 i = 0; i < n; ++i) y[i] += factor * x[i];
}

HP_FN void linalg_scale(HP_GLOBAL T* x, T factor, hp_i64 n) {
  HP_VECTORISE
  for (hp_i64 i = 0; i < n; ++i) x[i] *= factor;
}

/* x = x - v * tau * (v' x), where v has a 1 in front of the n elements that are kept of it. */
HP_FN void linalg_reflect(HP_GLOBAL T* x, HP_GLOBAL const T* v, T tau, hp_i64 n) {
  const T part = tau * (x[0] + linalg_dot(x + 1, v, n));
  x[0] -= part;
  linalg_add(x + 1, v, -part, n);
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
      T largest = T_M(abs)(column[k]);
      for (hp_i64 i = k + 1; i < m; ++i) {
        const T size = T_M(abs)(column[i]);
        if (size > largest) {
          largest = size;
          best = i;
        }
      }
#endif
      pivots[k] = (hp_i32)(best + 1);
      if (column[best] == (T)0 && *info == 0) *info = (hp_i32)(k + 1);
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
    if (pivot != (T)0) {
      HP_FOR_LOCAL(i, m - k - 1) column[k + 1 + i] /= pivot;
    }
    hp_barrier();
    HP_FOR_LOCAL(j, n - k - 1) {
      HP_GLOBAL T* const other = a + (k + 1 + j) * m + k;
      linalg_add(other + 1, column + k + 1, -other[0], m - k - 1);
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
      column[k] -= linalg_dot(column, factors, k);
#else
      column[k] -= linalg_dot(column + k + 1, factors + k + 1, n - k - 1);
#endif
#endif
#if !UNIT
      column[k] /= factors[k];
#endif
#if !TRANS
#if UPPER
      linalg_add(column, factors, -column[k], k);
#else
      linalg_add(column + k + 1, factors + k + 1, -column[k], n - k - 1);
#endif
#endif
    }
  }
}

/* A matrix, m x n, with ones on the diagonal. */
HP_KERNEL(identity)(HP_GLOBAL T* x, hp_i64 m, hp_i64 n) {
  x += hp_group * m * n;
  HP_FOR_LOCAL(j, n) {
    for (hp_i64 i = 0; i < m; ++i) x[j * m + i] = (T)(i == j);
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
      T value = inside ? from[j * from_rows + i] : (T)0;
      if (UNIT && i == j) value = (T)1;
      to[j * rows + i] = value;
    }
  }
}

/* The sign and the logarithm of the determinant's size, or with LOGARITHM 0 the determinant itself in `result`. */
HP_KERNEL(determinant)(HP_GLOBAL T* result, HP_GLOBAL T* logarithm, HP_GLOBAL const T* lu,
                       HP_GLOBAL const hp_i32* pivots, hp_i64 n, hp_i64 batch) {
  HP_FOR_ELEMENTS(b, batch) {
    int odd = 0;
    T sign = (T)1, sum = (T)0;
    for (hp_i64 k = 0; k < n; ++k) {
      const T pivot = lu[(b * n + k) * n + k];
      odd ^= pivots[b * n + k] != k + 1;
#if LOGARITHM
      sign *= pivot > (T)0 ? (T)1 : pivot < (T)0 ? (T)-1 : pivot;
      sum += T_M(log)(T_M(abs)(pivot));
#else
      sign *= pivot;
#endif
    }
    result[b] = odd ? -sign : sign;
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
    const T pivot = column[k];
    hp_barrier();
    if (!(pivot > (T)0)) {
      if (hp_lid == 0) *info = (hp_i32)(k + 1);
      break;
    }
    const T root = T_M(sqrt)(pivot);
    HP_FOR_LOCAL(i, n - k) column[k + i] = i == 0 ? root : column[k + i] / root;
    hp_barrier();
    HP_FOR_LOCAL(j, n - k - 1) {
      const hp_i64 place = k + 1 + j;
      linalg_add(a + place * n + place, column + place, -column[place], n - place);
    }
    hp_barrier();
  }
}

/* The length of x, without overflow or underflow on the way. */
HP_FN T linalg_norm(HP_GLOBAL const T* x, hp_i64 n) {
  T largest = (T)0, sum = (T)0;
  for (hp_i64 i = 0; i < n; ++i) {
    const T size = T_M(abs)(x[i]);
    largest = size > largest || size != size ? size : largest;
  }
  if (!(largest > (T)0) || largest == T_HIGHEST) return largest;
  for (hp_i64 i = 0; i < n; ++i) sum += (x[i] / largest) * (x[i] / largest);
  return largest * T_M(sqrt)(sum);
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
      const T size = linalg_norm(column + 1, below), front = column[0];
      if (size == (T)0) {
        tau[k] = (T)0;
      } else {
        const T whole = T_M(hypot)(front, size), made = front < (T)0 ? whole : -whole;
        tau[k] = (made - front) / made;
        const T divisor = front - made;
        for (hp_i64 i = 0; i < below; ++i) column[1 + i] /= divisor;
        column[0] = made;
      }
    }
    hp_barrier();
    HP_FOR_LOCAL(j, n - k - 1) linalg_reflect(column + (1 + j) * m, column + 1, tau[k], below);
    hp_barrier();
  }
}

/* The first n columns of the product of `count` reflections, whose vectors are in q already. */
HP_KERNEL(reflections_product)(HP_GLOBAL T* q, HP_GLOBAL const T* tau, hp_i64 m, hp_i64 n, hp_i64 count) {
  q += hp_group * m * n;
  tau += hp_group * count;
  HP_FOR_LOCAL(j, n - count) {
    for (hp_i64 i = 0; i < m; ++i) q[(count + j) * m + i] = (T)(i == count + j);
  }
  hp_barrier();
  for (hp_i64 k = count - 1; k >= 0; --k) {
    HP_GLOBAL T* const column = q + k * m;
    HP_FOR_LOCAL(j, n - k - 1) linalg_reflect(column + (1 + j) * m + k, column + k + 1, tau[k], m - k - 1);
    hp_barrier();
    HP_FOR_LOCAL(i, m) column[i] = i < k ? (T)0 : i == k ? (T)1 - tau[k] : -tau[k] * column[i];
    hp_barrier();
  }
}

/* Applies the product Q of `count` reflections, or with TRANS its transpose, to x, m x width. The vectors are columns
 * of `a`, which has m rows and `columns` columns. */
HP_KERNEL(reflect)(HP_GLOBAL T* x, HP_GLOBAL const T* a, HP_GLOBAL const T* tau, hp_i64 m, hp_i64 width, hp_i64 columns,
                   hp_i64 count) {
  x += hp_group * m * width;
  a += hp_group * m * columns;
  tau += hp_group * count;
  HP_FOR_LOCAL(j, width) {
    for (hp_i64 step = 0; step < count; ++step) {
      const hp_i64 k = TRANS ? step : count - 1 - step;
      linalg_reflect(x + j * m + k, a + k * m + k + 1, tau[k], m - k - 1);
    }
  }
}

HP_FN void linalg_swap(HP_GLOBAL T* a, HP_GLOBAL T* b) {
  const T kept = *a;
  *a = *b;
  *b = kept;
}

/* The lower triangle becomes L and D of A = L D L', as LAPACK's sytrf: D has blocks of 1 or 2 rows, which the pivots
 * tell by their sign. Each step needs the one before, so that one work-item takes the matrix. */
HP_KERNEL(ldl)(HP_GLOBAL T* a, HP_GLOBAL hp_i32* pivots, HP_GLOBAL hp_i32* info, hp_i64 n) {
  const T alpha = (T)0.6403882032022076f; /* (1 + sqrt(17)) / 8 bounds the growth of elements */
  a += hp_group * n * n;
  pivots += hp_group * n;
  info += hp_group;
  if (hp_lid != 0) return;
  *info = 0;
  for (hp_i64 k = 0, step; k < n; k += step) {
    HP_GLOBAL T* const column = a + k * n;
    const T size = T_M(abs)(column[k]);
    hp_i64 chosen = k, row = k;
    T below = (T)0;
    for (hp_i64 i = k + 1; i < n; ++i) {
      if (T_M(abs)(column[i]) > below) {
        below = T_M(abs)(column[i]);
        row = i;
      }
    }
    step = 1;
    if (!(size > (T)0 || below > (T)0)) {
      if (*info == 0) *info = (hp_i32)(k + 1);
      pivots[k] = (hp_i32)(k + 1);
      continue;
    }
    if (size < alpha * below) {
      T across = (T)0;
      for (hp_i64 j = k; j < n; ++j) {
        if (j == row) continue;
        const T other = T_M(abs)(j < row ? a[j * n + row] : a[row * n + j]);
        across = other > across ? other : across;
      }
      if (size < alpha * below * (below / across)) {
        chosen = row;
        if (T_M(abs)(a[row * n + row]) < alpha * across) step = 2;
      }
    }
    const hp_i64 moved = k + step - 1;
    HP_GLOBAL T* const next = a + moved * n;
    if (chosen != moved) {
      for (hp_i64 i = chosen + 1; i < n; ++i) linalg_swap(next + i, a + chosen * n + i);
      for (hp_i64 i = moved + 1; i < chosen; ++i) linalg_swap(next + i, a + i * n + chosen);
      linalg_swap(next + moved, a + chosen * n + chosen);
      if (step == 2) linalg_swap(column + k + 1, column + chosen);
    }
    if (step == 1) {
      const T inverse = (T)1 / column[k];
      for (hp_i64 j = k + 1; j < n; ++j) linalg_add(a + j * n + j, column + j, -inverse * column[j], n - j);
      linalg_scale(column + k + 1, inverse, n - k - 1);
      pivots[k] = (hp_i32)(chosen + 1);
    } else {
      const T side = column[k + 1], d1 = next[k + 1] / side, d2 = column[k] / side;
      const T factor = (T)1 / (d1 * d2 - (T)1) / side;
      for (hp_i64 j = k + 2; j < n; ++j) {
        const T x = factor * (d1 * column[j] - next[j]), y = factor * (d2 * next[j] - column[j]);
        linalg_add(a + j * n + j, column + j, -x, n - j);
        linalg_add(a + j * n + j, next + j, -y, n - j);
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
      linalg_add(b + moved + 1, column + moved + 1, -b[k], n - moved - 1);
      if (pair) {
        HP_GLOBAL const T* const next = column + n;
        linalg_add(b + k + 2, next + k + 2, -b[k + 1], n - k - 2);
        const T side = column[k + 1], d1 = column[k] / side, d2 = next[k + 1] / side;
        const T determinant = d1 * d2 - (T)1, y = b[k] / side, z = b[k + 1] / side;
        b[k] = (d2 * y - z) / determinant;
        b[k + 1] = (d1 * z - y) / determinant;
      } else {
        b[k] /= column[k];
      }
      k = moved + 1;
    }
    k = n - 1;
    while (k >= 0) {
      const int pair = pivots[k] < 0 && k > 0;
      const hp_i64 other = (pair ? -pivots[k] : pivots[k]) - 1, after = n - k - 1;
      b[k] -= linalg_dot(b + k + 1, a + k * n + k + 1, after);
      if (pair) b[k - 1] -= linalg_dot(b + k + 1, a + (k - 1) * n + k + 1, after);
      if (other >= 0 && other < n) linalg_swap(b + k, b + other);
      k -= 1 + pair;
    }
  }
}
