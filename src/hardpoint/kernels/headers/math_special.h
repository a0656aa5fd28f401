/* Special functions for portable kernels, hp_<name>_f32 and hp_<name>_f64, with the semantics of torch's CPU operators.
 * Include after math.h. A separate header because these functions compile slowly. */
#ifndef HARDPOINT_KERNELS_MATH_SPECIAL_H
#define HARDPOINT_KERNELS_MATH_SPECIAL_H

#define HP_REAL f32
#include "math_special_template.h"
#undef HP_REAL
#ifndef HP_NO_F64
#define HP_REAL f64
#include "math_special_template.h"
#undef HP_REAL
#endif

#endif
