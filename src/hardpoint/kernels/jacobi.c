/* Singular values and eigenvalues by Jacobi's rotations. T: the elements. Matrices lie packed, column after column; a
 * group takes one. Columns meet in pairs as in a tournament: those of one round have no column in common, so that the
 * work-items of the group share them, and the result does not depend on how many they are. */
#define JACOBI_LANES 16
#define JACOBI_SWEEPS 60
#if defined(T_IS_F64)
#define JACOBI_EPSILON ((T)2.220446049250313e-16)
#define JACOBI_TINY ((T)2.3e-308)
#else
#define JACOBI_EPSILON ((T)1.1920929e-7f)
#define JACOBI_TINY ((T)1.2e-38f)
#endif
/* Beyond these, squares of elements might leave the range of T. */
#define JACOBI_SMALL ((T)1e-3f)
#define JACOBI_LARGE ((T)1e10f)

HP_FN T jacobi_dot(HP_GLOBAL const T* a, HP_GLOBAL const T* b, hp_i64 n) {
  T lane[JACOBI_LANES];
  for (int l = 0; l < JACOBI_LANES; ++l) lane[l] = (T)0;
  hp_i64 i = 0;
  for (; i + JACOBI_LANES <= n; i += JACOBI_LANES) {
    for (int l = 0; l < JACOBI_LANES; ++l) lane[l] += a[i + l] * b[i + l];
  }
  for (; i < n; ++i) lane[0] += a[i] * b[i];
  for (int half = JACOBI_LANES / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
  }
  return lane[0];
}

/* (a, b) = (cosine a - sine b, sine a + cosine b) as what is added to a and b, with ratio = sine / (1 + cosine):
 * rounded cosines would lengthen the columns little by little. */
HP_FN void jacobi_rotate(HP_GLOBAL T* a, HP_GLOBAL T* b, T sine, T ratio, hp_i64 n) {
  HP_VECTORISE
  for (hp_i64 i = 0; i < n; ++i) {
    const T x = a[i], y = b[i];
    a[i] = x - sine * (y + ratio * x);
    b[i] = y + sine * (x - ratio * y);
  }
}

/* The smaller root of t^2 + 2 zeta t = 1. */
HP_FN T jacobi_tangent(T zeta) {
  const T size = T_M(abs)(zeta);
  const T t = size > (T)1e9f ? (T)0.5f / size : (T)1 / (size + T_M(sqrt)((T)1 + size * size));
  return zeta < (T)0 ? -t : t;
}

/* The first and the second of a round's pair, of an even number of players. Divisions would take longer than the rest.
 */
HP_FN hp_i64 jacobi_first(hp_i64 players, hp_i64 round, hp_i64 pair) {
  const hp_i64 place = round + pair;
  return pair == 0 ? players - 1 : place < players - 1 ? place : place - (players - 1);
}
HP_FN hp_i64 jacobi_second(hp_i64 players, hp_i64 round, hp_i64 pair) {
  const hp_i64 place = round - pair;
  return place >= 0 ? place : place + players - 1;
}

/* What a matrix is multiplied with before: 1 where nothing threatens to overflow. `sizes` are the largest elements of
 * its columns. Zero: not all elements are finite. */
HP_FN T jacobi_factor(HP_GLOBAL const T* sizes, hp_i64 n) {
  T largest = (T)0;
  for (hp_i64 j = 0; j < n; ++j) largest = sizes[j] > largest ? sizes[j] : largest;
  if (largest == T_HIGHEST) return (T)0;
  const int inside = largest == (T)0 || (largest >= JACOBI_SMALL && largest <= JACOBI_LARGE);
  /* The reciprocal of a denormal number might be infinite. */
  return inside ? (T)1 : (T)1 / (largest > JACOBI_TINY ? largest : JACOBI_TINY);
}

/* The largest element, infinite where one is not finite. */
HP_FN T jacobi_size(HP_GLOBAL const T* x, hp_i64 n) {
  T largest = (T)0;
  for (hp_i64 i = 0; i < n; ++i) {
    const T size = T_M(abs)(x[i]);
    largest = size > largest ? size : size != size ? T_HIGHEST : largest;
  }
  return largest;
}

HP_FN T jacobi_norm(HP_GLOBAL const T* x, hp_i64 n) {
  const T largest = jacobi_size(x, n);
  T sum = (T)0;
  if (largest == (T)0) return largest;
  for (hp_i64 i = 0; i < n; ++i) sum += (x[i] / largest) * (x[i] / largest);
  return largest * T_M(sqrt)(sum);
}

/* Places in the order of the keys, from the smallest or from the largest; by one work-item. */
HP_FN void jacobi_order(HP_GLOBAL hp_i32* order, HP_GLOBAL const T* keys, hp_i64 step, hp_i64 n, int descending) {
  for (hp_i64 j = 0; j < n; ++j) {
    hp_i64 at = j;
    const T key = keys[j * step];
    for (; at > 0; --at) {
      const T before = keys[order[at - 1] * step];
      if (descending ? !(before < key) : !(before > key)) break;
      order[at] = order[at - 1];
    }
    order[at] = (hp_i32)j;
  }
}

/* w, m x n with m >= n, becomes U times the singular values. VECTORS: v becomes V, u the left vectors in order, of
 * which there are `columns`, and `right` V in order. `work` has m + n + columns elements for each matrix. */
HP_KERNEL(svd)(HP_GLOBAL T* u, HP_GLOBAL T* values, HP_GLOBAL T* right, HP_GLOBAL hp_i32* info, HP_GLOBAL T* w,
               HP_GLOBAL T* v, HP_GLOBAL T* work, HP_GLOBAL hp_i32* order, hp_i64 m, hp_i64 n, hp_i64 columns) {
  w += hp_group * m * n;
  values += hp_group * n;
  order += hp_group * (n + 1);
  info += hp_group;
  work += hp_group * (m + n + columns);
#if VECTORS
  u += hp_group * m * columns;
  v += hp_group * n * n;
  right += hp_group * n * n;
#endif
  HP_GLOBAL T* const norms = work + m;
  HP_GLOBAL hp_i32* const changed = order + n;
  HP_FOR_LOCAL(j, n) norms[j] = jacobi_size(w + j * m, m);
  if (hp_lid == 0) *info = 0;
  hp_barrier();
  const T factor = jacobi_factor(norms, n);
  hp_barrier();
  if (factor == (T)0) {
    if (hp_lid == 0) *info = -4; /* as LAPACK: the fourth argument */
    return;
  }
  HP_FOR_LOCAL(j, n) {
    if (factor != (T)1) {
      for (hp_i64 i = 0; i < m; ++i) w[j * m + i] *= factor;
    }
#if VECTORS
    for (hp_i64 i = 0; i < n; ++i) v[j * n + i] = (T)(i == j);
#endif
  }
  const T root = T_M(sqrt)((T)m), tolerance = JACOBI_EPSILON * (root > (T)4 ? root : (T)4);
  const hp_i64 players = n + n % 2;
  int going = n > 1;
  for (int sweep = 0; going && sweep < JACOBI_SWEEPS; ++sweep) {
    if (hp_lid == 0) *changed = 0;
    hp_barrier();
    for (hp_i64 round = 0; round < players - 1; ++round) {
      HP_FOR_LOCAL(pair, players / 2) {
        const hp_i64 p = jacobi_first(players, round, pair), q = jacobi_second(players, round, pair);
        if (p < n && q < n) {
          HP_GLOBAL T* const a = w + p * m;
          HP_GLOBAL T* const b = w + q * m;
          const T aa = jacobi_dot(a, a, m), bb = jacobi_dot(b, b, m), ab = jacobi_dot(a, b, m);
          if (T_M(abs)(ab) > tolerance * T_M(sqrt)(aa) * T_M(sqrt)(bb)) {
            const T t = jacobi_tangent((bb - aa) / ((T)2 * ab)), cosine = (T)1 / T_M(sqrt)((T)1 + t * t);
            if (t != (T)0) {
              const T sine = cosine * t, ratio = sine / ((T)1 + cosine);
              jacobi_rotate(a, b, sine, ratio, m);
#if VECTORS
              jacobi_rotate(v + p * n, v + q * n, sine, ratio, n);
#endif
              *changed = 1;
            }
          }
        }
      }
      hp_barrier();
    }
    going = *changed;
    hp_barrier();
  }
  if (going && hp_lid == 0) *info = 1;
  HP_FOR_LOCAL(j, n) norms[j] = jacobi_norm(w + j * m, m);
  hp_barrier();
  if (hp_lid == 0) jacobi_order(order, norms, 1, n, 1);
  hp_barrier();
  HP_FOR_LOCAL(j, n) values[j] = norms[order[j]] / factor;
#if VECTORS
  HP_GLOBAL T* const residual = work;
  HP_GLOBAL T* const shares = norms + n;
  /* Vectors of values that are nothing but rounding errors are made up. */
  const T least = n > 0 ? norms[order[0]] * JACOBI_EPSILON * JACOBI_EPSILON : (T)0;
  hp_i64 rank = 0;
  while (rank < n && norms[order[rank]] > least) ++rank;
  HP_FOR_LOCAL(j, n) {
    for (hp_i64 i = 0; i < n; ++i) right[j * n + i] = v[order[j] * n + i];
    if (j < rank) {
      for (hp_i64 i = 0; i < m; ++i) u[j * m + i] = w[order[j] * m + i] / norms[order[j]];
    }
  }
  hp_barrier();
  HP_FOR_LOCAL(i, m) {
    T rest = (T)1;
    for (hp_i64 j = 0; j < rank; ++j) rest -= u[j * m + i] * u[j * m + i];
    residual[i] = rest;
  }
  for (hp_i64 j = rank; j < columns; ++j) {
    HP_GLOBAL T* const column = u + j * m;
    hp_barrier();
    /* The axis that the columns so far cover least, without what they cover of it. */
    hp_i64 axis = 0;
    for (hp_i64 i = 1; i < m; ++i) axis = residual[i] > residual[axis] ? i : axis;
    HP_FOR_LOCAL(i, m) column[i] = (T)(i == axis);
    for (int time = 0; time < 2; ++time) {
      hp_barrier();
      HP_FOR_LOCAL(c, j) shares[c] = jacobi_dot(u + c * m, column, m);
      hp_barrier();
      for (hp_i64 c = 0; c < j; ++c) {
        HP_FOR_LOCAL(i, m) column[i] -= shares[c] * u[c * m + i];
      }
    }
    hp_barrier();
    const T norm = jacobi_norm(column, m);
    hp_barrier();
    HP_FOR_LOCAL(i, m) {
      column[i] /= norm;
      residual[i] -= column[i] * column[i];
    }
  }
#endif
}

/* Of a, n x n and symmetric, only one triangle is read: the lower one, or with UPPER the upper one. VECTORS: v becomes
 * the vectors, `vectors` the same in order. `work` has 4 (n + 1) elements for each matrix. */
HP_KERNEL(eigh)(HP_GLOBAL T* values, HP_GLOBAL T* vectors, HP_GLOBAL hp_i32* info, HP_GLOBAL T* a, HP_GLOBAL T* v,
                HP_GLOBAL T* work, HP_GLOBAL hp_i32* order, hp_i64 n) {
  a += hp_group * n * n;
  values += hp_group * n;
  order += hp_group * (n + 1);
  info += hp_group;
  work += hp_group * 4 * (n + 1);
#if VECTORS
  v += hp_group * n * n;
  vectors += hp_group * n * n;
#endif
  HP_GLOBAL T* const ratios = work;
  HP_GLOBAL T* const sines = work + (n + 1);
  HP_GLOBAL T* const firsts = work + 2 * (n + 1);
  HP_GLOBAL T* const seconds = work + 3 * (n + 1);
  HP_GLOBAL hp_i32* const changed = order + n;
  HP_FOR_LOCAL(j, n) {
    for (hp_i64 i = UPPER ? 0 : j + 1; i < (UPPER ? j : n); ++i) a[i * n + j] = a[j * n + i];
  }
  if (hp_lid == 0) *info = 0;
  hp_barrier();
  HP_FOR_LOCAL(j, n) work[j] = jacobi_size(a + j * n, n);
  hp_barrier();
  const T factor = jacobi_factor(work, n);
  T largest = (T)0;
  for (hp_i64 j = 0; j < n; ++j) largest = work[j] > largest ? work[j] : largest;
  largest *= factor;
  hp_barrier();
  if (factor == (T)0) {
    if (hp_lid == 0) *info = (hp_i32)n;
    return;
  }
  HP_FOR_LOCAL(j, n) {
    if (factor != (T)1) {
      for (hp_i64 i = 0; i < n; ++i) a[j * n + i] *= factor;
    }
#if VECTORS
    for (hp_i64 i = 0; i < n; ++i) v[j * n + i] = (T)(i == j);
#endif
  }
  const hp_i64 players = n + n % 2, pairs = players / 2;
  int going = n > 1;
  for (int sweep = 0; going && sweep < JACOBI_SWEEPS; ++sweep) {
    /* Relative to the two elements on the diagonal, which keeps small values exact; in the end to the whole. */
    const T relative = sweep < JACOBI_SWEEPS / 3 ? JACOBI_EPSILON / (T)8 : (T)0;
    const T absolute = sweep < JACOBI_SWEEPS / 3 ? JACOBI_EPSILON * JACOBI_EPSILON * largest : JACOBI_EPSILON * largest;
    if (hp_lid == 0) *changed = 0;
    hp_barrier();
    for (hp_i64 round = 0; round < players - 1; ++round) {
      HP_FOR_LOCAL(pair, pairs) {
        const hp_i64 p = jacobi_first(players, round, pair), q = jacobi_second(players, round, pair);
        T t = (T)0;
        if (p < n && q < n) {
          const T aa = a[p * n + p], bb = a[q * n + q], ab = a[q * n + p];
          if (T_M(abs)(ab) > relative * T_M(sqrt)(T_M(abs)(aa)) * T_M(sqrt)(T_M(abs)(bb)) + absolute) {
            t = jacobi_tangent((bb - aa) / ((T)2 * ab));
            firsts[pair] = aa - t * ab;
            seconds[pair] = bb + t * ab;
            *changed = 1;
          }
        }
        const T cosine = (T)1 / T_M(sqrt)((T)1 + t * t);
        sines[pair] = cosine * t;
        ratios[pair] = sines[pair] / ((T)1 + cosine);
        if (t != (T)0) {
          jacobi_rotate(a + p * n, a + q * n, sines[pair], ratios[pair], n);
#if VECTORS
          jacobi_rotate(v + p * n, v + q * n, sines[pair], ratios[pair], n);
#endif
        }
      }
      hp_barrier();
      HP_FOR_LOCAL(j, n) {
        HP_GLOBAL T* const column = a + j * n;
        for (hp_i64 pair = 0; pair < pairs; ++pair) {
          const T sine = sines[pair], ratio = ratios[pair];
          if (sine != (T)0) {
            const hp_i64 p = jacobi_first(players, round, pair), q = jacobi_second(players, round, pair);
            const T x = column[p], y = column[q];
            column[p] = x - sine * (y + ratio * x);
            column[q] = y + sine * (x - ratio * y);
            if (j == p) {
              column[p] = firsts[pair];
              column[q] = (T)0;
            } else if (j == q) {
              column[p] = (T)0;
              column[q] = seconds[pair];
            }
          }
        }
      }
      hp_barrier();
    }
    going = *changed;
    hp_barrier();
  }
  if (going && hp_lid == 0) *info = (hp_i32)n;
  if (hp_lid == 0) jacobi_order(order, a, n + 1, n, 0);
  hp_barrier();
  HP_FOR_LOCAL(j, n) {
    values[j] = a[order[j] * (n + 1)] / factor;
#if VECTORS
    for (hp_i64 i = 0; i < n; ++i) vectors[j * n + i] = v[order[j] * n + i];
#endif
  }
}
