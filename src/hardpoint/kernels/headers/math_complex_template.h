/* Complex functions that read the same in both precisions. math_complex.h includes this file once per precision (see
 * math.h for HP_T, HP_F, HP_LIB, HP_K). HP_C is the complex type, HP_CF(name) one of its functions. No include guard,
 * by design. */

typedef struct {
  HP_T re, im;
} HP_C;

HP_FN HP_C HP_CF(make)(HP_T re, HP_T im) {
  HP_C z;
  z.re = re;
  z.im = im;
  return z;
}
HP_FN HP_C HP_CF(real)(HP_T re) { return HP_CF(make)(re, HP_K(0.0)); }
HP_FN HP_C HP_CF(scale)(HP_C z, HP_T by) { return HP_CF(make)(z.re * by, z.im * by); }

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

HP_FN HP_C HP_CF(neg)(HP_C z) { return HP_CF(make)(-z.re, -z.im); }
HP_FN HP_C HP_CF(conj)(HP_C z) { return HP_CF(make)(z.re, -z.im); }
HP_FN HP_C HP_CF(add)(HP_C a, HP_C b) { return HP_CF(make)(a.re + b.re, a.im + b.im); }
HP_FN HP_C HP_CF(sub)(HP_C a, HP_C b) { return HP_CF(make)(a.re - b.re, a.im - b.im); }
HP_FN HP_C HP_CF(mul)(HP_C a, HP_C b) { return HP_CF(make)(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re); }
HP_FN HP_C HP_CF(square)(HP_C z) { return HP_CF(mul)(z, z); }

/* Smith's method: scaling by the ratio of the divisor's smaller part to the larger avoids intermediate overflow. */
HP_FN HP_C HP_CF(div)(HP_C a, HP_C b) {
  HP_T c = HP_F(abs)(b.re), d = HP_F(abs)(b.im);
  int zero = c == 0 && d == 0, wide = c >= d;
  HP_T ratio = HP_F(select)(wide, b.im, b.re) / HP_F(select)(wide, b.re, b.im);
  HP_T inverse = HP_K(1.0) / (HP_F(select)(wide, b.re, b.im) + HP_F(select)(wide, b.im, b.re) * ratio);
  HP_T re = HP_F(select)(wide, a.re + a.im * ratio, a.re * ratio + a.im) * inverse;
  HP_T im = HP_F(select)(wide, a.im - a.re * ratio, a.im * ratio - a.re) * inverse;
  return HP_CF(make)(HP_F(select)(zero, a.re / c, re), HP_F(select)(zero, a.im / d, im));
}
HP_FN HP_C HP_CF(reciprocal)(HP_C z) { return HP_CF(div)(HP_CF(real)(HP_K(1.0)), z); }

/* ---- modulus, angle, truth --------------------------------------------------------------------------------------- */

/* Branch-free, unlike the library's hypot. */
HP_FN HP_T HP_CF(modulus)(HP_C z) {
  HP_T a = HP_F(abs)(z.re), b = HP_F(abs)(z.im);
  HP_T m = HP_F(select)(a > b, a, b), n = HP_F(select)(a > b, b, a), q = n / m;
  HP_T r = HP_F(select)(m == 0 && n == 0, m, m * HP_LIB(sqrt)(HP_K(1.0) + q * q));
  return HP_F(select)(a == HP_INF || b == HP_INF, HP_INF, r);
}
HP_FN HP_C HP_CF(abs)(HP_C z) { return HP_CF(real)(HP_CF(modulus)(z)); }
HP_FN HP_C HP_CF(angle)(HP_C z) { return HP_CF(real)(HP_LIB(atan2)(z.im, z.re)); }
HP_FN HP_C HP_CF(polar)(HP_C radius, HP_C angle) {
  return HP_CF(make)(radius.re * HP_F(cos)(angle.re), radius.re * HP_F(sin)(angle.re));
}
HP_FN int HP_CF(truth)(HP_C z) { return z.re != 0 || z.im != 0; }
HP_FN HP_C HP_CF(sgn)(HP_C z) {
  HP_T m = HP_CF(modulus)(z);
  return HP_CF(make)(HP_F(select)(m == 0, HP_K(0.0), z.re / m), HP_F(select)(m == 0, HP_K(0.0), z.im / m));
}
HP_FN HP_C HP_CF(eq)(HP_C a, HP_C b) { return HP_CF(real)((HP_T)(a.re == b.re && a.im == b.im)); }
HP_FN HP_C HP_CF(ne)(HP_C a, HP_C b) { return HP_CF(real)((HP_T)(a.re != b.re || a.im != b.im)); }
HP_FN HP_C HP_CF(isnan)(HP_C z) { return HP_CF(real)((HP_T)(z.re != z.re || z.im != z.im)); }
HP_FN HP_C HP_CF(logical_not)(HP_C z) { return HP_CF(real)((HP_T)!HP_CF(truth)(z)); }
HP_FN HP_C HP_CF(logical_and)(HP_C a, HP_C b) { return HP_CF(real)((HP_T)(HP_CF(truth)(a) && HP_CF(truth)(b))); }
HP_FN HP_C HP_CF(logical_or)(HP_C a, HP_C b) { return HP_CF(real)((HP_T)(HP_CF(truth)(a) || HP_CF(truth)(b))); }
HP_FN HP_C HP_CF(logical_xor)(HP_C a, HP_C b) { return HP_CF(real)((HP_T)(HP_CF(truth)(a) != HP_CF(truth)(b))); }

HP_FN HP_C HP_CF(finite)(HP_C z, HP_C nan, HP_C highest, HP_C lowest) {
  return HP_CF(make)(HP_F(finite)(z.re, nan.re, highest.re, lowest.re),
                     HP_F(finite)(z.im, nan.re, highest.re, lowest.re));
}

/* ---- sums of products -------------------------------------------------------------------------------------------- */

/* Interpolates from the nearer end, so both ends are exact. */
HP_FN HP_C HP_CF(lerp)(HP_C a, HP_C b, HP_C weight) {
  HP_C span = HP_CF(sub)(b, a);
  if (HP_CF(modulus)(weight) < HP_K(0.5)) return HP_CF(add)(a, HP_CF(mul)(weight, span));
  return HP_CF(sub)(b, HP_CF(mul)(span, HP_CF(sub)(HP_CF(real)(HP_K(1.0)), weight)));
}

/* ---- roots, exponentials, logarithms ----------------------------------------------------------------------------- */

/* With t = sqrt((|x| + |z|) / 2), the parts are t and y / 2t; scaled so that no sum or square overflows or
 * underflows. */
HP_FN HP_C HP_CF(sqrt)(HP_C z) {
  if (HP_F(abs)(z.im) == HP_INF) return HP_CF(make)(HP_INF, z.im);
  if (z.re == HP_INF) return HP_CF(make)(z.re, z.im != z.im ? z.im : HP_LIB(copysign)(HP_K(0.0), z.im));
  if (z.re == -HP_INF) return HP_CF(make)(z.im != z.im ? z.im : HP_K(0.0), HP_LIB(copysign)(HP_INF, z.im));
  if (z.re == 0 && z.im == 0) return HP_CF(make)(HP_K(0.0), z.im);
  HP_T x = HP_F(abs)(z.re), y = HP_F(abs)(z.im), up = HP_K(1.0), down = HP_K(1.0);
  if (x > HP_K(1e37) || y > HP_K(1e37)) up = HP_K(0.0625), down = HP_K(4.0);
  if (x < HP_K(1e-30) && y < HP_K(1e-30)) {
    up = HP_IS_F64 ? HP_K(16777216.0) * HP_K(16777216.0) * HP_K(16777216.0) * HP_K(16777216.0) : HP_K(16777216.0);
    down = HP_IS_F64 ? HP_K(1.0) / (HP_K(16777216.0) * HP_K(16777216.0)) : HP_K(1.0) / HP_K(4096.0);
  }
  x *= up;
  y *= up;
  HP_T t = HP_LIB(sqrt)((x + HP_CF(modulus)(HP_CF(make)(x, y))) * HP_K(0.5)), u = y / (HP_K(2.0) * t);
  t *= down;
  u *= down;
  return z.re < 0 ? HP_CF(make)(u, HP_LIB(copysign)(t, z.im)) : HP_CF(make)(t, HP_LIB(copysign)(u, z.im));
}
HP_FN HP_C HP_CF(rsqrt)(HP_C z) { return HP_CF(reciprocal)(HP_CF(sqrt)(z)); }

/* Product in which zero times infinity or NaN is zero. */
HP_FN HP_T HP_CF(times)(HP_T a, HP_T b) {
  HP_T zero = HP_LIB(copysign)(HP_K(0.0), a) * HP_LIB(copysign)(HP_K(1.0), b);
  return HP_F(select)(a == 0 || b == 0, zero, a * b);
}
/* hp_sin is a polynomial and loses the sign of zero. */
HP_FN HP_T HP_CF(sine)(HP_T x) { return HP_F(select)(x == 0, x, HP_F(sin)(x)); }

/* Multiplies by e^(x/2) twice: e^x may overflow where the result does not. */
HP_FN HP_C HP_CF(exp)(HP_C z) {
  HP_T h = HP_F(exp)(z.re * HP_K(0.5)), c = HP_F(cos)(z.im), s = HP_F(sin)(z.im);
  if (z.re == -HP_INF)
    return HP_CF(make)(c < 0 ? -h : h, HP_LIB(copysign)(h, HP_F(isfinite)(z.im) && z.im != 0 ? s : z.im));
  if (z.re == HP_INF && !HP_F(isfinite)(z.im)) return HP_CF(make)(z.re, HP_NAN);
  return HP_CF(make)(c * h * h, HP_F(select)(z.im == 0, z.im, s * h * h));
}
HP_FN HP_C HP_CF(exp2)(HP_C z) { return HP_CF(exp)(HP_CF(scale)(z, HP_K(0.69314718055994530942))); }
HP_FN HP_C HP_CF(expm1)(HP_C z) {
  HP_T half = HP_F(sin)(z.im * HP_K(0.5));
  return HP_CF(make)(HP_F(expm1)(z.re) * HP_F(cos)(z.im) - HP_K(2.0) * half * half,
                     HP_CF(times)(HP_CF(sine)(z.im), HP_F(exp)(z.re)));
}

/* log |z|. Near the unit circle, where it is small, from |z|^2 - 1. */
HP_FN HP_T HP_CF(log_modulus)(HP_T x, HP_T y) {
  HP_T a = HP_F(abs)(x), b = HP_F(abs)(y);
  HP_T m = a > b ? a : b, n = a > b ? b : a, q = n / m;
  if (a == HP_INF || b == HP_INF) return HP_INF;
  if (m == 0 && n == 0) return -HP_INF;
  if (m > HP_K(0.5) && m < HP_K(2.0)) return HP_K(0.5) * HP_F(log1p)((m - HP_K(1.0)) * (m + HP_K(1.0)) + n * n);
  return HP_F(log)(m) + HP_K(0.5) * HP_F(log1p)(q * q);
}
HP_FN HP_C HP_CF(log)(HP_C z) { return HP_CF(make)(HP_CF(log_modulus)(z.re, z.im), HP_LIB(atan2)(z.im, z.re)); }
HP_FN HP_C HP_CF(log2)(HP_C z) { return HP_CF(scale)(HP_CF(log)(z), HP_K(1.44269504088896340736)); }
HP_FN HP_C HP_CF(log10)(HP_C z) { return HP_CF(scale)(HP_CF(log)(z), HP_K(0.43429448190325182765)); }
HP_FN HP_C HP_CF(log1p)(HP_C z) {
  HP_T x = z.re + HP_K(1.0), r = z.re * (HP_K(2.0) + z.re) + z.im * z.im;
  int small = HP_CF(modulus)(z) < HP_K(0.5);
  return HP_CF(make)(small ? HP_K(0.5) * HP_F(log1p)(r) : HP_CF(log_modulus)(x, z.im), HP_LIB(atan2)(z.im, x));
}

/* 0^0 is 1; 0 to a positive power is 0. */
HP_FN HP_C HP_CF(pow)(HP_C z, HP_C power) {
  if (power.re == 0 && power.im == 0) return HP_CF(real)(HP_K(1.0));
  if (z.re == 0 && z.im == 0 && power.im == 0 && power.re > 0) return HP_CF(real)(HP_K(0.0));
#ifdef HP_POWERS_IN_DOUBLE
  hp_c128 wide = hp_log_c128(hp_make_c128((double)z.re, (double)z.im));
  wide = hp_exp_c128(hp_mul_c128(hp_make_c128((double)power.re, (double)power.im), wide));
  return HP_CF(make)((HP_T)wide.re, (HP_T)wide.im);
#else
  return HP_CF(exp)(HP_CF(mul)(power, HP_CF(log)(z)));
#endif
}
HP_FN HP_C HP_CF(pow_scalar)(HP_C z, HP_C power) {
  if (power.im == 0) {
    if (power.re == HP_K(1.0)) return z;
    if (power.re == HP_K(2.0)) return HP_CF(square)(z);
    if (power.re == HP_K(3.0)) return HP_CF(mul)(HP_CF(square)(z), z);
    if (power.re == HP_K(0.5)) return HP_CF(sqrt)(z);
    if (power.re == HP_K(-0.5)) return HP_CF(rsqrt)(z);
    if (power.re == HP_K(-1.0)) return HP_CF(reciprocal)(z);
    if (power.re == HP_K(-2.0)) return HP_CF(reciprocal)(HP_CF(square)(z));
  }
  return HP_CF(pow)(z, power);
}

/* ---- hyperbolic and trigonometric -------------------------------------------------------------------------------- */

/* i z and -i z, which map between trigonometric and hyperbolic functions. */
HP_FN HP_C HP_CF(turned)(HP_C z) { return HP_CF(make)(-z.im, z.re); }
HP_FN HP_C HP_CF(turned_back)(HP_C z) { return HP_CF(make)(z.im, -z.re); }

HP_FN HP_C HP_CF(sinh)(HP_C z) {
  HP_T re = HP_CF(times)(HP_LIB(sinh)(z.re), HP_F(cos)(z.im)), im = HP_CF(times)(HP_LIB(cosh)(z.re), HP_CF(sine)(z.im));
  int far = HP_F(isinf)(z.re) && !HP_F(isfinite)(z.im);
  return HP_CF(make)(HP_F(select)(far, z.re, re), im);
}
HP_FN HP_C HP_CF(cosh)(HP_C z) {
  HP_T re = HP_CF(times)(HP_LIB(cosh)(z.re), HP_F(cos)(z.im)), im = HP_CF(times)(HP_LIB(sinh)(z.re), HP_CF(sine)(z.im));
  int far = HP_F(isinf)(z.re) && !HP_F(isfinite)(z.im);
  return HP_CF(make)(HP_F(select)(far, HP_INF, re), im);
}
/* Kahan's method: with t = tan y and s = sinh x, both parts are divided by 1 + (1 + t^2) s^2. For large |x| the real
 * part is 1 and the imaginary part is small. */
HP_FN HP_C HP_CF(tanh)(HP_C z) {
  HP_T x = HP_F(abs)(z.re);
  if (x > (HP_IS_F64 ? HP_K(22.0) : HP_K(10.0))) {
    HP_T e = HP_F(exp)(-x), wave = HP_CF(sine)(z.im) * HP_F(cos)(z.im);
    if (!HP_F(isfinite)(z.im) && HP_F(isinf)(z.re)) wave = HP_LIB(copysign)(HP_K(0.0), z.im);
    return HP_CF(make)(HP_LIB(copysign)(HP_K(1.0), z.re), HP_K(4.0) * wave * e * e);
  }
  HP_T t = HP_LIB(tan)(z.im), b = HP_K(1.0) + t * t, s = HP_LIB(sinh)(z.re);
  HP_T rho = HP_LIB(sqrt)(HP_K(1.0) + s * s), d = HP_K(1.0) + b * s * s;
  return HP_CF(make)(z.re == 0 ? z.re : b * rho * s / d, z.im == 0 ? z.im : t / d);
}
HP_FN HP_C HP_CF(sin)(HP_C z) { return HP_CF(turned_back)(HP_CF(sinh)(HP_CF(turned)(z))); }
HP_FN HP_C HP_CF(cos)(HP_C z) { return HP_CF(cosh)(HP_CF(turned)(z)); }
HP_FN HP_C HP_CF(tan)(HP_C z) { return HP_CF(turned_back)(HP_CF(tanh)(HP_CF(turned)(z))); }

HP_FN HP_C HP_CF(sinc)(HP_C z) {
  HP_C t = HP_CF(scale)(z, HP_K(3.14159265358979323846));
  return z.re == 0 && z.im == 0 ? HP_CF(real)(HP_K(1.0)) : HP_CF(div)(HP_CF(sin)(t), t);
}

/* Inverses by Kahan's method, from the roots of 1 - z and 1 + z: the sign of zero selects the side of a branch cut. */
HP_FN HP_C HP_CF(asin)(HP_C z) {
  if (HP_F(isinf)(z.re) || HP_F(isinf)(z.im)) {
    return HP_CF(make)(HP_LIB(atan2)(z.re, HP_F(abs)(z.im)), HP_LIB(copysign)(HP_INF, z.im));
  }
  HP_C a = HP_CF(sqrt)(HP_CF(make)(HP_K(1.0) - z.re, -z.im)), b = HP_CF(sqrt)(HP_CF(make)(HP_K(1.0) + z.re, z.im));
  return HP_CF(make)(HP_LIB(atan2)(z.re, HP_CF(mul)(a, b).re), HP_LIB(asinh)(HP_CF(mul)(HP_CF(conj)(a), b).im));
}
HP_FN HP_C HP_CF(acos)(HP_C z) {
  if (HP_F(isinf)(z.re) || HP_F(isinf)(z.im)) {
    return HP_CF(make)(HP_LIB(atan2)(HP_F(abs)(z.im), z.re), HP_LIB(copysign)(HP_INF, -z.im));
  }
  HP_C a = HP_CF(sqrt)(HP_CF(make)(HP_K(1.0) - z.re, -z.im)), b = HP_CF(sqrt)(HP_CF(make)(HP_K(1.0) + z.re, z.im));
  return HP_CF(make)(HP_K(2.0) * HP_LIB(atan2)(a.re, b.re), HP_LIB(asinh)(HP_CF(mul)(HP_CF(conj)(b), a).im));
}
HP_FN HP_C HP_CF(acosh)(HP_C z) {
  if (HP_F(isinf)(z.re) || HP_F(isinf)(z.im)) return HP_CF(make)(HP_INF, HP_LIB(atan2)(z.im, z.re));
  HP_C a = HP_CF(sqrt)(HP_CF(make)(z.re - HP_K(1.0), z.im)), b = HP_CF(sqrt)(HP_CF(make)(z.re + HP_K(1.0), z.im));
  return HP_CF(make)(HP_LIB(asinh)(HP_CF(mul)(HP_CF(conj)(a), b).re), HP_K(2.0) * HP_LIB(atan2)(a.im, b.re));
}
HP_FN HP_C HP_CF(asinh)(HP_C z) { return HP_CF(turned_back)(HP_CF(asin)(HP_CF(turned)(z))); }
/* For large |z|, where squares overflow: the real part of 1/z, and pi/2. */
HP_FN HP_C HP_CF(atanh)(HP_C z) {
  HP_T x = z.re, y = z.im, m = HP_CF(modulus)(z), quarter = HP_LIB(copysign)(HP_K(1.57079632679489661923), y);
  if (m == HP_INF) return HP_CF(make)(HP_LIB(copysign)(HP_K(0.0), x), y != y ? y : quarter);
  if (m > (HP_IS_F64 ? HP_K(1e20) * HP_K(1e18) : HP_K(1e9))) return HP_CF(make)(x / m / m, quarter);
  HP_T a = HP_F(abs)(x), u = HP_K(1.0) - a;
  HP_T re = HP_K(0.25) * HP_F(log1p)(HP_K(4.0) * a / (u * u + y * y));
  return HP_CF(make)(HP_LIB(copysign)(re, x), HP_K(0.5) * HP_LIB(atan2)(HP_K(2.0) * y, u * (HP_K(1.0) + a) - y * y));
}
HP_FN HP_C HP_CF(atan)(HP_C z) { return HP_CF(turned_back)(HP_CF(atanh)(HP_CF(turned)(z))); }

/* ---- activations ------------------------------------------------------------------------------------------------- */

/* Uses e^z or e^-z, whichever does not overflow. */
HP_FN HP_C HP_CF(sigmoid)(HP_C z) {
  HP_C e = HP_CF(exp)(z.re < 0 ? z : HP_CF(neg)(z));
  HP_C sum = HP_CF(make)(e.re + HP_K(1.0), e.im);
  return HP_CF(div)(z.re < 0 ? e : HP_CF(real)(HP_K(1.0)), sum);
}
HP_FN HP_C HP_CF(silu)(HP_C z) { return HP_CF(mul)(z, HP_CF(sigmoid)(z)); }
/* 1 - z, used in gradients. */
HP_FN HP_C HP_CF(complement)(HP_C z) { return HP_CF(make)(HP_K(1.0) - z.re, -z.im); }
