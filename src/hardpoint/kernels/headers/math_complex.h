/* Complex numbers for portable kernels: types hp_c64 and hp_c128, functions hp_<name>_c64 and hp_<name>_c128 with the
 * semantics of torch's CPU operators. All functions take and return complex numbers; for a real or boolean result the
 * caller uses the real part. Include after math.h, where needed.
 *
 * Branch cuts follow the sign of zero, as in C99. Errors are relative to the modulus of the result. */
#ifndef HARDPOINT_KERNELS_MATH_COMPLEX_H
#define HARDPOINT_KERNELS_MATH_COMPLEX_H

#define HP_C HP_JOIN(hp_, HP_COMPLEX)
#define HP_CF(name) HP_JOIN(hp_##name##_, HP_COMPLEX)

/* pow multiplies the logarithm's error by the exponent, so c64 powers are computed in double where available. */
#ifndef HP_NO_F64
#define HP_REAL f64
#define HP_COMPLEX c128
#include "math_complex_template.h"
#undef HP_COMPLEX
#undef HP_REAL
#define HP_POWERS_IN_DOUBLE 1
#endif
#define HP_REAL f32
#define HP_COMPLEX c64
#include "math_complex_template.h"
#undef HP_COMPLEX
#undef HP_REAL

#endif
