/* Cumulative operations along the middle dimension of outer x n x inner; input and result are contiguous. T: elements,
 * A: accumulator type, R: result. RULE: 0 sum, 1 product, 2 logsumexp. */
enum { SCAN_BLOCK = 256, SCAN_COLUMNS = 128 };

#ifdef RULE
#if RULE == 1
#define SCAN_INITIAL ((A)1)
#define SCAN_COMBINE(a, b) ((a) * (b))
#else
#define SCAN_INITIAL ((A)0)
#define SCAN_COMBINE(a, b) ((a) + (b))
#endif

/* Total of everything before. `low` is the rounding error of a sum, so that long sums stay accurate. */
typedef struct {
  A high, low;
} scan_carry;
HP_FN A scan_with(scan_carry carry, A local) {
#if RULE == 0 && A_IS_FLOAT
  return carry.high + (local + carry.low);
#else
  return SCAN_COMBINE(carry.high, local);
#endif
}
HP_FN scan_carry scan_advance(scan_carry carry, A local) {
  scan_carry next;
#if RULE == 0 && A_IS_FLOAT
  const A more = local + carry.low;
  next.high = carry.high + more;
  next.low = more - (next.high - carry.high);
  next.low = next.low == next.low ? next.low : (A)0; /* infinities have no rounding error */
#else
  next.high = SCAN_COMBINE(carry.high, local);
  next.low = 0;
#endif
  return next;
}

#if HP_LSIZE == 1 && defined(HP_DIALECT_HOST) && RULE < 2
/* Prefix sums within a vector: the dependent addition occurs once per vector instead of once per element. */
typedef A scan_vector __attribute__((vector_size(64)));
enum { SCAN_LANES = 64 / sizeof(A) };
#if defined(A_IS_F64) || defined(A_IS_I64)
typedef hp_i64 scan_indices __attribute__((vector_size(64)));
#define SCAN_SHIFTS(STEP) STEP(1) STEP(2) STEP(4)
#else
typedef hp_i32 scan_indices __attribute__((vector_size(64)));
#define SCAN_SHIFTS(STEP) STEP(1) STEP(2) STEP(4) STEP(8)
#endif

HP_FN void scan_block(A* x) {
  enum { L = SCAN_LANES };
  const scan_vector none = (scan_vector){0} + SCAN_INITIAL;
  scan_vector carry = none;
  scan_indices count, last = (scan_indices){0} + (L - 1);
  for (int l = 0; l < L; ++l) count[l] = l;
  for (int j = 0; j < SCAN_BLOCK; j += L) {
    scan_vector v;
    __builtin_memcpy(&v, x + j, sizeof(v));
    /* Indices past the first vector select an element of `none`. */
#define STEP(s) v = SCAN_COMBINE(v, __builtin_shuffle(v, none, (count - s) + (2 * L & (count < s))));
    SCAN_SHIFTS(STEP)
#undef STEP
    v = SCAN_COMBINE(carry, v);
    __builtin_memcpy(x + j, &v, sizeof(v));
    carry = __builtin_shuffle(v, last);
  }
}
#endif
#endif

/* For inner = 1: one row after the other. In groups of many work-items, a Hillis-Steele scan: the barriers separate the
 * reads of a step from its writes, and its writes from the next reads. */
HP_KERNEL(rows)(HP_GLOBAL R* out, HP_GLOBAL const T* self, hp_i64 outer, hp_i64 n, hp_i64 per_group) {
#if !(HP_LSIZE == 1 && defined(HP_DIALECT_HOST))
  HP_LOCAL A shared[HP_LSIZE];
#endif
  const hp_i64 stop = (hp_group + 1) * per_group < outer ? (hp_group + 1) * per_group : outer;
  for (hp_i64 row = hp_group * per_group; row < stop; ++row) {
    HP_GLOBAL const T* const from = self + row * n;
    HP_GLOBAL R* const to = out + row * n;
#if RULE == 2
    /* Running maximum, and the sum relative to it. Sequential, even in groups of many work-items. */
    if (hp_lid == 0) {
      A most = A_LOWEST, sum = 0;
      for (hp_i64 i = 0; i < n; ++i) {
        const A x = T_get(from[i]), distance = x - most, e = A_M(exp)(x > most ? -distance : distance);
        /* Equal values, including infinities, have distance 0; the first value may be the lowest of all. */
        sum = x == most ? sum + (x == A_LOWEST ? (A)0 : (A)1) : x > most ? sum * e + 1 : sum + e;
        most = x > most ? x : most;
        to[i] = R_put(most == A_LOWEST && sum == 0 ? most : most + A_M(log)(sum));
      }
    }
#elif HP_LSIZE == 1 && defined(HP_DIALECT_HOST)
    scan_carry carry = {SCAN_INITIAL, 0};
    for (hp_i64 i = 0; i < n; i += SCAN_BLOCK) {
      const hp_i64 some = n - i < SCAN_BLOCK ? n - i : SCAN_BLOCK;
      A x[SCAN_BLOCK];
      HP_VECTORIZE
      for (hp_i64 j = 0; j < some; ++j) x[j] = (A)T_get(from[i + j]);
      if (some == SCAN_BLOCK) {
        scan_block(x);
      } else {
        for (hp_i64 j = 1; j < some; ++j) x[j] = SCAN_COMBINE(x[j - 1], x[j]);
      }
      HP_VECTORIZE
      for (hp_i64 j = 0; j < some; ++j) to[i + j] = R_put(scan_with(carry, x[j]));
      carry = scan_advance(carry, x[some - 1]);
    }
#else
    scan_carry carry = {SCAN_INITIAL, 0};
    for (hp_i64 i = 0; i < n; i += HP_LSIZE) {
      shared[hp_lid] = i + hp_lid < n ? (A)T_get(from[i + hp_lid]) : SCAN_INITIAL;
      hp_barrier();
      for (int distance = 1; distance < HP_LSIZE; distance *= 2) {
        const A before = hp_lid >= distance ? shared[hp_lid - distance] : SCAN_INITIAL;
        hp_barrier();
        shared[hp_lid] = SCAN_COMBINE(before, shared[hp_lid]);
        hp_barrier();
      }
      if (i + hp_lid < n) to[i + hp_lid] = R_put(scan_with(carry, shared[hp_lid]));
      carry = scan_advance(carry, shared[HP_LSIZE - 1]);
      hp_barrier();
    }
#endif
  }
}

/* Neighbors along the inner dimension together. */
HP_KERNEL(columns)(HP_GLOBAL R* out, HP_GLOBAL const T* self, hp_i64 outer, hp_i64 n, hp_i64 inner, hp_i64 per_group) {
  const hp_i64 strips = (inner + SCAN_COLUMNS - 1) / SCAN_COLUMNS, tasks = outer * strips;
  const hp_i64 stop = (hp_group + 1) * per_group < tasks ? (hp_group + 1) * per_group : tasks;
  for (hp_i64 task = hp_group * per_group; task < stop; ++task) {
    const hp_i64 first = task % strips * SCAN_COLUMNS, base = task / strips * n * inner + first;
    const hp_i64 width = inner - first < SCAN_COLUMNS ? inner - first : SCAN_COLUMNS;
    HP_GLOBAL const T* const from = self + base;
    HP_GLOBAL R* const to = out + base;
#if RULE == 2
    HP_FOR_LOCAL(j, width) {
      A most = A_LOWEST, sum = 0;
      for (hp_i64 i = 0; i < n; ++i) {
        const A x = T_get(from[i * inner + j]), distance = x - most, e = A_M(exp)(x > most ? -distance : distance);
        sum = x == most ? sum + (x == A_LOWEST ? (A)0 : (A)1) : x > most ? sum * e + 1 : sum + e;
        most = x > most ? x : most;
        to[i * inner + j] = R_put(most == A_LOWEST && sum == 0 ? most : most + A_M(log)(sum));
      }
    }
#elif HP_LSIZE == 1
    A high[SCAN_COLUMNS], low[SCAN_COLUMNS];
    for (hp_i64 j = 0; j < width; ++j) {
      high[j] = SCAN_INITIAL;
      low[j] = 0;
    }
    for (hp_i64 i = 0; i < n; ++i) {
      HP_VECTORIZE
      for (hp_i64 j = 0; j < width; ++j) {
        const scan_carry before = {high[j], low[j]}, carry = scan_advance(before, (A)T_get(from[i * inner + j]));
        to[i * inner + j] = R_put(carry.high);
        high[j] = carry.high;
        low[j] = carry.low;
      }
    }
#else
    HP_FOR_LOCAL(j, width) {
      scan_carry carry = {SCAN_INITIAL, 0};
      for (hp_i64 i = 0; i < n; ++i) {
        carry = scan_advance(carry, (A)T_get(from[i * inner + j]));
        to[i * inner + j] = R_put(carry.high);
      }
    }
#endif
  }
}

#if defined(T_IS_COMPLEX) && defined(LOGARITHM) && LOGARITHM
/* log(exp(a) + exp(b)), relative to the operand with the larger real part. */
HP_FN T scan_log_add(T a, T b) {
  if (a.re != a.re || a.im != a.im || b.re != b.re || b.im != b.im) {
    const T_part nan = (T_part)HP_INFINITY - (T_part)HP_INFINITY;
    return T_M(make)(nan, nan);
  }
  const T small = a.re < b.re ? a : b, large = a.re < b.re ? b : a;
  if (small.re == large.re && small.re == -HP_INFINITY) return small;
  if (small.re == large.re && small.re == HP_INFINITY) return T_M(log)(T_M(add)(T_M(exp)(small), T_M(exp)(large)));
  return T_M(add)(T_M(log1p)(T_M(exp)(T_M(sub)(small, large))), large);
}
#endif

/* Complex numbers: cumulative product, or with LOGARITHM logcumsumexp. */
HP_KERNEL(complex)(HP_GLOBAL T* out, HP_GLOBAL const T* self, hp_i64 outer, hp_i64 n, hp_i64 inner, hp_i64 per_group) {
  const hp_i64 strips = (inner + SCAN_COLUMNS - 1) / SCAN_COLUMNS, tasks = outer * strips;
  const hp_i64 stop = (hp_group + 1) * per_group < tasks ? (hp_group + 1) * per_group : tasks;
  for (hp_i64 task = hp_group * per_group; task < stop; ++task) {
    const hp_i64 first = task % strips * SCAN_COLUMNS, base = task / strips * n * inner + first;
    const hp_i64 width = inner - first < SCAN_COLUMNS ? inner - first : SCAN_COLUMNS;
    HP_FOR_LOCAL(j, width) {
#if LOGARITHM
      T total = T_M(real)(-(T_part)HP_INFINITY);
#else
      T total = T_M(real)(1);
#endif
      for (hp_i64 i = 0; i < n; ++i) {
        const hp_i64 at = base + i * inner + j;
#if LOGARITHM
        total = scan_log_add(self[at], total);
#else
        total = T_M(mul)(total, self[at]);
#endif
        out[at] = total;
      }
    }
  }
}

/* Largest (LARGEST) or smallest element so far, and its last index. NaN, once seen, stays. */
HP_KERNEL(min_max)(HP_GLOBAL T* values, HP_GLOBAL hp_i64* indices, HP_GLOBAL const T* self, hp_i64 outer, hp_i64 n,
                   hp_i64 inner, hp_i64 per_group) {
  const hp_i64 strips = (inner + SCAN_COLUMNS - 1) / SCAN_COLUMNS, tasks = outer * strips;
  const hp_i64 stop = (hp_group + 1) * per_group < tasks ? (hp_group + 1) * per_group : tasks;
  for (hp_i64 task = hp_group * per_group; task < stop; ++task) {
    const hp_i64 first = task % strips * SCAN_COLUMNS, base = task / strips * n * inner + first;
    const hp_i64 width = inner - first < SCAN_COLUMNS ? inner - first : SCAN_COLUMNS;
    HP_FOR_LOCAL(j, width) {
      T stored = self[base + j];
      T_c best = T_get(stored);
      hp_i64 at = 0;
      for (hp_i64 i = 0; i < n; ++i) {
        const T next = self[base + i * inner + j];
        const T_c x = T_get(next);
        if (x != x || (best == best && (LARGEST ? x >= best : x <= best))) {
          stored = next;
          best = x;
          at = i;
        }
        values[base + i * inner + j] = stored;
        indices[base + i * inner + j] = at;
      }
    }
  }
}
