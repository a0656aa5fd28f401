/* The convolutions of convolution.c for CPUs, with SIMD; a group is one work-item.
 *
 * `pad` copies a tensor with zeros around it, split into the phases of the stride. Each tap of the kernel then reads at
 * a fixed distance from an output. Outputs are computed for whole rows of the padded tensor, as one long vector; the
 * outputs at the ends of rows are meaningless and dropped. T: elements, S: elements of padded tensors. */
#include "cpu_vectors.h"

#define MAX_TAPS 512

/* Element q of phase f is input position q * stride + f - before, or zero outside the input. */
typedef struct {
  hp_i64 batch, channels, channel; /* channel: elements of a padded channel */
  hp_i64 size[3], from[5], before[3], stride[3], phases[3], length[3];
} padding;

typedef struct {
  hp_i64 count, transposed, kernel[3], dilation[3], stride[3], phases[3], length[3], weight[3];
  hp_i64 phase[3]; /* of the result, if transposed: only some taps reach it */
} tap_geometry;

/* rows: channels of the result; channels: channels that are summed; both per convolution group. */
typedef struct {
  hp_i64 groups, rows, channels, channel, pitch[2], start, grid[3], out[5];
  hp_i64 panel_group, weight_group, weight_row, weight_channel;
  hp_i64 block, blocks, block_rows, row_blocks, with_bias;
  tap_geometry taps;
} application;

typedef struct {
  hp_i64 batch, groups, outer, inner, x_channel, y_channel, length, weight[2], block, blocks;
  tap_geometry taps;
} correlation;

/* Offsets of the taps in the padded tensor and in the weight, sorted by distance: ascending addresses suit the hardware
 * prefetcher and are 20% faster. */
static void list_taps(const tap_geometry* g, hp_i64* distance, hp_i64* weight) {
  const hp_i64 taps = g->kernel[0] * g->kernel[1] * g->kernel[2];
  hp_i64 count = 0;
  for (hp_i64 i = 0; i < taps; ++i) {
    const hp_i64 k = g->transposed ? taps - 1 - i : i; /* nearly sorted already */
    const hp_i64 at[3] = {k / g->kernel[2] / g->kernel[1], k / g->kernel[2] % g->kernel[1], k % g->kernel[2]};
    hp_i64 phase = 0, offset = 0, from = 0, reached = 1;
    for (int d = 0; d < 3; ++d) {
      const hp_i64 reach = at[d] * g->dilation[d], most = (g->kernel[d] - 1) * g->dilation[d] / g->stride[d];
      reached = reached && (!g->transposed || reach % g->stride[d] == g->phase[d]);
      phase = phase * g->phases[d] + (g->transposed ? 0 : reach % g->stride[d]);
      offset = offset * g->length[d] + (g->transposed ? most - reach / g->stride[d] : reach / g->stride[d]);
      from += at[d] * g->weight[d];
    }
    if (!reached) continue;
    offset += phase * g->length[0] * g->length[1] * g->length[2];
    hp_i64 to = count++;
    for (; to > 0 && distance[to - 1] > offset; --to) {
      distance[to] = distance[to - 1];
      weight[to] = weight[to - 1];
    }
    distance[to] = offset;
    weight[to] = from;
  }
}

static void pad_row(S* to, const T* from, hp_i64 first, hp_i64 last, hp_i64 length, hp_i64 step) {
  hp_i64 i = 0;
  for (; i < first; ++i) to[i] = 0;
  if (step == 1) {
    for (; i + LANES <= last; i += LANES) store_sums(to + i, load_elements(from + i));
  }
  for (; i < last; ++i) to[i] = (S)T_get(from[i * step]);
  for (; i < length; ++i) to[i] = 0;
}

HP_KERNEL(pad)(HP_GLOBAL S* to, HP_GLOBAL const T* from, padding g, hp_i64 per_group) {
  const hp_i64 all = g.batch * g.channels, end = (hp_group + 1) * per_group < all ? (hp_group + 1) * per_group : all;
  for (hp_i64 at = hp_group * per_group; at < end; ++at) {
    HP_GLOBAL const T* const channel = from + at / g.channels * g.from[0] + at % g.channels * g.from[1];
    HP_GLOBAL S* row = to + at * g.channel;
    for (hp_i64 phase = 0; phase < g.phases[0] * g.phases[1] * g.phases[2]; ++phase) {
      const hp_i64 fz = phase / g.phases[2] / g.phases[1], fy = phase / g.phases[2] % g.phases[1];
      const hp_i64 shift = g.before[2] - phase % g.phases[2];
      hp_i64 first = shift <= 0 ? 0 : (shift + g.stride[2] - 1) / g.stride[2];
      hp_i64 last = g.size[2] + shift <= 0 ? 0 : (g.size[2] + shift - 1) / g.stride[2] + 1;
      last = last < g.length[2] ? last : g.length[2];
      first = first < last ? first : last;
      for (hp_i64 qz = 0; qz < g.length[0]; ++qz) {
        const hp_i64 z = qz * g.stride[0] + fz - g.before[0];
        for (hp_i64 qy = 0; qy < g.length[1]; ++qy, row += g.length[2]) {
          const hp_i64 y = qy * g.stride[1] + fy - g.before[1];
          const int inside = z >= 0 && z < g.size[0] && y >= 0 && y < g.size[1];
          pad_row(row, channel + (inside ? z * g.from[2] + y * g.from[3] : 0) - shift * g.from[4], inside ? first : 0,
                  inside ? last : 0, g.length[2], g.stride[2] * g.from[4]);
        }
      }
    }
    for (HP_GLOBAL S* const stop = to + (at + 1) * g.channel; row < stop; ++row) *row = 0;
  }
}

HP_FN int panel_height(hp_i64 rows) { return rows >= TILE_ROWS ? TILE_ROWS : (int)((rows + 3) / 4 * 4); }

/* Packs the weight into panels of rows, in the order in which `apply` reads it. One work-group per panel. */
HP_KERNEL(panels)(HP_GLOBAL S* to, HP_GLOBAL const T* weight, application g) {
  hp_i64 distance[MAX_TAPS], offset[MAX_TAPS];
  const hp_i64 panels = (g.rows + TILE_ROWS - 1) / TILE_ROWS, group = hp_group / panels;
  const hp_i64 row = hp_group % panels * TILE_ROWS, taps = g.taps.count;
  const int height = panel_height(g.rows - row);
  if (group >= g.groups) return;
  list_taps(&g.taps, distance, offset);
  to += group * g.panel_group + row * g.channels * taps;
  weight += group * g.weight_group + row * g.weight_row;
  for (hp_i64 c = 0; c < g.channels; ++c) {
    for (hp_i64 t = 0; t < taps; ++t, to += height) {
      for (int r = 0; r < height; ++r)
        to[r] = row + r < g.rows ? (S)T_get(weight[r * g.weight_row + c * g.weight_channel + offset[t]]) : (S)0;
    }
  }
}

/* sums[rows][TILE_COLUMNS] = panel * inputs at the taps' distances. */
HP_FN void tile(const int rows, const application* g, const hp_i64* distance, const S* panel, const S* from, S* sums) {
  vs sum[TILE_ROWS][2];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) sum[i][0] = sum[i][1] = (vs){0};
  for (hp_i64 c = 0; c < g->channels; ++c, from += g->channel) {
    for (hp_i64 t = 0; t < g->taps.count; ++t, panel += rows) {
      const vs b0 = load_sums(from + distance[t]), b1 = load_sums(from + distance[t] + LANES);
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i) {
        sum[i][0] += b0 * panel[i];
        sum[i][1] += b1 * panel[i];
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    store_sums(sums + i * TILE_COLUMNS, sum[i][0]);
    store_sums(sums + i * TILE_COLUMNS + LANES, sum[i][1]);
  }
}

static __attribute__((noinline)) void run_tile(int height, const application* g, const hp_i64* distance, const S* panel,
                                               const S* from, S* sums) {
  if (height == 4) tile(4, g, distance, panel, from, sums);
#if TILE_ROWS > 4
  if (height == 8) tile(8, g, distance, panel, from, sums);
#endif
#if TILE_ROWS > 8
  if (height == 12) tile(12, g, distance, panel, from, sums);
#endif
}

/* One row by many columns, for convolution groups with few channels. Panels are 4 rows high. */
#define ROW_VECTORS 8
static __attribute__((noinline)) void run_row(const application* g, const hp_i64* distance, const S* panel,
                                              const S* from, S* sums) {
  vs sum[ROW_VECTORS];
#pragma GCC unroll 16
  for (int v = 0; v < ROW_VECTORS; ++v) sum[v] = (vs){0};
  for (hp_i64 c = 0; c < g->channels; ++c, from += g->channel) {
    for (hp_i64 t = 0; t < g->taps.count; ++t, panel += 4) {
      const S factor = *panel;
#pragma GCC unroll 16
      for (int v = 0; v < ROW_VECTORS; ++v) sum[v] += load_sums(from + distance[t] + v * LANES) * factor;
    }
  }
#pragma GCC unroll 16
  for (int v = 0; v < ROW_VECTORS; ++v) store_sums(sums + v * LANES, sum[v]);
}

/* Stores one row's columns, from `position` on, in the result; drops those past the end of a row. */
static void put(HP_GLOBAL T* out, const S* sums, hp_i64 position, hp_i64 columns, S bias, const application* g) {
  hp_i64 z = position / g->pitch[0], y = position % g->pitch[0] / g->pitch[1], x = position % g->pitch[1];
  const hp_i64 step = g->out[4];
  while (columns > 0) {
    const hp_i64 row = g->pitch[1] - x < columns ? g->pitch[1] - x : columns;
    const hp_i64 kept = y >= g->grid[1] ? 0 : x + row <= g->grid[2] ? row : g->grid[2] - x;
    HP_GLOBAL T* const to = out + z * g->out[2] + y * g->out[3] + x * step;
    if (step == 1) {
      HP_VECTORIZE
      for (hp_i64 i = 0; i < kept; ++i) to[i] = T_put(sums[i] + bias);
    } else {
      for (hp_i64 i = 0; i < kept; ++i) to[i * step] = T_put(sums[i] + bias);
    }
    sums += row;
    columns -= row;
    x = 0;
    if (++y == g->pitch[0] / g->pitch[1]) y = 0, ++z;
  }
}

HP_KERNEL(apply)(HP_GLOBAL T* out, HP_GLOBAL const S* from, HP_GLOBAL const S* panels, HP_GLOBAL const T* bias,
                 application g) {
  hp_i64 distance[MAX_TAPS], offset[MAX_TAPS];
  S sums[TILE_ROWS * TILE_COLUMNS > ROW_VECTORS * LANES ? TILE_ROWS * TILE_COLUMNS : ROW_VECTORS * LANES]
      __attribute__((aligned(64)));
  const hp_i64 rest = hp_group / g.blocks, group = rest / g.row_blocks % g.groups;
  const hp_i64 image = rest / g.row_blocks / g.groups, depth = g.channels * g.taps.count;
  const hp_i64 all = (g.grid[0] - 1) * g.pitch[0] + (g.grid[1] - 1) * g.pitch[1] + g.grid[2];
  const hp_i64 begin = hp_group % g.blocks * g.block, end = begin + g.block < all ? begin + g.block : all;
  const hp_i64 top = rest % g.row_blocks * g.block_rows;
  const hp_i64 bottom = top + g.block_rows < g.rows ? top + g.block_rows : g.rows;
  list_taps(&g.taps, distance, offset);
  out += image * g.out[0] + group * g.rows * g.out[1];
  from += (image * g.groups + group) * g.channels * g.channel + g.start;
  panels += group * g.panel_group;
  bias += g.with_bias ? group * g.rows : 0;
  if (g.rows <= 2) {
    for (hp_i64 p = begin; p < end; p += ROW_VECTORS * LANES) {
      for (hp_i64 row = 0; row < g.rows; ++row) {
        run_row(&g, distance, panels + row, from + p, sums);
        put(out + row * g.out[1], sums, p, end - p < ROW_VECTORS * LANES ? end - p : ROW_VECTORS * LANES,
            g.with_bias ? (S)T_get(bias[row]) : (S)0, &g);
      }
    }
    return;
  }
  for (hp_i64 row = top; row < bottom; row += TILE_ROWS) {
    const int height = panel_height(g.rows - row), live = (int)(bottom - row < height ? bottom - row : height);
    for (hp_i64 p = begin; p < end; p += TILE_COLUMNS) {
      run_tile(height, &g, distance, panels + row * depth, from + p, sums);
      for (int r = 0; r < live; ++r)
        put(out + (row + r) * g.out[1], sums + r * TILE_COLUMNS, p, end - p < TILE_COLUMNS ? end - p : TILE_COLUMNS,
            g.with_bias ? (S)T_get(bias[row + r]) : (S)0, &g);
    }
  }
}

/* ---- Gradient of the weight: products of y with x at each tap's distance, summed along the padded rows ----------- */

#define BAND 4
#define COLUMNS (TILE_ROWS / 2)

HP_FN void products(const int rows, const correlation* g, const S* const* x, const S* const* y, S* sums) {
  vs sum[BAND][COLUMNS];
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < COLUMNS; ++j) sum[i][j] = (vs){0};
  for (hp_i64 image = 0; image < g->batch; ++image) {
    const hp_i64 y_first = image * g->groups * g->outer * g->y_channel;
    const hp_i64 x_first = image * g->groups * g->inner * g->x_channel;
    for (hp_i64 p = 0; p < g->length; p += LANES) {
      vs left[BAND];
#pragma GCC unroll 4
      for (int i = 0; i < rows; ++i) left[i] = load_sums(y[i] + y_first + p);
#pragma GCC unroll 8
      for (int j = 0; j < COLUMNS; ++j) {
        const vs right = load_sums(x[j] + x_first + p);
#pragma GCC unroll 4
        for (int i = 0; i < rows; ++i) sum[i][j] += left[i] * right;
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < COLUMNS; ++j) sums[i * COLUMNS + j] = total(sum[i][j]);
}

static __attribute__((noinline)) void run_products(hp_i64 rows, const correlation* g, const S* const* x,
                                                   const S* const* y, S* sums) {
  if (rows == 1) {
    products(1, g, x, y, sums);
  } else {
    products(BAND, g, x, y, sums);
  }
}

HP_KERNEL(correlate)(HP_GLOBAL T* weight, HP_GLOBAL const S* x, HP_GLOBAL const S* y, correlation g) {
  hp_i64 distance[MAX_TAPS], offset[MAX_TAPS];
  S sums[BAND * COLUMNS];
  const hp_i64 bands = (g.outer + BAND - 1) / BAND, group = hp_group / g.blocks / bands, taps = g.taps.count;
  const hp_i64 outer = hp_group / g.blocks % bands * BAND, rows = g.outer - outer < BAND ? g.outer - outer : BAND;
  const hp_i64 begin = hp_group % g.blocks * g.block, all = g.inner * taps;
  const hp_i64 end = begin + g.block < all ? begin + g.block : all;
  const S *left[BAND], *right[COLUMNS];
  list_taps(&g.taps, distance, offset);
  weight += (group * g.outer + outer) * g.weight[0];
  x += group * g.inner * g.x_channel;
  y += (group * g.outer + outer) * g.y_channel;
  for (int i = 0; i < BAND; ++i) left[i] = y + (i < rows ? i : 0) * g.y_channel;
  for (hp_i64 column = begin; column < end; column += COLUMNS) {
    for (int j = 0; j < COLUMNS; ++j) {
      const hp_i64 at = column + j < end ? column + j : column;
      right[j] = x + at / taps * g.x_channel + distance[at % taps];
    }
    run_products(rows, &g, right, left, sums);
    for (hp_i64 i = 0; i < rows; ++i) {
      for (hp_i64 j = 0; j < COLUMNS && column + j < end; ++j) {
        const hp_i64 at = column + j;
        weight[i * g.weight[0] + at / taps * g.weight[1] + offset[at % taps]] = T_put(sums[i * COLUMNS + j]);
      }
    }
  }
}
