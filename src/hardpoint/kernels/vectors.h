/* Elements that a work-item moves at once, as one vector of up to 16 bytes, where groups have many work-items. */
#define HP_PACK_TYPE(name, type, count)                             \
  typedef struct __attribute__((aligned(sizeof(type) * (count)))) { \
    type at[count];                                                 \
  } name

/* Whether a pointer is aligned to so many bytes, a power of two. */
#define HP_ALIGNED(pointer, bytes) (((hp_u64)(pointer) & ((bytes) - 1)) == 0)
/* Elements in front of the first one where vectors of `count` may begin. */
#define HP_HEAD(pointer, count) \
  ((hp_i64)((((hp_u64)0 - (hp_u64)(pointer)) & (sizeof(*(pointer)) * (count) - 1)) / sizeof(*(pointer))))
