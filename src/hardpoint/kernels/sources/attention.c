/* Attention without materializing the score matrix: keys are processed block by block, with a running maximum and sum
 * of exponentials per query. T: elements. MASKED: 1 with an additive mask of T. Strides count elements; the last
 * dimension of query, key, value and their gradients is contiguous. Key and value may have fewer heads than the query.
 *
 * DROPS: 1 with dropout, applied after the weights are summed. From block `start` of the generator on, each query uses
 * one block per 8 keys, 16 bits per key: a weight is dropped if its bits are less than `below`, else multiplied by
 * `factor`. Backward kernels draw the same numbers again. */
#include "philox.h"
#include "row_reduction.h"

#define MAX_HEAD_DIM 256 /* maximum elements per head */

typedef struct {
  hp_i64 heads, key_heads, queries, keys, dim, value_dim, causal;
  /* strides of batch, head and row; the mask's also of column */
  hp_i64 query[3], key[3], value[3], out[3], mask[4];
} attention_shape;

typedef struct {
  hp_i64 grad[3], out[3], grad_key[3], grad_value[3];
} attention_gradients;

typedef struct {
  hp_i64 below; /* in units of 1/65536 */
  double factor;
} attention_dropout;

/* Random bits of key `e` of the 8 keys that share a block. */
#define DROP_BITS(block, e) ((block).w[(e) / 2] >> 16 * ((e) % 2) & 0xffffu)
#define DROP_BLOCKS ((g.keys + 7) / 8)

#if HP_LSIZE == 1
/* ---- CPU: blocks of queries and keys, multiplied in register tiles. ---------------------------------------------- */

/* Not inlined: inlining every use would make compilation slow. */
#define NOINLINE static __attribute__((noinline, unused))

#define KEY_BLOCK 64    /* keys per block */
#define QUERY_BLOCK 192 /* queries per work-group, in the forward pass */
#define QUERY_TILE 48   /* queries processed together */
#define TILE_ROWS 6     /* rows per tile */
#define TILE_VECTORS 4  /* vectors per tile row */
#define PAD(n) (((n) + HP_LANES - 1) / HP_LANES * HP_LANES)
#define SLACK 16 /* elements that tiles may read past a block */

/* c = a b, or c += a b with `keep`: 6 rows by `across` vectors. `a` may have any strides, rows of `b` are contiguous.
 * Enables fused multiply-add, since nothing depends on the intermediate rounding. */
#define DEFINE_TILE(name, across)                                                                                    \
  NOINLINE __attribute__((optimize("fp-contract=fast"))) void name(T_a* c, hp_i64 c_row, const T_a* a, hp_i64 a_row, \
                                                                   hp_i64 a_step, const T_a* b, hp_i64 b_step,       \
                                                                   hp_i64 depth, int keep) {                         \
    hp_vector sum[TILE_ROWS][across];                                                                                \
    for (int r = 0; r < TILE_ROWS; ++r) {                                                                            \
      for (int v = 0; v < across; ++v) {                                                                             \
        sum[r][v] = keep ? *(const hp_vector*)(c + r * c_row + v * HP_LANES) : (hp_vector){0};                       \
      }                                                                                                              \
    }                                                                                                                \
    for (hp_i64 k = 0; k < depth; ++k) {                                                                             \
      hp_vector across_b[across];                                                                                    \
      for (int v = 0; v < across; ++v) across_b[v] = *(const hp_vector*)(b + k * b_step + v * HP_LANES);             \
      for (int r = 0; r < TILE_ROWS; ++r) {                                                                          \
        const T_a x = a[r * a_row + k * a_step];                                                                     \
        for (int v = 0; v < across; ++v) sum[r][v] += x * across_b[v];                                               \
      }                                                                                                              \
    }                                                                                                                \
    for (int r = 0; r < TILE_ROWS; ++r) {                                                                            \
      for (int v = 0; v < across; ++v) *(hp_vector*)(c + r * c_row + v * HP_LANES) = sum[r][v];                      \
    }                                                                                                                \
  }
DEFINE_TILE(wide_tile, TILE_VECTORS)
DEFINE_TILE(narrow_tile, 1)

/* Matrix product of any size. Rows are rounded up to a multiple of TILE_ROWS, columns to a multiple of HP_LANES. */
NOINLINE void multiply(T_a* c, hp_i64 c_row, const T_a* a, hp_i64 a_row, hp_i64 a_step, const T_a* b, hp_i64 b_step,
                       hp_i64 rows, hp_i64 columns, hp_i64 depth, int keep) {
  for (hp_i64 r = 0; r < rows; r += TILE_ROWS) {
    hp_i64 j = 0;
    for (; j + TILE_VECTORS * HP_LANES <= columns; j += TILE_VECTORS * HP_LANES) {
      wide_tile(c + r * c_row + j, c_row, a + r * a_row, a_row, a_step, b + j, b_step, depth, keep);
    }
    for (; j < columns; j += HP_LANES) {
      narrow_tile(c + r * c_row + j, c_row, a + r * a_row, a_row, a_step, b + j, b_step, depth, keep);
    }
  }
}

/* Copies `rows` rows of n elements as T_a, zero-padded to `across` columns and `all` rows. */
NOINLINE void pack(T_a* to, const T* from, hp_i64 row, hp_i64 rows, hp_i64 n, hp_i64 across, hp_i64 all) {
  for (hp_i64 r = 0; r < all; ++r) {
    const hp_i64 there = r < rows ? n : 0;
    HP_VECTORIZE
    for (hp_i64 j = 0; j < there; ++j) to[r * across + j] = T_get(from[r * row + j]);
    for (hp_i64 j = there; j < across; ++j) to[r * across + j] = 0;
  }
}

/* Transposes a block of keys; missing keys become columns of zeros. */
NOINLINE void pack_transposed(T_a* to, const T* from, hp_i64 row, hp_i64 rows, hp_i64 n) {
  T_a some[16 * MAX_HEAD_DIM];
  for (hp_i64 r = 0; r < KEY_BLOCK; r += 16) {
    pack(some, from + (r < rows ? r : 0) * row, row, r < rows ? rows - r : 0, n, n, 16);
    for (hp_i64 j = 0; j < n; ++j) {
      for (hp_i64 i = 0; i < 16; ++i) to[j * KEY_BLOCK + r + i] = some[i * n + j];
    }
  }
}

/* Scales and masks the scores of `rows` queries from `first` on against the block of keys at `key`. */
NOINLINE void mask_scores(T_a* scores, const T* mask, const attention_shape* g, hp_i64 first, hp_i64 rows, hp_i64 key,
                          hp_i64 keys, T_a scale) {
  for (hp_i64 r = 0; r < rows; ++r) {
    T_a* const s = scores + r * KEY_BLOCK;
    for (hp_i64 j = 0; j < KEY_BLOCK; ++j) s[j] *= scale;
#if MASKED
    const T* const m = mask + (first + r) * g->mask[2] + key * g->mask[3];
    for (hp_i64 j = 0; j < keys; ++j) s[j] += T_get(m[j * g->mask[3]]);
#endif
    hp_i64 end = keys;
    if (g->causal && first + r - key + 1 < end) end = first + r - key + 1 < 0 ? 0 : first + r - key + 1;
    for (hp_i64 j = end; j < KEY_BLOCK; ++j) s[j] = -HP_INFINITY;
  }
}

/* Dropout factors of a block of keys; `first` is the generator block of its first key. */
NOINLINE void draw_factors(T_a* factors, hp_u64 seed, hp_u64 first, const attention_dropout* dropping) {
  hp_u32 words[4][KEY_BLOCK / 8];
  HP_VECTORIZE
  for (int b = 0; b < KEY_BLOCK / 8; ++b) {
    const random_block drawn = random_at(seed, first, (hp_u32)b);
    for (int k = 0; k < 4; ++k) words[k][b] = drawn.w[k];
  }
  const hp_u32 below = (hp_u32)dropping->below;
  const T_a factor = (T_a)dropping->factor;
  for (int b = 0; b < KEY_BLOCK / 8; ++b) {
    for (int e = 0; e < 8; ++e) {
      factors[b * 8 + e] = (words[e / 2][b] >> 16 * (e % 2) & 0xffffu) < below ? (T_a)0 : factor;
    }
  }
}
#else
HP_FN T_a drop_factor(hp_u64 seed, hp_u64 first, hp_i64 key, attention_dropout dropping) {
  const random_block drawn = random_at(seed, first, (hp_u32)(key / 8));
  return DROP_BITS(drawn, key % 8) < (hp_u32)dropping.below ? (T_a)0 : (T_a)dropping.factor;
}
#endif

HP_KERNEL(forward)(HP_GLOBAL T* out, HP_GLOBAL T_a* lse, HP_GLOBAL const T* query, HP_GLOBAL const T* key,
                   HP_GLOBAL const T* value, HP_GLOBAL const T* mask, attention_shape g, T_a scale, hp_i64 seed,
                   hp_i64 start, attention_dropout dropping) {
#if HP_LSIZE == 1
  const hp_i64 blocks = (g.queries + QUERY_BLOCK - 1) / QUERY_BLOCK, block = hp_group % blocks;
  const hp_i64 head = hp_group / blocks % g.heads, batch = hp_group / blocks / g.heads;
  const hp_i64 key_head = head / (g.heads / g.key_heads), first = block * QUERY_BLOCK;
  const hp_i64 rows = g.queries - first < QUERY_BLOCK ? g.queries - first : QUERY_BLOCK;
  const hp_i64 across = PAD(g.dim), value_across = PAD(g.value_dim);
  const T* const k_head = key + batch * g.key[0] + key_head * g.key[1];
  const T* const v_head = value + batch * g.value[0] + key_head * g.value[1];
  const T* const m_head = MASKED ? mask + batch * g.mask[0] + head * g.mask[1] : mask;
  T_a q[QUERY_BLOCK * MAX_HEAD_DIM], sums[QUERY_BLOCK * MAX_HEAD_DIM], kt[MAX_HEAD_DIM * KEY_BLOCK],
      v_block[KEY_BLOCK * MAX_HEAD_DIM], scores[QUERY_TILE * KEY_BLOCK + SLACK];
  T_a largest[QUERY_BLOCK], total[QUERY_BLOCK];
  pack(q, query + batch * g.query[0] + head * g.query[1] + first * g.query[2], g.query[2], rows, g.dim, across,
       (rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS);
  for (hp_i64 r = 0; r < (rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS; ++r) {
    for (hp_i64 j = 0; j < value_across; ++j) sums[r * value_across + j] = 0;
  }
  for (hp_i64 r = 0; r < rows; ++r) {
    largest[r] = -HP_INFINITY;
    total[r] = 0;
  }
  const hp_i64 last = g.causal && first + rows < g.keys ? first + rows : g.keys;
  for (hp_i64 at = 0; at < last; at += KEY_BLOCK) {
    const hp_i64 keys = g.keys - at < KEY_BLOCK ? g.keys - at : KEY_BLOCK;
    pack_transposed(kt, k_head + at * g.key[2], g.key[2], keys, g.dim);
    pack(v_block, v_head + at * g.value[2], g.value[2], keys, g.value_dim, value_across, keys);
    for (hp_i64 r = 0; r < rows; r += QUERY_TILE) {
      const hp_i64 some = rows - r < QUERY_TILE ? rows - r : QUERY_TILE;
      if (g.causal && first + r + some <= at) continue;
      multiply(scores, KEY_BLOCK, q + r * across, across, 1, kt, KEY_BLOCK, some, KEY_BLOCK, g.dim, 0);
      mask_scores(scores, m_head, &g, first + r, some, at, keys, scale);
      for (hp_i64 i = 0; i < some; ++i) {
        T_a* const s = scores + i * KEY_BLOCK;
        T_a* const o = sums + (r + i) * value_across;
        const T_a before = largest[r + i], now = hp_max(s, KEY_BLOCK, before);
        /* No unmasked key yet: the difference would be NaN. */
        const T_a shift = now == -HP_INFINITY ? 0 : now, shrink = T_M(exp)(before - shift);
        HP_VECTORIZE
        for (hp_i64 j = 0; j < KEY_BLOCK; ++j) s[j] = T_M(exp)(s[j] - shift);
        largest[r + i] = now;
        total[r + i] = total[r + i] * shrink + hp_sum(s, KEY_BLOCK);
        if (shrink != 1) {
          for (hp_i64 j = 0; j < value_across; ++j) o[j] *= shrink;
        }
#if DROPS
        T_a factors[KEY_BLOCK];
        const hp_i64 query_row = (batch * g.heads + head) * g.queries + first + r + i;
        draw_factors(factors, (hp_u64)seed, (hp_u64)(start + query_row * DROP_BLOCKS + at / 8), &dropping);
        for (hp_i64 j = 0; j < KEY_BLOCK; ++j) s[j] *= factors[j];
#endif
      }
      multiply(sums + r * value_across, value_across, scores, KEY_BLOCK, 1, v_block, value_across, some, value_across,
               keys, 1);
    }
  }
  for (hp_i64 r = 0; r < rows; ++r) {
    T* const to = out + batch * g.out[0] + head * g.out[1] + (first + r) * g.out[2];
    const T_a inverse = total[r] == 0 ? 0 : (T_a)1 / total[r];
    HP_VECTORIZE
    for (hp_i64 j = 0; j < g.value_dim; ++j) to[j] = T_put(sums[r * value_across + j] * inverse);
    lse[(batch * g.heads + head) * g.queries + first + r] = largest[r] + T_M(log)(total[r]);
  }
#else
  /* One work-group per query. Each work-item scores one key at a time, then accumulates its elements of the value. The
   * barrier at the end of the loop protects `weights`, which all work-items read. */
  const hp_i64 row = hp_group % g.queries, head = hp_group / g.queries % g.heads;
  const hp_i64 batch = hp_group / g.queries / g.heads, key_head = head / (g.heads / g.key_heads);
  HP_GLOBAL const T* const q = query + batch * g.query[0] + head * g.query[1] + row * g.query[2];
  HP_GLOBAL const T* const k_head = key + batch * g.key[0] + key_head * g.key[1];
  HP_GLOBAL const T* const v_head = value + batch * g.value[0] + key_head * g.value[1];
  HP_LOCAL T_a scratch[HP_LSIZE];
  HP_LOCAL T_a weights[HP_LSIZE];
  T_a own[(MAX_HEAD_DIM + HP_LSIZE - 1) / HP_LSIZE];
  for (int t = 0; t < (MAX_HEAD_DIM + HP_LSIZE - 1) / HP_LSIZE; ++t) own[t] = 0;
  T_a largest = -HP_INFINITY, total = 0;
  const hp_i64 last = g.causal && row + 1 < g.keys ? row + 1 : g.keys;
  for (hp_i64 at = 0; at < last; at += HP_LSIZE) {
    const hp_i64 j = at + hp_lid;
    T_a score = -HP_INFINITY;
    if (j < last) {
      score = 0;
      for (hp_i64 d = 0; d < g.dim; ++d) score += T_get(q[d]) * T_get(k_head[j * g.key[2] + d]);
      score *= scale;
#if MASKED
      score += T_get(mask[batch * g.mask[0] + head * g.mask[1] + row * g.mask[2] + j * g.mask[3]]);
#endif
    }
    T_a now = score > largest ? score : largest;
    HP_GROUP_MAX(scratch, now);
    const T_a shift = now == -HP_INFINITY ? 0 : now, shrink = T_M(exp)(largest - shift);
    const T_a weight = T_M(exp)(score - shift);
    T_a part = weight;
#if DROPS
    weights[hp_lid] = weight * drop_factor((hp_u64)seed, (hp_u64)(start + hp_group * DROP_BLOCKS), j, dropping);
#else
    weights[hp_lid] = weight;
#endif
    HP_GROUP_SUM(scratch, part);
    total = total * shrink + part;
    largest = now;
    const hp_i64 count = last - at < HP_LSIZE ? last - at : HP_LSIZE;
    for (int t = 0; t < (MAX_HEAD_DIM + HP_LSIZE - 1) / HP_LSIZE; ++t) {
      const hp_i64 d = t * HP_LSIZE + hp_lid;
      if (d >= g.value_dim) continue;
      T_a sum = own[t] * shrink;
      for (hp_i64 i = 0; i < count; ++i) sum += weights[i] * T_get(v_head[(at + i) * g.value[2] + d]);
      own[t] = sum;
    }
    hp_barrier();
  }
  const T_a inverse = total == 0 ? 0 : (T_a)1 / total;
  for (int t = 0; t < (MAX_HEAD_DIM + HP_LSIZE - 1) / HP_LSIZE; ++t) {
    const hp_i64 d = t * HP_LSIZE + hp_lid;
    if (d < g.value_dim) {
      out[batch * g.out[0] + head * g.out[1] + row * g.out[2] + d] = T_put(own[t] * inverse);
    }
  }
  if (hp_lid == 0) lse[hp_group] = largest + T_M(log)(total);
#endif
}

/* Sum of grad * out for each query: the term that softmax's gradient subtracts. */
HP_KERNEL(delta)(HP_GLOBAL T_a* delta, HP_GLOBAL const T* grad, HP_GLOBAL const T* out, attention_shape g,
                 attention_gradients s, hp_i64 rows) {
  HP_FOR_ELEMENTS(i, rows) {
    const hp_i64 row = i % g.queries, head = i / g.queries % g.heads, batch = i / g.queries / g.heads;
    HP_GLOBAL const T* const a = grad + batch * s.grad[0] + head * s.grad[1] + row * s.grad[2];
    HP_GLOBAL const T* const b = out + batch * s.out[0] + head * s.out[1] + row * s.out[2];
    T_a sum = 0;
    for (hp_i64 d = 0; d < g.value_dim; ++d) sum += T_get(a[d]) * T_get(b[d]);
    delta[i] = sum;
  }
}

#if HP_LSIZE == 1
/* One work-group per key head, including all query heads that share it. grad_query is contiguous, in T_a. */
HP_KERNEL(backward)(HP_GLOBAL T_a* grad_query, HP_GLOBAL T* grad_key, HP_GLOBAL T* grad_value, HP_GLOBAL const T* grad,
                    HP_GLOBAL const T* query, HP_GLOBAL const T* key, HP_GLOBAL const T* value, HP_GLOBAL const T* mask,
                    HP_GLOBAL const T_a* lse, HP_GLOBAL const T_a* delta, attention_shape g, attention_gradients s,
                    T_a scale, hp_i64 seed, hp_i64 start, attention_dropout dropping) {
  const hp_i64 key_head = hp_group % g.key_heads, batch = hp_group / g.key_heads, share = g.heads / g.key_heads;
  const hp_i64 across = PAD(g.dim), value_across = PAD(g.value_dim);
  T_a kt[MAX_HEAD_DIM * KEY_BLOCK], vt[MAX_HEAD_DIM * KEY_BLOCK], k_block[KEY_BLOCK * MAX_HEAD_DIM],
      dk[(KEY_BLOCK + TILE_ROWS) * MAX_HEAD_DIM], dv[(KEY_BLOCK + TILE_ROWS) * MAX_HEAD_DIM];
  T_a q[QUERY_TILE * MAX_HEAD_DIM], go[QUERY_TILE * MAX_HEAD_DIM], dq[QUERY_TILE * MAX_HEAD_DIM],
      p[QUERY_TILE * KEY_BLOCK + SLACK], ds[QUERY_TILE * KEY_BLOCK + SLACK];
  for (hp_i64 at = 0; at < g.keys; at += KEY_BLOCK) {
    const hp_i64 keys = g.keys - at < KEY_BLOCK ? g.keys - at : KEY_BLOCK;
    const T* const k_from = key + batch * g.key[0] + key_head * g.key[1] + at * g.key[2];
    const T* const v_from = value + batch * g.value[0] + key_head * g.value[1] + at * g.value[2];
    pack_transposed(kt, k_from, g.key[2], keys, g.dim);
    pack_transposed(vt, v_from, g.value[2], keys, g.value_dim);
    pack(k_block, k_from, g.key[2], keys, g.dim, across, keys);
    for (hp_i64 j = 0; j < (KEY_BLOCK + TILE_ROWS) * across; ++j) dk[j] = 0;
    for (hp_i64 j = 0; j < (KEY_BLOCK + TILE_ROWS) * value_across; ++j) dv[j] = 0;
    for (hp_i64 head = key_head * share; head < (key_head + 1) * share; ++head) {
      const hp_i64 before = (batch * g.heads + head) * g.queries;
      const T* const m_head = MASKED ? mask + batch * g.mask[0] + head * g.mask[1] : mask;
      for (hp_i64 first = 0; first < g.queries; first += QUERY_TILE) {
        const hp_i64 rows = g.queries - first < QUERY_TILE ? g.queries - first : QUERY_TILE;
        if (g.causal && first + rows <= at) continue;
        pack(q, query + batch * g.query[0] + head * g.query[1] + first * g.query[2], g.query[2], rows, g.dim, across,
             QUERY_TILE);
        pack(go, grad + batch * s.grad[0] + head * s.grad[1] + first * s.grad[2], s.grad[2], rows, g.value_dim,
             value_across, QUERY_TILE);
        multiply(p, KEY_BLOCK, q, across, 1, kt, KEY_BLOCK, rows, KEY_BLOCK, g.dim, 0);
        multiply(ds, KEY_BLOCK, go, value_across, 1, vt, KEY_BLOCK, rows, KEY_BLOCK, g.value_dim, 0);
        mask_scores(p, m_head, &g, first, rows, at, keys, scale);
        for (hp_i64 r = 0; r < rows; ++r) {
          const T_a level = lse[before + first + r], less = delta[before + first + r];
          const T_a shift = level == -HP_INFINITY ? HP_INFINITY : level;
          T_a *const a = p + r * KEY_BLOCK, *const b = ds + r * KEY_BLOCK;
#if DROPS
          T_a factors[KEY_BLOCK];
          draw_factors(factors, (hp_u64)seed, (hp_u64)(start + (before + first + r) * DROP_BLOCKS + at / 8), &dropping);
#endif
          HP_VECTORIZE
          for (hp_i64 j = 0; j < KEY_BLOCK; ++j) {
            a[j] = T_M(exp)(a[j] - shift);
#if DROPS
            b[j] = a[j] * (b[j] * factors[j] - less) * scale;
            a[j] *= factors[j];
#else
            b[j] = a[j] * (b[j] - less) * scale;
#endif
          }
        }
        multiply(dv, value_across, p, 1, KEY_BLOCK, go, value_across, keys, value_across, rows, 1);
        multiply(dk, across, ds, 1, KEY_BLOCK, q, across, keys, across, rows, 1);
        multiply(dq, across, ds, KEY_BLOCK, 1, k_block, across, rows, across, keys, 0);
        for (hp_i64 r = 0; r < rows; ++r) {
          T_a* const to = grad_query + (before + first + r) * g.dim;
          HP_VECTORIZE
          for (hp_i64 j = 0; j < g.dim; ++j) to[j] = at == 0 ? dq[r * across + j] : to[j] + dq[r * across + j];
        }
      }
    }
    for (hp_i64 r = 0; r < keys; ++r) {
      T* const to_key = grad_key + batch * s.grad_key[0] + key_head * s.grad_key[1] + (at + r) * s.grad_key[2];
      T* const to_value =
          grad_value + batch * s.grad_value[0] + key_head * s.grad_value[1] + (at + r) * s.grad_value[2];
      for (hp_i64 j = 0; j < g.dim; ++j) to_key[j] = T_put(dk[r * across + j]);
      for (hp_i64 j = 0; j < g.value_dim; ++j) to_value[j] = T_put(dv[r * value_across + j]);
    }
  }
}
#endif

/* ---- Work-groups of many work-items: first the gradients of the queries, then those of keys and values. ---------- */

#define ELEMENTS_PER_ITEM (MAX_HEAD_DIM + HP_LSIZE - 1) / HP_LSIZE

/* Of a query and a key: weight = exp(score - lse) after dropout, slope = gradient of the score. */
#if MASKED
#define MASK_AT(b, h, i, j) T_get(mask[(b) * g.mask[0] + (h) * g.mask[1] + (i) * g.mask[2] + (j) * g.mask[3]])
#else
#define MASK_AT(b, h, i, j) ((T_a)0)
#endif
#if DROPS
#define DROP_FACTOR(row, j) drop_factor((hp_u64)seed, (hp_u64)(start + (row) * DROP_BLOCKS), j, dropping)
#else
#define DROP_FACTOR(row, j) ((T_a)1)
#endif
#define PAIR_WEIGHT(weight, slope, b, h, kh, i, j)                                                    \
  do {                                                                                                \
    HP_GLOBAL const T* const q_ = query + (b) * g.query[0] + (h) * g.query[1] + (i) * g.query[2];     \
    HP_GLOBAL const T* const k_ = key + (b) * g.key[0] + (kh) * g.key[1] + (j) * g.key[2];            \
    HP_GLOBAL const T* const v_ = value + (b) * g.value[0] + (kh) * g.value[1] + (j) * g.value[2];    \
    HP_GLOBAL const T* const g_ = grad + (b) * s.grad[0] + (h) * s.grad[1] + (i) * s.grad[2];         \
    const T_a level_ = lse[((b) * g.heads + (h)) * g.queries + (i)];                                  \
    T_a score_ = 0, along_ = 0;                                                                       \
    for (hp_i64 d = 0; d < g.dim; ++d) score_ += T_get(q_[d]) * T_get(k_[d]);                         \
    for (hp_i64 d = 0; d < g.value_dim; ++d) along_ += T_get(g_[d]) * T_get(v_[d]);                   \
    score_ = score_ * scale + MASK_AT(b, h, i, j);                                                    \
    (weight) = level_ == -HP_INFINITY ? (T_a)0 : T_M(exp)(score_ - level_);                           \
    const T_a factor_ = DROP_FACTOR(((b) * g.heads + (h)) * g.queries + (i), j);                      \
    (slope) = (weight) * (along_ * factor_ - delta[((b) * g.heads + (h)) * g.queries + (i)]) * scale; \
    (weight) *= factor_;                                                                              \
  } while (0)

HP_KERNEL(backward_queries)(HP_GLOBAL T_a* grad_query, HP_GLOBAL const T* grad, HP_GLOBAL const T* query,
                            HP_GLOBAL const T* key, HP_GLOBAL const T* value, HP_GLOBAL const T* mask,
                            HP_GLOBAL const T_a* lse, HP_GLOBAL const T_a* delta, attention_shape g,
                            attention_gradients s, T_a scale, hp_i64 seed, hp_i64 start, attention_dropout dropping) {
  const hp_i64 row = hp_group % g.queries, head = hp_group / g.queries % g.heads;
  const hp_i64 batch = hp_group / g.queries / g.heads, key_head = head / (g.heads / g.key_heads);
  HP_LOCAL T_a slopes[HP_LSIZE];
  T_a own[ELEMENTS_PER_ITEM];
  for (int t = 0; t < ELEMENTS_PER_ITEM; ++t) own[t] = 0;
  const hp_i64 last = g.causal && row + 1 < g.keys ? row + 1 : g.keys;
  for (hp_i64 at = 0; at < last; at += HP_LSIZE) {
    T_a weight = 0, slope = 0;
    if (at + hp_lid < last) PAIR_WEIGHT(weight, slope, batch, head, key_head, row, at + hp_lid);
    slopes[hp_lid] = slope;
    hp_barrier();
    const hp_i64 count = last - at < HP_LSIZE ? last - at : HP_LSIZE;
    for (int t = 0; t < ELEMENTS_PER_ITEM; ++t) {
      const hp_i64 d = t * HP_LSIZE + hp_lid;
      if (d >= g.dim) continue;
      HP_GLOBAL const T* const k = key + batch * g.key[0] + key_head * g.key[1] + at * g.key[2] + d;
      for (hp_i64 i = 0; i < count; ++i) own[t] += slopes[i] * T_get(k[i * g.key[2]]);
    }
    hp_barrier();
  }
  for (int t = 0; t < ELEMENTS_PER_ITEM; ++t) {
    const hp_i64 d = t * HP_LSIZE + hp_lid;
    if (d < g.dim) grad_query[hp_group * g.dim + d] = own[t];
  }
}

HP_KERNEL(backward_keys)(HP_GLOBAL T* grad_key, HP_GLOBAL T* grad_value, HP_GLOBAL const T* grad,
                         HP_GLOBAL const T* query, HP_GLOBAL const T* key, HP_GLOBAL const T* value,
                         HP_GLOBAL const T* mask, HP_GLOBAL const T_a* lse, HP_GLOBAL const T_a* delta,
                         attention_shape g, attention_gradients s, T_a scale, hp_i64 seed, hp_i64 start,
                         attention_dropout dropping) {
  const hp_i64 row = hp_group % g.keys, key_head = hp_group / g.keys % g.key_heads;
  const hp_i64 batch = hp_group / g.keys / g.key_heads, share = g.heads / g.key_heads;
  HP_LOCAL T_a weights[HP_LSIZE];
  HP_LOCAL T_a slopes[HP_LSIZE];
  T_a dk[ELEMENTS_PER_ITEM], dv[ELEMENTS_PER_ITEM];
  for (int t = 0; t < ELEMENTS_PER_ITEM; ++t) dk[t] = dv[t] = 0;
  for (hp_i64 head = key_head * share; head < (key_head + 1) * share; ++head) {
    for (hp_i64 at = g.causal ? row : 0; at < g.queries; at += HP_LSIZE) {
      T_a weight = 0, slope = 0;
      if (at + hp_lid < g.queries) PAIR_WEIGHT(weight, slope, batch, head, key_head, at + hp_lid, row);
      weights[hp_lid] = weight;
      slopes[hp_lid] = slope;
      hp_barrier();
      const hp_i64 count = g.queries - at < HP_LSIZE ? g.queries - at : HP_LSIZE;
      for (int t = 0; t < ELEMENTS_PER_ITEM; ++t) {
        const hp_i64 d = t * HP_LSIZE + hp_lid;
        HP_GLOBAL const T* const q = query + batch * g.query[0] + head * g.query[1] + at * g.query[2] + d;
        HP_GLOBAL const T* const go = grad + batch * s.grad[0] + head * s.grad[1] + at * s.grad[2] + d;
        for (hp_i64 i = 0; i < count && d < g.dim; ++i) dk[t] += slopes[i] * T_get(q[i * g.query[2]]);
        for (hp_i64 i = 0; i < count && d < g.value_dim; ++i) dv[t] += weights[i] * T_get(go[i * s.grad[2]]);
      }
      hp_barrier();
    }
  }
  for (int t = 0; t < ELEMENTS_PER_ITEM; ++t) {
    const hp_i64 d = t * HP_LSIZE + hp_lid;
    if (d < g.dim) {
      grad_key[batch * s.grad_key[0] + key_head * s.grad_key[1] + row * s.grad_key[2] + d] = T_put(dk[t]);
    }
    if (d < g.value_dim) {
      grad_value[batch * s.grad_value[0] + key_head * s.grad_value[1] + row * s.grad_value[2] + d] = T_put(dv[t]);
    }
  }
}
