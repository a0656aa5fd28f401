/* Batch norm for groups of many work-items. Each channel is split over several work-groups: a first kernel writes the
 * partial sums of every group, a second one adds them up and applies the result. normalization.c has the kernels for
 * groups of one work-item. T: elements, W: weight and bias, S: running statistics. PACK: elements per vector. */
#include "index_math.h"
#include "row_reduction.h"

typedef struct {
  hp_i64 channels, parts, part; /* work-groups per channel, and elements per group, a multiple of PACK */
  hp_i64 batch, plane, stride;  /* planes per channel, elements per plane, and elements from one image to the next */
} channel_geometry;

#if HP_LSIZE > 1
typedef struct __attribute__((aligned(PACK * sizeof(T)))) {
  T at[PACK];
} channel_pack;

#define CHANNEL_RANGE                                                   \
  const hp_i64 c = hp_group % g.channels, part = hp_group / g.channels; \
  const hp_i64 n = g.batch * g.plane, begin = part * g.part;            \
  const hp_i64 end = begin + g.part < n ? begin + g.part : n;           \
  (void)part
/* Loop over this work-item's vectors; `offset` is the element offset of one. */
#define FOR_PACKS(offset)                                                                                              \
  for (hp_i64 i = begin + hp_lid * PACK, rest, offset;                                                                 \
       i < end && (rest = i, offset = hp_next_coordinate(&rest, g.plane) + c * g.plane, offset += rest * g.stride, 1); \
       i += HP_LSIZE * PACK)
#define PACK_AT(p, offset) (*(HP_GLOBAL const channel_pack*)((p) + (offset)))

/* Adds up the partial sums of all work-groups of a channel. */
HP_FN void channel_totals(HP_GLOBAL const T_a* sums, hp_i64 c, channel_geometry g, T_a* first, T_a* second) {
  T_a a = 0, b = 0;
  for (hp_i64 k = 0; k < g.parts; ++k) {
    a += sums[2 * (k * g.channels + c)];
    b += sums[2 * (k * g.channels + c) + 1];
  }
  *first = a;
  *second = b;
}
#endif

/* Sums of the elements and of their squares, both relative to the channel's first element. It is close enough to the
 * mean to avoid cancellation. */
HP_KERNEL(sums)(HP_GLOBAL T_a* sums, HP_GLOBAL const T* in, channel_geometry g) {
#if HP_LSIZE > 1
  HP_LOCAL T_a scratch[HP_LSIZE];
  CHANNEL_RANGE;
  const T_a shift = T_get(in[c * g.plane]);
  T_a total = 0, square = 0;
  FOR_PACKS(offset) {
    const channel_pack x = PACK_AT(in, offset);
    for (int u = 0; u < PACK; ++u) {
      const T_a v = T_get(x.at[u]) - shift;
      total += v;
      square += v * v;
    }
  }
  HP_GROUP_SUM(scratch, total);
  HP_GROUP_SUM(scratch, square);
  if (hp_lid == 0) {
    sums[2 * hp_group] = total;
    sums[2 * hp_group + 1] = square;
  }
#endif
}

HP_KERNEL(apply)(HP_GLOBAL T* out, HP_GLOBAL T_a* means, HP_GLOBAL T_a* invstds, HP_GLOBAL const T* in,
                 HP_GLOBAL const W* weight, HP_GLOBAL const W* bias, HP_GLOBAL S* running_mean,
                 HP_GLOBAL S* running_var, HP_GLOBAL const T_a* sums, channel_geometry g, T_a momentum, T_a eps) {
#if HP_LSIZE > 1
  CHANNEL_RANGE;
  T_a mean, invstd;
#if TRAIN
  T_a total, square;
  channel_totals(sums, c, g, &total, &square);
  const T_a shift = T_get(in[c * g.plane]);
  mean = shift + total / (T_a)n;
  square -= total * (total / (T_a)n);
  square = square > 0 ? square : (square != square ? square : (T_a)0);
  invstd = (T_a)1 / T_M(sqrt)(square / (T_a)n + eps);
  if (part == 0 && hp_lid == 0) {
    means[c] = mean;
    invstds[c] = invstd;
    if (running_mean) running_mean[c] = S_put(S_get(running_mean[c]) * ((T_a)1 - momentum) + mean * momentum);
    if (running_var) {
      running_var[c] = S_put(S_get(running_var[c]) * ((T_a)1 - momentum) + square / (T_a)(n - 1) * momentum);
    }
  }
#else
  mean = S_get(running_mean[c]);
  invstd = (T_a)1 / T_M(sqrt)(S_get(running_var[c]) + eps);
#endif
  const T_a factor = weight ? invstd * W_get(weight[c]) : invstd, level = bias ? W_get(bias[c]) : (T_a)0;
  FOR_PACKS(offset) {
    const channel_pack x = PACK_AT(in, offset);
    channel_pack y;
    for (int u = 0; u < PACK; ++u) y.at[u] = T_put((T_get(x.at[u]) - mean) * factor + level);
    *(HP_GLOBAL channel_pack*)(out + offset) = y;
  }
#endif
}

/* Sums of the gradient, and of the gradient times (x - mean). */
HP_KERNEL(sums_backward)(HP_GLOBAL T_a* sums, HP_GLOBAL const T* grad, HP_GLOBAL const T* in,
                         HP_GLOBAL const T_a* means, HP_GLOBAL const S* running_mean, channel_geometry g) {
#if HP_LSIZE > 1
  HP_LOCAL T_a scratch[HP_LSIZE];
  CHANNEL_RANGE;
  const T_a mean = TRAIN ? means[c] : S_get(running_mean[c]);
  T_a total = 0, along = 0;
  FOR_PACKS(offset) {
    const channel_pack x = PACK_AT(in, offset), d = PACK_AT(grad, offset);
    for (int u = 0; u < PACK; ++u) {
      total += T_get(d.at[u]);
      along += T_get(d.at[u]) * (T_get(x.at[u]) - mean);
    }
  }
  HP_GROUP_SUM(scratch, total);
  HP_GROUP_SUM(scratch, along);
  if (hp_lid == 0) {
    sums[2 * hp_group] = total;
    sums[2 * hp_group + 1] = along;
  }
#endif
}

HP_KERNEL(apply_backward)(HP_GLOBAL T* out, HP_GLOBAL W* grad_weight, HP_GLOBAL W* grad_bias, HP_GLOBAL const T* grad,
                          HP_GLOBAL const T* in, HP_GLOBAL const W* weight, HP_GLOBAL const S* running_mean,
                          HP_GLOBAL const S* running_var, HP_GLOBAL const T_a* means, HP_GLOBAL const T_a* invstds,
                          HP_GLOBAL const T_a* sums, channel_geometry g, T_a eps) {
#if HP_LSIZE > 1
  CHANNEL_RANGE;
  const T_a mean = TRAIN ? means[c] : S_get(running_mean[c]);
  const T_a invstd = TRAIN ? invstds[c] : (T_a)1 / T_M(sqrt)(S_get(running_var[c]) + eps);
  T_a total, along;
  channel_totals(sums, c, g, &total, &along);
  if (part == 0 && hp_lid == 0) {
    if (grad_weight) grad_weight[c] = W_put(along * invstd);
    if (grad_bias) grad_bias[c] = W_put(total);
  }
  if (!out) return;
  const T_a factor = weight ? invstd * W_get(weight[c]) : invstd;
  const T_a level = TRAIN ? total / (T_a)n : (T_a)0, slope = TRAIN ? along * invstd * invstd / (T_a)n : (T_a)0;
  FOR_PACKS(offset) {
    const channel_pack d = PACK_AT(grad, offset), x = PACK_AT(in, offset);
    channel_pack y;
    for (int u = 0; u < PACK; ++u) {
      const T_a v = T_get(d.at[u]);
      y.at[u] = T_put((TRAIN ? v - level - (T_get(x.at[u]) - mean) * slope : v) * factor);
    }
    *(HP_GLOBAL channel_pack*)(out + offset) = y;
  }
#endif
}
