/* Kernels over lists of tensors. A parameter `HP_GLOBAL T* q_[SLOTS]` expands to SLOTS parameters q_0, q_1, ...;
 * HP_EACH_SLOT(X) expands to X(0) X(1) ... (both by template.py). Pointers are kernel arguments rather than a table in
 * memory, because drivers must see every buffer that a launch uses. */
#define SLOT_CASE(k, ...) \
  case k:                 \
    __VA_ARGS__;          \
    break;
#define SLOT_SWITCH(slot, take) \
  switch (slot) { HP_EACH_SLOT(take) }

/* Index of the tensor that a work-group belongs to, by binary search. first[k] is the first group of tensor k,
 * first[SLOTS] the number of groups. */
HP_FN int slot_of(const hp_i64* first, hp_i64 group) {
  int low = 0, high = SLOTS; /* invariant: first[low] <= group < first[high] */
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
