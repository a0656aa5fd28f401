/* Optimizer steps on lists of tensors (torch's fused optimizers). A launch takes up to SLOTS tensors per list; a
 * work-group finds its tensor from the first group of each. T: parameters, gradients and state. */
#ifndef SLOTS
#define SLOTS 1 /* update_scale has no lists */
#endif
#include "tensor_list.h"

typedef struct {
  hp_i64 first[SLOTS + 1]; /* first work-group of each tensor */
  hp_i64 size[SLOTS];
} optimizer_lists;

typedef struct {
  double lr, beta1, beta2, log_beta1, log_beta2, weight_decay, eps;
} optimizer_adam;
typedef struct {
  double lr, weight_decay, momentum, dampening;
} optimizer_sgd;
typedef struct {
  double lr, lr_decay, weight_decay, eps;
} optimizer_adagrad;

#define SLOT_FIND                                                    \
  const int slot = slot_of(lists.first, hp_group);                   \
  const hp_i64 begin = (hp_group - lists.first[slot]) * HP_ELEMENTS, \
               end = begin + HP_ELEMENTS < lists.size[slot] ? begin + HP_ELEMENTS : lists.size[slot];

/* Gradients of a scaled loss: the step is skipped if any of them was not finite; gradients are stored unscaled. */
#define OPTIMIZER_SCALE                                       \
  if (found_inf && *found_inf == 1.0f) return;                \
  const T_c scale = grad_scale ? (T_c) * grad_scale : (T_c)1; \
  const int scaled = grad_scale != 0;                         \
  const T_c rate = lr_tensor ? (T_c) * lr_tensor : (T_c)h.lr;
#define OPTIMIZER_GRADIENT(d, i) \
  T_c d = T_get(grad[i]);        \
  if (scaled) {                  \
    d /= scale;                  \
    grad[i] = T_put(d);          \
  }                              \
  if (MAXIMIZE) d = -d

/* DECOUPLED: 1 for the weight decay of AdamW. AMSGRAD, MAXIMIZE: 0 or 1. */
HP_KERNEL(adam)(HP_GLOBAL T* p_[SLOTS], HP_GLOBAL T* g_[SLOTS], HP_GLOBAL T* m_[SLOTS], HP_GLOBAL T* v_[SLOTS],
                HP_GLOBAL T* x_[SLOTS], HP_GLOBAL const float* n_[SLOTS], HP_GLOBAL const float* lr_tensor,
                HP_GLOBAL const float* grad_scale, HP_GLOBAL const float* found_inf, optimizer_lists lists,
                optimizer_adam h) {
  OPTIMIZER_SCALE
  SLOT_FIND
  HP_GLOBAL T *param = 0, *grad = 0, *average = 0, *square = 0, *highest = 0;
  HP_GLOBAL const float* steps = 0;
#define TAKE(k) \
  SLOT_CASE(k, param = p_##k, grad = g_##k, average = m_##k, square = v_##k, highest = x_##k, steps = n_##k)
  SLOT_SWITCH(slot, TAKE)
  (void)highest;
  /* 1 - beta^step, without cancellation. */
  const T_c step = (T_c)*steps;
  const T_c correction1 = -T_M(expm1)(step * (T_c)h.log_beta1), correction2 = -T_M(expm1)(step * (T_c)h.log_beta2);
  const T_c root = T_M(sqrt)(correction2), size = rate / correction1;
  const T_c beta1 = (T_c)h.beta1, beta2 = (T_c)h.beta2, rest1 = (T_c)(1 - h.beta1), rest2 = (T_c)(1 - h.beta2);
  const T_c decay = (T_c)h.weight_decay, eps = (T_c)h.eps;
  HP_VECTORIZE
  for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE) {
    T_c x = T_get(param[i]);
    OPTIMIZER_GRADIENT(d, i);
#if DECOUPLED
    x -= rate * decay * x;
#else
    d += decay * x;
#endif
    const T_c a = beta1 * T_get(average[i]) + rest1 * d, s = beta2 * T_get(square[i]) + rest2 * d * d;
    average[i] = T_put(a);
    square[i] = T_put(s);
#if AMSGRAD
    const T_c before = T_get(highest[i]), top = before > s ? before : s;
    highest[i] = T_put(top);
#else
    const T_c top = s;
#endif
    param[i] = T_put(x - size * a / (T_M(sqrt)(top) / root + eps));
  }
}

/* MOMENTUM, NESTEROV, MAXIMIZE: 0 or 1. FIRST: 1 if the momentum buffers are not initialized yet. */
HP_KERNEL(sgd)(HP_GLOBAL T* p_[SLOTS], HP_GLOBAL T* g_[SLOTS], HP_GLOBAL T* m_[SLOTS], HP_GLOBAL const float* lr_tensor,
               HP_GLOBAL const float* grad_scale, HP_GLOBAL const float* found_inf, optimizer_lists lists,
               optimizer_sgd h) {
  OPTIMIZER_SCALE
  SLOT_FIND
  HP_GLOBAL T *param = 0, *grad = 0, *buffer = 0;
#define TAKE(k) SLOT_CASE(k, param = p_##k, grad = g_##k, buffer = m_##k)
  SLOT_SWITCH(slot, TAKE)
  (void)buffer;
  const T_c decay = (T_c)h.weight_decay, momentum = (T_c)h.momentum, fresh = (T_c)(1 - h.dampening);
  HP_VECTORIZE
  for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE) {
    const T_c x = T_get(param[i]);
    OPTIMIZER_GRADIENT(d, i);
    d += decay * x;
#if MOMENTUM
#if FIRST
    const T_c b = d;
#else
    const T_c b = momentum * T_get(buffer[i]) + fresh * d;
#endif
    buffer[i] = T_put(b);
    d = NESTEROV ? d + momentum * b : b;
#endif
    param[i] = T_put(x - rate * d);
  }
}

HP_KERNEL(adagrad)(HP_GLOBAL T* p_[SLOTS], HP_GLOBAL T* g_[SLOTS], HP_GLOBAL T* m_[SLOTS],
                   HP_GLOBAL const float* n_[SLOTS], HP_GLOBAL const float* lr_tensor,
                   HP_GLOBAL const float* grad_scale, HP_GLOBAL const float* found_inf, optimizer_lists lists,
                   optimizer_adagrad h) {
  OPTIMIZER_SCALE
  SLOT_FIND
  HP_GLOBAL T *param = 0, *grad = 0, *sum = 0;
  HP_GLOBAL const float* steps = 0;
#define TAKE(k) SLOT_CASE(k, param = p_##k, grad = g_##k, sum = m_##k, steps = n_##k)
  SLOT_SWITCH(slot, TAKE)
  const T_c step = (T_c)*steps, size = rate / (1 + (step - 1) * (T_c)h.lr_decay);
  const T_c decay = (T_c)h.weight_decay, eps = (T_c)h.eps;
  HP_VECTORIZE
  for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE) {
    const T_c x = T_get(param[i]);
    OPTIMIZER_GRADIENT(d, i);
    d += decay * x;
    const T_c s = T_get(sum[i]) + d * d;
    sum[i] = T_put(s);
    param[i] = T_put(x - size * d / (T_M(sqrt)(s) + eps));
  }
}

/* Multiplies gradients by inv_scale. Work-groups that find a non-finite gradient all write the same 1. */
HP_KERNEL(unscale)(HP_GLOBAL T* p_[SLOTS], HP_GLOBAL float* found_inf, HP_GLOBAL const float* inv_scale,
                   optimizer_lists lists) {
  SLOT_FIND
  HP_GLOBAL T* grad = 0;
#define TAKE(k) SLOT_CASE(k, grad = p_##k)
  SLOT_SWITCH(slot, TAKE)
  const T_c factor = (T_c)*inv_scale;
  int wrong = 0;
  HP_VECTORIZE
  for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE) {
    const T_c d = T_get(grad[i]);
    wrong |= !(d - d == 0);
    grad[i] = T_put(d * factor);
  }
  if (wrong) *found_inf = 1.0f;
}

HP_KERNEL(update_scale)(HP_GLOBAL float* scale, HP_GLOBAL hp_i32* tracker, HP_GLOBAL const float* found_inf,
                        double growth, double backoff, hp_i64 interval) {
  if (hp_lid != 0) return;
  if (*found_inf != 0) {
    *scale = (float)((double)*scale * backoff);
    *tracker = 0;
    return;
  }
  if (*tracker + 1 < interval) {
    *tracker += 1;
    return;
  }
  const float grown = (float)((double)*scale * growth);
  if (grown - grown == 0) *scale = grown;
  *tracker = 0;
}
