/* Losses and their gradients. T: elements, I: class indices. Sums take two kernels: the first writes one partial sum
 * per work-group, `finish` adds them up. */
#include "fault.h"
#include "row_reduction.h"

/* ---- Losses of two elements -------------------------------------------------------------------------------------- */
/* KIND: 0 squared error, 1 smooth L1, 2 Huber, 3 binary cross-entropy. `bend` is the distance at which smooth L1 and
 * Huber change from quadratic to linear. WEIGHTED: 1 to multiply by `weight`. */
#define LOSS_ABS(d) ((d) < 0 ? -(d) : (d))
#define LOSS_LOG(value) ((value) < (T_a) - 100 ? (T_a) - 100 : (value))

HP_FN T_a loss_of(T_a x, T_a t, T_a bend, int kind) {
  const T_a d = x - t, a = LOSS_ABS(d);
  if (kind == 0) return d * d;
  if (kind == 1) return a < bend ? (T_a)0.5 * d * d / bend : a - (T_a)0.5 * bend;
  if (kind == 2) return a <= bend ? (T_a)0.5 * d * d : bend * (a - (T_a)0.5 * bend);
  return (t - (T_a)1) * LOSS_LOG(T_M(log1p)(-x)) - t * LOSS_LOG(T_M(log)(x));
}

HP_FN T_a slope_of(T_a x, T_a t, T_a bend, int kind) {
  const T_a d = x - t, v = (T_a)1 - x;
  if (kind == 0) return d + d;
  if (kind == 1) return d <= -bend ? (T_a)-1 : d >= bend ? (T_a)1 : d / bend;
  if (kind == 2) return d <= -bend ? -bend : d >= bend ? bend : d;
  return d / (v * x < (T_a)1e-12 ? (T_a)1e-12 : v * x);
}

HP_KERNEL(each)(HP_GLOBAL T* out, HP_GLOBAL const T* self, HP_GLOBAL const T* target, HP_GLOBAL const T* weight,
                hp_i64 elements, T_a bend) {
  HP_VECTORIZE
  HP_FOR_ELEMENTS(i, elements) {
    const T_a loss = loss_of(T_get(self[i]), T_get(target[i]), bend, KIND);
    out[i] = T_put(WEIGHTED ? loss * T_get(weight[i]) : loss);
  }
}

HP_KERNEL(total)(HP_GLOBAL T_a* parts, HP_GLOBAL const T* self, HP_GLOBAL const T* target, HP_GLOBAL const T* weight,
                 hp_i64 elements, T_a bend) {
  T_a sum = 0;
#if HP_LSIZE == 1
  HP_ELEMENT_RANGE(begin, end, elements);
  T_a buffer[HP_CHUNK];
  for (; begin < end; begin += HP_CHUNK) {
    const hp_i64 n = end - begin < HP_CHUNK ? end - begin : HP_CHUNK;
    HP_VECTORIZE
    for (hp_i64 j = 0; j < n; ++j) {
      const T_a loss = loss_of(T_get(self[begin + j]), T_get(target[begin + j]), bend, KIND);
      buffer[j] = WEIGHTED ? loss * T_get(weight[begin + j]) : loss;
    }
    sum += hp_sum(buffer, n);
  }
  parts[hp_group] = sum;
#else
  HP_LOCAL T_a scratch[HP_LSIZE];
  HP_FOR_ELEMENTS(i, elements) {
    const T_a loss = loss_of(T_get(self[i]), T_get(target[i]), bend, KIND);
    sum += WEIGHTED ? loss * T_get(weight[i]) : loss;
  }
  HP_GROUP_SUM(scratch, sum);
  if (hp_lid == 0) parts[hp_group] = sum;
#endif
}

/* ONE: 1 if the gradient is a scalar. */
HP_KERNEL(each_backward)(HP_GLOBAL T* out, HP_GLOBAL const T* grad, HP_GLOBAL const T* self, HP_GLOBAL const T* target,
                         HP_GLOBAL const T* weight, hp_i64 elements, T_a bend, T_a factor) {
  const T_a first = T_get(grad[0]) * factor;
  HP_VECTORIZE
  HP_FOR_ELEMENTS(i, elements) {
    const T_a slope = slope_of(T_get(self[i]), T_get(target[i]), bend, KIND) * (ONE ? first : T_get(grad[i]) * factor);
    out[i] = T_put(WEIGHTED ? slope * T_get(weight[i]) : slope);
  }
}

/* One work-group: out = factor * sum of the partial sums. */
HP_KERNEL(finish)(HP_GLOBAL T* out, HP_GLOBAL const T_a* parts, hp_i64 count, T_a factor) {
#if HP_LSIZE == 1
  out[0] = T_put(hp_sum(parts, count) * factor);
#else
  HP_LOCAL T_a scratch[HP_LSIZE];
  T_a sum = 0;
  HP_FOR_LOCAL(i, count) sum += parts[i];
  HP_GROUP_SUM(scratch, sum);
  if (hp_lid == 0) out[0] = T_put(sum * factor);
#endif
}

/* ---- Negative log-likelihood ------------------------------------------------------------------------------------- */
/* Elements are batch x positions; each has `classes` inputs in `self`, `positions` apart. A class index out of range
 * reports a fault and yields NaN, and a zero gradient. */
#define NLL_CHOSEN(i) ((hp_i64)target[i])
#define NLL_INSIDE(c) ((c) >= 0 && (c) < classes)
#define NLL_WEIGHT(c) (!NLL_INSIDE(c) || (c) == ignored ? (T_a)0 : weight ? T_get(weight[c]) : (T_a)1)
#define NLL_LOSS(i, c, w)                                                                                          \
  ((c) == ignored  ? (T_a)0                                                                                        \
   : NLL_INSIDE(c) ? -T_get(self[(i) / positions * positions * classes + (c) * positions + (i) % positions]) * (w) \
                   : HP_INFINITY - HP_INFINITY)

HP_KERNEL(nll)(HP_GLOBAL T* out, HP_GLOBAL const T* self, HP_GLOBAL const I* target, HP_GLOBAL const T* weight,
               HP_GLOBAL hp_i64* fault, hp_i64 code, hp_i64 elements, hp_i64 classes, hp_i64 positions,
               hp_i64 ignored) {
  HP_FOR_ELEMENTS(i, elements) {
    const hp_i64 c = NLL_CHOSEN(i);
    const T_a w = NLL_WEIGHT(c);
    out[i] = T_put(NLL_LOSS(i, c, w));
    if (c != ignored && !NLL_INSIDE(c)) HP_FAULT(c, classes);
  }
}

/* Partial sums of the loss, followed by those of the weights. */
HP_KERNEL(nll_total)(HP_GLOBAL T_a* parts, HP_GLOBAL const T* self, HP_GLOBAL const I* target,
                     HP_GLOBAL const T* weight, HP_GLOBAL hp_i64* fault, hp_i64 code, hp_i64 elements, hp_i64 classes,
                     hp_i64 positions, hp_i64 ignored, hp_i64 count) {
  T_a loss = 0, weights = 0;
  HP_FOR_ELEMENTS(i, elements) {
    const hp_i64 c = NLL_CHOSEN(i);
    const T_a w = NLL_WEIGHT(c);
    loss += NLL_LOSS(i, c, w);
    if (c != ignored && !NLL_INSIDE(c)) HP_FAULT(c, classes);
    weights += w;
  }
#if HP_LSIZE > 1
  HP_LOCAL T_a scratch[HP_LSIZE];
  HP_GROUP_SUM(scratch, loss);
  HP_GROUP_SUM(scratch, weights);
#endif
  if (hp_lid == 0) {
    parts[hp_group] = loss;
    parts[count + hp_group] = weights;
  }
}

HP_KERNEL(nll_finish)(HP_GLOBAL T* out, HP_GLOBAL T* total_weight, HP_GLOBAL const T_a* parts, hp_i64 count,
                      hp_i64 mean) {
  T_a loss = 0, weights = 0;
  HP_FOR_LOCAL(i, count) {
    loss += parts[i];
    weights += parts[count + i];
  }
#if HP_LSIZE > 1
  HP_LOCAL T_a scratch[HP_LSIZE];
  HP_GROUP_SUM(scratch, loss);
  HP_GROUP_SUM(scratch, weights);
#endif
  if (hp_lid == 0) {
    out[0] = T_put(mean ? loss / weights : loss);
    total_weight[0] = T_put(weights);
  }
}

/* Rows of `classes` elements. REDUCED: 1 if the gradient is a scalar; MEAN: 1 to divide it by the total weight. */
HP_KERNEL(nll_backward)(HP_GLOBAL T* out, HP_GLOBAL const T* grad, HP_GLOBAL const I* target, HP_GLOBAL const T* weight,
                        HP_GLOBAL const T* total_weight, hp_i64 rows, hp_i64 classes, hp_i64 ignored,
                        hp_i64 per_group) {
  const hp_i64 end = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  const T_a used = MEAN ? T_get(total_weight[0]) : (T_a)1, factor = used == 0 ? (T_a)0 : (T_a)1 / used;
  for (hp_i64 i = hp_group * per_group; i < end; ++i) {
    const hp_i64 c = NLL_CHOSEN(i);
    const T_a w = NLL_WEIGHT(c);
    const T_a value = -w * T_get(grad[REDUCED ? 0 : i]) * factor;
    HP_GLOBAL T* const to = out + i * classes;
#if HP_LSIZE == 1
    for (hp_i64 j = 0; j < classes; ++j) to[j] = T_put((T_a)0);
    if (c != ignored && NLL_INSIDE(c)) to[c] = T_put(value);
#else
    HP_FOR_LOCAL(j, classes) to[j] = T_put(j == c && c != ignored ? value : (T_a)0);
#endif
  }
}

/* The same for planes of `positions` elements, one per class and batch element. */
HP_KERNEL(nll_planes_backward)(HP_GLOBAL T* out, HP_GLOBAL const T* grad, HP_GLOBAL const I* target,
                               HP_GLOBAL const T* weight, HP_GLOBAL const T* total_weight, hp_i64 planes,
                               hp_i64 classes, hp_i64 positions, hp_i64 ignored, hp_i64 per_group) {
  const hp_i64 end = (hp_group + 1) * per_group < planes ? (hp_group + 1) * per_group : planes;
  const T_a used = MEAN ? T_get(total_weight[0]) : (T_a)1, factor = used == 0 ? (T_a)0 : (T_a)1 / used;
  for (hp_i64 plane = hp_group * per_group; plane < end; ++plane) {
    const hp_i64 c = plane % classes, first = plane / classes * positions;
    const T_a w = c == ignored ? (T_a)0 : (weight ? T_get(weight[c]) : (T_a)1) * -factor;
    HP_VECTORIZE
    HP_FOR_LOCAL(j, positions) {
      const T_a g = T_get(grad[REDUCED ? 0 : first + j]);
      out[plane * positions + j] = T_put(NLL_CHOSEN(first + j) == c && c != ignored ? g * w : (T_a)0);
    }
  }
}

/* ---- Margin losses, one row per work-item ------------------------------------------------------------------------ */

/* `parts` receives the loss of each row. SQUARED: 1 for p = 2. */
HP_KERNEL(multi_margin)(HP_GLOBAL T_a* parts, HP_GLOBAL const T* self, HP_GLOBAL const I* target,
                        HP_GLOBAL const T* weight, hp_i64 rows, hp_i64 classes, T_a margin) {
  HP_FOR_ELEMENTS(i, rows) {
    HP_GLOBAL const T* const x = self + i * classes;
    const hp_i64 c = NLL_CHOSEN(i);
    T_a sum = 0;
    for (hp_i64 j = 0; j < classes && NLL_INSIDE(c); ++j) {
      const T_a z = margin - T_get(x[c]) + T_get(x[j]);
      if (j != c && z > 0) sum += SQUARED ? z * z : z;
    }
    if (weight && NLL_INSIDE(c)) sum *= T_get(weight[c]);
    parts[i] = NLL_INSIDE(c) ? sum / (T_a)classes : HP_INFINITY - HP_INFINITY;
  }
}

HP_KERNEL(multi_margin_backward)(HP_GLOBAL T* out, HP_GLOBAL const T* grad, HP_GLOBAL const T* self,
                                 HP_GLOBAL const I* target, HP_GLOBAL const T* weight, hp_i64 rows, hp_i64 classes,
                                 T_a margin, T_a factor) {
  HP_FOR_ELEMENTS(i, rows) {
    HP_GLOBAL const T* const x = self + i * classes;
    HP_GLOBAL T* const dx = out + i * classes;
    const hp_i64 c = NLL_CHOSEN(i);
    T_a scale = T_get(grad[REDUCED ? 0 : i]) * factor / (T_a)classes, sum = 0;
    if (weight && NLL_INSIDE(c)) scale *= T_get(weight[c]);
    for (hp_i64 j = 0; j < classes; ++j) {
      T_a slope = 0;
      if (NLL_INSIDE(c) && j != c) {
        const T_a z = margin - T_get(x[c]) + T_get(x[j]);
        slope = z > 0 ? (SQUARED ? (z + z) * scale : scale) : (T_a)0;
      }
      dx[j] = T_put(slope);
      sum += slope;
    }
    if (NLL_INSIDE(c)) dx[c] = T_put(-sum);
  }
}

/* Each row of target lists classes up to the first negative index. */
HP_KERNEL(multilabel)(HP_GLOBAL T_a* parts, HP_GLOBAL T* is_target, HP_GLOBAL const T* self, HP_GLOBAL const I* target,
                      hp_i64 rows, hp_i64 classes) {
  HP_FOR_ELEMENTS(i, rows) {
    HP_GLOBAL const T* const x = self + i * classes;
    HP_GLOBAL const I* const labels = target + i * classes;
    HP_GLOBAL T* const marks = is_target + i * classes;
    T_a sum = 0;
    for (hp_i64 j = 0; j < classes; ++j) marks[j] = T_put((T_a)0);
    for (hp_i64 k = 0; k < classes && labels[k] >= 0; ++k) {
      if (labels[k] < classes) marks[labels[k]] = T_put((T_a)1);
    }
    for (hp_i64 k = 0; k < classes && labels[k] >= 0; ++k) {
      if (labels[k] >= classes) {
        sum = HP_INFINITY - HP_INFINITY;
        continue;
      }
      for (hp_i64 j = 0; j < classes; ++j) {
        const T_a z = (T_a)1 - T_get(x[labels[k]]) + T_get(x[j]);
        if (T_get(marks[j]) == 0 && z > 0) sum += z;
      }
    }
    parts[i] = sum / (T_a)classes;
  }
}

HP_KERNEL(multilabel_backward)(HP_GLOBAL T* out, HP_GLOBAL const T* grad, HP_GLOBAL const T* self,
                               HP_GLOBAL const I* target, HP_GLOBAL const T* is_target, hp_i64 rows, hp_i64 classes,
                               T_a factor) {
  HP_FOR_ELEMENTS(i, rows) {
    HP_GLOBAL const T* const x = self + i * classes;
    HP_GLOBAL const I* const labels = target + i * classes;
    HP_GLOBAL const T* const marks = is_target + i * classes;
    HP_GLOBAL T* const dx = out + i * classes;
    const T_a scale = T_get(grad[REDUCED ? 0 : i]) * factor / (T_a)classes;
    /* A non-target class gains one unit for each target that it violates the margin of; the target loses as many. */
    for (hp_i64 j = 0; j < classes; ++j) {
      T_a units = 0;
      for (hp_i64 k = 0; k < classes && labels[k] >= 0; ++k) {
        if (labels[k] >= classes) continue;
        if (T_get(marks[j]) == 0) {
          units += (T_a)1 - T_get(x[labels[k]]) + T_get(x[j]) > 0 ? (T_a)1 : (T_a)0;
        } else if (labels[k] == j) {
          for (hp_i64 m = 0; m < classes; ++m) {
            units -= T_get(marks[m]) == 0 && (T_a)1 - T_get(x[j]) + T_get(x[m]) > 0 ? (T_a)1 : (T_a)0;
          }
        }
      }
      dx[j] = T_put(units * scale);
    }
  }
}

/* Converts the row losses to the output dtype. */
HP_KERNEL(narrow)(HP_GLOBAL T* out, HP_GLOBAL const T_a* parts, hp_i64 elements) {
  HP_FOR_ELEMENTS(i, elements) out[i] = T_put(parts[i]);
}
