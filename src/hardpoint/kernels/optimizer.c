/* Steps of optimisers. A launch takes up to SLOTS tensors of each list; their pointers are parameters, and a group
 * finds its tensor by the number of its first group. T: parameters, gradients and state. */
#define SLOTS 4
typedef struct {
  hp_i64 first[SLOTS + 1]; /* group that each tensor begins with */
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

#define SLOT_OF(p) (slot == 0 ? p##0 : slot == 1 ? p##1 : slot == 2 ? p##2 : p##3)
#define SLOT_FIND                                                                                                \
  const int slot =                                                                                               \
      (int)(hp_group >= lists.first[1]) + (int)(hp_group >= lists.first[2]) + (int)(hp_group >= lists.first[3]); \
  const hp_i64 begin = (hp_group - lists.first[slot]) * HP_ELEMENTS,                                             \
               end = begin + HP_ELEMENTS < lists.size[slot] ? begin + HP_ELEMENTS : lists.size[slot];

/* Gradients of a scaled loss: a step is left out if one of them was not finite; what is stored is unscaled. */
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

/* DECOUPLED: the weight decay of AdamW. AMSGRAD, MAXIMIZE: 0 or 1. */
HP_KERNEL(adam)(HP_GLOBAL T* p0, HP_GLOBAL T* p1, HP_GLOBAL T* p2, HP_GLOBAL T* p3, HP_GLOBAL T* g0, HP_GLOBAL T* g1,
                HP_GLOBAL T* g2, HP_GLOBAL T* g3, HP_GLOBAL T* m0, HP_GLOBAL T* m1, HP_GLOBAL T* m2, HP_GLOBAL T* m3,
                HP_GLOBAL T* v0, HP_GLOBAL T* v1, HP_GLOBAL T* v2, HP_GLOBAL T* v3, HP_GLOBAL T* x0, HP_GLOBAL T* x1,
                HP_GLOBAL T* x2, HP_GLOBAL T* x3, HP_GLOBAL const float* n0, HP_GLOBAL const float* n1,
                HP_GLOBAL const float* n2, HP_GLOBAL const float* n3, HP_GLOBAL const float* lr_tensor,
                HP_GLOBAL const float* grad_scale, HP_GLOBAL const float* found_inf, optimizer_lists lists,
                optimizer_adam h) {
  OPTIMIZER_SCALE
  SLOT_FIND
  HP_GLOBAL T* const param = SLOT_OF(p);
  HP_GLOBAL T* const grad = SLOT_OF(g);
  HP_GLOBAL T* const average = SLOT_OF(m);
  HP_GLOBAL T* const square = SLOT_OF(v);
#if AMSGRAD
  HP_GLOBAL T* const highest = SLOT_OF(x);
#endif
  /* 1 - beta^step, without its cancellation. */
  const T_c step = (T_c)*SLOT_OF(n);
  const T_c correction1 = -T_M(expm1)(step * (T_c)h.log_beta1), correction2 = -T_M(expm1)(step * (T_c)h.log_beta2);
  const T_c root = T_M(sqrt)(correction2), size = rate / correction1;
  const T_c beta1 = (T_c)h.beta1, beta2 = (T_c)h.beta2, rest1 = (T_c)(1 - h.beta1), rest2 = (T_c)(1 - h.beta2);
  const T_c decay = (T_c)h.weight_decay, eps = (T_c)h.eps;
  HP_VECTORISE
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

/* MOMENTUM, NESTEROV, MAXIMIZE: 0 or 1. FIRST: the buffers hold nothing yet. */
HP_KERNEL(sgd)(HP_GLOBAL T* p0, HP_GLOBAL T* p1, HP_GLOBAL T* p2, HP_GLOBAL T* p3, HP_GLOBAL T* g0, HP_GLOBAL T* g1,
               HP_GLOBAL T* g2, HP_GLOBAL T* g3, HP_GLOBAL T* m0, HP_GLOBAL T* m1, HP_GLOBAL T* m2, HP_GLOBAL T* m3,
               HP_GLOBAL const float* lr_tensor, HP_GLOBAL const float* grad_scale, HP_GLOBAL const float* found_inf,
               optimizer_lists lists, optimizer_sgd h) {
  OPTIMIZER_SCALE
  SLOT_FIND
  HP_GLOBAL T* const param = SLOT_OF(p);
  HP_GLOBAL T* const grad = SLOT_OF(g);
#if MOMENTUM
  HP_GLOBAL T* const buffer = SLOT_OF(m);
#endif
  const T_c decay = (T_c)h.weight_decay, momentum = (T_c)h.momentum, fresh = (T_c)(1 - h.dampening);
  HP_VECTORISE
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

HP_KERNEL(adagrad)(HP_GLOBAL T* p0, HP_GLOBAL T* p1, HP_GLOBAL T* p2, HP_GLOBAL T* p3, HP_GLOBAL T* g0, HP_GLOBAL T* g1,
                   HP_GLOBAL T* g2, HP_GLOBAL T* g3, HP_GLOBAL T* m0, HP_GLOBAL T* m1, HP_GLOBAL T* m2, HP_GLOBAL T* m3,
                   HP_GLOBAL const float* n0, HP_GLOBAL const float* n1, HP_GLOBAL const float* n2,
                   HP_GLOBAL const float* n3, HP_GLOBAL const float* lr_tensor, HP_GLOBAL const float* grad_scale,
                   HP_GLOBAL const float* found_inf, optimizer_lists lists, optimizer_adagrad h) {
  OPTIMIZER_SCALE
  SLOT_FIND
  HP_GLOBAL T* const param = SLOT_OF(p);
  HP_GLOBAL T* const grad = SLOT_OF(g);
  HP_GLOBAL T* const sum = SLOT_OF(m);
  const T_c step = (T_c)*SLOT_OF(n), size = rate / (1 + (step - 1) * (T_c)h.lr_decay);
  const T_c decay = (T_c)h.weight_decay, eps = (T_c)h.eps;
  HP_VECTORISE
  for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE) {
    const T_c x = T_get(param[i]);
    OPTIMIZER_GRADIENT(d, i);
    d += decay * x;
    const T_c s = T_get(sum[i]) + d * d;
    sum[i] = T_put(s);
    param[i] = T_put(x - size * d / (T_M(sqrt)(s) + eps));
  }
}

/* Gradients times inv_scale. Every group that finds one that is not finite writes the same 1. */
HP_KERNEL(unscale)(HP_GLOBAL T* p0, HP_GLOBAL T* p1, HP_GLOBAL T* p2, HP_GLOBAL T* p3, HP_GLOBAL float* found_inf,
                   HP_GLOBAL const float* inv_scale, optimizer_lists lists) {
  SLOT_FIND
  HP_GLOBAL T* const grad = SLOT_OF(p);
  const T_c factor = (T_c)*inv_scale;
  int wrong = 0;
  HP_VECTORISE
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
