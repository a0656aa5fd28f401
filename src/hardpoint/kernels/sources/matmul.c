/* Matrix products: out = alpha * a @ b + beta * self, for one matrix or a batch, with any strides. T: elements of a and
 * b, R: elements of out and self. Accumulates in float or wider and rounds once. */
#include "cpu_vectors.h"

/* Strides count elements: batch, row, column. The output is computed in blocks of `rows` x `columns`; a work-group
 * computes `per_group` blocks. */
typedef struct {
  hp_i64 m, n, k, rows, columns, row_blocks, column_blocks, batch, per_group, with_self;
  hp_i64 out[3], a[3], b[3], self[3];
} matmul_geometry;

HP_FN void matmul_store(HP_GLOBAL R* out, HP_GLOBAL const R* self, S sum, R_a alpha, R_a beta, int with_self) {
  R_a value = (R_a)alpha * (R_a)sum;
  if (with_self) value += beta * (R_a)R_get(*self);
  *out = R_put(value);
}

#ifdef HP_VECTORS
/* Depth of the panels that are packed at a time, and the largest block. */
#define DEPTH 256
#define MAX_ROWS 144
#define MAX_COLUMNS 512
#define STRIP ((int)(1024 / sizeof(S)))

#define MAX_DOTS 8

#ifdef HP_TRANSPOSE
/* As pack, for rows that are contiguous along the depth: transposes 16 x 16 elements at a time. If `height` is less
 * than 16, vectors overwrite the start of the next column, which is stored later. Returns the depth that was packed. */
HP_FN hp_i64 pack_transposed(S* to, const T* from, hp_i64 across, hp_i64 depth, int live, int height) {
  hp_i64 p = 0;
  for (; p + 16 <= depth; p += 16) {
    for (int r = 0; r < live; r += 16) {
      vs v[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) v[i] = r + i < live ? load_elements(from + (r + i) * across + p) : (vs){0};
      transpose(v);
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) store_sums(to + (p + i) * height + r, v[i]);
    }
  }
  return p;
}
#endif

/* to[p][r] = from[r * across + p * along] for `live` rows, zeros up to `height`. `to` has room for 16 more elements. */
static void pack(S* to, const T* from, hp_i64 along, hp_i64 across, hp_i64 depth, int live, int height) {
  if (live < height) {
    for (hp_i64 i = 0; i < depth * height; ++i) to[i] = 0;
  }
  if (across == 1) {
    for (hp_i64 p = 0; p < depth; ++p, from += along, to += height) {
      int r = 0;
      for (; r + LANES <= live; r += LANES) store_sums(to + r, load_elements(from + r));
      for (; r < live; ++r) to[r] = (S)T_get(from[r]);
    }
    return;
  }
  hp_i64 done = 0;
#ifdef HP_TRANSPOSE
  if (along == 1) {
    done = pack_transposed(to, from, across, depth, live, height);
    /* The last vector has overwritten elements after the packed part. */
    if (done < depth && live < height) {
      for (hp_i64 i = done * height; i < depth * height; ++i) to[i] = 0;
    }
  }
#endif
  for (int r = 0; r < live; ++r, from += across) {
    for (hp_i64 p = done; p < depth; ++p) to[p * height + r] = (S)T_get(from[p * along]);
  }
}

/* sums[rows][TILE_COLUMNS] (+)= a[depth][rows] * b[depth][...]; rows of b are `step` apart. */
HP_FN void tile(const int rows, hp_i64 depth, const S* a, const S* b, hp_i64 step, S* sums, hp_i64 stride, int first) {
  vs sum[TILE_ROWS][2];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) sum[i][0] = sum[i][1] = (vs){0};
  for (hp_i64 p = 0; p < depth; ++p, a += rows, b += step) {
    const vs b0 = load_sums(b), b1 = load_sums(b + LANES);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      sum[i][0] += b0 * a[i];
      sum[i][1] += b1 * a[i];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    S* const row = sums + i * stride;
    store_sums(row, first ? sum[i][0] : sum[i][0] + load_sums(row));
    store_sums(row + LANES, first ? sum[i][1] : sum[i][1] + load_sums(row + LANES));
  }
}

HP_FN int panel_height(hp_i64 rows) { return rows >= TILE_ROWS ? TILE_ROWS : (int)((rows + 3) / 4 * 4); }

static __attribute__((noinline)) void run_tile(int height, hp_i64 depth, const S* a, const S* b, hp_i64 step, S* sums,
                                               hp_i64 stride, int first) {
  if (height == 4) tile(4, depth, a, b, step, sums, stride, first);
#if TILE_ROWS > 4
  if (height == 8) tile(8, depth, a, b, step, sums, stride, first);
#endif
#if TILE_ROWS > 8
  if (height == 12) tile(12, depth, a, b, step, sums, stride, first);
#endif
}

static void finish(HP_GLOBAL R* out, HP_GLOBAL const R* self, const S* sums, hp_i64 stride, hp_i64 rows, hp_i64 columns,
                   R_a alpha, R_a beta, const matmul_geometry* g) {
  for (hp_i64 i = 0; i < rows; ++i, sums += stride) {
    HP_GLOBAL R* const to = out + i * g->out[1];
    HP_GLOBAL const R* const more = self + i * g->self[1];
    const hp_i64 step = g->out[2], with = g->self[2];
    if (!g->with_self && step == 1) {
      HP_VECTORIZE
      for (hp_i64 j = 0; j < columns; ++j) matmul_store(to + j, more, sums[j], alpha, beta, 0);
    } else if (step == 1 && with == 1) {
      HP_VECTORIZE
      for (hp_i64 j = 0; j < columns; ++j) matmul_store(to + j, more + j, sums[j], alpha, beta, 1);
    } else {
      for (hp_i64 j = 0; j < columns; ++j)
        matmul_store(to + j * step, more + j * with, sums[j], alpha, beta, (int)g->with_self);
    }
  }
}

/* sums[rows][columns] = dot products of rows of a and columns of b, both contiguous along the depth. */
HP_FN void dots(const int rows, const int columns, hp_i64 depth, const T* a, hp_i64 a_step, const T* b, hp_i64 b_step,
                S* sums, hp_i64 stride) {
  vs sum[4][4];
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) sum[i][j] = (vs){0};
  hp_i64 p = 0;
  for (; p + LANES <= depth; p += LANES) {
    vs left[4];
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) left[i] = load_elements(a + i * a_step + p);
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) {
      const vs right = load_elements(b + j * b_step + p);
#pragma GCC unroll 4
      for (int i = 0; i < rows; ++i) sum[i][j] += left[i] * right;
    }
  }
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      S rest = 0;
      for (hp_i64 q = p; q < depth; ++q) rest += (S)T_get(a[i * a_step + q]) * (S)T_get(b[j * b_step + q]);
      sums[i * stride + j] = total(sum[i][j]) + rest;
    }
  }
}

static __attribute__((noinline)) void run_dots(int rows, int columns, hp_i64 depth, const T* a, hp_i64 a_step,
                                               const T* b, hp_i64 b_step, S* sums, hp_i64 stride) {
  for (; columns < 4 && columns > 0; --columns, b += b_step, ++sums) {
    for (int i = 0; i < rows; ++i) dots(1, 1, depth, a + i * a_step, a_step, b, b_step, sums + i * stride, stride);
  }
  if (columns == 0) return;
  if (rows == 4) dots(4, 4, depth, a, a_step, b, b_step, sums, stride);
  if (rows == 3) dots(3, 4, depth, a, a_step, b, b_step, sums, stride);
  if (rows == 2) dots(2, 4, depth, a, a_step, b, b_step, sums, stride);
  if (rows == 1) dots(1, 4, depth, a, a_step, b, b_step, sums, stride);
}

/* For few rows: no packing, since reading b from memory is the bottleneck. */
static void block_of_dots(HP_GLOBAL R* out, HP_GLOBAL const T* a, HP_GLOBAL const T* b, HP_GLOBAL const R* self,
                          hp_i64 rows, hp_i64 columns, R_a alpha, R_a beta, const matmul_geometry* g) {
  S sums[MAX_DOTS * MAX_COLUMNS];
  for (hp_i64 j = 0; j < columns; j += 4) {
    for (hp_i64 i = 0; i < rows; i += 4)
      run_dots((int)(rows - i < 4 ? rows - i : 4), (int)(columns - j < 4 ? columns - j : 4), g->k, a + i * g->a[1],
               g->a[1], b + j * g->b[2], g->b[2], sums + i * columns + j, columns);
  }
  finish(out, self, sums, columns, rows, columns, alpha, beta, g);
}

/* The same for one row and a b with contiguous rows. */
static void row_of_sums(HP_GLOBAL R* out, HP_GLOBAL const T* a, HP_GLOBAL const T* b, HP_GLOBAL const R* self,
                        hp_i64 columns, R_a alpha, R_a beta, const matmul_geometry* g) {
  enum { STEP = 8 };
  S sums[MAX_COLUMNS];
  for (hp_i64 j = 0; j < columns; ++j) sums[j] = 0;
  for (hp_i64 p = 0; p < g->k; p += STEP) {
    S factor[STEP];
    const T* row[STEP];
    for (int u = 0; u < STEP; ++u) {
      const hp_i64 at = p + u < g->k ? p + u : p;
      factor[u] = p + u < g->k ? (S)T_get(a[at * g->a[2]]) : (S)0;
      row[u] = b + at * g->b[1];
    }
    hp_i64 j = 0;
    for (; j + LANES <= columns; j += LANES) {
      vs sum = load_sums(sums + j);
#pragma GCC unroll 8
      for (int u = 0; u < STEP; ++u) sum += load_elements(row[u] + j) * factor[u];
      store_sums(sums + j, sum);
    }
    for (; j < columns; ++j) {
      for (int u = 0; u < STEP; ++u) sums[j] += (S)T_get(row[u][j]) * factor[u];
    }
  }
  finish(out, self, sums, columns, 1, columns, alpha, beta, g);
}

static void block(HP_GLOBAL R* out, HP_GLOBAL const T* a, HP_GLOBAL const T* b, HP_GLOBAL const R* self, hp_i64 rows,
                  hp_i64 columns, R_a alpha, R_a beta, const matmul_geometry* g) {
  S sums[MAX_ROWS * MAX_COLUMNS] __attribute__((aligned(64)));
  S left[MAX_ROWS * DEPTH + 16] __attribute__((aligned(64)));
  S right[STRIP * DEPTH + 16] __attribute__((aligned(64)));
  const hp_i64 stride = (columns + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS;
#ifdef T_IS_S
  /* With few rows, packing b does not pay off. */
  const int direct = rows <= 2 * TILE_ROWS && g->b[2] == 1;
#else
  const int direct = 0;
#endif
  hp_i64 from = 0;
  do {
    const hp_i64 depth = g->k - from < DEPTH ? g->k - from : DEPTH;
    const int first = from == 0, last = from + depth >= g->k;
    for (hp_i64 i = 0; i < rows; i += TILE_ROWS) {
      const int live = (int)(rows - i < TILE_ROWS ? rows - i : TILE_ROWS);
      pack(left + i * depth, a + i * g->a[1] + from * g->a[2], g->a[2], g->a[1], depth, live, panel_height(live));
    }
    for (hp_i64 strip = 0; strip < columns; strip += STRIP) {
      const hp_i64 width = columns - strip < STRIP ? columns - strip : STRIP;
      for (hp_i64 j = 0; j < width; j += TILE_COLUMNS) {
        const int live = (int)(width - j < TILE_COLUMNS ? width - j : TILE_COLUMNS);
        if (direct && live == TILE_COLUMNS) continue;
        pack(right + j * depth, b + (strip + j) * g->b[2] + from * g->b[1], g->b[1], g->b[2], depth, live,
             TILE_COLUMNS);
      }
      for (hp_i64 i = 0; i < rows; i += TILE_ROWS) {
        const int height = panel_height(rows - i);
        const hp_i64 live = rows - i < TILE_ROWS ? rows - i : TILE_ROWS;
        S* const band = sums + i * stride + strip;
        for (hp_i64 j = 0; j < width; j += TILE_COLUMNS) {
          const int in_place = direct && j + TILE_COLUMNS <= width;
          const S* const panel = in_place ? (const S*)(b + from * g->b[1] + strip + j) : right + j * depth;
          run_tile(height, depth, left + i * depth, panel, in_place ? g->b[1] : TILE_COLUMNS, band + j, stride, first);
        }
        if (last)
          finish(out + i * g->out[1] + strip * g->out[2], self + i * g->self[1] + strip * g->self[2], band, stride,
                 live, width, alpha, beta, g);
      }
    }
    from += depth;
  } while (from < g->k);
}
#endif

HP_KERNEL(product)(HP_GLOBAL R* out, HP_GLOBAL const T* a, HP_GLOBAL const T* b, HP_GLOBAL const R* self,
                   matmul_geometry g, R_a alpha, R_a beta) {
  const hp_i64 blocks = g.row_blocks * g.column_blocks;
#ifdef HP_VECTORS
  const hp_i64 end = (hp_group + 1) * g.per_group < g.batch * blocks ? (hp_group + 1) * g.per_group : g.batch * blocks;
  for (hp_i64 at = hp_group * g.per_group; at < end; ++at) {
    const hp_i64 matrix = at / blocks, row = at % blocks % g.row_blocks * g.rows;
    const hp_i64 column = at % blocks / g.row_blocks * g.columns;
    const hp_i64 rows = g.m - row < g.rows ? g.m - row : g.rows;
    const hp_i64 columns = g.n - column < g.columns ? g.n - column : g.columns;
    HP_GLOBAL R* const to = out + matrix * g.out[0] + row * g.out[1] + column * g.out[2];
    HP_GLOBAL const R* const more = self + matrix * g.self[0] + row * g.self[1] + column * g.self[2];
    HP_GLOBAL const T* const left = a + matrix * g.a[0] + row * g.a[1];
    HP_GLOBAL const T* const right = b + matrix * g.b[0] + column * g.b[2];
    if (rows <= MAX_DOTS && g.a[2] == 1 && g.b[1] == 1) {
      block_of_dots(to, left, right, more, rows, columns, alpha, beta, &g);
    } else if (rows == 1 && g.b[2] == 1) {
      row_of_sums(to, left, right, more, columns, alpha, beta, &g);
    } else {
      block(to, left, right, more, rows, columns, alpha, beta, &g);
    }
  }
#else
  const hp_i64 matrix = hp_group / blocks, row = hp_group % blocks % g.row_blocks * g.rows;
  const hp_i64 column = hp_group % blocks / g.row_blocks * g.columns;
  const hp_i64 rows = g.m - row < g.rows ? g.m - row : g.rows;
  const hp_i64 columns = g.n - column < g.columns ? g.n - column : g.columns;
  out += matrix * g.out[0] + row * g.out[1] + column * g.out[2];
  self += matrix * g.self[0] + row * g.self[1] + column * g.self[2];
  a += matrix * g.a[0] + row * g.a[1];
  b += matrix * g.b[0] + column * g.b[2];
  /* A work-group computes 64 x 64 outputs; each work-item has every 16th column and every BANDS-th row of them. The
   * barriers keep the panels in local memory from being overwritten while in use. */
  enum { SIDE = 64, STEP = 16, BANDS = HP_LSIZE < 16 ? 1 : HP_LSIZE / 16, PER_ROW = HP_LSIZE < 16 ? HP_LSIZE : 16 };
  enum { HIGH = SIDE / BANDS, WIDE = SIDE / PER_ROW };
  HP_LOCAL S left[STEP][SIDE + 1], right[STEP][SIDE + 1];
  const int x = (int)hp_lid % PER_ROW, y = (int)hp_lid / PER_ROW;
  S sum[HIGH][WIDE];
  for (int i = 0; i < HIGH; ++i)
    for (int j = 0; j < WIDE; ++j) sum[i][j] = 0;
  for (hp_i64 from = 0; from < g.k; from += STEP) {
    hp_barrier();
    HP_FOR_LOCAL(e, SIDE * STEP) {
      /* Neighboring work-items read along the contiguous dimension. */
      const hp_i64 pa = g.a[2] == 1 ? e % STEP : e / SIDE, i = g.a[2] == 1 ? e / STEP : e % SIDE;
      const hp_i64 pb = g.b[1] == 1 ? e % STEP : e / SIDE, j = g.b[1] == 1 ? e / STEP : e % SIDE;
      left[pa][i] = i < rows && from + pa < g.k ? (S)T_get(a[i * g.a[1] + (from + pa) * g.a[2]]) : (S)0;
      right[pb][j] = j < columns && from + pb < g.k ? (S)T_get(b[(from + pb) * g.b[1] + j * g.b[2]]) : (S)0;
    }
    hp_barrier();
    for (int p = 0; p < STEP; ++p)
      for (int i = 0; i < HIGH; ++i)
        for (int j = 0; j < WIDE; ++j) sum[i][j] += left[p][y + i * BANDS] * right[p][x + j * PER_ROW];
  }
  for (int i = 0; i < HIGH; ++i) {
    for (int j = 0; j < WIDE; ++j) {
      const hp_i64 r = y + i * BANDS, c = x + j * PER_ROW;
      if (r < rows && c < columns)
        matmul_store(out + r * g.out[1] + c * g.out[2], self + r * g.self[1] + c * g.self[2], sum[i][j], alpha, beta,
                     (int)g.with_self);
    }
  }
#endif
}

/* out = alpha * out + beta * self, after a vendor's matrix product. A work-group handles `per_group` rows. */
HP_KERNEL(scale)(HP_GLOBAL R* out, HP_GLOBAL const R* self, matmul_geometry g, R_a alpha, R_a beta) {
  const hp_i64 rows = g.batch * g.m, end = (hp_group + 1) * g.per_group < rows ? (hp_group + 1) * g.per_group : rows;
  for (hp_i64 row = hp_group * g.per_group; row < end; ++row) {
    HP_GLOBAL R* const to = out + row / g.m * g.out[0] + row % g.m * g.out[1];
    HP_GLOBAL const R* const more = self + row / g.m * g.self[0] + row % g.m * g.self[1];
    if (g.with_self && g.out[2] == 1 && g.self[2] == 1) {
      HP_VECTORIZE
      for (hp_i64 j = hp_lid; j < g.n; j += HP_LSIZE) matmul_store(to + j, more + j, (S)R_get(to[j]), alpha, beta, 1);
    } else {
      HP_FOR_LOCAL(j, g.n) {
        HP_GLOBAL R* const at = to + j * g.out[2];
        matmul_store(at, more + j * g.self[2], (S)R_get(*at), alpha, beta, (int)g.with_self);
      }
    }
  }
}

/* Dot product of two vectors: one partial sum per `chunk` elements. */
HP_KERNEL(dot)(HP_GLOBAL R* out, HP_GLOBAL const T* a, HP_GLOBAL const T* b, hp_i64 elements, hp_i64 chunk,
               hp_i64 a_step, hp_i64 b_step) {
  const hp_i64 begin = hp_group * chunk, end = begin + chunk < elements ? begin + chunk : elements;
#ifdef HP_VECTORS
  S sum = 0;
  hp_i64 i = begin;
  if (a_step == 1 && b_step == 1) {
    vs part[4] = {{0}};
    for (; i + 4 * LANES <= end; i += 4 * LANES) {
#pragma GCC unroll 4
      for (int u = 0; u < 4; ++u) part[u] += load_elements(a + i + u * LANES) * load_elements(b + i + u * LANES);
    }
    sum = total((part[0] + part[1]) + (part[2] + part[3]));
  }
  for (; i < end; ++i) sum += (S)T_get(a[i * a_step]) * (S)T_get(b[i * b_step]);
  out[hp_group] = R_put((R_c)sum);
#else
  HP_LOCAL S part[HP_LSIZE];
  S sum = 0;
  for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE) sum += (S)T_get(a[i * a_step]) * (S)T_get(b[i * b_step]);
  part[hp_lid] = sum;
  hp_barrier();
  if (hp_lid == 0) {
    for (int l = 1; l < HP_LSIZE; ++l) sum += part[l];
    out[hp_group] = R_put((R_c)sum);
  }
#endif
}

HP_KERNEL(total)(HP_GLOBAL R* out, HP_GLOBAL const T* parts, hp_i64 count) {
  S sum = 0;
  if (hp_lid == 0) {
    for (hp_i64 i = 0; i < count; ++i) sum += (S)T_get(parts[i]);
    *out = R_put((R_c)sum);
  }
}
