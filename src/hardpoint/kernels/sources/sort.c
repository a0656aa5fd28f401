/* Sorting along the middle dimension of outer x n x inner, contiguous. Elements are sorted by a key of KEYBITS bits
 * with the same order, then by position, so the sort is stable and the result unique. DESCENDING: 1 for largest first.
 * NaN is larger than any number. */
#if defined(T_IS_F64) || defined(T_IS_I64)
#define KEYBITS 64
#elif defined(T_IS_F32) || defined(T_IS_I32)
#define KEYBITS 32
#elif defined(T_IS_F16) || defined(T_IS_BF16) || defined(T_IS_I16)
#define KEYBITS 16
#else
#define KEYBITS 8
#endif

#if KEYBITS == 64
typedef struct {
  hp_u64 key;
  hp_i64 position;
} sort_item;
#define ITEM_KEY(item) ((item).key)
#define ITEM_POSITION(item) ((item).position)
#define ITEM_LESS(a, b) ((a).key < (b).key || ((a).key == (b).key && (a).position < (b).position))
typedef hp_u64 sort_key;
#else
/* Key in the high half, position in the low half. */
typedef hp_u64 sort_item;
#define ITEM_KEY(item) ((hp_u32)((item) >> 32))
#define ITEM_POSITION(item) ((hp_i64)((item) & 0xffffffffu))
#define ITEM_LESS(a, b) ((a) < (b))
typedef hp_u32 sort_key;
#endif

#define KEY_MASK ((sort_key) ~(sort_key)0 >> (8 * sizeof(sort_key) - KEYBITS))
#define KEY_NAN (DESCENDING ? (sort_key)0 : KEY_MASK)
enum { SORT_STACK = 2048, SORT_SMALL = 32, SORT_GLANCE = 64, SORT_CHUNK = 65536, SORT_SEGMENT = 16384 };

HP_FN sort_key sort_key_of(T stored) {
  sort_key key;
#if T_IS_FLOAT
  const sort_key sign = (sort_key)1 << (KEYBITS - 1);
#if defined(T_IS_F64)
  const sort_key bits = hp_bits_f64(stored), infinity = (sort_key)0x7ff00000u << 32;
#elif defined(T_IS_F32)
  const sort_key bits = hp_bits_f32(stored), infinity = 0x7f800000u;
#elif defined(T_IS_F16)
  const sort_key bits = stored, infinity = 0x7c00u;
#else
  const sort_key bits = stored, infinity = 0x7f80u;
#endif
  const sort_key magnitude = bits & (sign - 1);
  /* No branches, which random signs would mispredict. Both zeros map to the same key. */
  const sort_key some = (sort_key)0 - (sort_key)(magnitude != 0), negative = (sort_key)0 - (bits >> (KEYBITS - 1) & 1);
  key = ((bits & some) ^ ((negative & some) | sign)) & KEY_MASK;
  key |= ((sort_key)0 - (sort_key)(magnitude > infinity)) & KEY_MASK;
#elif defined(T_IS_U8) || defined(T_IS_BOOL)
  key = T_get(stored);
#else
  key = ((sort_key)stored ^ ((sort_key)1 << (KEYBITS - 1))) & KEY_MASK;
#endif
  return DESCENDING ? KEY_MASK - key : key;
}

HP_FN sort_item sort_item_with(sort_key key, hp_i64 position) {
#if KEYBITS == 64
  sort_item item;
  item.key = key;
  item.position = position;
  return item;
#else
  return (hp_u64)key << 32 | (hp_u64)position;
#endif
}
HP_FN sort_item sort_item_of(T stored, hp_i64 position) { return sort_item_with(sort_key_of(stored), position); }

/* Sorts `n` items of `a`; returns `a` or `b`, whichever has the result. Called by all work-items of the group. One
 * work-item: insertion sort for few items, else radix sort. Many work-items: merge sort, with a barrier after each
 * pass. */
#if HP_LSIZE == 1
HP_FN HP_GLOBAL sort_item* sort_items(HP_GLOBAL sort_item* a, HP_GLOBAL sort_item* b, hp_i64 n) {
  if (n <= SORT_SMALL) {
    for (hp_i64 i = 1; i < n; ++i) {
      const sort_item item = a[i];
      hp_i64 j = i;
      for (; j > 0 && ITEM_LESS(item, a[j - 1]); --j) a[j] = a[j - 1];
      a[j] = item;
    }
    return a;
  }
  /* Radix sort by bytes, lowest first. */
  hp_u32 counts[KEYBITS / 8][256];
  for (int d = 0; d < KEYBITS / 8; ++d)
    for (int v = 0; v < 256; ++v) counts[d][v] = 0;
  for (hp_i64 i = 0; i < n; ++i) {
    const sort_key key = ITEM_KEY(a[i]);
    for (int d = 0; d < KEYBITS / 8; ++d) ++counts[d][key >> 8 * d & 255];
  }
  for (int d = 0; d < KEYBITS / 8; ++d) {
    if (counts[d][ITEM_KEY(a[0]) >> 8 * d & 255] == (hp_u32)n) continue; /* all items have the same byte */
    hp_u32 sum = 0;
    for (int v = 0; v < 256; ++v) {
      const hp_u32 count = counts[d][v];
      counts[d][v] = sum;
      sum += count;
    }
    for (hp_i64 i = 0; i < n; ++i) {
      const sort_item item = a[i];
      b[counts[d][ITEM_KEY(item) >> 8 * d & 255]++] = item;
    }
    HP_GLOBAL sort_item* const other = a;
    a = b;
    b = other;
  }
  return a;
}
#else
HP_FN HP_GLOBAL sort_item* sort_items(HP_GLOBAL sort_item* a, HP_GLOBAL sort_item* b, hp_i64 n) {
  hp_barrier();
  for (hp_i64 width = 1; width < n; width *= 2) {
    /* Each item finds its position in the other run by binary search. */
    HP_FOR_LOCAL(i, n) {
      const hp_i64 run = i / width, pair = run / 2 * 2 * width, other = run % 2 == 0 ? pair + width : pair;
      const sort_item item = a[i];
      hp_i64 low = other < n ? other : n, high = other + width < n ? other + width : n;
      const hp_i64 start = low;
      while (low < high) {
        const hp_i64 middle = (low + high) / 2;
        if (ITEM_LESS(a[middle], item)) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      b[pair + (i - run * width) + (low - start)] = item;
    }
    hp_barrier();
    HP_GLOBAL sort_item* const swap = a;
    a = b;
    b = swap;
  }
  return a;
}
#endif

/* Two buffers of `need` items for a row: on the stack if the group is one CPU thread and the row is short. */
#if HP_LSIZE == 1 && defined(HP_DIALECT_HOST)
#define SORT_MEMORY(need)                                                               \
  sort_item stack_a[SORT_STACK], stack_b[SORT_STACK];                                   \
  sort_item* const own_a = (need) <= SORT_STACK ? stack_a : scratch + hp_group * 2 * n; \
  sort_item* const own_b = (need) <= SORT_STACK ? stack_b : own_a + n
#else
#define SORT_MEMORY(need)                                        \
  HP_GLOBAL sort_item* const own_a = scratch + hp_group * 2 * n; \
  HP_GLOBAL sort_item* const own_b = own_a + n
#endif

/* One row after the other, `slots` work-groups at a time; writes the first `k` of each row. */
HP_KERNEL(rows)(HP_GLOBAL T* values, HP_GLOBAL hp_i64* indices, HP_GLOBAL const T* self, HP_GLOBAL sort_item* scratch,
                hp_i64 rows, hp_i64 n, hp_i64 inner, hp_i64 k, hp_i64 slots, hp_i64 per_group) {
  /* Keeps only candidates for the first k, and sorts them when their number has doubled. */
  const hp_i64 room = 2 * k + 2 * SORT_GLANCE;
  const int select = HP_LSIZE == 1 && 4 * k <= n && room <= SORT_STACK;
  SORT_MEMORY(select ? room : n);
  for (hp_i64 turn = hp_group * per_group; turn < rows; turn += slots * per_group) {
    const hp_i64 stop = turn + per_group < rows ? turn + per_group : rows;
    for (hp_i64 row = turn; row < stop; ++row) {
      HP_GLOBAL const T* const from = self + row / inner * n * inner + row % inner;
      const hp_i64 to = row / inner * k * inner + row % inner;
#if HP_LSIZE == 1
      if (select) {
        hp_i64 kept = 0, i = 0;
        HP_GLOBAL sort_item* list = own_a;
        HP_GLOBAL sort_item* spare = own_b;
        while (i < n && kept < k) list[kept++] = sort_item_of(from[i * inner], i), ++i;
        list = sort_items(own_a, own_b, kept);
        spare = list == own_a ? own_b : own_a;
        while (i < n) {
          const sort_key worst = ITEM_KEY(list[k - 1]);
          while (i < n && kept + SORT_GLANCE <= room) {
            /* Most elements are no candidates: test SORT_GLANCE keys at once. */
            const hp_i64 some = n - i < SORT_GLANCE ? n - i : SORT_GLANCE;
            sort_key keys[SORT_GLANCE], least = KEY_MASK;
            for (hp_i64 j = 0; j < some; ++j) keys[j] = sort_key_of(from[(i + j) * inner]);
            for (hp_i64 j = 0; j < some; ++j) least = keys[j] < least ? keys[j] : least;
            /* Of equal keys, later elements rank after the candidates. */
            for (hp_i64 j = 0; least < worst && j < some; ++j) {
              list[kept] = sort_item_with(keys[j], i + j);
              kept += keys[j] < worst;
            }
            i += some;
          }
          HP_GLOBAL sort_item* const sorted = sort_items(list, spare, kept);
          spare = sorted == list ? spare : list;
          list = sorted;
          kept = k;
        }
        for (hp_i64 j = 0; j < k; ++j) {
          const hp_i64 position = ITEM_POSITION(list[j]);
          values[to + j * inner] = from[position * inner];
          indices[to + j * inner] = position;
        }
        continue;
      }
#endif
      HP_FOR_LOCAL(i, n) own_a[i] = sort_item_of(from[i * inner], i);
      HP_GLOBAL const sort_item* const sorted = sort_items(own_a, own_b, n);
      HP_FOR_LOCAL(j, k) {
        const hp_i64 position = ITEM_POSITION(sorted[j]);
        values[to + j * inner] = from[position * inner];
        indices[to + j * inner] = position;
      }
      hp_barrier();
    }
  }
}

/* One element of each sorted row. STATISTIC: 0 the k-th, 1 the median, 2 the median without NaN, 3 the mode. SORTED: 1
 * if the items are already sorted. */
HP_KERNEL(pick)(HP_GLOBAL T* values, HP_GLOBAL hp_i64* indices, HP_GLOBAL const T* self, HP_GLOBAL sort_item* scratch,
                hp_i64 rows, hp_i64 n, hp_i64 inner, hp_i64 k, hp_i64 slots, hp_i64 per_group) {
#if !SORTED
  SORT_MEMORY(n);
#endif
  for (hp_i64 turn = hp_group * per_group; turn < rows; turn += slots * per_group) {
    const hp_i64 stop = turn + per_group < rows ? turn + per_group : rows;
    for (hp_i64 row = turn; row < stop; ++row) {
      HP_GLOBAL const T* const from = self + row / inner * n * inner + row % inner;
#if SORTED
      HP_GLOBAL const sort_item* const sorted = scratch + row * n;
#else
      HP_FOR_LOCAL(i, n) own_a[i] = sort_item_of(from[i * inner], i);
      HP_GLOBAL const sort_item* const sorted = sort_items(own_a, own_b, n);
#endif
      if (hp_lid == 0) {
        hp_i64 chosen = k;
#if STATISTIC == 1 || STATISTIC == 2
        hp_i64 numbers = n;
#if T_IS_FLOAT
        hp_i64 low = 0;
        while (low < numbers) {
          const hp_i64 middle = (low + numbers) / 2;
          if (ITEM_KEY(sorted[middle]) == KEY_NAN) {
            numbers = middle;
          } else {
            low = middle + 1;
          }
        }
#endif
        chosen = STATISTIC == 1 && numbers < n ? numbers : numbers > 0 ? (numbers - 1) / 2 : 0;
#elif STATISTIC == 3
        hp_i64 begin = 0, longest = 0;
        for (hp_i64 i = 1; i <= n; ++i) {
          if (i < n && ITEM_KEY(sorted[i]) == ITEM_KEY(sorted[begin])) continue;
          chosen = i - begin > longest ? i - 1 : chosen;
          longest = i - begin > longest ? i - begin : longest;
          begin = i;
        }
#endif
        const hp_i64 position = ITEM_POSITION(sorted[chosen]);
        values[row] = from[position * inner];
        indices[row] = position;
      }
      hp_barrier();
    }
  }
}

/* ---- Long rows: sorted in chunks, then merged pairwise; each merge is split into segments of the result ---------- */

HP_KERNEL(chunks)(HP_GLOBAL sort_item* a, HP_GLOBAL sort_item* b, HP_GLOBAL const T* self, hp_i64 n, hp_i64 inner,
                  hp_i64 chunks) {
  const hp_i64 row = hp_group / chunks, begin = hp_group % chunks * SORT_CHUNK;
  const hp_i64 length = n - begin < SORT_CHUNK ? n - begin : SORT_CHUNK;
  HP_GLOBAL const T* const from = self + row / inner * n * inner + row % inner;
  HP_GLOBAL sort_item* const own = a + row * n + begin;
  HP_FOR_LOCAL(i, length) own[i] = sort_item_of(from[(begin + i) * inner], begin + i);
  HP_GLOBAL const sort_item* const sorted = sort_items(own, b + row * n + begin, length);
  if (sorted != own) HP_FOR_LOCAL(i, length) own[i] = sorted[i];
}

HP_KERNEL(merge)(HP_GLOBAL sort_item* out, HP_GLOBAL const sort_item* in, hp_i64 n, hp_i64 width, hp_i64 segments) {
  const hp_i64 row = hp_group / segments, begin = hp_group % segments * SORT_SEGMENT;
  const hp_i64 end = begin + SORT_SEGMENT < n ? begin + SORT_SEGMENT : n;
  const hp_i64 pair = begin / (2 * width) * 2 * width;
  HP_GLOBAL const sort_item* const first = in + row * n + pair;
  const hp_i64 length = width < n - pair ? width : n - pair;
  HP_GLOBAL const sort_item* const second = first + length;
  const hp_i64 other = width < n - pair - length ? width : n - pair - length;
  HP_GLOBAL sort_item* const to = out + row * n + pair;
  /* Number of items from the first run among the first `position` results (merge path). */
#define SPLIT(count, position)                                           \
  do {                                                                   \
    hp_i64 low_ = (position) > other ? (position) - other : 0;           \
    hp_i64 high_ = (position) < length ? (position) : length;            \
    while (low_ < high_) {                                               \
      const hp_i64 middle_ = (low_ + high_) / 2;                         \
      if (ITEM_LESS(second[(position) - middle_ - 1], first[middle_])) { \
        high_ = middle_;                                                 \
      } else {                                                           \
        low_ = middle_ + 1;                                              \
      }                                                                  \
    }                                                                    \
    count = low_;                                                        \
  } while (0)
  /* Work-items take equal shares of the segment. */
  const hp_i64 share = (end - begin + HP_LSIZE - 1) / HP_LSIZE;
  hp_i64 position = begin - pair + hp_lid * share;
  const hp_i64 stop = position + share < end - pair ? position + share : end - pair;
  if (position < stop) {
    hp_i64 i, j;
    SPLIT(i, position);
    j = position - i;
    for (; position < stop && i < length && j < other; ++position) {
      const sort_item x = first[i], y = second[j];
      const int left = ITEM_LESS(x, y);
      to[position] = left ? x : y;
      i += left;
      j += !left;
    }
    for (; position < stop && i < length; ++position) to[position] = first[i++];
    for (; position < stop; ++position) to[position] = second[j++];
  }
}

HP_KERNEL(finish)(HP_GLOBAL T* values, HP_GLOBAL hp_i64* indices, HP_GLOBAL const T* self,
                  HP_GLOBAL const sort_item* sorted, hp_i64 rows, hp_i64 n, hp_i64 inner, hp_i64 k) {
  HP_FOR_ELEMENTS(i, rows * k) {
    const hp_i64 row = i / k, j = i % k, position = ITEM_POSITION(sorted[row * n + j]);
    const hp_i64 to = row / inner * k * inner + row % inner + j * inner;
    values[to] = self[row / inner * n * inner + row % inner + position * inner];
    indices[to] = position;
  }
}
