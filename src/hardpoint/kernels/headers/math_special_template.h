/* Special functions that read the same for both real types. math_special.h includes this file once per type (see math.h
 * for HP_T, HP_F, HP_LIB, HP_K). No include guard, by design. Textbook series, continued fractions and recurrences,
 * chosen to be stable in float too. "A&S" is Abramowitz and Stegun. */

#define HP_PI HP_K(3.14159265358979323846)
#define HP_EULER HP_K(0.57721566490153286061)
#define HP_TINY_STEP (HP_IS_F64 ? HP_K(1.0e-17) : HP_K(1.0e-8)) /* relative step below rounding error */

/* ---- normal distribution ----------------------------------------------------------------------------------------- */

/* e^(x^2) erfc(x): the product while x^2 is small enough for an exact e^(x^2), then Laplace's continued fraction. */
HP_FN HP_T HP_F(erfcx)(HP_T x) {
  HP_T a = HP_F(abs)(x), r;
  HP_T s = a * a, e = HP_F(fma)(a, a, -s);
  if (a < (HP_IS_F64 ? HP_K(6.0) : HP_K(2.5))) {
    r = HP_F(exp)(s) * HP_F(fma)(e, HP_F(erfc)(a), HP_F(erfc)(a));
  } else {
    HP_T f = a;
    for (int k = 40; k > 0; --k) f = a + HP_K(0.5) * (HP_T)k / f;
    r = HP_K(0.56418958354775628695) / f;
  }
  return x < 0 ? HP_K(2.0) * HP_F(exp)(s) * (s < HP_K(1.0e4) ? HP_K(1.0) + e : HP_K(1.0)) - r : r;
}

HP_FN HP_T HP_F(log_ndtr)(HP_T x) {
  HP_T t = x * HP_K(0.70710678118654752440);
  if (x < HP_K(-1.0)) return HP_F(log)(HP_F(erfcx)(-t) * HP_K(0.5)) - t * t;
  return HP_F(log1p)(HP_F(erfc)(t) * HP_K(-0.5));
}

/* A&S 26.2.23 as the initial guess (error 5e-4), then two Halley steps. The tail uses logarithms, down to the smallest
 * number. */
HP_FN HP_T HP_F(ndtri)(HP_T p) {
  if (!(p >= 0 && p <= HP_K(1.0))) return HP_NAN;
  if (p == 0) return -HP_INF;
  if (p == HP_K(1.0)) return HP_INF;
  HP_T q = p > HP_K(0.5) ? HP_K(1.0) - p : p, l = HP_F(log)(q), t = HP_LIB(sqrt)(HP_K(-2.0) * l);
  HP_T num = HP_K(2.515517) + t * (HP_K(0.802853) + t * HP_K(0.010328));
  HP_T den = HP_K(1.0) + t * (HP_K(1.432788) + t * (HP_K(0.189269) + t * HP_K(0.001308)));
  HP_T x = t - num / den; /* the upper quantile, x >= 0 */
  for (int i = 0; i < 2; ++i) {
    HP_T u = HP_K(1.25331413731550025121) * HP_F(erfcx)(x * HP_K(0.70710678118654752440)) -
             HP_K(2.50662827463100050242) * HP_F(exp)(HP_F(fma)(HP_K(0.5) * x, x, l));
    x += u / (HP_K(1.0) - HP_K(0.5) * x * u);
  }
  return p > HP_K(0.5) ? x : -x;
}

/* Maclaurin series as the initial guess, then two Halley steps; from 0.7 on, the normal quantile of 1 - |x|, which is
 * exact. */
HP_FN HP_T HP_F(erfinv)(HP_T x) {
  HP_T a = HP_F(abs)(x), s = x * x;
  if (!(a <= HP_K(1.0))) return HP_NAN;
  if (a > HP_K(0.7)) {
    return HP_LIB(copysign)(HP_F(ndtri)(HP_K(0.5) * (HP_K(1.0) - a)) * HP_K(0.70710678118654752440), x);
  }
  HP_T y = HP_K(0.127556175305597) + s * HP_K(0.0865521292415475);
  y = HP_K(0.886226925452758) + s * (HP_K(0.232013666534655) + s * y);
  y *= x;
  for (int i = 0; i < 2; ++i) {
    HP_T u = (HP_F(erf)(y) - x) * HP_K(0.88622692545275801365) * HP_F(exp)(y * y);
    y -= u / (HP_K(1.0) + u * y);
  }
  return x == 0 ? x : y;
}

/* ---- gamma family ------------------------------------------------------------------------------------------------ */

HP_FN HP_T HP_F(lgamma)(HP_T x) { return HP_F(isinf)(x) ? HP_INF : HP_LIB(lgamma)(x); }

/* Reflection, recurrence up to 10, then the asymptotic series. */
HP_FN HP_T HP_F(digamma)(HP_T x) {
  if (x == 0) return HP_LIB(copysign)(HP_INF, -x);
  HP_T r = HP_K(0.0);
  if (x < 0) {
    HP_T f = x - HP_LIB(rint)(x);
    if (!(f != 0)) return HP_NAN;
    r = -HP_PI / HP_LIB(tan)(HP_PI * f);
    x = HP_K(1.0) - x;
  }
  for (; x < HP_K(10.0); x += HP_K(1.0)) r -= HP_K(1.0) / x;
  HP_T z = HP_K(1.0) / (x * x), p = HP_K(1.0) / HP_K(12.0);
  p = HP_K(691.0) / HP_K(32760.0) - z * p;
  p = HP_K(1.0) / HP_K(132.0) - z * p;
  p = HP_K(1.0) / HP_K(240.0) - z * p;
  p = HP_K(1.0) / HP_K(252.0) - z * p;
  p = HP_K(1.0) / HP_K(120.0) - z * p;
  p = HP_K(1.0) / HP_K(12.0) - z * p;
  return r + HP_F(log)(x) - HP_K(0.5) / x - z * p;
}

HP_FN HP_T HP_F(trigamma)(HP_T x) {
  HP_T r = HP_K(0.0), sign = HP_K(1.0);
  if (x < HP_K(0.5)) {
    HP_T s = HP_F(sin)(HP_PI * (x - HP_LIB(rint)(x)));
    r = HP_PI / s * (HP_PI / s);
    sign = HP_K(-1.0);
    x = HP_K(1.0) - x;
  }
  HP_T t = HP_K(0.0);
  for (; x < HP_K(10.0); x += HP_K(1.0)) t += HP_K(1.0) / (x * x);
  HP_T z = HP_K(1.0) / (x * x), p = HP_K(5.0) / HP_K(66.0);
  p = HP_K(1.0) / HP_K(30.0) - z * p;
  p = HP_K(1.0) / HP_K(42.0) - z * p;
  p = HP_K(1.0) / HP_K(30.0) - z * p;
  p = HP_K(1.0) / HP_K(6.0) - z * p;
  t += HP_K(1.0) / x + HP_K(0.5) * z + z / x * p;
  return r + sign * t;
}

/* Hurwitz zeta: terms up to q > 9, then Euler-Maclaurin. b is B_2j / (2j)!; for j > 6 it follows from the ratio of
 * successive terms, which tends to -1 / (2 pi)^2. */
HP_FN HP_T HP_F(zeta)(HP_T x, HP_T q) {
  if (x == HP_K(1.0)) return HP_INF;
  if (x < HP_K(1.0) || q != q) return HP_NAN;
  if (q <= 0 && q == HP_LIB(floor)(q)) return HP_INF; /* even if x is NaN, as in torch */
  if (x != x) return HP_NAN;
  if (q <= 0 && x != HP_LIB(floor)(x)) return HP_NAN;
  HP_T s = HP_K(0.0);
  for (int i = 0; i < 9 || (q <= HP_K(9.0) && i < 100000); ++i, q += HP_K(1.0)) {
    HP_T t = HP_LIB(pow)(q, -x);
    s += t;
    /* Powers that underflow from the first term on become NaN below, as in torch. */
    if (q > 0 && t <= s * HP_TINY_STEP && s > 0) return s;
  }
  HP_T t = HP_LIB(pow)(q, -x);
  s += t * q / (x - HP_K(1.0)) + HP_K(0.5) * t;
  HP_T b = HP_K(1.0) / HP_K(12.0), k = HP_K(0.0);
  t *= x / q;
  for (int j = 1; j <= 10; ++j) {
    HP_T d = b * t;
    s += d;
    if (HP_F(abs)(d) <= HP_F(abs)(s) * HP_TINY_STEP && s != 0) break;
    k += HP_K(2.0);
    t *= (x + k - HP_K(1.0)) * (x + k) / (q * q);
    b = j == 1   ? HP_K(-1.0) / HP_K(720.0)
        : j == 2 ? HP_K(1.0) / HP_K(30240.0)
        : j == 3 ? HP_K(-1.0) / HP_K(1209600.0)
        : j == 4 ? HP_K(1.0) / HP_K(47900160.0)
        : j == 5 ? HP_K(-5.2841901386874931848e-10)
                 : b * HP_K(-0.025330295910584442861);
  }
  return s;
}

HP_FN HP_T HP_F(polygamma)(int n, HP_T x) {
  if (n == 0) return HP_F(digamma)(x);
  if (n == 1) return HP_F(trigamma)(x);
  HP_T m = (HP_T)n + HP_K(1.0), v = HP_F(exp)(HP_LIB(lgamma)(m)) * HP_F(zeta)(m, x);
  return n % 2 ? v : -v;
}

/* log(1 + m) - m. */
HP_FN HP_T HP_F(log1p_minus)(HP_T m) {
  if (HP_F(abs)(m) > HP_K(0.4)) return HP_F(log1p)(m) - m;
  HP_T r = m / (HP_K(2.0) + m), s = r * r, p = HP_K(0.0);
  for (int k = 27; k > 1; k -= 2) p = p * s + HP_K(2.0) / (HP_T)k;
  return r * (s * p - m);
}

/* Regularized incomplete gamma, upper or lower. For large a near x, Temme's uniform expansion; otherwise the power
 * series (x < a + 1) or the continued fraction. */
HP_FN HP_T HP_F(igamma_part)(HP_T a, HP_T x, int upper) {
  if (x < 0 || a < 0) return HP_NAN;
  if (a == 0) return x > 0 ? (HP_T)!upper : HP_NAN;
  if (x == 0) return (HP_T)upper;
  if (HP_F(isinf)(a)) return HP_F(isinf)(x) ? HP_NAN : (HP_T)upper;
  if (HP_F(isinf)(x)) return (HP_T)!upper;
  if (a != a || x != x) return HP_NAN;
  HP_T m = (x - a) / a, d, r; /* d = x^a e^-x / Gamma(a + 1) */
  if (a < HP_K(10.0)) {
    d = HP_F(exp)(a * HP_F(log)(x) - x - HP_LIB(lgamma)(a + HP_K(1.0)));
  } else {
    HP_T h = m < HP_K(-0.4) ? HP_F(log)(x / a) - m : HP_F(log1p_minus)(m), z = HP_K(1.0) / (a * a);
    HP_T g = HP_K(1.0) / HP_K(1260.0) - z * (HP_K(1.0) / HP_K(1680.0) - z / HP_K(1188.0));
    g = (HP_K(1.0) / HP_K(12.0) - z * (HP_K(1.0) / HP_K(360.0) - z * g)) / a;
    d = HP_F(exp)(a * h - g) / HP_LIB(sqrt)(HP_K(2.0) * HP_PI * a);
  }
  if (a > HP_K(200.0) && HP_F(abs)(m) < HP_K(0.4)) {
    HP_T h = HP_LIB(sqrt)(HP_K(-2.0) * HP_F(log1p_minus)(m));
    if (m < 0) h = -h;
    HP_T c0 = HP_K(-1.85406221071515996e-6) + h * HP_K(8.29671134095308601e-7);
    c0 = HP_K(3.91926317852243778e-5) + h * (HP_K(-2.18544851067999216e-6) + h * c0);
    c0 = HP_K(3.527336860670194e-4) + h * (HP_K(-1.78755144032921811e-4) + h * c0);
    c0 = HP_K(-1.48148148148148148e-2) + h * (HP_K(1.15740740740740741e-3) + h * c0);
    c0 = HP_K(-3.33333333333333333e-1) + h * (HP_K(8.33333333333333333e-2) + h * c0);
    HP_T c1 = HP_K(2.05761316872427984e-4) + h * HP_K(-4.01877572016460905e-7);
    c1 = HP_K(2.6455026455026455e-3) + h * (HP_K(-9.90226337448559671e-4) + h * c1);
    c1 = HP_K(-1.85185185185185185e-3) + h * (HP_K(-3.47222222222222222e-3) + h * c1);
    HP_T c2 = HP_K(4.1335978835978836e-3) + h * (HP_K(-2.68132716049382716e-3) + h * HP_K(7.71604938271604938e-4));
    HP_T w = HP_F(exp)(HP_K(-0.5) * a * h * h) / HP_LIB(sqrt)(HP_K(2.0) * HP_PI * a);
    w *= c0 + (c1 + c2 / a) / a;
    HP_T z = h * HP_LIB(sqrt)(HP_K(0.5) * a);
    return upper ? HP_K(0.5) * HP_F(erfc)(z) + w : HP_K(0.5) * HP_F(erfc)(-z) - w;
  }
  if (x < a + HP_K(1.0)) {
    HP_T t = HP_K(1.0), s = HP_K(1.0), n = a;
    for (int i = 0; i < 1000 && t > s * HP_TINY_STEP; ++i) {
      n += HP_K(1.0);
      t *= x / n;
      s += t;
    }
    r = s * d;
    return upper ? HP_K(1.0) - r : r;
  }
  HP_T b = x + HP_K(1.0) - a, c = HP_K(1.0e30), e = HP_K(1.0) / b, f = e; /* Lentz's method */
  for (int i = 1; i < 1000; ++i) {
    HP_T k = (HP_T)i, n = k * (a - k);
    b += HP_K(2.0);
    e = HP_K(1.0) / (n * e + b);
    c = b + n / c;
    f *= c * e;
    if (HP_F(abs)(c * e - HP_K(1.0)) < HP_K(10.0) * HP_TINY_STEP) break;
  }
  r = d * a * f;
  return upper ? r : HP_K(1.0) - r;
}
HP_FN HP_T HP_F(igamma)(HP_T a, HP_T x) { return HP_F(igamma_part)(a, x, 0); }
HP_FN HP_T HP_F(igammac)(HP_T a, HP_T x) { return HP_F(igamma_part)(a, x, 1); }

/* ---- modified Bessel functions ----------------------------------------------------------------------------------- */

#define HP_BESSEL_I_FAR (HP_IS_F64 ? HP_K(20.0) : HP_K(10.0))

/* (x/2)^-nu I_nu(x), nu = 0 or 1: the power series, all terms of one sign. */
HP_FN HP_T HP_F(bessel_i_near)(int nu, HP_T x) {
  HP_T z = HP_K(0.25) * x * x, t = HP_K(1.0), s = HP_K(1.0);
  for (int k = 1; k < 60 && t > s * HP_TINY_STEP; ++k) {
    t *= z / (HP_T)(k * (k + nu));
    s += t;
  }
  return s;
}

/* e^-x I_nu(x) by Hankel's asymptotic series (A&S 9.7.1). */
HP_FN HP_T HP_F(bessel_i_far)(int nu, HP_T x) {
  HP_T t = HP_K(1.0), s = HP_K(1.0), y = HP_K(0.125) / x;
  for (int k = 1; k <= 20; ++k) {
    t *= (HP_T)((2 * k - 1) * (2 * k - 1) - 4 * nu) / (HP_T)k * y;
    s += t;
  }
  return s * HP_K(0.39894228040143267794) / HP_LIB(sqrt)(x);
}

HP_FN HP_T HP_F(i0e)(HP_T x) {
  HP_T a = HP_F(abs)(x);
  return a > HP_BESSEL_I_FAR ? HP_F(bessel_i_far)(0, a) : HP_F(exp)(-a) * HP_F(bessel_i_near)(0, a);
}
HP_FN HP_T HP_F(i0)(HP_T x) {
  HP_T a = HP_F(abs)(x);
  return a > HP_BESSEL_I_FAR ? HP_F(exp)(a) * HP_F(bessel_i_far)(0, a) : HP_F(bessel_i_near)(0, a);
}
HP_FN HP_T HP_F(i1e)(HP_T x) {
  HP_T a = HP_F(abs)(x);
  if (a > HP_BESSEL_I_FAR) return HP_LIB(copysign)(HP_F(bessel_i_far)(1, a), x);
  return HP_F(exp)(-a) * HP_K(0.5) * x * HP_F(bessel_i_near)(1, a);
}
HP_FN HP_T HP_F(i1)(HP_T x) {
  HP_T a = HP_F(abs)(x);
  if (a > HP_BESSEL_I_FAR) return HP_LIB(copysign)(HP_F(exp)(a) * HP_F(bessel_i_far)(1, a), x);
  return HP_K(0.5) * x * HP_F(bessel_i_near)(1, a);
}
HP_FN HP_T HP_F(modified_bessel_i0)(HP_T x) { return HP_F(i0)(x); }
HP_FN HP_T HP_F(modified_bessel_i1)(HP_T x) { return HP_F(i1)(x); }

/* e^x K_nu(x) for x > 0.6: trapezoidal sum of the integral of exp(-x (cosh t - 1)) cosh(nu t), which converges
 * geometrically in 1 / h. */
HP_FN HP_T HP_F(bessel_k_far)(HP_T nu, HP_T x) {
  if (x == HP_INF) return HP_K(0.0);
  HP_T h = x > HP_K(8.0) ? HP_K(0.7) / HP_LIB(sqrt)(x) : HP_K(0.25), s = HP_K(0.5);
  for (int k = 1; k < 32; ++k) {
    HP_T t = h * (HP_T)k, w = HP_LIB(sinh)(HP_K(0.5) * t), d = HP_F(exp)(HP_K(-2.0) * x * w * w);
    d *= nu == 0 ? HP_K(1.0) : HP_LIB(cosh)(nu * t);
    s += d;
    if (d < HP_TINY_STEP) break;
  }
  return s * h;
}

/* K_nu(x) for 0 < x <= 2, nu = 0 or 1: the logarithmic series (A&S 9.6.11). */
HP_FN HP_T HP_F(bessel_k_near)(int nu, HP_T x) {
  HP_T z = HP_K(0.25) * x * x, l = HP_F(log)(HP_K(0.5) * x) + HP_EULER, t = HP_K(1.0), h = HP_K(0.0), s = HP_K(0.0);
  for (int k = 0; k < 16; ++k) {
    HP_T next = h + HP_K(1.0) / (HP_T)(k + 1);
    s += t * (nu ? l - HP_K(0.5) * (h + next) : h - l);
    t *= z / (HP_T)((k + 1) * (k + 1 + nu));
    h = next;
  }
  return nu ? HP_K(1.0) / x + HP_K(0.5) * x * s : s;
}

HP_FN HP_T HP_F(bessel_k)(int nu, HP_T x, int scaled) {
  if (x == 0) return HP_INF;
  if (!(x > 0)) return HP_NAN;
  if (x <= HP_K(2.0)) return HP_F(bessel_k_near)(nu, x) * (scaled ? HP_F(exp)(x) : HP_K(1.0));
  return HP_F(bessel_k_far)((HP_T)nu, x) * (scaled ? HP_K(1.0) : HP_F(exp)(-x));
}
HP_FN HP_T HP_F(modified_bessel_k0)(HP_T x) { return HP_F(bessel_k)(0, x, 0); }
HP_FN HP_T HP_F(modified_bessel_k1)(HP_T x) { return HP_F(bessel_k)(1, x, 0); }
HP_FN HP_T HP_F(scaled_modified_bessel_k0)(HP_T x) { return HP_F(bessel_k)(0, x, 1); }
HP_FN HP_T HP_F(scaled_modified_bessel_k1)(HP_T x) { return HP_F(bessel_k)(1, x, 1); }

/* ---- Bessel functions -------------------------------------------------------------------------------------------- */

/* J_nu(x), or Y_nu(x) if `second`, for nu = 0 or 1 and x > 0, by Hankel's asymptotic series (A&S 9.2.5). */
HP_FN HP_T HP_F(bessel_far)(int nu, int second, HP_T x) {
  HP_T t = HP_K(1.0), p = HP_K(1.0), q = HP_K(0.0), y = HP_K(0.125) / x;
  for (int k = 1; k <= 20; ++k) {
    t *= (HP_T)(4 * nu - (2 * k - 1) * (2 * k - 1)) / (HP_T)k * y;
    if (k % 2) {
      q += k % 4 == 1 ? t : -t;
    } else {
      p += k % 4 == 0 ? t : -t;
    }
  }
  /* Sine and cosine of x - pi/4 (minus another pi/2 for nu = 1), times sqrt(2). */
  HP_T s = HP_F(sin)(x), c = HP_F(cos)(x), cos_chi = nu ? s - c : s + c, sin_chi = nu ? -(s + c) : s - c;
  return (second ? p * sin_chi + q * cos_chi : p * cos_chi - q * sin_chi) / HP_LIB(sqrt)(HP_PI * x);
}

/* Miller's downward recurrence yields all J_n at once; Y_0 and Y_1 are their Neumann series (A&S 9.1.88, 9.1.89). */
HP_FN HP_T HP_F(bessel_near)(int nu, int second, HP_T x) {
  HP_T l = HP_F(log)(HP_K(0.5) * x) + HP_EULER, two_pi = HP_K(2.0) / HP_PI;
  if (x < HP_K(1.0e-4)) {
    if (!second) return nu ? HP_K(0.5) * x : HP_K(1.0) - HP_K(0.25) * x * x;
    return two_pi * (nu ? HP_K(-1.0) / x + HP_K(0.5) * x * (l - HP_K(0.5)) : l + HP_K(0.25) * x * x * (HP_K(1.0) - l));
  }
  HP_T above = HP_K(0.0), here = HP_K(1.0e-30), norm = HP_K(0.0), y0 = HP_K(0.0), y1 = HP_K(0.0);
  for (int n = 2 * (int)(HP_K(0.65) * x) + 36; n > 0; --n) {
    int k = n / 2;
    HP_T sign = k % 2 ? HP_K(-1.0) : HP_K(1.0);
    if (n % 2 == 0) {
      norm += HP_K(2.0) * here;
      y0 += sign * here / (HP_T)k;
    } else if (k > 0) {
      y1 += sign * here * (HP_T)n / (HP_T)(k * (k + 1));
    }
    HP_T below = HP_K(2.0) * (HP_T)n / x * here - above;
    above = here;
    here = below;
    if (HP_F(abs)(here) > HP_K(1.0e10)) {
      above *= HP_K(1.0e-10);
      here *= HP_K(1.0e-10);
      norm *= HP_K(1.0e-10);
      y0 *= HP_K(1.0e-10);
      y1 *= HP_K(1.0e-10);
    }
  }
  norm += here;
  if (!second) return (nu ? above : here) / norm;
  return two_pi * (nu ? (l - HP_K(1.0)) * above - y1 - here / x : l * here - HP_K(2.0) * y0) / norm;
}

HP_FN HP_T HP_F(bessel)(int nu, int second, HP_T x) {
  return x < (HP_IS_F64 ? HP_K(25.0) : HP_K(12.0)) ? HP_F(bessel_near)(nu, second, x) : HP_F(bessel_far)(nu, second, x);
}
HP_FN HP_T HP_F(bessel_j0)(HP_T x) { return HP_F(bessel)(0, 0, HP_F(abs)(x)); }
HP_FN HP_T HP_F(bessel_j1)(HP_T x) {
  HP_T r = HP_F(bessel)(1, 0, HP_F(abs)(x));
  return x < 0 ? -r : x == 0 ? x : r;
}
HP_FN HP_T HP_F(bessel_y0)(HP_T x) { return x == 0 ? -HP_INF : x > 0 ? HP_F(bessel)(0, 1, x) : HP_NAN; }
HP_FN HP_T HP_F(bessel_y1)(HP_T x) { return x == 0 ? -HP_INF : x > 0 ? HP_F(bessel)(1, 1, x) : HP_NAN; }
HP_FN HP_T HP_F(spherical_bessel_j0)(HP_T x) {
  return x == 0 ? HP_K(1.0) : HP_F(isinf)(x) ? HP_K(0.0) : HP_F(sin)(x) / x;
}

/* For x > 1 from K_1/3; for x < -9 the asymptotic series (A&S 10.4.60); between, Taylor series of y'' = x y around 0,
 * -2, ..., -8, where Ai and Ai' are tabulated. */
HP_FN HP_T HP_F(airy_ai)(HP_T x) {
  HP_T a = HP_F(abs)(x), z = HP_K(2.0) / HP_K(3.0) * a * HP_LIB(sqrt)(a);
  if (x > HP_K(1.0)) {
    HP_T k = HP_F(bessel_k_far)(HP_K(1.0) / HP_K(3.0), z);
    return HP_LIB(sqrt)(x / HP_K(3.0)) / HP_PI * HP_F(exp)(-z) * k;
  }
  if (x <= HP_K(-9.0)) {
    HP_T t = HP_K(1.0), p = HP_K(1.0), q = HP_K(0.0);
    for (int k = 1; k <= 14; ++k) {
      t *= ((HP_T)k - HP_K(1.0) / HP_K(6.0)) * ((HP_T)k - HP_K(5.0) / HP_K(6.0)) / (HP_K(2.0) * (HP_T)k * z);
      if (k % 2) {
        q += k % 4 == 1 ? t : -t;
      } else {
        p += k % 4 == 0 ? t : -t;
      }
    }
    HP_T s = HP_F(sin)(z), c = HP_F(cos)(z); /* of z - pi/4, times sqrt(2): s + c and s - c */
    return (p * (s + c) + q * (s - c)) / HP_LIB(sqrt)(HP_K(2.0) * HP_PI * HP_LIB(sqrt)(a));
  }
  if (x != x) return x;
  int i = (int)(HP_K(0.5) * (HP_K(1.0) - x));
  HP_T center = HP_K(-2.0) * (HP_T)i, h = x - center;
  HP_T c0 = i == 0   ? HP_K(0.35502805388781723926)
            : i == 1 ? HP_K(0.22740742820168557599)
            : i == 2 ? HP_K(-0.070265532949289515099)
            : i == 3 ? HP_K(-0.32914517362982310523)
                     : HP_K(-0.052705050356386202622);
  HP_T c1 = i == 0   ? HP_K(-0.25881940379280679841)
            : i == 1 ? HP_K(0.61825902074169104141)
            : i == 2 ? HP_K(-0.7906285753685813803)
            : i == 3 ? HP_K(0.34593548728134289493)
                     : HP_K(0.93556093819830655103);
  HP_T before = HP_K(0.0), power = h, sum = c0 + c1 * h; /* coefficients: c0 is number n, c1 n + 1, before n - 1 */
  for (int n = 0; n < 24; ++n) {
    HP_T next = (center * c0 + before) / (HP_T)((n + 1) * (n + 2));
    power *= h;
    sum += next * power;
    before = c0;
    c0 = c1;
    c1 = next;
  }
  return sum;
}

/* ---- orthogonal polynomials: n is truncated to an integer, a negative n gives 0 ---------------------------------- */

/* -1 if torch's result is 0 for every x. */
HP_FN hp_i64 HP_F(degree)(HP_T n) { return n > HP_K(-1.0) && n < HP_K(9.0e18) ? (hp_i64)n : (hp_i64)(-1); }

/* p_0 = 1, p_1, p_k+1 = 2 x p_k - p_k-1. The four kinds (0 to 3: T, U, V, W) differ in p_1 only. */
HP_FN HP_T HP_F(chebyshev)(HP_T x, HP_T degree, int kind) {
  hp_i64 n = HP_F(degree)(degree);
  if (n < 0) return HP_K(0.0);
  if (n == 0) return HP_K(1.0);
  HP_T sign = n % 2 ? HP_K(-1.0) : HP_K(1.0), n_half = (HP_T)n + HP_K(0.5);
  if (x == HP_K(1.0)) return kind == 1 ? (HP_T)(n + 1) : kind == 3 ? (HP_T)(2 * n + 1) : HP_K(1.0);
  if (x == HP_K(-1.0)) return sign * (kind == 1 ? (HP_T)(n + 1) : kind == 2 ? (HP_T)(2 * n + 1) : HP_K(1.0));
  if (n > 6 && HP_F(abs)(x) < HP_K(1.0)) {
    HP_T a = HP_LIB(acos)(x);
    return kind == 0   ? HP_F(cos)((HP_T)n * a)
           : kind == 1 ? HP_F(sin)((HP_T)(n + 1) * a) / HP_F(sin)(a)
           : kind == 2 ? HP_F(cos)(n_half * a) / HP_F(cos)(HP_K(0.5) * a)
                       : HP_F(sin)(n_half * a) / HP_F(sin)(HP_K(0.5) * a);
  }
  HP_T p = HP_K(1.0), q = kind == 0 ? x : kind == 1 ? x + x : kind == 2 ? x + x - HP_K(1.0) : x + x + HP_K(1.0);
  for (hp_i64 k = 1; k < n && q == q; ++k) {
    HP_T r = HP_F(fma)(x + x, q, -p);
    p = q;
    q = r;
  }
  return q;
}
HP_FN HP_T HP_F(chebyshev_polynomial_t)(HP_T x, HP_T n) { return HP_F(chebyshev)(x, n, 0); }
HP_FN HP_T HP_F(chebyshev_polynomial_u)(HP_T x, HP_T n) { return HP_F(chebyshev)(x, n, 1); }
HP_FN HP_T HP_F(chebyshev_polynomial_v)(HP_T x, HP_T n) { return HP_F(chebyshev)(x, n, 2); }
HP_FN HP_T HP_F(chebyshev_polynomial_w)(HP_T x, HP_T n) { return HP_F(chebyshev)(x, n, 3); }
HP_FN HP_T HP_F(shifted_chebyshev_polynomial_t)(HP_T x, HP_T n) { return HP_F(chebyshev)(x + x - HP_K(1.0), n, 0); }
HP_FN HP_T HP_F(shifted_chebyshev_polynomial_u)(HP_T x, HP_T n) { return HP_F(chebyshev)(x + x - HP_K(1.0), n, 1); }
HP_FN HP_T HP_F(shifted_chebyshev_polynomial_v)(HP_T x, HP_T n) { return HP_F(chebyshev)(x + x - HP_K(1.0), n, 2); }
HP_FN HP_T HP_F(shifted_chebyshev_polynomial_w)(HP_T x, HP_T n) { return HP_F(chebyshev)(x + x - HP_K(1.0), n, 3); }

/* p_k+1 = step x p_k - step k p_k-1. Step 2 is the physicists' H, step 1 the probabilists' He. */
HP_FN HP_T HP_F(hermite)(HP_T x, HP_T degree, HP_T step) {
  hp_i64 n = HP_F(degree)(degree);
  if (n < 0) return HP_K(0.0);
  if (n == 0) return HP_K(1.0);
  if (n > (HP_IS_F64 ? 512 : 128)) return HP_NAN; /* torch's limits */
  HP_T p = HP_K(1.0), q = step * x;
  for (hp_i64 k = 1; k < n && q == q; ++k) {
    HP_T r = step * HP_F(fma)(x, q, -((HP_T)k * p));
    p = q;
    q = r;
  }
  return q;
}
HP_FN HP_T HP_F(hermite_polynomial_h)(HP_T x, HP_T n) { return HP_F(hermite)(x, n, HP_K(2.0)); }
HP_FN HP_T HP_F(hermite_polynomial_he)(HP_T x, HP_T n) { return HP_F(hermite)(x, n, HP_K(1.0)); }

HP_FN HP_T HP_F(laguerre_polynomial_l)(HP_T x, HP_T degree) {
  hp_i64 n = HP_F(degree)(degree);
  if (n < 0) return HP_K(0.0);
  if (n == 0 || x == 0) return HP_K(1.0);
  HP_T p = HP_K(1.0), q = HP_K(1.0) - x;
  for (hp_i64 k = 1; k < n && q == q; ++k) {
    HP_T r = HP_F(fma)((HP_T)(k + k) + (HP_K(1.0) - x), q, -((HP_T)k * p)) / (HP_T)(k + 1);
    p = q;
    q = r;
  }
  return q;
}

HP_FN HP_T HP_F(legendre_polynomial_p)(HP_T x, HP_T degree) {
  hp_i64 n = HP_F(degree)(degree);
  if (n < 0) return HP_K(0.0);
  if (n == 0 || x == HP_K(1.0)) return HP_K(1.0);
  if (x == HP_K(-1.0)) return n % 2 ? HP_K(-1.0) : HP_K(1.0);
  HP_T p = HP_K(1.0), q = x;
  for (hp_i64 k = 1; k < n && q == q; ++k) {
    HP_T r = HP_F(fma)((HP_T)(k + k + 1) * x, q, -((HP_T)k * p)) / (HP_T)(k + 1);
    p = q;
    q = r;
  }
  return q;
}

#undef HP_PI
#undef HP_EULER
#undef HP_TINY_STEP
#undef HP_BESSEL_I_FAR
