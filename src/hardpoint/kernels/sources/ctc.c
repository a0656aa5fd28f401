/* Connectionist temporal classification (CTC) loss. Log probabilities are steps x batch x labels. A target of L labels
 * has 2 L + 1 states: state s is a blank if s is even, else label s / 2. `alpha` and `beta` (forward and backward log
 * probabilities) are batch x steps x width. `lengths` has 3 numbers per batch element: steps, labels, and the offset of
 * the first label in `targets`. */
#include "fault.h"

#define CTC_NONE (-(T)HP_INFINITY)

#define CTC_TARGET \
  HP_GLOBAL const I *targets, hp_i64 stride, hp_i64 blank, hp_i64 labels, HP_GLOBAL hp_i64 *fault, hp_i64 code
#define CTC_GIVEN targets + lengths[3 * b + 2], stride, blank, labels, fault, code

/* An invalid label is reported as a fault and treated as a blank. */
HP_FN hp_i64 ctc_label(hp_i64 s, CTC_TARGET) {
  if (s % 2 == 0) return blank;
  const hp_i64 label = (hp_i64)targets[s / 2 * stride];
  if (HP_INSIDE(label, labels)) return label;
  HP_FAULT(label, labels);
  return blank;
}

/* log(exp(a) + exp(b) + exp(c)). */
HP_FN T ctc_sum(T a, T b, T c) {
  T most = a > b ? a : b;
  most = most > c ? most : c;
  if (most == CTC_NONE) return CTC_NONE;
  return T_M(log)(T_M(exp)(a - most) + T_M(exp)(b - most) + T_M(exp)(c - most)) + most;
}

/* One work-group per batch element. Each step reads all states of the previous one, hence the barrier. */
HP_KERNEL(forward)(HP_GLOBAL T* losses, HP_GLOBAL T* alpha, HP_GLOBAL const T* logs, HP_GLOBAL const I* targets,
                   HP_GLOBAL const hp_i64* lengths, hp_i64 steps, hp_i64 batches, hp_i64 labels, hp_i64 width,
                   hp_i64 stride, hp_i64 blank, HP_GLOBAL hp_i64* fault, hp_i64 code) {
  const hp_i64 b = hp_group, count = lengths[3 * b], last = 2 * lengths[3 * b + 1];
  HP_GLOBAL T* const own = alpha + b * steps * width;
  HP_FOR_LOCAL(s, width) {
    if (steps > 0) own[s] = CTC_NONE;
    if (count > 0 && s <= last && s < 2) own[s] = logs[b * labels + ctc_label(s, CTC_GIVEN)];
  }
  for (hp_i64 t = 1; t < count; ++t) {
    hp_barrier();
    HP_GLOBAL const T* const before = own + (t - 1) * width;
    HP_FOR_LOCAL(s, last + 1) {
      const hp_i64 label = ctc_label(s, CTC_GIVEN);
      const T a = before[s], c = s > 0 ? before[s - 1] : CTC_NONE;
      const T d = s > 1 && ctc_label(s - 2, CTC_GIVEN) != label ? before[s - 2] : CTC_NONE;
      own[t * width + s] = ctc_sum(a, c, d) + logs[(t * batches + b) * labels + label];
    }
  }
  hp_barrier();
  if (hp_lid == 0) {
    HP_GLOBAL const T* const end = own + (count - 1) * width;
    if (count == 0)
      losses[b] = last == 0 ? (T)0 : -CTC_NONE;
    else
      losses[b] = -ctc_sum(end[last], last > 0 ? end[last - 1] : CTC_NONE, CTC_NONE);
  }
}

/* One work-group per batch element, from the last step to the first. */
HP_KERNEL(beta)(HP_GLOBAL T* beta, HP_GLOBAL const T* logs, HP_GLOBAL const I* targets, HP_GLOBAL const hp_i64* lengths,
                hp_i64 steps, hp_i64 batches, hp_i64 labels, hp_i64 width, hp_i64 stride, hp_i64 blank,
                HP_GLOBAL hp_i64* fault, hp_i64 code) {
  const hp_i64 b = hp_group, count = lengths[3 * b], last = 2 * lengths[3 * b + 1];
  HP_GLOBAL T* const own = beta + b * steps * width;
  for (hp_i64 t = count - 1; t >= 0; --t) {
    hp_barrier();
    HP_GLOBAL const T* const after = own + (t + 1) * width;
    HP_FOR_LOCAL(s, last + 1) {
      const hp_i64 label = ctc_label(s, CTC_GIVEN);
      T sum = s + 1 >= last ? (T)0 : CTC_NONE;
      if (t + 1 < count) {
        const T a = after[s], c = s < last ? after[s + 1] : CTC_NONE;
        const T d = s + 1 < last && ctc_label(s + 2, CTC_GIVEN) != label ? after[s + 2] : CTC_NONE;
        sum = ctc_sum(a, c, d);
      }
      own[t * width + s] = sum + logs[(t * batches + b) * labels + label];
    }
  }
}

/* One work-group per step and batch element: one row of the gradient. */
HP_KERNEL(backward)(HP_GLOBAL T* out, HP_GLOBAL const T* grad, HP_GLOBAL const T* losses, HP_GLOBAL const T* alpha,
                    HP_GLOBAL const T* beta, HP_GLOBAL const T* logs, HP_GLOBAL const I* targets,
                    HP_GLOBAL const hp_i64* lengths, hp_i64 steps, hp_i64 batches, hp_i64 labels, hp_i64 width,
                    hp_i64 stride, hp_i64 blank, HP_GLOBAL hp_i64* fault, hp_i64 code, hp_i64 zero_infinity) {
  const hp_i64 b = hp_group % batches, t = hp_group / batches, last = 2 * lengths[3 * b + 1];
  const T loss = losses[b], g = grad[b];
  HP_GLOBAL T* const row = out + hp_group * labels;
  HP_GLOBAL const T* const given = logs + hp_group * labels;
  const int none = t >= lengths[3 * b] || (zero_infinity && loss == -CTC_NONE);
  /* No early return before the barriers: PoCL 3.1 would then write back stale rows of other work-groups. */
  HP_FOR_LOCAL(c, labels) row[c] = CTC_NONE;
  hp_barrier();
  if (hp_lid == 0 && !none) {
    const hp_i64 at = (b * steps + t) * width;
    for (hp_i64 s = 0; s <= last; ++s) {
      const hp_i64 label = ctc_label(s, CTC_GIVEN);
      row[label] = ctc_sum(row[label], alpha[at + s] + beta[at + s], CTC_NONE);
    }
  }
  hp_barrier();
  HP_FOR_LOCAL(c, labels) {
    const T slope = (T_M(exp)(given[c]) - T_M(exp)(row[c] + loss - given[c])) * g;
    row[c] = none ? (T)0 : slope;
  }
}
