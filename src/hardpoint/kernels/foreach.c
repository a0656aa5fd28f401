/* One operation on many tensors: out = OP of the operands at the same place. A launch takes some tensors of each list;
 * their pointers are parameters, and a group finds its tensor by the number of its first group. Where all of them
 * together are no more than a group's work, or share memory, one group takes them all. T: the type of all. OP: see
 * below. ONE: the second operand is a single number in device memory, the same for all tensors.
 *
 * map1, map2 and map3 take that many operands, of 12, 8 and 6 tensors. */
#define FOREACH_TABLE(slots)                                        \
  hp_i64 first[slots + 1]; /* group that each tensor begins with */ \
  hp_i64 size[slots], together;                                     \
  double number[slots];
typedef struct {
  FOREACH_TABLE(12)
} foreach_table1;
typedef struct {
  FOREACH_TABLE(8)
} foreach_table2;
typedef struct {
  FOREACH_TABLE(6)
} foreach_table3;

/* Numbered as in csrc/ops/foreach.h. x, y, z: elements; s: the tensor's number. */
/* From the nearer end, so that both ends are reached exactly. */
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

#define FOREACH_2(p, s) (s == 0 ? p##0 : p##1)
#define FOREACH_6(p, s) (s < 2 ? FOREACH_2(p, s) : s == 2 ? p##2 : s == 3 ? p##3 : s == 4 ? p##4 : p##5)
#define FOREACH_8(p, s) (s < 6 ? FOREACH_6(p, s) : s == 6 ? p##6 : p##7)
#define FOREACH_12(p, s) (s < 8 ? FOREACH_8(p, s) : s == 8 ? p##8 : s == 9 ? p##9 : s == 10 ? p##10 : p##11)

/* A loop over the tensors of this group, and what is to be done for each of them first. */
#define FOREACH_SLOTS(slots)                                                                \
  int slot_begin = 0, slot_end = slots;                                                     \
  if (!table.together) {                                                                    \
    while (slot_begin + 1 < slots && hp_group >= table.first[slot_begin + 1]) ++slot_begin; \
    slot_end = slot_begin + 1;                                                              \
  }                                                                                         \
  for (int slot = slot_begin; slot < slot_end; ++slot)
#define FOREACH_RANGE                                                                                             \
  const hp_i64 begin = table.together ? 0 : (hp_group - table.first[slot]) * HP_ELEMENTS, all = table.size[slot]; \
  const hp_i64 end = table.together || begin + HP_ELEMENTS > all ? all : begin + HP_ELEMENTS;                     \
  const T_c s = (T_c)table.number[slot];                                                                          \
  (void)s;

HP_KERNEL(map1)(HP_GLOBAL T* q0, HP_GLOBAL T* q1, HP_GLOBAL T* q2, HP_GLOBAL T* q3, HP_GLOBAL T* q4, HP_GLOBAL T* q5,
                HP_GLOBAL T* q6, HP_GLOBAL T* q7, HP_GLOBAL T* q8, HP_GLOBAL T* q9, HP_GLOBAL T* q10, HP_GLOBAL T* q11,
                HP_GLOBAL const T* a0, HP_GLOBAL const T* a1, HP_GLOBAL const T* a2, HP_GLOBAL const T* a3,
                HP_GLOBAL const T* a4, HP_GLOBAL const T* a5, HP_GLOBAL const T* a6, HP_GLOBAL const T* a7,
                HP_GLOBAL const T* a8, HP_GLOBAL const T* a9, HP_GLOBAL const T* a10, HP_GLOBAL const T* a11,
                foreach_table1 table) {
  FOREACH_SLOTS(12) {
    FOREACH_RANGE
    HP_GLOBAL T* const q = FOREACH_12(q, slot);
    HP_GLOBAL const T* const a = FOREACH_12(a, slot);
    HP_VECTORISE
    for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE) {
      const T_c x = T_get(a[i]);
      q[i] = T_put(FOREACH_VALUE(x, x, x, s));
    }
  }
}

HP_KERNEL(map2)(HP_GLOBAL T* q0, HP_GLOBAL T* q1, HP_GLOBAL T* q2, HP_GLOBAL T* q3, HP_GLOBAL T* q4, HP_GLOBAL T* q5,
                HP_GLOBAL T* q6, HP_GLOBAL T* q7, HP_GLOBAL const T* a0, HP_GLOBAL const T* a1, HP_GLOBAL const T* a2,
                HP_GLOBAL const T* a3, HP_GLOBAL const T* a4, HP_GLOBAL const T* a5, HP_GLOBAL const T* a6,
                HP_GLOBAL const T* a7, HP_GLOBAL const T* b0, HP_GLOBAL const T* b1, HP_GLOBAL const T* b2,
                HP_GLOBAL const T* b3, HP_GLOBAL const T* b4, HP_GLOBAL const T* b5, HP_GLOBAL const T* b6,
                HP_GLOBAL const T* b7, foreach_table2 table) {
  FOREACH_SLOTS(8) {
    FOREACH_RANGE
    HP_GLOBAL T* const q = FOREACH_8(q, slot);
    HP_GLOBAL const T* const a = FOREACH_8(a, slot);
    HP_GLOBAL const T* const b = FOREACH_8(b, slot);
#if ONE
    if (begin >= end) continue; /* nothing: there may be no pointer either */
    const T_c y = T_get(*b);
#endif
    HP_VECTORISE
    for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE) {
      const T_c x = T_get(a[i]);
#if !ONE
      const T_c y = T_get(b[i]);
#endif
      q[i] = T_put(FOREACH_VALUE(x, y, y, s));
    }
  }
}

HP_KERNEL(map3)(HP_GLOBAL T* q0, HP_GLOBAL T* q1, HP_GLOBAL T* q2, HP_GLOBAL T* q3, HP_GLOBAL T* q4, HP_GLOBAL T* q5,
                HP_GLOBAL const T* a0, HP_GLOBAL const T* a1, HP_GLOBAL const T* a2, HP_GLOBAL const T* a3,
                HP_GLOBAL const T* a4, HP_GLOBAL const T* a5, HP_GLOBAL const T* b0, HP_GLOBAL const T* b1,
                HP_GLOBAL const T* b2, HP_GLOBAL const T* b3, HP_GLOBAL const T* b4, HP_GLOBAL const T* b5,
                HP_GLOBAL const T* c0, HP_GLOBAL const T* c1, HP_GLOBAL const T* c2, HP_GLOBAL const T* c3,
                HP_GLOBAL const T* c4, HP_GLOBAL const T* c5, foreach_table3 table) {
  FOREACH_SLOTS(6) {
    FOREACH_RANGE
    HP_GLOBAL T* const q = FOREACH_6(q, slot);
    HP_GLOBAL const T* const a = FOREACH_6(a, slot);
    HP_GLOBAL const T* const b = FOREACH_6(b, slot);
    HP_GLOBAL const T* const c = FOREACH_6(c, slot);
    HP_VECTORISE
    for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE) {
      const T_c x = T_get(a[i]), y = T_get(b[i]), z = T_get(c[i]);
      q[i] = T_put(FOREACH_VALUE(x, y, z, s));
    }
  }
}
