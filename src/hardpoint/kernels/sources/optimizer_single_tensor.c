/* One optimizer step on one tensor, in place (Paddle's optimizers). T: parameter, G: gradient, M: state and the
 * high-precision master parameter (MASTER: 1 if there is one), S: learning rate and other scalars. Arithmetic uses the
 * type of the state. */
typedef struct {
  double mu, decay, rescale;
} step_momentum;
typedef struct {
  double beta1, beta2, eps, rate_ratio, decay;
} step_adam;
typedef struct {
  double rho, eps, momentum;
} step_decaying;
typedef struct {
  double beta1, beta2, eps, decay;
} step_lamb;

#if MASTER
#define STEP_READ(i) M_get(master[i])
#define STEP_WRITE(i, value)         \
  do {                               \
    const M stored = M_put(value);   \
    master[i] = stored;              \
    param[i] = T_put(M_get(stored)); \
  } while (0)
#else
#define STEP_READ(i) ((M_c)T_get(param[i]))
#define STEP_WRITE(i, value) param[i] = T_put(value)
#endif
#define STEP_FOR(i) HP_VECTORIZE HP_FOR_ELEMENTS(i, n)
#define STEP_RATE const M_c rate = (M_c)S_get(*lr)

HP_KERNEL(sgd)(HP_GLOBAL T* param, HP_GLOBAL const G* grad, HP_GLOBAL M* master, HP_GLOBAL const S* lr, hp_i64 n) {
  STEP_RATE;
  STEP_FOR(i) { STEP_WRITE(i, STEP_READ(i) - rate * (M_c)G_get(grad[i])); }
}

/* NESTEROV: 0 or 1. */
HP_KERNEL(momentum)(HP_GLOBAL T* param, HP_GLOBAL const G* grad, HP_GLOBAL M* master, HP_GLOBAL M* velocity,
                    HP_GLOBAL const S* lr, hp_i64 n, step_momentum h) {
  STEP_RATE;
  const M_c mu = (M_c)h.mu, decay = (M_c)h.decay, rescale = (M_c)h.rescale;
  STEP_FOR(i) {
    const M_c x = STEP_READ(i), d = (M_c)G_get(grad[i]) * rescale + decay * x;
    const M_c v = mu * M_get(velocity[i]) + d;
    velocity[i] = M_put(v);
    STEP_WRITE(i, x - rate * (NESTEROV ? d + mu * v : v));
  }
}

/* power1 and power2 are beta1 and beta2 to the power of this step. AMSGRAD: 0 or 1. Weight decay as in AdamW. */
HP_KERNEL(adam)(HP_GLOBAL T* param, HP_GLOBAL const G* grad, HP_GLOBAL M* master, HP_GLOBAL M* average,
                HP_GLOBAL M* square, HP_GLOBAL M* highest, HP_GLOBAL const S* lr, HP_GLOBAL const S* power1,
                HP_GLOBAL const S* power2, hp_i64 n, step_adam h) {
  STEP_RATE;
  const M_c beta1 = (M_c)h.beta1, beta2 = (M_c)h.beta2, rest1 = (M_c)1 - beta1, rest2 = (M_c)1 - beta2;
  const M_c ratio = rate * (M_c)h.rate_ratio, kept = (M_c)1 - ratio * (M_c)h.decay;
  const M_c root = M_M(sqrt)((M_c)1 - (M_c)S_get(*power2)), eps = (M_c)h.eps * root;
  const M_c size = ratio * root / ((M_c)1 - (M_c)S_get(*power1));
  STEP_FOR(i) {
    const M_c x = STEP_READ(i) * kept, d = (M_c)G_get(grad[i]);
    const M_c a = beta1 * M_get(average[i]) + rest1 * d, s = beta2 * M_get(square[i]) + rest2 * d * d;
    average[i] = M_put(a);
    square[i] = M_put(s);
#if AMSGRAD
    const M_c before = M_get(highest[i]), top = before > s ? before : s;
    highest[i] = M_put(top);
#else
    const M_c top = s;
#endif
    STEP_WRITE(i, x - size * (a / (M_M(sqrt)(top) + eps)));
  }
}

HP_KERNEL(adagrad)(HP_GLOBAL T* param, HP_GLOBAL const G* grad, HP_GLOBAL M* master, HP_GLOBAL M* sum,
                   HP_GLOBAL const S* lr, hp_i64 n, step_decaying h) {
  STEP_RATE;
  const M_c eps = (M_c)h.eps;
  STEP_FOR(i) {
    const M_c d = (M_c)G_get(grad[i]), s = M_get(sum[i]) + d * d;
    sum[i] = M_put(s);
    STEP_WRITE(i, STEP_READ(i) - rate * d / (M_M(sqrt)(s) + eps));
  }
}

HP_KERNEL(adadelta)(HP_GLOBAL T* param, HP_GLOBAL const G* grad, HP_GLOBAL M* master, HP_GLOBAL M* square,
                    HP_GLOBAL M* change, HP_GLOBAL const S* lr, hp_i64 n, step_decaying h) {
  STEP_RATE;
  const M_c rho = (M_c)h.rho, rest = (M_c)1 - rho, eps = (M_c)h.eps;
  STEP_FOR(i) {
    const M_c d = (M_c)G_get(grad[i]), s = rho * M_get(square[i]) + rest * d * d, before = M_get(change[i]);
    const M_c u = -M_M(sqrt)((before + eps) / (s + eps)) * d;
    square[i] = M_put(s);
    change[i] = M_put(rho * before + rest * u * u);
    STEP_WRITE(i, STEP_READ(i) + rate * u);
  }
}

HP_KERNEL(adamax)(HP_GLOBAL T* param, HP_GLOBAL const G* grad, HP_GLOBAL M* master, HP_GLOBAL M* average,
                  HP_GLOBAL M* largest, HP_GLOBAL const S* lr, HP_GLOBAL const S* power1, hp_i64 n, step_adam h) {
  STEP_RATE;
  const M_c beta1 = (M_c)h.beta1, beta2 = (M_c)h.beta2, rest1 = (M_c)1 - beta1, eps = (M_c)h.eps;
  const M_c size = rate / ((M_c)1 - (M_c)S_get(*power1));
  STEP_FOR(i) {
    const M_c d = (M_c)G_get(grad[i]), a = beta1 * M_get(average[i]) + rest1 * d;
    const M_c decayed = beta2 * M_get(largest[i]) + eps, now = d < 0 ? -d : d, top = now > decayed ? now : decayed;
    average[i] = M_put(a);
    largest[i] = M_put(top);
    STEP_WRITE(i, STEP_READ(i) - size * (a / top));
  }
}

/* CENTERED: 0 or 1. */
HP_KERNEL(rmsprop)(HP_GLOBAL T* param, HP_GLOBAL const G* grad, HP_GLOBAL M* master, HP_GLOBAL M* square,
                   HP_GLOBAL M* moment, HP_GLOBAL M* mean, HP_GLOBAL const S* lr, hp_i64 n, step_decaying h) {
  STEP_RATE;
  const M_c rho = (M_c)h.rho, rest = (M_c)1 - rho, eps = (M_c)h.eps, momentum = (M_c)h.momentum;
  STEP_FOR(i) {
    const M_c d = (M_c)G_get(grad[i]), s = rho * M_get(square[i]) + rest * d * d;
    square[i] = M_put(s);
#if CENTERED
    const M_c m = rho * M_get(mean[i]) + rest * d;
    mean[i] = M_put(m);
    const M_c spread = s - m * m + eps;
#else
    const M_c spread = s + eps;
#endif
    const M_c v = momentum * M_get(moment[i]) + rate * d / M_M(sqrt)(spread);
    moment[i] = M_put(v);
    STEP_WRITE(i, STEP_READ(i) - v);
  }
}

/* LAMB's update direction. lamb_apply scales it by the trust ratio, which needs the norms of whole tensors. */
HP_KERNEL(lamb)(HP_GLOBAL T* param, HP_GLOBAL const G* grad, HP_GLOBAL M* master, HP_GLOBAL M* average,
                HP_GLOBAL M* square, HP_GLOBAL M* direction, HP_GLOBAL const S* power1, HP_GLOBAL const S* power2,
                hp_i64 n, step_lamb h) {
  const M_c beta1 = (M_c)h.beta1, beta2 = (M_c)h.beta2, rest1 = (M_c)1 - beta1, rest2 = (M_c)1 - beta2;
  const M_c left1 = (M_c)1 - (M_c)S_get(*power1), left2 = (M_c)1 - (M_c)S_get(*power2);
  const M_c decay = (M_c)h.decay, eps = (M_c)h.eps;
  STEP_FOR(i) {
    const M_c d = (M_c)G_get(grad[i]);
    const M_c a = beta1 * M_get(average[i]) + rest1 * d, s = beta2 * M_get(square[i]) + rest2 * d * d;
    average[i] = M_put(a);
    square[i] = M_put(s);
    direction[i] = M_put(a / left1 / (M_M(sqrt)(s / left2) + eps) + decay * STEP_READ(i));
  }
}
/* ADAPT: 1 to scale by the ratio of the norms. */
HP_KERNEL(lamb_apply)(HP_GLOBAL T* param, HP_GLOBAL M* master, HP_GLOBAL const M* direction,
                      HP_GLOBAL const M* param_norm, HP_GLOBAL const M* norm, HP_GLOBAL const S* lr, hp_i64 n) {
  const M_c of_param = M_get(*param_norm), of_direction = M_get(*norm);
  const M_c trust = ADAPT && of_param > 0 && of_direction > 0 ? of_param / of_direction : (M_c)1;
  const M_c size = (M_c)S_get(*lr) * trust;
  STEP_FOR(i) { STEP_WRITE(i, STEP_READ(i) - size * M_get(direction[i])); }
}

/* NAdam's scalars of this step, the first three derived from those of the last step. */
typedef struct {
  double beta1, beta2, eps, decay, base;
} step_nadam;
#define NADAM_NUMBERS                                          \
  const M_c decayed = (M_c)S_get(*decay_power) * (M_c)h.base;  \
  const M_c powered = M_M(pow)(decayed, (M_c)h.decay);         \
  const M_c mu = (M_c)h.beta1 * ((M_c)1 - (M_c)0.5 * powered); \
  const M_c product = (M_c)S_get(*mu_product) * mu;            \
  const M_c power = (M_c)S_get(*power2) * (M_c)h.beta2
HP_KERNEL(nadam)(HP_GLOBAL T* param, HP_GLOBAL const G* grad, HP_GLOBAL M* master, HP_GLOBAL M* average,
                 HP_GLOBAL M* square, HP_GLOBAL const S* lr, HP_GLOBAL const S* decay_power, HP_GLOBAL const S* power2,
                 HP_GLOBAL const S* mu_product, hp_i64 n, step_nadam h) {
  STEP_RATE;
  NADAM_NUMBERS;
  const M_c beta1 = (M_c)h.beta1, beta2 = (M_c)h.beta2, rest1 = (M_c)1 - beta1, rest2 = (M_c)1 - beta2;
  const M_c next = beta1 * ((M_c)1 - (M_c)0.5 * powered * M_M(pow)((M_c)h.base, (M_c)h.decay));
  const M_c of_average = next / ((M_c)1 - product * next), of_grad = ((M_c)1 - mu) / ((M_c)1 - product);
  const M_c left = (M_c)1 - power, eps = (M_c)h.eps;
  STEP_FOR(i) {
    const M_c d = (M_c)G_get(grad[i]);
    const M_c a = beta1 * M_get(average[i]) + rest1 * d, s = beta2 * M_get(square[i]) + rest2 * d * d;
    average[i] = M_put(a);
    square[i] = M_put(s);
    STEP_WRITE(i, STEP_READ(i) - rate * (of_average * a + of_grad * d) / (M_M(sqrt)(s / left) + eps));
  }
}
/* Runs after all work-groups of the step have read the old scalars. */
HP_KERNEL(nadam_numbers)(HP_GLOBAL S* decay_power, HP_GLOBAL S* power2, HP_GLOBAL S* mu_product, step_nadam h) {
  if (hp_lid != 0) return;
  NADAM_NUMBERS;
  *decay_power = S_put(decayed);
  *power2 = S_put(power);
  *mu_product = S_put(product);
}

typedef struct {
  double beta1, beta2, eps;
} step_radam;
#define RADAM_NUMBERS                                    \
  const M_c first = (M_c)S_get(*power1) * (M_c)h.beta1;  \
  const M_c second = (M_c)S_get(*power2) * (M_c)h.beta2; \
  const M_c length = ((M_c)S_get(*rho) * ((M_c)h.beta2 - second) + second) / ((M_c)1 - second)
HP_KERNEL(radam)(HP_GLOBAL T* param, HP_GLOBAL const G* grad, HP_GLOBAL M* master, HP_GLOBAL M* average,
                 HP_GLOBAL M* square, HP_GLOBAL const S* lr, HP_GLOBAL const S* power1, HP_GLOBAL const S* power2,
                 HP_GLOBAL const S* rho, hp_i64 n, step_radam h) {
  STEP_RATE;
  RADAM_NUMBERS;
  const M_c beta1 = (M_c)h.beta1, beta2 = (M_c)h.beta2, rest1 = (M_c)1 - beta1, rest2 = (M_c)1 - beta2;
  const M_c most = (M_c)2 / rest2 - (M_c)1, now = most - (M_c)2 * length, eps = (M_c)h.eps;
  const int rectified = now > (M_c)5;
  const M_c ratio = (now - 4) * (now - 2) * most / ((most - 4) * (most - 2) * now);
  const M_c size = rate / ((M_c)1 - first) * (rectified ? M_M(sqrt)(ratio * ((M_c)1 - second)) : (M_c)1);
  STEP_FOR(i) {
    const M_c d = (M_c)G_get(grad[i]);
    const M_c a = beta1 * M_get(average[i]) + rest1 * d, s = beta2 * M_get(square[i]) + rest2 * d * d;
    average[i] = M_put(a);
    square[i] = M_put(s);
    STEP_WRITE(i, STEP_READ(i) - size * a / (rectified ? M_M(sqrt)(s) + eps : (M_c)1));
  }
}
HP_KERNEL(radam_numbers)(HP_GLOBAL S* power1, HP_GLOBAL S* power2, HP_GLOBAL S* rho, step_radam h) {
  if (hp_lid != 0) return;
  RADAM_NUMBERS;
  *power1 = S_put(first);
  *power2 = S_put(second);
  *rho = S_put(length);
}

HP_KERNEL(asgd)(HP_GLOBAL T* param, HP_GLOBAL const G* grad, HP_GLOBAL M* master, HP_GLOBAL M* sum, HP_GLOBAL M* before,
                HP_GLOBAL const S* lr, HP_GLOBAL const S* count, hp_i64 n) {
  const M_c size = (M_c)S_get(*lr) / (M_c)S_get(*count);
  STEP_FOR(i) {
    const M_c d = (M_c)G_get(grad[i]), total = M_get(sum[i]) - M_get(before[i]) + d;
    sum[i] = M_put(total);
    before[i] = M_put(d);
    STEP_WRITE(i, STEP_READ(i) - size * total);
  }
}

/* One learning rate per element. `range` is (lowest, highest) rate, `etas` is (decrease, increase) factor. */
HP_KERNEL(rprop)(HP_GLOBAL T* param, HP_GLOBAL const G* grad, HP_GLOBAL M* master, HP_GLOBAL M* before,
                 HP_GLOBAL M* rates, HP_GLOBAL const S* range, HP_GLOBAL const S* etas, hp_i64 n) {
  const M_c lowest = (M_c)S_get(range[0]), highest = (M_c)S_get(range[1]);
  const M_c slower = (M_c)S_get(etas[0]), faster = (M_c)S_get(etas[1]);
  STEP_FOR(i) {
    const M_c d = (M_c)G_get(grad[i]), product = d * M_get(before[i]);
    const M_c taken = product < 0 ? (M_c)0 : d;
    const M_c wanted = M_get(rates[i]) * (product > 0 ? faster : product < 0 ? slower : (M_c)1);
    const M_c used = wanted < lowest ? lowest : wanted > highest ? highest : wanted;
    before[i] = M_put(taken);
    rates[i] = M_put(used);
    STEP_WRITE(i, STEP_READ(i) - (taken > 0 ? used : taken < 0 ? -used : (M_c)0));
  }
}

/* Advances beta powers to the next step. */
HP_KERNEL(powers)(HP_GLOBAL S* power1, HP_GLOBAL S* power2, double beta1, double beta2) {
  if (hp_lid != 0) return;
  *power1 = S_put((S_c)(S_get(*power1) * (S_c)beta1));
  *power2 = S_put((S_c)(S_get(*power2) * (S_c)beta2));
}

/* Updates the loss scale from whether a non-finite gradient was found, and the lengths of the current streaks of good
 * and bad steps. */
HP_KERNEL(loss_scale)(HP_GLOBAL S* factor, HP_GLOBAL hp_i32* good, HP_GLOBAL hp_i32* bad, HP_GLOBAL const hp_u8* found,
                      double growth, double backoff, hp_i64 growth_after, hp_i64 backoff_after) {
  if (hp_lid != 0) return;
  const S_c now = S_get(*factor);
  S_c next = now;
  if (*found) {
    *good = 0;
    *bad += 1;
    if (*bad == (hp_i32)backoff_after) {
      next = now * (S_c)backoff;
      next = next < (S_c)1 ? (S_c)1 : next;
      *bad = 0;
    }
  } else {
    *bad = 0;
    *good += 1;
    if (*good == (hp_i32)growth_after) {
      next = now * (S_c)growth;
      next = next - next == 0 ? next : now;
      *good = 0;
    }
  }
  *factor = S_put(next);
}
