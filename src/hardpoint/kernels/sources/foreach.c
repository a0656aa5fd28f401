/* One operation on lists of tensors: out = OP(operands), elementwise. A launch takes up to SLOTS tensors per list; a
 * work-group finds its tensor from the first group of each. If all tensors together fit one work-group, or share
 * memory, a single group handles all (`together`). T: dtype of all tensors. OP: see below. ONE: 1 if the second operand
 * is a scalar in device memory, shared by all tensors.
 *
 * map1, map2 and map3 take one, two and three operands. */
#include "tensor_list.h"
#include "vector_access.h"

typedef struct {
  hp_i64 first[SLOTS + 1]; /* first work-group of each tensor */
  hp_i64 size[SLOTS], together;
  double number[SLOTS];
} foreach_table;

/* Numbered as in csrc/ops/foreach.h. x, y, z: elements; s: the tensor's number. */
/* Interpolates from the nearer end, so both ends are exact. */
#define FOREACH_LERP(x, y, w) \
  ((w) < (T_c)0.5 && -(w) < (T_c)0.5 ? (x) + (w) * ((y) - (x)) : (y) - ((y) - (x)) * ((T_c)1 - (w)))
#if OP == 0
#define FOREACH_VALUE(x, y, z, s) ((x) + (s))
#elif OP == 1
#define FOREACH_VALUE(x, y, z, s) ((x) * (s))
#elif OP == 2
#define FOREACH_VALUE(x, y, z, s) ((x) / (s))
#elif OP == 3
#define FOREACH_VALUE(x, y, z, s) (T_M(sqrt)(x))
#elif OP == 4
#define FOREACH_VALUE(x, y, z, s) ((T_c)1 / T_M(sqrt)(x))
#elif OP == 5
#define FOREACH_VALUE(x, y, z, s) ((T_c)1 / (x))
#elif OP == 6
#define FOREACH_VALUE(x, y, z, s) (-(x))
#elif OP == 7
#define FOREACH_VALUE(x, y, z, s) (T_M(abs)(x))
#elif OP == 8
#define FOREACH_VALUE(x, y, z, s) (T_M(exp)(x))
#elif OP == 9
#define FOREACH_VALUE(x, y, z, s) ((s))
#elif OP == 10
#define FOREACH_VALUE(x, y, z, s) ((x))
#elif OP == 20
#define FOREACH_VALUE(x, y, z, s) ((x) + (s) * (y))
#elif OP == 21
#define FOREACH_VALUE(x, y, z, s) ((x) * (y))
#elif OP == 22
#define FOREACH_VALUE(x, y, z, s) ((x) / (y))
#elif OP == 23
#define FOREACH_VALUE(x, y, z, s) ((x) > (y) || (x) != (x) ? (x) : (y))
#elif OP == 24
#define FOREACH_VALUE(x, y, z, s) ((x) < (y) || (x) != (x) ? (x) : (y))
#elif OP == 25
#define FOREACH_VALUE(x, y, z, s) (FOREACH_LERP(x, y, s))
#elif OP == 40
#define FOREACH_VALUE(x, y, z, s) ((x) + (s) * (y) * (z))
#elif OP == 41
#define FOREACH_VALUE(x, y, z, s) ((x) + (s) * (y) / (z))
#elif OP == 42
#define FOREACH_VALUE(x, y, z, s) (FOREACH_LERP(x, y, z))
#endif

/* Loop over this work-group's tensors, and the setup for each. */
#define FOREACH_SLOTS                            \
  int slot_begin = 0, slot_end = SLOTS;          \
  if (!table.together) {                         \
    slot_begin = slot_of(table.first, hp_group); \
    slot_end = slot_begin + 1;                   \
  }                                              \
  for (int slot = slot_begin; slot < slot_end; ++slot)
#define FOREACH_RANGE                                                                                             \
  const hp_i64 begin = table.together ? 0 : (hp_group - table.first[slot]) * HP_ELEMENTS, all = table.size[slot]; \
  const hp_i64 end = table.together || begin + HP_ELEMENTS > all ? all : begin + HP_ELEMENTS;                     \
  const T_c s = (T_c)table.number[slot];                                                                          \
  (void)s;

#if HP_LSIZE > 1
/* Vector path for a full work-group: all vectors are loaded before any is stored. Unaligned memory takes the scalar
 * path. Results overwrite the first operand's vectors `as`. */
enum { PACK = 16 / sizeof(T), PACKS = HP_ELEMENTS / HP_LSIZE / PACK };
HP_PACK_TYPE(foreach_pack, T, PACK);
#define FOREACH_AT(pointer, k) ((HP_GLOBAL foreach_pack*)(pointer))[begin / PACK + hp_lid + (k) * HP_LSIZE]
#define FOREACH_READ(packs, from) \
  foreach_pack packs[PACKS];      \
  HP_UNROLL                       \
  for (int k = 0; k < PACKS; ++k) packs[k] = FOREACH_AT(from, k)
#define FOREACH_WRITE(VALUE)                                   \
  HP_UNROLL                                                    \
  for (int k = 0; k < PACKS; ++k) {                            \
    HP_UNROLL                                                  \
    for (int u = 0; u < PACK; ++u) as[k].at[u] = T_put(VALUE); \
    FOREACH_AT(q, k) = as[k];                                  \
  }
#define FOREACH_FITS(pointer) HP_ALIGNED(pointer, sizeof(foreach_pack))
#endif

HP_KERNEL(map1)(HP_GLOBAL T* q_[SLOTS], HP_GLOBAL const T* a_[SLOTS], foreach_table table) {
  FOREACH_SLOTS {
    FOREACH_RANGE
    HP_GLOBAL T* q = 0;
    HP_GLOBAL const T* a = 0;
#define TAKE(k) SLOT_CASE(k, q = q_##k, a = a_##k)
    SLOT_SWITCH(slot, TAKE)
#if HP_LSIZE > 1
    if (end - begin == HP_ELEMENTS && FOREACH_FITS(q) && FOREACH_FITS(a)) {
      FOREACH_READ(as, a);
#define X T_get(as[k].at[u])
      FOREACH_WRITE(FOREACH_VALUE(X, X, X, s))
#undef X
      continue;
    }
#endif
    HP_VECTORIZE
    for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE) {
      const T_c x = T_get(a[i]);
      q[i] = T_put(FOREACH_VALUE(x, x, x, s));
    }
  }
}

HP_KERNEL(map2)(HP_GLOBAL T* q_[SLOTS], HP_GLOBAL const T* a_[SLOTS], HP_GLOBAL const T* b_[SLOTS],
                foreach_table table) {
  FOREACH_SLOTS {
    FOREACH_RANGE
    HP_GLOBAL T* q = 0;
    HP_GLOBAL const T *a = 0, *b = 0;
#define TAKE(k) SLOT_CASE(k, q = q_##k, a = a_##k, b = b_##k)
    SLOT_SWITCH(slot, TAKE)
#if ONE
    if (begin >= end) continue; /* empty: the pointer may be null */
    const T_c y = T_get(*b);
#endif
#if HP_LSIZE > 1
    if (end - begin == HP_ELEMENTS && FOREACH_FITS(q) && FOREACH_FITS(a) && (ONE || FOREACH_FITS(b))) {
      FOREACH_READ(as, a);
#if ONE
      FOREACH_WRITE(FOREACH_VALUE(T_get(as[k].at[u]), y, y, s))
#else
      FOREACH_READ(bs, b);
      FOREACH_WRITE(FOREACH_VALUE(T_get(as[k].at[u]), T_get(bs[k].at[u]), T_get(bs[k].at[u]), s))
#endif
      continue;
    }
#endif
    HP_VECTORIZE
    for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE) {
      const T_c x = T_get(a[i]);
#if !ONE
      const T_c y = T_get(b[i]);
#endif
      q[i] = T_put(FOREACH_VALUE(x, y, y, s));
    }
  }
}

HP_KERNEL(map3)(HP_GLOBAL T* q_[SLOTS], HP_GLOBAL const T* a_[SLOTS], HP_GLOBAL const T* b_[SLOTS],
                HP_GLOBAL const T* c_[SLOTS], foreach_table table) {
  FOREACH_SLOTS {
    FOREACH_RANGE
    HP_GLOBAL T* q = 0;
    HP_GLOBAL const T *a = 0, *b = 0, *c = 0;
#define TAKE(k) SLOT_CASE(k, q = q_##k, a = a_##k, b = b_##k, c = c_##k)
    SLOT_SWITCH(slot, TAKE)
#if HP_LSIZE > 1
    if (end - begin == HP_ELEMENTS && FOREACH_FITS(q) && FOREACH_FITS(a) && FOREACH_FITS(b) && FOREACH_FITS(c)) {
      FOREACH_READ(as, a);
      FOREACH_READ(bs, b);
      FOREACH_READ(cs, c);
      FOREACH_WRITE(FOREACH_VALUE(T_get(as[k].at[u]), T_get(bs[k].at[u]), T_get(cs[k].at[u]), s))
      continue;
    }
#endif
    HP_VECTORIZE
    for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE) {
      const T_c x = T_get(a[i]), y = T_get(b[i]), z = T_get(c[i]);
      q[i] = T_put(FOREACH_VALUE(x, y, z, s));
    }
  }
}
