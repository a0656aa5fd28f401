/* Singular values and eigenvalues by Jacobi rotations. T: elements. Matrices are packed in column-major order; one
 * work-group per matrix. Columns are paired as in a round-robin tournament: the pairs of a round are disjoint, so
 * work-items process them in parallel, and the result does not depend on the number of work-items. */
#include "real_or_complex.h"
#define JACOBI_LANES 16
#define JACOBI_SWEEPS 60
#if defined(T_IS_F64) || defined(T_IS_C128)
#define JACOBI_EPSILON ((T_part)2.220446049250313e-16)
#define JACOBI_TINY ((T_part)2.3e-308)
#else
#define JACOBI_EPSILON ((T_part)1.1920929e-7f)
#define JACOBI_TINY ((T_part)1.2e-38f)
#endif
/* Outside this range, squares of elements might overflow or underflow. */
#define JACOBI_SMALL ((T_part)1e-3f)
#define JACOBI_LARGE ((T_part)1e10f)

/* a^H b. */
HP_FN T jacobi_dot(HP_GLOBAL const T* a, HP_GLOBAL const T* b, hp_i64 n) {
  T lane[JACOBI_LANES];
  for (int l = 0; l < JACOBI_LANES; ++l) lane[l] = number(0);
  hp_i64 i = 0;
  for (; i + JACOBI_LANES <= n; i += JACOBI_LANES) {
    for (int l = 0; l < JACOBI_LANES; ++l) lane[l] = number_add(lane[l], number_mul(number_conj(a[i + l]), b[i + l]));
  }
  for (; i < n; ++i) lane[0] = number_add(lane[0], number_mul(number_conj(a[i]), b[i]));
  for (int half = JACOBI_LANES / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) lane[l] = number_add(lane[l], lane[l + half]);
  }
  return lane[0];
}

/* Phase that makes the product of two columns the real number `jacobi_real`, if the second column is multiplied by it.
 * 1 for real columns. */
HP_FN T jacobi_phase(T product) {
#ifdef T_IS_COMPLEX
  return number_conj(number_sign(product));
#else
  return (void)product, number(1);
#endif
}
HP_FN T_part jacobi_real(T product) {
#ifdef T_IS_COMPLEX
  return number_abs(product);
#else
  return product;
#endif
}

/* (a, b) = (cosine a - sine b, sine a + cosine b), written as increments of a and b with ratio = sine / (1 + cosine).
 * Rounded cosines would slowly change the lengths of the columns. */
HP_FN void jacobi_turn(HP_GLOBAL T* a, HP_GLOBAL T* b, T_part sine, T_part ratio, T phase) {
  const T x = *a;
#ifdef T_IS_COMPLEX
  const T y = number_mul(*b, phase);
#else
  const T y = *b;
  (void)phase;
#endif
  *a = number_sub(x, number_mul_real(number_add(y, number_mul_real(x, ratio)), sine));
  *b = number_add(y, number_mul_real(number_sub(x, number_mul_real(y, ratio)), sine));
}
HP_FN void jacobi_rotate(HP_GLOBAL T* a, HP_GLOBAL T* b, T_part sine, T_part ratio, T phase, hp_i64 n) {
  HP_VECTORIZE
  for (hp_i64 i = 0; i < n; ++i) jacobi_turn(a + i, b + i, sine, ratio, phase);
}

/* Smaller root of t^2 + 2 zeta t = 1. */
HP_FN T_part jacobi_tangent(T_part zeta) {
  const T_part size = T_P(abs)(zeta);
  const T_part t = size > (T_part)1e9f ? (T_part)0.5f / size : (T_part)1 / (size + T_P(sqrt)((T_part)1 + size * size));
  return zeta < 0 ? -t : t;
}

/* First and second column of a pair in a round, for an even number of players. Additions only: divisions would dominate
 * the cost. */
HP_FN hp_i64 jacobi_first(hp_i64 players, hp_i64 round, hp_i64 pair) {
  const hp_i64 position = round + pair;
  return pair == 0 ? players - 1 : position < players - 1 ? position : position - (players - 1);
}
HP_FN hp_i64 jacobi_second(hp_i64 players, hp_i64 round, hp_i64 pair) {
  const hp_i64 position = round - pair;
  return position >= 0 ? position : position + players - 1;
}

/* Factor that prevents overflow when squaring: 1 if none is needed, 0 if not all elements are finite. `sizes` are the
 * largest magnitudes of the columns. */
HP_FN T_part jacobi_factor(HP_GLOBAL const T_part* sizes, hp_i64 n) {
  T_part largest = 0;
  for (hp_i64 j = 0; j < n; ++j) largest = sizes[j] > largest ? sizes[j] : largest;
  if (largest == HP_INFINITY) return 0;
  const int inside = largest == 0 || (largest >= JACOBI_SMALL && largest <= JACOBI_LARGE);
  /* The reciprocal of a denormal might be infinite. */
  return inside ? (T_part)1 : (T_part)1 / (largest > JACOBI_TINY ? largest : JACOBI_TINY);
}

/* Largest magnitude; infinity if any element is not finite. */
HP_FN T_part jacobi_size(HP_GLOBAL const T* x, hp_i64 n) {
  T_part largest = 0;
  for (hp_i64 i = 0; i < n; ++i) {
    const T_part size = number_abs(x[i]);
    largest = size > largest ? size : size != size ? (T_part)HP_INFINITY : largest;
  }
  return largest;
}

HP_FN T_part jacobi_norm(HP_GLOBAL const T* x, hp_i64 n) {
  const T_part largest = jacobi_size(x, n);
  T_part sum = 0;
  if (largest == 0) return largest;
  for (hp_i64 i = 0; i < n; ++i) sum += number_abs_squared(number_div_real(x[i], largest));
  return largest * T_P(sqrt)(sum);
}

/* Permutation that sorts the keys. Run by one work-item. */
HP_FN void jacobi_order(HP_GLOBAL hp_i32* order, HP_GLOBAL const T_part* keys, hp_i64 n, int descending) {
  for (hp_i64 j = 0; j < n; ++j) {
    hp_i64 at = j;
    const T_part key = keys[j];
    for (; at > 0; --at) {
      const T_part before = keys[order[at - 1]];
      if (descending ? !(before < key) : !(before > key)) break;
      order[at] = order[at - 1];
    }
    order[at] = (hp_i32)j;
  }
}

/* One-sided Jacobi SVD. w, m x n with m >= n, becomes U times the singular values. VECTORS: 1 to accumulate V in v and
 * write the sorted left vectors, `columns` of them, to u and the sorted V to `right`. `work` has m + n + columns
 * elements per matrix. */
HP_KERNEL(svd)(HP_GLOBAL T* u, HP_GLOBAL T_part* values, HP_GLOBAL T* right, HP_GLOBAL hp_i32* info, HP_GLOBAL T* w,
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
  HP_GLOBAL T_part* const residual = (HP_GLOBAL T_part*)work;
  HP_GLOBAL T_part* const norms = residual + m;
  HP_GLOBAL hp_i32* const changed = order + n;
  HP_FOR_LOCAL(j, n) norms[j] = jacobi_size(w + j * m, m);
  if (hp_lid == 0) *info = 0;
  hp_barrier();
  const T_part factor = jacobi_factor(norms, n);
  hp_barrier();
  if (factor == 0) {
    if (hp_lid == 0) *info = -4; /* as in LAPACK: the fourth argument is invalid */
    return;
  }
  if (factor != 1) {
    HP_FOR_LOCAL(i, m * n) w[i] = number_mul_real(w[i], factor);
  }
#if VECTORS
  HP_FOR_LOCAL(i, n * n) v[i] = number((T_part)(i % (n + 1) == 0));
#endif
  const T_part root = T_P(sqrt)((T_part)m), tolerance = JACOBI_EPSILON * (root > 4 ? root : (T_part)4);
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
          const T product = jacobi_dot(a, b, m);
          const T_part aa = number_re(jacobi_dot(a, a, m)), bb = number_re(jacobi_dot(b, b, m));
          const T_part ab = jacobi_real(product);
          if (T_P(abs)(ab) > tolerance * T_P(sqrt)(aa) * T_P(sqrt)(bb)) {
            const T_part t = jacobi_tangent((bb - aa) / (2 * ab)), cosine = 1 / T_P(sqrt)(1 + t * t);
            if (t != 0) {
              const T_part sine = cosine * t, ratio = sine / (1 + cosine);
              const T phase = jacobi_phase(product);
              jacobi_rotate(a, b, sine, ratio, phase, m);
#if VECTORS
              jacobi_rotate(v + p * n, v + q * n, sine, ratio, phase, n);
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
  if (hp_lid == 0) jacobi_order(order, norms, n, 1);
  hp_barrier();
  HP_FOR_LOCAL(j, n) values[j] = norms[order[j]] / factor;
#if VECTORS
  HP_GLOBAL T* const shares = work + m + n;
  /* Columns whose value is only rounding error get a new orthogonal vector. */
  const T_part least = n > 0 ? norms[order[0]] * JACOBI_EPSILON * JACOBI_EPSILON : 0;
  hp_i64 rank = 0;
  while (rank < n && norms[order[rank]] > least) ++rank;
  HP_FOR_LOCAL(j, n) {
    for (hp_i64 i = 0; i < n; ++i) right[j * n + i] = v[order[j] * n + i];
    if (j < rank) {
      for (hp_i64 i = 0; i < m; ++i) u[j * m + i] = number_div_real(w[order[j] * m + i], norms[order[j]]);
    }
  }
  hp_barrier();
  HP_FOR_LOCAL(i, m) {
    T_part rest = 1;
    for (hp_i64 j = 0; j < rank; ++j) rest -= number_abs_squared(u[j * m + i]);
    residual[i] = rest;
  }
  for (hp_i64 j = rank; j < columns; ++j) {
    HP_GLOBAL T* const column = u + j * m;
    hp_barrier();
    /* Start from the axis that the columns so far cover least, and orthogonalize it against them, twice. */
    hp_i64 axis = 0;
    for (hp_i64 i = 1; i < m; ++i) axis = residual[i] > residual[axis] ? i : axis;
    HP_FOR_LOCAL(i, m) column[i] = number((T_part)(i == axis));
    for (int time = 0; time < 2; ++time) {
      hp_barrier();
      HP_FOR_LOCAL(c, j) shares[c] = jacobi_dot(u + c * m, column, m);
      hp_barrier();
      for (hp_i64 c = 0; c < j; ++c) {
        HP_FOR_LOCAL(i, m) column[i] = number_sub(column[i], number_mul(shares[c], u[c * m + i]));
      }
    }
    hp_barrier();
    const T_part norm = jacobi_norm(column, m);
    hp_barrier();
    HP_FOR_LOCAL(i, m) {
      column[i] = number_div_real(column[i], norm);
      residual[i] -= number_abs_squared(column[i]);
    }
  }
#endif
}

/* Two-sided Jacobi for a Hermitian n x n matrix a. Only one triangle is read: the lower, or with UPPER the upper one.
 * VECTORS: 1 to accumulate the eigenvectors in v and write them, sorted, to `vectors`. `work` has 5 (n + 1) elements
 * per matrix. */
HP_KERNEL(eigh)(HP_GLOBAL T_part* values, HP_GLOBAL T* vectors, HP_GLOBAL hp_i32* info, HP_GLOBAL T* a, HP_GLOBAL T* v,
                HP_GLOBAL T* work, HP_GLOBAL hp_i32* order, hp_i64 n) {
  a += hp_group * n * n;
  values += hp_group * n;
  order += hp_group * (n + 1);
  info += hp_group;
  work += hp_group * 5 * (n + 1);
#if VECTORS
  v += hp_group * n * n;
  vectors += hp_group * n * n;
#endif
  HP_GLOBAL T* const phases = work + 4 * (n + 1);
  HP_GLOBAL T_part* const ratios = (HP_GLOBAL T_part*)work;
  HP_GLOBAL T_part* const sines = ratios + (n + 1);
  HP_GLOBAL T_part* const firsts = sines + (n + 1);
  HP_GLOBAL T_part* const seconds = firsts + (n + 1);
  HP_GLOBAL hp_i32* const changed = order + n;
  HP_FOR_LOCAL(j, n) {
    for (hp_i64 i = UPPER ? 0 : j + 1; i < (UPPER ? j : n); ++i) a[i * n + j] = number_conj(a[j * n + i]);
    a[j * n + j] = number(number_re(a[j * n + j]));
  }
  if (hp_lid == 0) *info = 0;
  hp_barrier();
  HP_FOR_LOCAL(j, n) ratios[j] = jacobi_size(a + j * n, n);
  hp_barrier();
  const T_part factor = jacobi_factor(ratios, n);
  T_part largest = 0;
  for (hp_i64 j = 0; j < n; ++j) largest = ratios[j] > largest ? ratios[j] : largest;
  largest *= factor;
  hp_barrier();
  if (factor == 0) {
    if (hp_lid == 0) *info = (hp_i32)n;
    return;
  }
  if (factor != 1) {
    HP_FOR_LOCAL(i, n * n) a[i] = number_mul_real(a[i], factor);
  }
#if VECTORS
  HP_FOR_LOCAL(i, n * n) v[i] = number((T_part)(i % (n + 1) == 0));
#endif
  const hp_i64 players = n + n % 2, pairs = players / 2;
  int going = n > 1;
  for (int sweep = 0; going && sweep < JACOBI_SWEEPS; ++sweep) {
    /* The threshold is relative to the two diagonal elements, which keeps small eigenvalues accurate. After a third of
     * the sweeps it becomes relative to the whole matrix, so that the iteration ends. */
    const T_part relative = sweep < JACOBI_SWEEPS / 3 ? JACOBI_EPSILON / 8 : 0;
    const T_part absolute =
        sweep < JACOBI_SWEEPS / 3 ? JACOBI_EPSILON * JACOBI_EPSILON * largest : JACOBI_EPSILON * largest;
    if (hp_lid == 0) *changed = 0;
    hp_barrier();
    for (hp_i64 round = 0; round < players - 1; ++round) {
      HP_FOR_LOCAL(pair, pairs) {
        const hp_i64 p = jacobi_first(players, round, pair), q = jacobi_second(players, round, pair);
        T_part t = 0;
        if (p < n && q < n) {
          const T product = a[q * n + p];
          const T_part aa = number_re(a[p * n + p]), bb = number_re(a[q * n + q]), ab = jacobi_real(product);
          if (T_P(abs)(ab) > relative * T_P(sqrt)(T_P(abs)(aa)) * T_P(sqrt)(T_P(abs)(bb)) + absolute) {
            t = jacobi_tangent((bb - aa) / (2 * ab));
            phases[pair] = jacobi_phase(product);
            firsts[pair] = aa - t * ab;
            seconds[pair] = bb + t * ab;
            *changed = 1;
          }
        }
        const T_part cosine = 1 / T_P(sqrt)(1 + t * t);
        sines[pair] = cosine * t;
        ratios[pair] = sines[pair] / (1 + cosine);
        if (t != 0) {
          jacobi_rotate(a + p * n, a + q * n, sines[pair], ratios[pair], phases[pair], n);
#if VECTORS
          jacobi_rotate(v + p * n, v + q * n, sines[pair], ratios[pair], phases[pair], n);
#endif
        }
      }
      hp_barrier();
      HP_FOR_LOCAL(j, n) {
        HP_GLOBAL T* const column = a + j * n;
        for (hp_i64 pair = 0; pair < pairs; ++pair) {
          const T_part sine = sines[pair];
          if (sine != 0) {
            const hp_i64 p = jacobi_first(players, round, pair), q = jacobi_second(players, round, pair);
            jacobi_turn(column + p, column + q, sine, ratios[pair], number_conj(phases[pair]));
            if (j == p) {
              column[p] = number(firsts[pair]);
              column[q] = number(0);
            } else if (j == q) {
              column[p] = number(0);
              column[q] = number(seconds[pair]);
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
  HP_FOR_LOCAL(j, n) firsts[j] = number_re(a[j * (n + 1)]);
  hp_barrier();
  if (hp_lid == 0) jacobi_order(order, firsts, n, 0);
  hp_barrier();
  HP_FOR_LOCAL(j, n) {
    values[j] = firsts[order[j]] / factor;
#if VECTORS
    for (hp_i64 i = 0; i < n; ++i) vectors[j * n + i] = v[order[j] * n + i];
#endif
  }
}
