/* Layer norm and RMS norm (rows), batch norm (channels), group norm (groups of channels). T: elements, W: weight and
 * bias, S: saved statistics (running ones, or those of group norm). Statistics take two passes: the mean, then squared
 * deviations from it. */
#include "row_reduction.h"
#if HP_LSIZE > 1
#define ROW_EACH 8 /* few, because the gradients of the work-item's weights also use registers */
typedef T R;       /* outputs have the input type */
#define R_put T_put
#include "row_vector_access.h"
#define ROW_IS_ALIGNED(x) HP_ALIGNED(x, sizeof(row_pack_in))
#endif

#define KEPT 4096
#define COLUMNS 64
/* Rows summed before they are added to the total: long columns stay accurate. */
#define BLOCK 128

#if HP_LSIZE == 1
HP_FN T_a run_sum(const T* x, hp_i64 n) {
  T_a buffer[HP_T_IS_HALF ? HP_CHUNK : 1], total = 0;
  for (hp_i64 at = 0; at < n; at += HP_CHUNK) {
    const hp_i64 part = n - at < HP_CHUNK ? n - at : HP_CHUNK;
    total += hp_sum(hp_widen(x + at, buffer, part), part);
  }
  return total;
}

HP_FN T_a run_squares(const T* x, T_a center, hp_i64 n) {
  T_a buffer[HP_T_IS_HALF ? HP_CHUNK : 1], total = 0;
  for (hp_i64 at = 0; at < n; at += HP_CHUNK) {
    const hp_i64 part = n - at < HP_CHUNK ? n - at : HP_CHUNK;
    total += hp_sum_squares(hp_widen(x + at, buffer, part), center, part);
  }
  return total;
}

/* Sum of g * (x - center). */
HP_FN T_a run_centered(const T* g, const T* x, T_a center, hp_i64 n) {
  T_a a[HP_T_IS_HALF ? HP_CHUNK : 1], b[HP_T_IS_HALF ? HP_CHUNK : 1], total = 0;
  for (hp_i64 at = 0; at < n; at += HP_CHUNK) {
    const hp_i64 part = n - at < HP_CHUNK ? n - at : HP_CHUNK;
    total += hp_sum_centered(hp_widen(g + at, a, part), hp_widen(x + at, b, part), center, part);
  }
  return total;
}
#else
/* This work-item's part of these sums. */
HP_FN T_a run_sum(HP_GLOBAL const T* x, hp_i64 n) {
  T_a total = 0;
  HP_FOR_LOCAL(j, n) total += T_get(x[j]);
  return total;
}
HP_FN T_a run_squares(HP_GLOBAL const T* x, T_a center, hp_i64 n) {
  T_a total = 0;
  HP_FOR_LOCAL(j, n) total += (T_get(x[j]) - center) * (T_get(x[j]) - center);
  return total;
}
HP_FN T_a run_centered(HP_GLOBAL const T* g, HP_GLOBAL const T* x, T_a center, hp_i64 n) {
  T_a total = 0;
  HP_FOR_LOCAL(j, n) total += T_get(g[j]) * (T_get(x[j]) - center);
  return total;
}
#endif

/* Sum over the work-group; a CPU work-item already has the total. */
#if HP_LSIZE == 1
#define GROUP_SUM(value) ((void)0)
#define SUM_SCRATCH
#else
#define GROUP_SUM(value) HP_GROUP_SUM(scratch, value)
#define SUM_SCRATCH HP_LOCAL T_a scratch[HP_LSIZE];
#endif

/* ---- Rows -------------------------------------------------------------------------------------------------------- */
/* RMS: 1 for RMS norm, which does not subtract the mean. HAS_WEIGHT, HAS_BIAS: 0 or 1. */

HP_KERNEL(rows)(HP_GLOBAL T* out, HP_GLOBAL T_a* means, HP_GLOBAL T_a* rstds, HP_GLOBAL const T* in,
                HP_GLOBAL const W* weight, HP_GLOBAL const W* bias, hp_i64 rows, hp_i64 n, T_a eps, hp_i64 per_group) {
  SUM_SCRATCH
  const hp_i64 end = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  for (hp_i64 row = hp_group * per_group; row < end; ++row) {
    HP_GLOBAL const T* const x = in + row * n;
    HP_GLOBAL T* const y = out + row * n;
#if HP_LSIZE > 1
    if (n <= ROW_SHORT) {
      const int vectors = n % ROW_PACK == 0 && ROW_IS_ALIGNED(x) && ROW_IS_ALIGNED(y), used = row_used((int)n, vectors);
      T_a xs[ROW_EACH], mean = 0, square = 0;
      row_load(xs, x, (int)n, vectors, 0);
      if (!RMS) {
        ROW_FOR_LOADED(e, used) mean += xs[e];
        HP_GROUP_SUM(scratch, mean);
        mean /= (T_a)n;
      }
      ROW_FOR_LOADED(e, used) {
        xs[e] -= mean;
        square += row_index(e, vectors) < n ? xs[e] * xs[e] : 0;
      }
      HP_GROUP_SUM(scratch, square);
      const T_a rstd = (T_a)1 / T_M(sqrt)(square / (T_a)n + eps);
      if (hp_lid == 0) {
        if (!RMS) means[row] = mean;
        rstds[row] = rstd;
      }
      ROW_FOR_LOADED(e, used) {
        const int j = row_index(e, vectors);
        xs[e] *= rstd;
        if (HAS_WEIGHT && j < n) xs[e] *= W_get(weight[j]);
        if (HAS_BIAS && j < n) xs[e] += W_get(bias[j]);
      }
      row_store(y, xs, (int)n, vectors);
      continue;
    }
#endif
    T_a mean = RMS ? 0 : run_sum(x, n);
    if (!RMS) GROUP_SUM(mean);
    mean /= (T_a)n;
    T_a square = run_squares(x, mean, n);
    GROUP_SUM(square);
    const T_a rstd = (T_a)1 / T_M(sqrt)(square / (T_a)n + eps);
    if (hp_lid == 0) {
      if (!RMS) means[row] = mean;
      rstds[row] = rstd;
    }
    HP_VECTORIZE
    HP_FOR_LOCAL(j, n) {
      T_a v = (T_get(x[j]) - mean) * rstd;
      if (HAS_WEIGHT) v *= W_get(weight[j]);
      if (HAS_BIAS) v += W_get(bias[j]);
      y[j] = T_put(v);
    }
  }
}

/* Also writes the work-group's partial gradients of weight and bias: 2 n elements of `parts` per group. */
HP_KERNEL(rows_backward)(HP_GLOBAL T* out, HP_GLOBAL T_a* parts, HP_GLOBAL const T* grad, HP_GLOBAL const T* in,
                         HP_GLOBAL const T_a* means, HP_GLOBAL const T_a* rstds, HP_GLOBAL const W* weight, hp_i64 rows,
                         hp_i64 n, hp_i64 per_group) {
  SUM_SCRATCH
  const hp_i64 end = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  HP_GLOBAL T_a* const dw = parts + hp_group * 2 * n;
  HP_GLOBAL T_a* const db = dw + n;
#if HP_LSIZE > 1
  if (n <= ROW_SHORT) {
    const int vectors = n % ROW_PACK == 0 && ROW_IS_ALIGNED(grad) && ROW_IS_ALIGNED(in) && ROW_IS_ALIGNED(out);
    const int used = row_used((int)n, vectors);
    T_a ws[ROW_EACH], dws[ROW_EACH], dbs[ROW_EACH], gs[ROW_EACH], xs[ROW_EACH];
    ROW_FOR_LOADED(e, ROW_EACH) {
      const int j = row_index(e, vectors);
      ws[e] = HAS_WEIGHT && j < n ? (T_a)W_get(weight[j]) : (T_a)1;
      dws[e] = dbs[e] = 0;
    }
    for (hp_i64 row = hp_group * per_group; row < end; ++row) {
      row_load(gs, grad + row * n, (int)n, vectors, 0);
      row_load(xs, in + row * n, (int)n, vectors, 0);
      const T_a mean = RMS ? 0 : means[row], rstd = rstds[row];
      T_a total = 0, along = 0;
      ROW_FOR_LOADED(e, used) {
        const T_a g = gs[e];
        xs[e] -= mean;
        gs[e] = HAS_WEIGHT ? g * ws[e] : g;
        total += gs[e];
        along += gs[e] * xs[e];
        if (PARTS) {
          dws[e] += g * xs[e] * rstd;
          dbs[e] += g;
        }
      }
      if (!WANTED) continue;
      if (!RMS) HP_GROUP_SUM(scratch, total);
      HP_GROUP_SUM(scratch, along);
      const T_a slope = along * rstd * rstd / (T_a)n, level = RMS ? 0 : total / (T_a)n;
      ROW_FOR_LOADED(e, used) gs[e] = (gs[e] - level - xs[e] * slope) * rstd;
      row_store(out + row * n, gs, (int)n, vectors);
    }
    if (PARTS) {
      ROW_FOR_LOADED(e, used) {
        const int j = row_index(e, vectors);
        if (j >= n) continue;
        dw[j] = dws[e];
        db[j] = dbs[e];
      }
    }
    return;
  }
#endif
  if (PARTS) {
    HP_FOR_LOCAL(j, n) dw[j] = db[j] = 0;
  }
  for (hp_i64 row = hp_group * per_group; row < end; ++row) {
    HP_GLOBAL const T* const g = grad + row * n;
    HP_GLOBAL const T* const x = in + row * n;
    HP_GLOBAL T* const dx = out + row * n;
    const T_a mean = RMS ? 0 : means[row], rstd = rstds[row];
    if (WANTED) {
      T_a total = 0, along = 0;
#if HP_LSIZE == 1
      T_a a[HP_CHUNK], b[HP_T_IS_HALF ? HP_CHUNK : 1];
      for (hp_i64 at = 0; at < n; at += HP_CHUNK) {
        const hp_i64 part = n - at < HP_CHUNK ? n - at : HP_CHUNK;
        HP_VECTORIZE
        for (hp_i64 j = 0; j < part; ++j) {
          a[j] = HAS_WEIGHT ? T_get(g[at + j]) * W_get(weight[at + j]) : T_get(g[at + j]);
        }
        if (!RMS) total += hp_sum(a, part);
        along += hp_sum_centered(a, hp_widen(x + at, b, part), mean, part);
      }
#else
      HP_FOR_LOCAL(j, n) {
        const T_a v = HAS_WEIGHT ? T_get(g[j]) * W_get(weight[j]) : T_get(g[j]);
        total += v;
        along += v * (T_get(x[j]) - mean);
      }
      HP_GROUP_SUM(scratch, total);
      HP_GROUP_SUM(scratch, along);
      if (RMS) total = 0;
#endif
      const T_a slope = along * rstd * rstd / (T_a)n, level = total / (T_a)n;
      HP_VECTORIZE
      HP_FOR_LOCAL(j, n) {
        const T_a v = HAS_WEIGHT ? T_get(g[j]) * W_get(weight[j]) : T_get(g[j]);
        dx[j] = T_put((v - level - (T_get(x[j]) - mean) * slope) * rstd);
      }
    }
    if (PARTS) {
      HP_VECTORIZE
      HP_FOR_LOCAL(j, n) {
        dw[j] += T_get(g[j]) * (T_get(x[j]) - mean) * rstd;
        db[j] += T_get(g[j]);
      }
    }
  }
}

/* Adds up the partial gradients of all work-groups: COLUMNS columns per group, or PART_COLUMNS if groups have many
 * work-items. */
#if HP_LSIZE > 1
enum { PART_COLUMNS = HP_LSIZE < 16 ? HP_LSIZE : 16, PART_LANES = HP_LSIZE / PART_COLUMNS, PART_DEPTH = 8 };
#endif
HP_KERNEL(parts)(HP_GLOBAL W* weight, HP_GLOBAL W* bias, HP_GLOBAL const T_a* parts, hp_i64 count, hp_i64 n) {
#if HP_LSIZE == 1
  const hp_i64 first = hp_group * COLUMNS, width = n - first < COLUMNS ? n - first : COLUMNS;
  T_a dw[COLUMNS] = {0}, db[COLUMNS] = {0};
  for (hp_i64 i = 0; i < count; ++i) {
    HP_VECTORIZE
    for (hp_i64 j = 0; j < width; ++j) {
      dw[j] += parts[i * 2 * n + first + j];
      db[j] += parts[i * 2 * n + n + first + j];
    }
  }
  for (hp_i64 j = 0; j < width; ++j) {
    if (weight) weight[first + j] = W_put(dw[j]);
    if (bias) bias[first + j] = W_put(db[j]);
  }
#else
  /* Neighboring work-items handle neighboring columns; those with the same column take every PART_LANES-th part. */
  HP_LOCAL T_a dws[HP_LSIZE], dbs[HP_LSIZE];
  const int lid = (int)hp_lid, column = lid % PART_COLUMNS;
  const hp_i64 j = hp_group * PART_COLUMNS + column;
  T_a dw = 0, db = 0;
  if (j < n) {
    for (hp_i64 i = lid / PART_COLUMNS; i < count; i += PART_LANES * PART_DEPTH) {
      T_a w[PART_DEPTH], b[PART_DEPTH]; /* all loads are issued before the first addition */
      HP_UNROLL
      for (int k = 0; k < PART_DEPTH; ++k) {
        const hp_i64 at = (i + k * PART_LANES) * 2 * n + j;
        const int there = i + k * PART_LANES < count;
        w[k] = there ? parts[at] : 0;
        b[k] = there ? parts[at + n] : 0;
      }
      HP_UNROLL
      for (int k = 0; k < PART_DEPTH; ++k) {
        dw += w[k];
        db += b[k];
      }
    }
  }
  dws[lid] = dw;
  dbs[lid] = db;
  hp_barrier();
  if (lid >= PART_COLUMNS || j >= n) return;
  for (int lane = 1; lane < PART_LANES; ++lane) {
    dw += dws[lane * PART_COLUMNS + column];
    db += dbs[lane * PART_COLUMNS + column];
  }
  if (weight) weight[j] = W_put(dw);
  if (bias) bias[j] = W_put(db);
#endif
}

/* ---- Channels ---------------------------------------------------------------------------------------------------- */
/* One work-group per channel: `batch` planes of `plane` elements, `stride` apart. TRAIN: 1 to compute statistics, 0 to
 * use the running ones. */

/* Saves a channel's statistics and updates the running ones. */
#define SAVE_STATISTICS(c, mean, square, invstd, count)                                          \
  do {                                                                                           \
    means[c] = (mean);                                                                           \
    invstds[c] = (invstd);                                                                       \
    if (running_mean) {                                                                          \
      running_mean[c] = S_put(S_get(running_mean[c]) * ((T_a)1 - momentum) + (mean) * momentum); \
    }                                                                                            \
    if (running_var) {                                                                           \
      const T_a unbiased = (square) / (T_a)((count) - 1);                                        \
      running_var[c] = S_put(S_get(running_var[c]) * ((T_a)1 - momentum) + unbiased * momentum); \
    }                                                                                            \
  } while (0)

HP_KERNEL(channels)(HP_GLOBAL T* out, HP_GLOBAL T_a* means, HP_GLOBAL T_a* invstds, HP_GLOBAL const T* in,
                    HP_GLOBAL const W* weight, HP_GLOBAL const W* bias, HP_GLOBAL S* running_mean,
                    HP_GLOBAL S* running_var, hp_i64 batch, hp_i64 plane, hp_i64 stride, T_a momentum, T_a eps) {
  SUM_SCRATCH
  const hp_i64 c = hp_group;
  T_a mean, invstd;
  if (TRAIN) {
    const T_a count = (T_a)(batch * plane);
    T_a square = 0;
    mean = 0;
    for (hp_i64 i = 0; i < batch; ++i) mean += run_sum(in + i * stride + c * plane, plane);
    GROUP_SUM(mean);
    mean /= count;
    for (hp_i64 i = 0; i < batch; ++i) square += run_squares(in + i * stride + c * plane, mean, plane);
    GROUP_SUM(square);
    invstd = (T_a)1 / T_M(sqrt)(square / count + eps);
    if (hp_lid == 0) SAVE_STATISTICS(c, mean, square, invstd, batch * plane);
  } else {
    mean = S_get(running_mean[c]);
    invstd = (T_a)1 / T_M(sqrt)(S_get(running_var[c]) + eps);
  }
  const T_a factor = weight ? invstd * W_get(weight[c]) : invstd, level = bias ? W_get(bias[c]) : 0;
  for (hp_i64 i = 0; i < batch; ++i) {
    HP_GLOBAL const T* const x = in + i * stride + c * plane;
    HP_GLOBAL T* const y = out + i * stride + c * plane;
    HP_VECTORIZE
    HP_FOR_LOCAL(j, plane) y[j] = T_put((T_get(x[j]) - mean) * factor + level);
  }
}

HP_KERNEL(channels_backward)(HP_GLOBAL T* out, HP_GLOBAL W* grad_weight, HP_GLOBAL W* grad_bias,
                             HP_GLOBAL const T* grad, HP_GLOBAL const T* in, HP_GLOBAL const W* weight,
                             HP_GLOBAL const S* running_mean, HP_GLOBAL const S* running_var,
                             HP_GLOBAL const T_a* means, HP_GLOBAL const T_a* invstds, hp_i64 batch, hp_i64 plane,
                             hp_i64 stride, T_a eps) {
  SUM_SCRATCH
  const hp_i64 c = hp_group;
  const T_a mean = TRAIN ? means[c] : S_get(running_mean[c]);
  const T_a invstd = TRAIN ? invstds[c] : (T_a)1 / T_M(sqrt)(S_get(running_var[c]) + eps);
  T_a total = 0, along = 0;
  for (hp_i64 i = 0; i < batch; ++i) {
    HP_GLOBAL const T* const g = grad + i * stride + c * plane;
    total += run_sum(g, plane);
    along += run_centered(g, in + i * stride + c * plane, mean, plane);
  }
  GROUP_SUM(total);
  GROUP_SUM(along);
  if (hp_lid == 0) {
    if (grad_weight) grad_weight[c] = W_put(along * invstd);
    if (grad_bias) grad_bias[c] = W_put(total);
  }
  if (!out) return;
  const T_a count = (T_a)(batch * plane), factor = weight ? invstd * W_get(weight[c]) : invstd;
  const T_a level = TRAIN ? total / count : 0, slope = TRAIN ? along * invstd * invstd / count : 0;
  for (hp_i64 i = 0; i < batch; ++i) {
    HP_GLOBAL const T* const g = grad + i * stride + c * plane;
    HP_GLOBAL const T* const x = in + i * stride + c * plane;
    HP_GLOBAL T* const dx = out + i * stride + c * plane;
    HP_VECTORIZE
    HP_FOR_LOCAL(j, plane) {
      dx[j] = T_put((TRAIN ? T_get(g[j]) - level - (T_get(x[j]) - mean) * slope : T_get(g[j])) * factor);
    }
  }
}

/* The same for channels-last layout. A work-group handles a block of channels. */
HP_KERNEL(columns)(HP_GLOBAL T* out, HP_GLOBAL T_a* means, HP_GLOBAL T_a* invstds, HP_GLOBAL const T* in,
                   HP_GLOBAL const W* weight, HP_GLOBAL const W* bias, HP_GLOBAL S* running_mean,
                   HP_GLOBAL S* running_var, hp_i64 rows, hp_i64 channels, T_a momentum, T_a eps) {
  const hp_i64 first = hp_group * COLUMNS, width = channels - first < COLUMNS ? channels - first : COLUMNS;
#if HP_LSIZE == 1
  T_a mean[COLUMNS] = {0}, square[COLUMNS] = {0}, factor[COLUMNS], level[COLUMNS], part[COLUMNS];
  if (TRAIN) {
    for (int pass = 0; pass < 2; ++pass) {
      T_a* const total = pass ? square : mean;
      for (hp_i64 at = 0; at < rows; at += BLOCK) {
        const hp_i64 end = at + BLOCK < rows ? at + BLOCK : rows;
        for (hp_i64 j = 0; j < width; ++j) part[j] = 0;
        for (hp_i64 i = at; i < end; ++i) {
          const T* const x = in + i * channels + first;
          HP_VECTORIZE
          for (hp_i64 j = 0; j < width; ++j) {
            const T_a v = pass ? T_get(x[j]) - mean[j] : T_get(x[j]);
            part[j] += pass ? v * v : v;
          }
        }
        for (hp_i64 j = 0; j < width; ++j) total[j] += part[j];
      }
      if (pass == 0) {
        for (hp_i64 j = 0; j < width; ++j) mean[j] /= (T_a)rows;
      }
    }
  }
  for (hp_i64 j = 0; j < width; ++j) {
    const hp_i64 c = first + j;
    if (!TRAIN) mean[j] = S_get(running_mean[c]);
    const T_a var = TRAIN ? square[j] / (T_a)rows : S_get(running_var[c]);
    const T_a invstd = (T_a)1 / T_M(sqrt)(var + eps);
    if (TRAIN) SAVE_STATISTICS(c, mean[j], square[j], invstd, rows);
    factor[j] = weight ? invstd * W_get(weight[c]) : invstd;
    level[j] = bias ? W_get(bias[c]) : 0;
  }
  for (hp_i64 i = 0; i < rows; ++i) {
    const T* const x = in + i * channels + first;
    T* const y = out + i * channels + first;
    HP_VECTORIZE
    for (hp_i64 j = 0; j < width; ++j) y[j] = T_put((T_get(x[j]) - mean[j]) * factor[j] + level[j]);
  }
#else
  HP_FOR_LOCAL(j, width) {
    const hp_i64 c = first + j;
    T_a mean = 0, square = 0, part = 0;
    if (TRAIN) {
      for (hp_i64 i = 0; i < rows; ++i) {
        part += T_get(in[i * channels + c]);
        if (i % BLOCK == BLOCK - 1 || i == rows - 1) {
          mean += part;
          part = 0;
        }
      }
      mean /= (T_a)rows;
      for (hp_i64 i = 0; i < rows; ++i) {
        const T_a v = T_get(in[i * channels + c]) - mean;
        part += v * v;
        if (i % BLOCK == BLOCK - 1 || i == rows - 1) {
          square += part;
          part = 0;
        }
      }
    } else {
      mean = S_get(running_mean[c]);
    }
    const T_a var = TRAIN ? square / (T_a)rows : S_get(running_var[c]);
    const T_a invstd = (T_a)1 / T_M(sqrt)(var + eps);
    if (TRAIN) SAVE_STATISTICS(c, mean, square, invstd, rows);
    const T_a factor = weight ? invstd * W_get(weight[c]) : invstd, level = bias ? W_get(bias[c]) : 0;
    for (hp_i64 i = 0; i < rows; ++i) {
      out[i * channels + c] = T_put((T_get(in[i * channels + c]) - mean) * factor + level);
    }
  }
#endif
}

HP_KERNEL(columns_backward)(HP_GLOBAL T* out, HP_GLOBAL W* grad_weight, HP_GLOBAL W* grad_bias, HP_GLOBAL const T* grad,
                            HP_GLOBAL const T* in, HP_GLOBAL const W* weight, HP_GLOBAL const S* running_mean,
                            HP_GLOBAL const S* running_var, HP_GLOBAL const T_a* means, HP_GLOBAL const T_a* invstds,
                            hp_i64 rows, hp_i64 channels, T_a eps) {
  const hp_i64 first = hp_group * COLUMNS, width = channels - first < COLUMNS ? channels - first : COLUMNS;
#if HP_LSIZE == 1
  T_a mean[COLUMNS], invstd[COLUMNS], total[COLUMNS] = {0}, along[COLUMNS] = {0}, a[COLUMNS], b[COLUMNS];
  for (hp_i64 j = 0; j < width; ++j) {
    const hp_i64 c = first + j;
    mean[j] = TRAIN ? means[c] : S_get(running_mean[c]);
    invstd[j] = TRAIN ? invstds[c] : (T_a)1 / T_M(sqrt)(S_get(running_var[c]) + eps);
  }
  for (hp_i64 at = 0; at < rows; at += BLOCK) {
    const hp_i64 end = at + BLOCK < rows ? at + BLOCK : rows;
    for (hp_i64 j = 0; j < width; ++j) a[j] = b[j] = 0;
    for (hp_i64 i = at; i < end; ++i) {
      const T *const g = grad + i * channels + first, *const x = in + i * channels + first;
      HP_VECTORIZE
      for (hp_i64 j = 0; j < width; ++j) {
        a[j] += T_get(g[j]);
        b[j] += T_get(g[j]) * (T_get(x[j]) - mean[j]);
      }
    }
    for (hp_i64 j = 0; j < width; ++j) {
      total[j] += a[j];
      along[j] += b[j];
    }
  }
  for (hp_i64 j = 0; j < width; ++j) {
    if (grad_weight) grad_weight[first + j] = W_put(along[j] * invstd[j]);
    if (grad_bias) grad_bias[first + j] = W_put(total[j]);
    a[j] = TRAIN ? total[j] / (T_a)rows : 0;
    b[j] = TRAIN ? along[j] * invstd[j] * invstd[j] / (T_a)rows : 0;
    if (weight) invstd[j] *= W_get(weight[first + j]);
  }
  if (!out) return;
  for (hp_i64 i = 0; i < rows; ++i) {
    const T *const g = grad + i * channels + first, *const x = in + i * channels + first;
    T* const dx = out + i * channels + first;
    HP_VECTORIZE
    for (hp_i64 j = 0; j < width; ++j) {
      dx[j] = T_put((TRAIN ? T_get(g[j]) - a[j] - (T_get(x[j]) - mean[j]) * b[j] : T_get(g[j])) * invstd[j]);
    }
  }
#else
  HP_FOR_LOCAL(j, width) {
    const hp_i64 c = first + j;
    const T_a mean = TRAIN ? means[c] : S_get(running_mean[c]);
    const T_a invstd = TRAIN ? invstds[c] : (T_a)1 / T_M(sqrt)(S_get(running_var[c]) + eps);
    T_a total = 0, along = 0, a = 0, b = 0;
    for (hp_i64 i = 0; i < rows; ++i) {
      const T_a g = T_get(grad[i * channels + c]);
      a += g;
      b += g * (T_get(in[i * channels + c]) - mean);
      if (i % BLOCK == BLOCK - 1 || i == rows - 1) {
        total += a;
        along += b;
        a = b = 0;
      }
    }
    if (grad_weight) grad_weight[c] = W_put(along * invstd);
    if (grad_bias) grad_bias[c] = W_put(total);
    if (out) {
      const T_a factor = weight ? invstd * W_get(weight[c]) : invstd;
      const T_a level = TRAIN ? total / (T_a)rows : 0, slope = TRAIN ? along * invstd * invstd / (T_a)rows : 0;
      for (hp_i64 i = 0; i < rows; ++i) {
        const T_a g = T_get(grad[i * channels + c]), x = T_get(in[i * channels + c]);
        out[i * channels + c] = T_put((TRAIN ? g - level - (x - mean) * slope : g) * factor);
      }
    }
  }
#endif
}

/* ---- Groups of channels: `depth` channels of `plane` elements, contiguous ---------------------------------------- */

HP_KERNEL(groups)(HP_GLOBAL T* out, HP_GLOBAL S* means, HP_GLOBAL S* rstds, HP_GLOBAL const T* in,
                  HP_GLOBAL const W* weight, HP_GLOBAL const W* bias, hp_i64 total, hp_i64 sets, hp_i64 depth,
                  hp_i64 plane, T_a eps, hp_i64 per_group) {
  SUM_SCRATCH
  const hp_i64 n = depth * plane, end = (hp_group + 1) * per_group < total ? (hp_group + 1) * per_group : total;
  for (hp_i64 k = hp_group * per_group; k < end; ++k) {
    T_a mean = run_sum(in + k * n, n);
    GROUP_SUM(mean);
    mean /= (T_a)n;
    T_a square = run_squares(in + k * n, mean, n);
    GROUP_SUM(square);
    const T_a rstd = (T_a)1 / T_M(sqrt)(square / (T_a)n + eps);
    if (hp_lid == 0) {
      means[k] = S_put(mean);
      rstds[k] = S_put(rstd);
    }
    for (hp_i64 d = 0; d < depth; ++d) {
      const hp_i64 c = k % sets * depth + d;
      const T_a factor = weight ? rstd * W_get(weight[c]) : rstd, level = bias ? W_get(bias[c]) : 0;
      HP_GLOBAL const T* const x = in + k * n + d * plane;
      HP_GLOBAL T* const y = out + k * n + d * plane;
      HP_VECTORIZE
      HP_FOR_LOCAL(j, plane) y[j] = T_put((T_get(x[j]) - mean) * factor + level);
    }
  }
}

/* `sums` receives two numbers per channel and batch element: the sums of g (x - mean) rstd and of g. */
HP_KERNEL(groups_backward)(HP_GLOBAL T* out, HP_GLOBAL T_a* sums, HP_GLOBAL const T* grad, HP_GLOBAL const T* in,
                           HP_GLOBAL const S* means, HP_GLOBAL const S* rstds, HP_GLOBAL const W* weight, hp_i64 total,
                           hp_i64 sets, hp_i64 depth, hp_i64 plane, hp_i64 per_group) {
  SUM_SCRATCH
  const hp_i64 n = depth * plane, end = (hp_group + 1) * per_group < total ? (hp_group + 1) * per_group : total;
  for (hp_i64 k = hp_group * per_group; k < end; ++k) {
    const T_a mean = S_get(means[k]), rstd = S_get(rstds[k]);
    T_a level = 0, slope = 0;
    for (hp_i64 d = 0; d < depth; ++d) {
      HP_GLOBAL const T* const g = grad + k * n + d * plane;
      T_a all = run_sum(g, plane), along = run_centered(g, in + k * n + d * plane, mean, plane);
      GROUP_SUM(all);
      GROUP_SUM(along);
      along *= rstd;
      if (hp_lid == 0) {
        sums[2 * (k * depth + d)] = along;
        sums[2 * (k * depth + d) + 1] = all;
      }
      const T_a w = weight ? W_get(weight[k % sets * depth + d]) : (T_a)1;
      level += all * w;
      slope += along * w;
    }
    level /= (T_a)n;
    slope *= rstd / (T_a)n;
    if (!out) continue;
    for (hp_i64 d = 0; d < depth; ++d) {
      const T_a w = weight ? W_get(weight[k % sets * depth + d]) : (T_a)1;
      HP_GLOBAL const T* const g = grad + k * n + d * plane;
      HP_GLOBAL const T* const x = in + k * n + d * plane;
      HP_GLOBAL T* const dx = out + k * n + d * plane;
      HP_VECTORIZE
      HP_FOR_LOCAL(j, plane) { dx[j] = T_put((T_get(g[j]) * w - level - (T_get(x[j]) - mean) * slope) * rstd); }
    }
  }
}

HP_KERNEL(groups_parameters)(HP_GLOBAL W* grad_weight, HP_GLOBAL W* grad_bias, HP_GLOBAL const T_a* sums, hp_i64 batch,
                             hp_i64 channels) {
  HP_FOR_ELEMENTS(c, channels) {
    T_a along = 0, all = 0;
    for (hp_i64 i = 0; i < batch; ++i) {
      along += sums[2 * (i * channels + c)];
      all += sums[2 * (i * channels + c) + 1];
    }
    if (grad_weight) grad_weight[c] = W_put(along);
    if (grad_bias) grad_bias[c] = W_put(all);
  }
}
