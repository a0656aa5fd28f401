/* Arithmetic that reads the same for real and for complex elements T. T_part is the type of their sizes. */
#ifdef T_IS_COMPLEX
HP_FN T number(T_part re) { return T_M(real)(re); }
HP_FN T number_add(T a, T b) { return T_M(add)(a, b); }
HP_FN T number_sub(T a, T b) { return T_M(sub)(a, b); }
HP_FN T number_mul(T a, T b) { return T_M(mul)(a, b); }
HP_FN T number_div(T a, T b) { return T_M(div)(a, b); }
HP_FN T number_scale(T a, T_part by) { return T_M(scale)(a, by); }
HP_FN T number_shrink(T a, T_part by) { return T_M(make)(a.re / by, a.im / by); }
HP_FN T number_neg(T a) { return T_M(neg)(a); }
HP_FN T number_conj(T a) { return T_M(conj)(a); }
HP_FN T number_sign(T a) { return T_M(sgn)(a); }
HP_FN T_part number_re(T a) { return a.re; }
HP_FN T_part number_im(T a) { return a.im; }
HP_FN T_part number_size(T a) { return T_M(modulus)(a); }
/* What LAPACK compares pivots by. */
HP_FN T_part number_weight(T a) { return T_P(abs)(a.re) + T_P(abs)(a.im); }
HP_FN T_part number_square(T a) { return a.re * a.re + a.im * a.im; }
HP_FN int number_is_zero(T a) { return !T_M(truth)(a); }
#else
typedef T T_part;
#define T_P T_M
HP_FN T number(T_part re) { return re; }
HP_FN T number_add(T a, T b) { return a + b; }
HP_FN T number_sub(T a, T b) { return a - b; }
HP_FN T number_mul(T a, T b) { return a * b; }
HP_FN T number_div(T a, T b) { return a / b; }
HP_FN T number_scale(T a, T_part by) { return a * by; }
HP_FN T number_shrink(T a, T_part by) { return a / by; }
HP_FN T number_neg(T a) { return -a; }
HP_FN T number_conj(T a) { return a; }
/* Of zero and of what is no number, itself. */
HP_FN T number_sign(T a) { return a > (T)0 ? (T)1 : a < (T)0 ? (T)-1 : a; }
HP_FN T_part number_re(T a) { return a; }
HP_FN T_part number_im(T a) { return (void)a, (T_part)0; }
HP_FN T_part number_size(T a) { return T_M(abs)(a); }
HP_FN T_part number_weight(T a) { return T_M(abs)(a); }
HP_FN T_part number_square(T a) { return a * a; }
HP_FN int number_is_zero(T a) { return a == (T)0; }
#endif
