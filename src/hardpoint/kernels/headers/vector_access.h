/* A vector of elements, up to 16 bytes, that a work-item loads or stores at once. For groups of many work-items. */
#define HP_PACK_TYPE(name, type, count)                             \
  typedef struct __attribute__((aligned(sizeof(type) * (count)))) { \
    type at[count];                                                 \
  } name

/* Whether a pointer is aligned to `bytes`, a power of two. */
#define HP_ALIGNED(pointer, bytes) (((hp_u64)(pointer) & ((bytes) - 1)) == 0)
/* Elements before the first address that is aligned for vectors of `count` elements. */
#define HP_HEAD(pointer, count) \
  ((hp_i64)((((hp_u64)0 - (hp_u64)(pointer)) & (sizeof(*(pointer)) * (count) - 1)) / sizeof(*(pointer))))
