/* Functions that read the same for both real types. math.h includes this file once per type and defines HP_T, HP_F,
 * HP_LIB and HP_K. No include guard, by design. */

/* ---- signs and rounding ------------------------------------------------------------------------------------------ */

HP_FN int HP_F(isnan)(HP_T x) { return x != x; }
HP_FN HP_T HP_F(abs)(HP_T x) { return HP_LIB(fabs)(x); }
HP_FN int HP_F(isinf)(HP_T x) { return HP_F(abs)(x) == HP_INF; }
HP_FN int HP_F(isfinite)(HP_T x) { return HP_F(abs)(x) < HP_INF; }
HP_FN int HP_F(signbit)(HP_T x) { return (int)(HP_F(bits)(x) >> (HP_IS_F64 ? 63 : 31)); }
HP_FN HP_T HP_F(neg)(HP_T x) { return -x; }
HP_FN HP_T HP_F(sign)(HP_T x) { return (HP_T)((x > 0) - (x < 0)); }
HP_FN HP_T HP_F(sgn)(HP_T x) { return HP_F(sign)(x); }
HP_FN HP_T HP_F(copysign)(HP_T x, HP_T y) { return HP_LIB(copysign)(x, y); }
HP_FN HP_T HP_F(ceil)(HP_T x) { return HP_LIB(ceil)(x); }
HP_FN HP_T HP_F(floor)(HP_T x) { return HP_LIB(floor)(x); }
HP_FN HP_T HP_F(trunc)(HP_T x) { return HP_LIB(trunc)(x); }
HP_FN HP_T HP_F(round)(HP_T x) { return HP_LIB(rint)(x); }
/* A negative number of decimals rounds left of the decimal point. */
HP_FN HP_T HP_F(round_decimals)(HP_T x, HP_T decimals) {
  HP_T scale = HP_LIB(pow)(HP_K(10.0), HP_LIB(fabs)(decimals));
  return decimals < 0 ? HP_LIB(rint)(x / scale) * scale : HP_LIB(rint)(x * scale) / scale;
}
HP_FN HP_T HP_F(frac)(HP_T x) { return x - HP_LIB(trunc)(x); }
HP_FN HP_T HP_F(nextafter)(HP_T x, HP_T y) { return HP_LIB(nextafter)(x, y); }

/* ---- comparison: maximum and minimum propagate NaN, fmax and fmin ignore it -------------------------------------- */

HP_FN HP_T HP_F(maximum)(HP_T a, HP_T b) { return HP_F(select)(a > b || a != a, a, b); }
HP_FN HP_T HP_F(minimum)(HP_T a, HP_T b) { return HP_F(select)(a < b || a != a, a, b); }
HP_FN HP_T HP_F(fmax)(HP_T a, HP_T b) { return HP_F(select)(a >= b || b != b, a, b); }
HP_FN HP_T HP_F(fmin)(HP_T a, HP_T b) { return HP_F(select)(a <= b || b != b, a, b); }
HP_FN HP_T HP_F(heaviside)(HP_T x, HP_T at_zero) { return x == 0 ? at_zero : (HP_T)(x > 0); }

HP_FN HP_T HP_F(finite)(HP_T x, HP_T nan, HP_T highest, HP_T lowest) {
  HP_T r = HP_F(select)(x == HP_INF, highest, x);
  r = HP_F(select)(x == -HP_INF, lowest, r);
  return HP_F(select)(x != x, nan, r);
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

HP_FN HP_T HP_F(square)(HP_T x) { return x * x; }
HP_FN HP_T HP_F(reciprocal)(HP_T x) { return HP_K(1.0) / x; }
HP_FN HP_T HP_F(sqrt)(HP_T x) { return HP_LIB(sqrt)(x); }
HP_FN HP_T HP_F(rsqrt)(HP_T x) { return HP_K(1.0) / HP_LIB(sqrt)(x); }
HP_FN HP_T HP_F(hypot)(HP_T x, HP_T y) { return HP_LIB(hypot)(x, y); }
HP_FN HP_T HP_F(fmod)(HP_T a, HP_T b) { return HP_LIB(fmod)(a, b); }
HP_FN HP_T HP_F(trunc_divide)(HP_T a, HP_T b) { return HP_LIB(trunc)(a / b); }

/* The remainder takes the sign of the divisor. */
HP_FN HP_T HP_F(remainder)(HP_T a, HP_T b) {
  HP_T r = HP_LIB(fmod)(a, b);
  return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}

/* Uses the exact remainder: floor(a / b) is off by one when the quotient rounds up to an integer. */
HP_FN HP_T HP_F(floor_divide)(HP_T a, HP_T b) {
  if (b == 0) return a / b;
  HP_T r = HP_LIB(fmod)(a, b), q = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) q -= HP_K(1.0);
  if (q == 0) return HP_LIB(copysign)(HP_K(0.0), a / b);
  HP_T f = HP_LIB(floor)(q);
  return q - f > HP_K(0.5) ? f + HP_K(1.0) : f;
}

/* ---- powers, logarithms ------------------------------------------------------------------------------------------ */

HP_FN HP_T HP_F(pow)(HP_T x, HP_T y) { return HP_LIB(pow)(x, y); }
HP_FN HP_T HP_F(log2)(HP_T x) { return HP_LIB(log2)(x); }
HP_FN HP_T HP_F(log10)(HP_T x) { return HP_LIB(log10)(x); }

/* x * 2^n, with 2^n rounded to the type first as in torch; exact for integral n. */
HP_FN HP_T HP_F(ldexp)(HP_T x, HP_T n) {
  HP_T c = n > HP_K(2000.0) ? HP_K(2000.0) : n < HP_K(-2000.0) ? HP_K(-2000.0) : n, k = HP_LIB(rint)(c);
  return x * (k == c ? HP_LIB(ldexp)(HP_K(1.0), (int)k) : HP_F(exp2)(c));
}

HP_FN HP_T HP_F(xlogy)(HP_T x, HP_T y) { return y != y ? y : x == 0 ? HP_K(0.0) : x * HP_F(log)(y); }
HP_FN HP_T HP_F(xlog1py)(HP_T x, HP_T y) { return y != y ? y : x == 0 ? HP_K(0.0) : x * HP_F(log1p)(y); }
HP_FN HP_T HP_F(entr)(HP_T x) { return x != x ? x : x > 0 ? -x * HP_F(log)(x) : x == 0 ? HP_K(0.0) : -HP_INF; }

HP_FN HP_T HP_F(logaddexp)(HP_T a, HP_T b) {
  HP_T r = HP_F(maximum)(a, b) + HP_F(log1p)(HP_F(exp)(-HP_F(abs)(a - b)));
  return HP_F(select)(a == b && HP_F(isinf)(a), a, r);
}
HP_FN HP_T HP_F(logaddexp2)(HP_T a, HP_T b) {
  HP_T r = HP_F(log1p)(HP_F(exp2)(-HP_F(abs)(a - b))) * HP_K(1.44269504088896340736) + HP_F(maximum)(a, b);
  return HP_F(select)(a == b && HP_F(isinf)(a), a, r);
}

/* Clamps x to [eps, 1 - eps] first, unless eps is negative. */
HP_FN HP_T HP_F(logit)(HP_T x, HP_T eps) {
  HP_T hi = HP_K(1.0) - eps, c = x < eps ? eps : x > hi ? hi : x;
  c = eps < 0 ? x : c;
  return HP_F(log)(c / (HP_K(1.0) - c));
}

HP_FN HP_T HP_F(logit_backward)(HP_T grad, HP_T x, HP_T eps) {
  HP_T inside = grad / (x * (HP_K(1.0) - x));
  if (eps < 0) return x < 0 || x > HP_K(1.0) ? HP_NAN : x == 0 || x == HP_K(1.0) ? grad * HP_INF : inside;
  return x < eps || x > HP_K(1.0) - eps ? HP_K(0.0) : inside;
}

/* ---- trigonometric, hyperbolic ----------------------------------------------------------------------------------- */

HP_FN HP_T HP_F(tan)(HP_T x) { return HP_LIB(tan)(x); }
HP_FN HP_T HP_F(asin)(HP_T x) { return HP_LIB(asin)(x); }
HP_FN HP_T HP_F(acos)(HP_T x) { return HP_LIB(acos)(x); }
HP_FN HP_T HP_F(atan)(HP_T x) { return HP_LIB(atan)(x); }
HP_FN HP_T HP_F(atan2)(HP_T y, HP_T x) { return HP_LIB(atan2)(y, x); }
HP_FN HP_T HP_F(sinh)(HP_T x) { return HP_LIB(sinh)(x); }
HP_FN HP_T HP_F(cosh)(HP_T x) { return HP_LIB(cosh)(x); }
HP_FN HP_T HP_F(asinh)(HP_T x) { return HP_LIB(asinh)(x); }
HP_FN HP_T HP_F(acosh)(HP_T x) { return HP_LIB(acosh)(x); }
HP_FN HP_T HP_F(atanh)(HP_T x) { return HP_LIB(atanh)(x); }
HP_FN HP_T HP_F(sinc)(HP_T x) {
  HP_T t = HP_K(3.14159265358979323846) * x;
  return HP_F(select)(x == 0, HP_K(1.0), HP_F(sin)(t) / t);
}

/* ---- error function, normal distribution ------------------------------------------------------------------------- */

HP_FN HP_T HP_F(erfc)(HP_T x) { return HP_LIB(erfc)(x); }
HP_FN HP_T HP_F(ndtr)(HP_T x) { return HP_K(0.5) * HP_LIB(erfc)(x * HP_K(-0.70710678118654752440)); }

/* ---- activations ------------------------------------------------------------------------------------------------- */

/* Uses e^-|x|, which never overflows, so that results for very negative x keep their digits. */
HP_FN HP_T HP_F(sigmoid)(HP_T x) {
  HP_T e = HP_F(exp)(-HP_F(abs)(x)), r = HP_K(1.0) / (HP_K(1.0) + e);
  return HP_F(select)(x < 0, e * r, r);
}
HP_FN HP_T HP_F(log_sigmoid)(HP_T x) { return HP_F(minimum)(x, HP_K(0.0)) - HP_F(log1p)(HP_F(exp)(-HP_F(abs)(x))); }
HP_FN HP_T HP_F(silu)(HP_T x) { return x * HP_F(sigmoid)(x); }
HP_FN HP_T HP_F(softplus)(HP_T x, HP_T beta, HP_T threshold) {
  HP_T t = x * beta;
  return HP_F(select)(t > threshold, x, HP_F(log1p)(HP_F(exp)(t)) / beta);
}

/* tanh(log(1 + e)) = n / (n + 2) with n = e (e + 2) and e = e^x. x is clamped at 20, where the result is 1, before n
 * overflows. */
HP_FN HP_T HP_F(mish_gate)(HP_T x) {
  HP_T e = HP_F(exp)(HP_F(select)(x > HP_K(20.0), HP_K(20.0), x)), n = e * (e + HP_K(2.0));
  return n / (n + HP_K(2.0));
}
HP_FN HP_T HP_F(mish)(HP_T x) { return x * HP_F(mish_gate)(x); }

HP_FN HP_T HP_F(gelu_erf)(HP_T x) { return HP_K(0.5) * x * (HP_K(1.0) + HP_F(erf)(x * HP_K(0.70710678118654752440))); }

/* (1 + tanh(u)) / 2 = sigmoid(2 u) */
HP_FN HP_T HP_F(gelu_tanh_gate)(HP_T x) {
  HP_T u = HP_K(0.044715) * x * x * x + x;
  return HP_F(sigmoid)(HP_K(1.59576912160573071176) * u);
}
HP_FN HP_T HP_F(gelu_tanh)(HP_T x) { return x * HP_F(gelu_tanh_gate)(x); }

HP_FN HP_T HP_F(elu)(HP_T x, HP_T alpha, HP_T scale, HP_T input_scale) {
  return HP_F(select)(x < 0, HP_F(expm1)(x * input_scale) * (alpha * scale), x * scale);
}
HP_FN HP_T HP_F(selu)(HP_T x) {
  return HP_F(elu)(x, HP_K(1.6732632423543772848170429916717), HP_K(1.0507009873554804934193349852946), HP_K(1.0));
}
HP_FN HP_T HP_F(celu)(HP_T x, HP_T alpha) { return HP_F(elu)(x, alpha, HP_K(1.0), HP_K(1.0) / alpha); }
HP_FN HP_T HP_F(clamp_0_6)(HP_T x) {
  HP_T c = HP_F(select)(x < 0, HP_K(0.0), x);
  return HP_F(select)(c > HP_K(6.0), HP_K(6.0), c);
}
HP_FN HP_T HP_F(hardsigmoid)(HP_T x) { return HP_F(clamp_0_6)(x + HP_K(3.0)) / HP_K(6.0); }
HP_FN HP_T HP_F(hardswish)(HP_T x) { return x * HP_F(clamp_0_6)(x + HP_K(3.0)) / HP_K(6.0); }

/* ---- derivatives of activations ---------------------------------------------------------------------------------- */

HP_FN HP_T HP_F(d_sigmoid)(HP_T x) {
  HP_T s = HP_F(sigmoid)(x);
  return s * (HP_K(1.0) - s);
}
HP_FN HP_T HP_F(d_tanh)(HP_T x) {
  HP_T t = HP_F(tanh)(x);
  return HP_K(1.0) - t * t;
}
HP_FN HP_T HP_F(d_log_sigmoid)(HP_T x) { return HP_F(sigmoid)(-x); }
HP_FN HP_T HP_F(d_silu)(HP_T x) {
  HP_T s = HP_F(sigmoid)(x);
  return s * (HP_K(1.0) + x * (HP_K(1.0) - s));
}
HP_FN HP_T HP_F(d_softplus)(HP_T x, HP_T beta, HP_T threshold) {
  HP_T t = x * beta;
  return HP_F(select)(t > threshold, HP_K(1.0), HP_F(sigmoid)(t));
}
HP_FN HP_T HP_F(d_mish)(HP_T x) {
  HP_T w = HP_F(mish_gate)(x);
  return w + x * HP_F(sigmoid)(x) * (HP_K(1.0) - w * w);
}
HP_FN HP_T HP_F(d_gelu_erf)(HP_T x) {
  HP_T cdf = HP_K(0.5) * (HP_K(1.0) + HP_F(erf)(x * HP_K(0.70710678118654752440)));
  return cdf + x * (HP_K(0.39894228040143267794) * HP_F(exp)(HP_K(-0.5) * x * x));
}
HP_FN HP_T HP_F(d_gelu_tanh)(HP_T x) {
  HP_T s = HP_F(gelu_tanh_gate)(x);
  HP_T du = HP_K(1.59576912160573071176) * (HP_K(1.0) + HP_K(0.134145) * x * x);
  return s + x * s * (HP_K(1.0) - s) * du;
}
HP_FN HP_T HP_F(d_elu)(HP_T x, HP_T alpha, HP_T scale, HP_T input_scale) {
  HP_T e = HP_F(exp)(x * input_scale);
  return HP_F(select)(x > 0, scale, input_scale * alpha * scale * e);
}
/* The same from elu's result, which torch saves for in-place elu. */
HP_FN HP_T HP_F(d_elu_result)(HP_T y, HP_T alpha, HP_T scale, HP_T input_scale) {
  return HP_F(select)(y > 0, scale, input_scale * (y + alpha * scale));
}
HP_FN HP_T HP_F(d_selu)(HP_T x) {
  return HP_F(d_elu)(x, HP_K(1.6732632423543772848170429916717), HP_K(1.0507009873554804934193349852946), HP_K(1.0));
}
HP_FN HP_T HP_F(d_celu)(HP_T x, HP_T alpha) { return HP_F(d_elu)(x, alpha, HP_K(1.0), HP_K(1.0) / alpha); }
HP_FN HP_T HP_F(d_hardsigmoid)(HP_T x) {
  return HP_F(select)(x > HP_K(-3.0) && x < HP_K(3.0), HP_K(1.0) / HP_K(6.0), HP_K(0.0));
}
HP_FN HP_T HP_F(d_hardswish)(HP_T x) {
  HP_T mid = x / HP_K(3.0) + HP_K(0.5);
  mid = HP_F(select)(x <= HP_K(-3.0), HP_K(0.0), mid);
  return HP_F(select)(x >= HP_K(3.0), HP_K(1.0), mid);
}
