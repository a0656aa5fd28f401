/* Complex numbers for portable kernels: the types hp_c64 and hp_c128, and functions hp_<name>_c64 and hp_<name>_c128
 * with the semantics of torch's CPU operators. Every function takes and gives complex numbers, also where the result is
 * real or a truth value; the caller takes the real part then. To be included after math.h, where it is needed.
 *
 * Branch cuts follow the sign of zero, as in C99. Errors are relative to the modulus of the result. */
#ifndef HARDPOINT_KERNELS_MATH_COMPLEX_H
#define HARDPOINT_KERNELS_MATH_COMPLEX_H

#define HP_C HP_JOIN(hp_, HP_COMPLEX)
#define HP_CF(name) HP_JOIN(hp_##name##_, HP_COMPLEX)

/* The error of a logarithm is multiplied by the exponent, so powers of floats are made in double where there is one. */
#ifndef HP_NO_F64
#define HP_REAL f64
#define HP_COMPLEX c128
#include "math_complex_real.h"
#undef HP_COMPLEX
#undef HP_REAL
#define HP_POWERS_IN_DOUBLE 1
#endif
#define HP_REAL f32
#define HP_COMPLEX c64
#include "math_complex_real.h"
#undef HP_COMPLEX
#undef HP_REAL

#endif
