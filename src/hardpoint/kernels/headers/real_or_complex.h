/* Arithmetic that reads the same for real and complex elements T. T_part is the type of their magnitudes. abs1 is |re|
 * + |im|, abs_squared is |a|^2. */
#ifdef T_IS_COMPLEX
HP_FN T number(T_part re) { return T_M(real)(re); }
HP_FN T number_add(T a, T b) { return T_M(add)(a, b); }
HP_FN T number_sub(T a, T b) { return T_M(sub)(a, b); }
HP_FN T number_mul(T a, T b) { return T_M(mul)(a, b); }
HP_FN T number_div(T a, T b) { return T_M(div)(a, b); }
HP_FN T number_mul_real(T a, T_part by) { return T_M(scale)(a, by); }
HP_FN T number_div_real(T a, T_part by) { return T_M(make)(a.re / by, a.im / by); }
HP_FN T number_neg(T a) { return T_M(neg)(a); }
HP_FN T number_conj(T a) { return T_M(conj)(a); }
HP_FN T number_sign(T a) { return T_M(sgn)(a); }
HP_FN T_part number_re(T a) { return a.re; }
HP_FN T_part number_im(T a) { return a.im; }
HP_FN T_part number_abs(T a) { return T_M(modulus)(a); }
/* The magnitude that LAPACK compares pivots by. */
HP_FN T_part number_abs1(T a) { return T_P(abs)(a.re) + T_P(abs)(a.im); }
HP_FN T_part number_abs_squared(T a) { return a.re * a.re + a.im * a.im; }
HP_FN int number_is_zero(T a) { return !T_M(truth)(a); }
#else
typedef T T_part;
#define T_P T_M
HP_FN T number(T_part re) { return re; }
HP_FN T number_add(T a, T b) { return a + b; }
HP_FN T number_sub(T a, T b) { return a - b; }
HP_FN T number_mul(T a, T b) { return a * b; }
HP_FN T number_div(T a, T b) { return a / b; }
HP_FN T number_mul_real(T a, T_part by) { return a * by; }
HP_FN T number_div_real(T a, T_part by) { return a / by; }
HP_FN T number_neg(T a) { return -a; }
HP_FN T number_conj(T a) { return a; }
/* Zero and NaN are returned unchanged. */
HP_FN T number_sign(T a) { return a > (T)0 ? (T)1 : a < (T)0 ? (T)-1 : a; }
HP_FN T_part number_re(T a) { return a; }
HP_FN T_part number_im(T a) { return (void)a, (T_part)0; }
HP_FN T_part number_abs(T a) { return T_M(abs)(a); }
HP_FN T_part number_abs1(T a) { return T_M(abs)(a); }
HP_FN T_part number_abs_squared(T a) { return a * a; }
HP_FN int number_is_zero(T a) { return a == (T)0; }
#endif
