"""Names that a kernel's function cannot have in C or OpenCL C.

gcc calls some of the C library's functions by itself (``memset`` for a loop that clears memory), so a kernel must not
replace them.
"""

from __future__ import annotations

KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof bool
half quad complex imaginary kernel global local constant private generic pipe image1d_t image2d_t image3d_t sampler_t
event_t size_t ptrdiff_t intptr_t uintptr_t uchar ushort uint ulong true false main NULL
"""
#: Functions of the C library, and of OpenCL C.
FUNCTIONS = """
abort abs abs_diff acos acosf acosh acosl acospi add_sat all alloca any asin asinf asinh asinl asinpi
async_work_group_copy atan atan2 atan2f atan2pi atanf atanh atanl atanpi atexit atof atoi atol atomic_add atomic_and
atomic_cmpxchg atomic_dec atomic_inc atomic_max atomic_min atomic_or atomic_sub atomic_xchg atomic_xor barrier
bitselect bsearch calloc cbrt cbrtf ceil ceilf ceill clamp clz copysign copysignf cos cosf cosh coshf cosl cospi cross
ctz degrees distance div dot erf erfc erfcf erff exit exp exp10 exp2 exp2f expf expl expm1 expm1f fabs fabsf fabsl
fast_distance fast_length fast_normalize fdim fdimf fflush floor floorf floorl fma fmaf fmax fmaxf fmaxl fmin fminf
fminl fmod fmodf fmodl fprintf fputs fract free frexp frexpf fwrite get_global_id get_group_id get_local_id
get_num_groups getenv hadd hypot hypotf ilogb ilogbf isequal isfinite isgreater isinf isless isnan isnormal isordered
labs ldexp ldexpf length lgamma lgamma_r lgammaf llabs llrint llrintf llround llroundf log log10 log10f log1p log1pf
log2 log2f logb logbf logf logl lrint lrintf lround lroundf mad mad24 mad_hi mad_sat malloc max maxmag mem_fence
memchr memcmp memcpy memmove memset min minmag mix modf modff mul24 mul_hi nan nanf nearbyint nearbyintf nextafter
nextafterf normalize popcount pow powf powl pown powr prefetch printf putchar puts qsort radians realloc recip
remainder remainderf remquo remquof rhadd rint rintf rootn rotate round roundf roundl rsqrt scalbln scalbn scalbnf
select shuffle shuffle2 sign signbit sin sincos sincosf sinf sinh sinhf sinl sinpi smoothstep snprintf sprintf sqrt
sqrtf sqrtl step strchr strcmp strcpy strlen strncmp strncpy sub_sat tan tanf tanh tanhf tanl tanpi tgamma tgammaf
trunc truncf truncl upsample vload16 vload2 vload4 vload8 vstore16 vstore2 vstore4 vstore8
"""
NAMES = frozenset(f"{KEYWORDS} {FUNCTIONS}".split())
#: Beginnings of names in Hardpoint's headers, and of those that compilers reserve.
PREFIXES = ("hp_", "HP_", "__")


def is_reserved(name: str) -> bool:
    """Whether a kernel needs another name."""
    return name in NAMES or name.startswith(PREFIXES)
