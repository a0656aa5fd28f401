/* Embedding bags. T: elements, I: indices, offsets and sizes. MODE: 0 sum, 1 mean, 2 maximum. WEIGHTED: 1 to multiply
 * each row by its sample weight. */
#include "fault.h"

#if HP_LSIZE == 1
#define TILE 64 /* columns at a time */
#else
#define TILE 1
#endif

typedef struct {
  hp_i64 bags, offsets, indices, width, limit, padding, per_group;
} bag_shape;

HP_KERNEL(forward)(HP_GLOBAL T* out, HP_GLOBAL I* bag_of, HP_GLOBAL I* sizes, HP_GLOBAL I* chosen,
                   HP_GLOBAL const T* weight, HP_GLOBAL const I* indices, HP_GLOBAL const I* offsets,
                   HP_GLOBAL const T* samples, HP_GLOBAL hp_i64* fault, hp_i64 code, bag_shape s) {
  const hp_i64 stop = (hp_group + 1) * s.per_group < s.bags ? (hp_group + 1) * s.per_group : s.bags;
  for (hp_i64 bag = hp_group * s.per_group; bag < stop; ++bag) {
    hp_i64 begin = (hp_i64)offsets[bag], end = bag + 1 < s.offsets ? (hp_i64)offsets[bag + 1] : s.indices;
    begin = begin < 0 ? 0 : begin;
    end = end < s.indices ? end : s.indices;
    hp_i64 size = 0;
    for (hp_i64 i = begin; i < end; ++i) {
      const hp_i64 row = (hp_i64)indices[i];
      if (!HP_INSIDE(row, s.limit)) HP_FAULT(row, s.limit);
      size += HP_INSIDE(row, s.limit) && row != s.padding;
    }
    HP_FOR_LOCAL(i, end - begin) bag_of[begin + i] = (I)bag;
    if (hp_lid == 0) sizes[bag] = (I)size;
    for (hp_i64 column = hp_lid * TILE; column < s.width; column += HP_LSIZE * TILE) {
      const hp_i64 tile = s.width - column < TILE ? s.width - column : TILE;
      T_a total[TILE];
      for (hp_i64 j = 0; j < TILE; ++j) total[j] = (T_a)0;
#if MODE == 2
      hp_i64 from[TILE];
      for (hp_i64 j = 0; j < TILE; ++j) from[j] = -1;
#endif
      for (hp_i64 i = begin; i < end; ++i) {
        const hp_i64 row = (hp_i64)indices[i];
        if (!HP_INSIDE(row, s.limit) || row == s.padding) continue;
        HP_GLOBAL const T* const p = weight + row * s.width + column;
#if MODE == 2
        for (hp_i64 j = 0; j < tile; ++j) {
          const T_a value = T_get(p[j]);
          const int better = from[j] < 0 || value > total[j];
          total[j] = better ? value : total[j];
          from[j] = better ? row : from[j];
        }
#elif WEIGHTED
        const T_a factor = T_get(samples[i]);
        HP_VECTORIZE
        for (hp_i64 j = 0; j < tile; ++j) total[j] += factor * T_get(p[j]);
#else
        HP_VECTORIZE
        for (hp_i64 j = 0; j < tile; ++j) total[j] += T_get(p[j]);
#endif
      }
      for (hp_i64 j = 0; j < tile; ++j) {
#if MODE == 1
        total[j] = size > 0 ? total[j] / (T_a)size : total[j];
#elif MODE == 2
        chosen[bag * s.width + column + j] = (I)from[j];
#endif
        out[bag * s.width + column + j] = T_put(total[j]);
      }
    }
  }
}
