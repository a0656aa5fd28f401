/* Kernels of lists of tensors: a parameter `HP_GLOBAL T* q_[SLOTS]` stands for SLOTS parameters q_0, q_1, ...;
 * HP_EACH_SLOT(X) for X(0) X(1) ... (template.py writes both). Pointers are never in a table: a driver must know them.
 */
#define SLOT_CASE(k, ...) \
  case k:                 \
    __VA_ARGS__;          \
    break;
#define SLOT_SWITCH(slot, take) \
  switch (slot) { HP_EACH_SLOT(take) }

/* The tensor of a group; first[k]: the group that tensor k begins with, first[SLOTS]: the number of all. */
HP_FN int slot_of(const hp_i64* first, hp_i64 group) {
  int low = 0, high = SLOTS; /* first[low] <= group < first[high] */
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (group >= first[middle]) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}
