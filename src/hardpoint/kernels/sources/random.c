/* Random numbers: Philox 4x32-10, keyed by the generator's seed.
 *
 * The mapping is the same on every device. A call starts at block `start` of the generator's sequence. Element i, in
 * logical order, uses word i % 4 of block start + i / 4; an element that needs 64 bits uses words 2 (i % 2) and 2 (i %
 * 2) + 1 of block start + i / 2. Normal numbers come in pairs, from two words each. Nothing depends on strides,
 * work-groups or threads. Rejection samplers (gamma, Poisson, binomial) give each element its own block, start + i, and
 * count their tries in the high half of the counter.
 *
 * T: output type. DIST: a distribution of the list below. WIDE: 1 for 64 bits per element. */
#define DIST_UNIFORM 0
#define DIST_NORMAL 1
#define DIST_LOG_NORMAL 2
#define DIST_EXPONENTIAL 3
#define DIST_GEOMETRIC 4
#define DIST_CAUCHY 5
#define DIST_BERNOULLI 6
#define DIST_INTEGER 7

#include "philox.h"
#include "vector_access.h"

/* Uniform in (0, 1]. */
HP_FN float random_positive_f32(hp_u32 w) {
  return hp_fma_f32((float)w, 2.3283064365386963e-10f, 1.1641532182693481e-10f);
}
/* Its logarithm; the argument is always a normal number. */
HP_FN float random_log_f32(hp_u32 w) { return hp_log_normal_f32(random_positive_f32(w)); }

/* sin(2 pi w / 2^32 + shift pi / 2), to 1e-7. The reduction to a quarter turn is exact. */
HP_FN float random_turn_f32(hp_u32 w, hp_u32 shift) {
  const hp_u32 turn = (w + 0x20000000u) >> 30, q = turn + shift;
  const float r = (float)(hp_i32)(w - (turn << 30)) * 1.462918079e-9f, s = r * r;
  float u = hp_fma_f32(2.718025826e-6f, s, -1.983930269e-4f);
  u = hp_fma_f32(u, s, 8.333329111e-3f);
  u = hp_fma_f32(u, s, -1.666666716e-1f);
  u = hp_fma_f32(u * s, r, r);
  float v = hp_fma_f32(2.443220728e-5f, s, -1.388730831e-3f);
  v = hp_fma_f32(v, s, 4.166664556e-2f);
  v = hp_fma_f32(v, s, -0.5f);
  v = hp_fma_f32(v, s, 1.0f);
  return hp_from_bits_f32(hp_bits_f32(hp_select_f32((int)(q & 1u), v, u)) ^ ((q & 2u) << 30));
}
/* Radius of a pair of normal numbers (Box-Muller). */
HP_FN float random_radius_f32(hp_u32 w) {
  const float square = -2.0f * random_log_f32(w);
#ifdef HP_DIALECT_CUDA
  /* sqrtf branches on special cases that cannot occur here. */
  const float inverse = rsqrtf(square + 1e-30f), root = square * inverse;
  return hp_fma_f32(hp_fma_f32(-root, root, square), 0.5f * inverse, root);
#else
  return HP_LIB_f32(sqrt)(square);
#endif
}
/* Bits of four normal numbers, one pair for each two words. */
HP_FN random_block random_normals_f32(random_block b) {
  const float first = random_radius_f32(b.w[0]), second = random_radius_f32(b.w[2]);
  random_block normal;
  normal.w[0] = hp_bits_f32(first * random_turn_f32(b.w[1], 1));
  normal.w[1] = hp_bits_f32(first * random_turn_f32(b.w[1], 0));
  normal.w[2] = hp_bits_f32(second * random_turn_f32(b.w[3], 1));
  normal.w[3] = hp_bits_f32(second * random_turn_f32(b.w[3], 0));
  return normal;
}
/* tan(pi (u - 1/2)). */
HP_FN float random_cauchy_f32(hp_u32 w) {
  const hp_u32 half_turn = (w >> 1) | 1u;
  return -random_turn_f32(half_turn, 1) / random_turn_f32(half_turn, 0);
}

#ifndef HP_NO_F64
HP_FN double random_unit_f64(hp_u32 low, hp_u32 high) {
  return (double)(((hp_u64)high << 32 | low) >> 11) * 1.1102230246251565e-16;
}
HP_FN double random_positive_f64(hp_u32 low, hp_u32 high) {
  return random_unit_f64(low, high) + 1.1102230246251565e-16;
}
HP_FN double random_turn_f64(double turn, int k) {
  const double angle = 6.283185307179586 * turn;
  return k == 0 ? hp_cos_f64(angle) : hp_sin_f64(angle);
}
#endif

/* Distribution primitives per type: RANDOM_UNIT(block, k) and others return element k of a block. */
#if defined(T_IS_F64)
typedef double random_real;
#define RANDOM_EXP hp_exp_f64
#define RANDOM_CEIL HP_LIB_f64(ceil)
#define RANDOM_LEAST 1.1102230246251565e-16
#define RANDOM_NORMAL_LEAST 2.2250738585072014e-308
#define RANDOM_UNIT(b, k) random_unit_f64(b.w[2 * (k)], b.w[2 * (k) + 1])
#define RANDOM_LOG(b, k) hp_log_f64(random_positive_f64(b.w[2 * (k)], b.w[2 * (k) + 1]))
#define RANDOM_NORMAL(b, k)                                                   \
  (HP_LIB_f64(sqrt)(-2.0 * hp_log_f64(random_positive_f64(b.w[0], b.w[1]))) * \
   random_turn_f64(random_unit_f64(b.w[2], b.w[3]), k))
#define RANDOM_CAUCHY(b, k) HP_LIB_f64(tan)(3.141592653589793 * (RANDOM_UNIT(b, k) - 0.5))
#else
typedef float random_real;
#define RANDOM_EXP hp_exp_f32
#define RANDOM_CEIL HP_LIB_f32(ceil)
#define RANDOM_LEAST 5.9604645e-8f
#ifdef T_IS_F16
#define RANDOM_NORMAL_LEAST 6.103515625e-5f
#else
#define RANDOM_NORMAL_LEAST 1.17549435e-38f
#endif
#define RANDOM_UNIT(b, k) ((float)(hp_i32)(b.w[k] >> 8) * 5.9604645e-8f)
#define RANDOM_LOG(b, k) random_log_f32(b.w[k])
#if DIST == DIST_NORMAL || DIST == DIST_LOG_NORMAL
#define RANDOM_NORMAL(b, k) hp_from_bits_f32(b.w[k])
#define RANDOM_BLOCK(seed, first, j) random_normals_f32(random_at(seed, first, j))
#endif
#define RANDOM_CAUCHY(b, k) random_cauchy_f32(b.w[k])
#endif

/* A number in [p, q) also after rounding to T. */
HP_FN random_real random_between(random_real unit, random_real p, random_real q) {
  const random_real x = unit * (q - p) + p;
  return T_get(T_put((T_c)x)) < T_get(T_put((T_c)q)) ? x : p;
}

#ifdef WIDE
#define RANDOM_EACH (WIDE ? 2 : 4)
#else
#define RANDOM_EACH 4
#endif

#ifndef RANDOM_BLOCK
#define RANDOM_BLOCK random_at
#endif

/* The work-group's elements: `here` elements from `begin`, including `whole` full blocks from block `base`. */
#define RANDOM_RANGE                                                                     \
  const hp_i64 begin = hp_group * HP_ELEMENTS, rest = elements - begin,                  \
               here = rest < HP_ELEMENTS ? rest : HP_ELEMENTS;                           \
  const hp_u64 key = (hp_u64)seed, base = (hp_u64)start + (hp_u64)(begin / RANDOM_EACH); \
  const hp_u32 whole = (hp_u32)(here / RANDOM_EACH);
/* Runs WRITE(block, k, at) for all elements; WHOLE(WRITE, block, at) handles a full block. */
#define RANDOM_FOR_BLOCKS(WHOLE, WRITE)                        \
  HP_VECTORIZE                                                 \
  for (hp_u32 j = (hp_u32)hp_lid; j < whole; j += HP_LSIZE) {  \
    const random_block block = RANDOM_BLOCK(key, base, j);     \
    const hp_i64 at = begin + (hp_i64)j * RANDOM_EACH;         \
    WHOLE(WRITE, block, at)                                    \
  }                                                            \
  const hp_i64 left = here - (hp_i64)whole * RANDOM_EACH;      \
  if (left > 0 && hp_lid == 0) {                               \
    const random_block block = RANDOM_BLOCK(key, base, whole); \
    const hp_i64 at = begin + here - left;                     \
    WRITE(block, 0, at)                                        \
    if (left > 1) {                                            \
      WRITE(block, 1, at + 1)                                  \
    }                                                          \
    if (left > 2) {                                            \
      WRITE(block, 2, at + 2)                                  \
    }                                                          \
  }
#define RANDOM_ONE_BY_ONE(WRITE, block, at) \
  WRITE(block, 0, at)                       \
  WRITE(block, 1, at + 1)                   \
  if (RANDOM_EACH == 4) {                   \
    WRITE(block, 2, at + 2)                 \
    WRITE(block, 3, at + 3)                 \
  }

#if HP_LSIZE > 1
/* Elements of a block as one vector. */
HP_PACK_TYPE(random_pack, T, RANDOM_EACH);
HP_PACK_TYPE(random_mask_pack, hp_u8, RANDOM_EACH);
#define RANDOM_FITS(pointer) HP_ALIGNED(pointer, sizeof(random_pack))
#define RANDOM_PACK(pointer, at) (*(HP_GLOBAL random_pack*)((pointer) + (at)))
#define RANDOM_MASK_PACK(pointer, at) (*(HP_GLOBAL random_mask_pack*)((pointer) + (at)))
#define RANDOM_MASK_FITS(pointer) HP_ALIGNED(pointer, sizeof(random_mask_pack))
#endif

/* a, b: parameters of the distribution; for geometric, b is log(1 - p). Integers are low .. low + range - 1, or all 64
 * bits if range is 0; for Bernoulli, range / 2^32 is the probability. */
HP_KERNEL(fill)(HP_GLOBAL T* out, hp_i64 elements, hp_i64 seed, hp_i64 start, double a, double b, hp_i64 range,
                hp_i64 low) {
  RANDOM_RANGE
#if DIST <= DIST_CAUCHY
  const random_real p = (random_real)a, q = (random_real)b;
#endif
#if DIST == DIST_UNIFORM
#define RANDOM_VALUE(block, k) random_between(RANDOM_UNIT(block, k), p, q)
#elif DIST == DIST_NORMAL
#define RANDOM_VALUE(block, k) (RANDOM_NORMAL(block, k) * q + p)
#elif DIST == DIST_LOG_NORMAL
#define RANDOM_VALUE(block, k) RANDOM_EXP(RANDOM_NORMAL(block, k) * q + p)
#elif DIST == DIST_EXPONENTIAL
  const random_real scale = (random_real)1 / p;
#define RANDOM_POSITIVE(x) ((x) > RANDOM_LEAST ? (x) : RANDOM_LEAST)
#define RANDOM_VALUE(block, k) (RANDOM_POSITIVE(-RANDOM_LOG(block, k)) * scale)
#elif DIST == DIST_GEOMETRIC
#define RANDOM_AT_LEAST_1(x) ((x) > 1 ? (x) : 1)
#define RANDOM_VALUE(block, k) RANDOM_AT_LEAST_1(RANDOM_CEIL(RANDOM_LOG(block, k) / q))
#elif DIST == DIST_CAUCHY
#define RANDOM_VALUE(block, k) (RANDOM_CAUCHY(block, k) * q + p)
#elif DIST == DIST_BERNOULLI
  const hp_u32 bound = (hp_u32)range, always = (hp_u32)(range >> 32);
#define RANDOM_VALUE(block, k) ((hp_u32)(block.w[k] < bound) | always)
#elif WIDE
#define RANDOM_BITS(block, k) ((hp_u64)block.w[2 * (k) + 1] << 32 | block.w[2 * (k)])
  const hp_u64 modulus = (hp_u64)range;
#define RANDOM_VALUE(block, k) \
  ((hp_i64)((hp_u64)low + (modulus == 0 ? RANDOM_BITS(block, k) : RANDOM_BITS(block, k) % modulus)))
#else
  /* High half of a product: as uniform as a remainder, without a division. */
  const hp_u32 modulus = (hp_u32)range;
#define RANDOM_VALUE(block, k) (low + (hp_i64)(hp_u32)((hp_u64)block.w[k] * modulus >> 32))
#endif
#define RANDOM_STORE(block, k, at) out[at] = T_put((T_c)RANDOM_VALUE(block, k));
#if HP_LSIZE > 1
#define RANDOM_STORE_PACK(WRITE, block, at)                                                \
  {                                                                                        \
    random_pack pack;                                                                      \
    HP_UNROLL                                                                              \
    for (int k = 0; k < RANDOM_EACH; ++k) pack.at[k] = T_put((T_c)RANDOM_VALUE(block, k)); \
    RANDOM_PACK(out, at) = pack;                                                           \
  }
  if (RANDOM_FITS(out)) {
    RANDOM_FOR_BLOCKS(RANDOM_STORE_PACK, RANDOM_STORE)
    return;
  }
#endif
  RANDOM_FOR_BLOCKS(RANDOM_ONE_BY_ONE, RANDOM_STORE)
}

/* P: type of the probabilities. Compares 24 bits, so that probability 1 is certain. */
HP_KERNEL(choose)(HP_GLOBAL T* out, HP_GLOBAL const P* probability, hp_i64 elements, hp_i64 seed, hp_i64 start) {
  RANDOM_RANGE
#define RANDOM_CHOOSE(block, k, at) \
  out[at] = T_put((T_c)((P_c)(hp_i32)(block.w[k] >> 8) * (P_c)5.9604644775390625e-8f < (P_c)P_get(probability[at])));
  RANDOM_FOR_BLOCKS(RANDOM_ONE_BY_ONE, RANDOM_CHOOSE)
}

/* keep / 2^32: the probability of keeping an element. */
HP_KERNEL(dropout)(HP_GLOBAL T* out, HP_GLOBAL hp_u8* mask, HP_GLOBAL const T* from, hp_i64 elements, hp_i64 seed,
                   hp_i64 start, hp_i64 keep, double scale) {
  RANDOM_RANGE
  const hp_u32 bound = (hp_u32)keep, always = (hp_u32)(keep >> 32);
  const T_c factor = (T_c)scale;
#define RANDOM_KEPT(block, k) ((hp_u32)(block.w[k] < bound) | always)
#define RANDOM_DROP(block, k, at)                           \
  {                                                         \
    const hp_u32 kept = RANDOM_KEPT(block, k);              \
    mask[at] = (hp_u8)kept;                                 \
    out[at] = T_put(T_get(from[at]) * (kept ? factor : 0)); \
  }
#if HP_LSIZE > 1
#define RANDOM_DROP_PACK(WRITE, block, at)                         \
  {                                                                \
    random_pack pack = RANDOM_PACK(from, at);                      \
    random_mask_pack mask_pack;                                    \
    HP_UNROLL                                                      \
    for (int k = 0; k < RANDOM_EACH; ++k) {                        \
      const hp_u32 kept = RANDOM_KEPT(block, k);                   \
      mask_pack.at[k] = (hp_u8)kept;                               \
      pack.at[k] = T_put(T_get(pack.at[k]) * (kept ? factor : 0)); \
    }                                                              \
    RANDOM_MASK_PACK(mask, at) = mask_pack;                        \
    RANDOM_PACK(out, at) = pack;                                   \
  }
  if (RANDOM_FITS(out) && RANDOM_FITS(from) && RANDOM_MASK_FITS(mask)) {
    RANDOM_FOR_BLOCKS(RANDOM_DROP_PACK, RANDOM_DROP)
    return;
  }
#endif
  RANDOM_FOR_BLOCKS(RANDOM_ONE_BY_ONE, RANDOM_DROP)
}

HP_KERNEL(dropout_backward)(HP_GLOBAL T* out, HP_GLOBAL const T* grad, HP_GLOBAL const hp_u8* mask, hp_i64 elements,
                            double scale) {
  const T_c factor = (T_c)scale;
#if HP_LSIZE > 1
  const hp_i64 begin = hp_group * HP_ELEMENTS;
  if (begin + HP_ELEMENTS <= elements && RANDOM_FITS(out) && RANDOM_FITS(grad) && RANDOM_MASK_FITS(mask)) {
    HP_UNROLL
    for (int j = 0; j < HP_ELEMENTS / HP_LSIZE / RANDOM_EACH; ++j) {
      const hp_i64 at = begin + (hp_lid + j * HP_LSIZE) * RANDOM_EACH;
      random_pack pack = RANDOM_PACK(grad, at);
      const random_mask_pack kept = RANDOM_MASK_PACK(mask, at);
      HP_UNROLL
      for (int k = 0; k < RANDOM_EACH; ++k) pack.at[k] = T_put(T_get(pack.at[k]) * (T_c)(kept.at[k] != 0) * factor);
      RANDOM_PACK(out, at) = pack;
    }
    return;
  }
#endif
  HP_VECTORIZE
  HP_FOR_ELEMENTS(i, elements) out[i] = T_put(T_get(grad[i]) * (T_c)(mask[i] != 0) * factor);
}

/* Leaky ReLU with a slope drawn from [lower, upper) for each non-positive element; `noise` saves the slopes. */
HP_KERNEL(rrelu)(HP_GLOBAL T* out, HP_GLOBAL T* noise, HP_GLOBAL const T* from, hp_i64 elements, hp_i64 seed,
                 hp_i64 start, double lower, double upper) {
  RANDOM_RANGE
  const random_real p = (random_real)lower, q = (random_real)upper;
#define RANDOM_LEAK(block, k, at)                                                                    \
  {                                                                                                  \
    const T_c x = T_get(from[at]), slope = x <= 0 ? random_between(RANDOM_UNIT(block, k), p, q) : 1; \
    noise[at] = T_put(slope);                                                                        \
    out[at] = T_put(x <= 0 ? x * slope : x);                                                         \
  }
  RANDOM_FOR_BLOCKS(RANDOM_ONE_BY_ONE, RANDOM_LEAK)
}

/* ---- Rejection samplers ------------------------------------------------------------------------------------------ */
/* Random words of try number `n` of an element. */
HP_FN random_block random_try(hp_u64 seed, hp_u64 block, hp_u32 n) {
  return random_philox(seed, (hp_u32)block, (hp_u32)(block >> 32), n, 0);
}

/* Marsaglia and Tsang, 2000. For shape < 1, a sample of shape + 1 is scaled by u^(1 / shape). */
HP_KERNEL(gamma)(HP_GLOBAL T* out, HP_GLOBAL const T* shape, hp_i64 elements, hp_i64 seed, hp_i64 start) {
  HP_FOR_ELEMENTS(i, elements) {
    const hp_u64 own = (hp_u64)start + (hp_u64)i;
    T_c alpha = T_get(shape[i]), scale = 1;
    if (alpha < 1) {
      const random_block b = random_try((hp_u64)seed, own, 0);
      scale = T_M(exp)(T_M(log)((T_c)random_positive_f32(b.w[0])) / alpha);
      alpha += 1;
    }
    const T_c d = alpha - (T_c)1 / (T_c)3, c = (T_c)1 / T_M(sqrt)((T_c)9 * d);
    T_c value = d;
    for (hp_u32 n = 1; n < 1000; ++n) {
      const random_block b = random_try((hp_u64)seed, own, n);
      const T_c x = (T_c)(random_radius_f32(b.w[0]) * random_turn_f32(b.w[1], 1)), y = 1 + c * x, v = y * y * y;
      if (y <= 0) continue;
      if (T_M(log)((T_c)random_positive_f32(b.w[2])) < x * x / 2 + d - d * v + d * T_M(log)(v)) {
        value = d * v;
        break;
      }
    }
    value *= scale;
    out[i] = T_put(value <= RANDOM_NORMAL_LEAST ? RANDOM_NORMAL_LEAST : value);
  }
}

/* log(k!) - (k log(k) - k) for an integer k >= 0; Stirling's series from 10 on. */
HP_FN float random_stirling(float k) {
  float product = 1;
  for (float j = 2; j <= k && j < 10; j += 1) product *= j;
  const float r = 1 / k, series = 0.5f * hp_log_f32(6.283185307f * k) + r * (0.08333333333f - r * r * 0.002777777778f);
  const float direct = hp_log_f32(product) - (k * hp_log_f32(k) - k);
  return k < 10 ? (k > 0 ? direct : 0) : series;
}

/* (1 + d) log(1 + d) - d. This form avoids cancellation in the probabilities of large counts. */
HP_FN float random_deviance(float d) { return d > -1 ? (1 + d) * hp_log1p_f32(d) - d : 1; }

/* Mean >= 10: Hoermann's transformed rejection with squeeze (PTRS, 1993); below, a product of uniforms. */
HP_KERNEL(poisson)(HP_GLOBAL T* out, HP_GLOBAL const T* rate, hp_i64 elements, hp_i64 seed, hp_i64 start) {
  HP_FOR_ELEMENTS(i, elements) {
    const hp_u64 own = (hp_u64)start + (hp_u64)i;
    const float mean = (float)T_get(rate[i]);
    float value = 0;
    if (mean >= 10) {
      const float root = HP_LIB_f32(sqrt)(mean), b = 0.931f + 2.53f * root, a = -0.059f + 0.02483f * b;
      const float inverse = 1.1239f + 1.1328f / (b - 3.4f), v_r = 0.9277f - 3.6224f / (b - 2);
      value = HP_LIB_f32(floor)(mean);
      for (hp_u32 n = 0; n < 1000; ++n) {
        const random_block w = random_try((hp_u64)seed, own, n);
        const float u = random_positive_f32(w.w[0]) - 0.5f, v = random_positive_f32(w.w[1]);
        const float us = 0.5f - HP_LIB_f32(fabs)(u);
        const float k = HP_LIB_f32(floor)((2 * a / us + b) * u + mean + 0.43f);
        if (us >= 0.07f && v <= v_r) {
          value = k;
          break;
        }
        if (k < 0 || (us < 0.013f && v > us)) continue;
        if (hp_log_f32(v * inverse / (a / (us * us) + b)) <=
            -mean * random_deviance((k - mean) / mean) - random_stirling(k)) {
          value = k;
          break;
        }
      }
    } else if (mean > 0) {
      const float limit = hp_exp_f32(-mean);
      float product = 1;
      for (hp_u32 n = 0; n < 1000; ++n) {
        const random_block w = random_try((hp_u64)seed, own, n / 4);
        product *= random_positive_f32(w.w[n % 4]);
        if (product <= limit) break;
        value += 1;
      }
    } else if (mean != mean) {
      value = mean;
    }
    out[i] = T_put((T_c)value);
  }
}

/* Log probability of k successes, up to a constant. */
HP_FN float random_binomial_log(float k, float n, float p) {
  const float excess = k - n * p;
  return -n * p * random_deviance(excess / (n * p)) - n * (1 - p) * random_deviance(-excess / (n * (1 - p))) -
         random_stirling(k) - random_stirling(n - k);
}

/* At least 10 expected successes: Hoermann's BTRS (1993); below, geometric waiting times. */
HP_KERNEL(binomial)(HP_GLOBAL T* out, HP_GLOBAL const T* count, HP_GLOBAL const T* probability, hp_i64 elements,
                    hp_i64 seed, hp_i64 start) {
  HP_FOR_ELEMENTS(i, elements) {
    const hp_u64 own = (hp_u64)start + (hp_u64)i;
    const float n = (float)T_get(count[i]), given = (float)T_get(probability[i]);
    const float p = given > 0.5f ? 1 - given : given;
    float value = 0;
    if (n * p >= 10) {
      const float q = 1 - p, root = HP_LIB_f32(sqrt)(n * p * q), b = 1.15f + 2.53f * root;
      const float a = -0.0873f + 0.0248f * b + 0.01f * p, c = n * p + 0.5f, v_r = 0.92f - 4.2f / b;
      const float alpha = (2.83f + 5.1f / b) * root, m = HP_LIB_f32(floor)((n + 1) * p);
      const float at_mode = random_binomial_log(m, n, p);
      value = m;
      for (hp_u32 t = 0; t < 1000; ++t) {
        const random_block w = random_try((hp_u64)seed, own, t);
        const float u = random_positive_f32(w.w[0]) - 0.5f, v = random_positive_f32(w.w[1]);
        const float us = 0.5f - HP_LIB_f32(fabs)(u), k = HP_LIB_f32(floor)((2 * a / us + b) * u + c);
        if (us >= 0.07f && v <= v_r) {
          value = k;
          break;
        }
        if (k < 0 || k > n) continue;
        if (hp_log_f32(v * alpha / (a / (us * us) + b)) <= random_binomial_log(k, n, p) - at_mode) {
          value = k;
          break;
        }
      }
    } else if (n > 0 && p > 0) {
      const float log_q = hp_log1p_f32(-p);
      float waited = 0;
      for (hp_u32 t = 0; t < 1000; ++t) {
        const random_block w = random_try((hp_u64)seed, own, t / 4);
        waited += HP_LIB_f32(ceil)(hp_log_f32(random_positive_f32(w.w[t % 4])) / log_q);
        if (waited > n) break;
        value += 1;
      }
    }
    value = given > 0.5f ? n - value : value;
    out[i] = T_put((T_c)(n != n || given != given ? n + given : value));
  }
}

/* ---- Multinomial with replacement: cumulative weights of each row, then a binary search for each sample ---------- */
HP_KERNEL(totals)(HP_GLOBAL T_a* total, HP_GLOBAL const T* weight, hp_i64 rows, hp_i64 width, hp_i64 per_group) {
  for (hp_i64 row = hp_group * per_group; row < rows && row < (hp_group + 1) * per_group; ++row) {
    if (hp_lid != 0) continue;
    T_a sum = 0;
    for (hp_i64 i = 0; i < width; ++i) total[row * width + i] = sum += (T_a)T_get(weight[row * width + i]);
  }
}

/* First index whose cumulative weight exceeds u times the total. Never one with weight 0. */
HP_KERNEL(search)(HP_GLOBAL hp_i64* out, HP_GLOBAL const T* total, hp_i64 elements, hp_i64 seed, hp_i64 start,
                  hp_i64 width, hp_i64 samples) {
  RANDOM_RANGE
#define RANDOM_SEARCH(block, k, at)                                                             \
  {                                                                                             \
    HP_GLOBAL const T* row = total + (at) / samples * width;                                    \
    const T wanted = (T)(hp_i32)(block.w[k] >> 8) * (T)5.9604644775390625e-8f * row[width - 1]; \
    hp_i64 below = 0, above = width - 1;                                                        \
    while (below < above) {                                                                     \
      const hp_i64 middle = (below + above) / 2;                                                \
      if (row[middle] > wanted)                                                                 \
        above = middle;                                                                         \
      else                                                                                      \
        below = middle + 1;                                                                     \
    }                                                                                           \
    out[at] = below;                                                                            \
  }
  RANDOM_FOR_BLOCKS(RANDOM_ONE_BY_ONE, RANDOM_SEARCH)
}
