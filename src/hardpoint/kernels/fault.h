/* How a kernel tells that an index was out of range: `fault` and `code` are what TemplateCall::fault passes. Another
 * work-item may do the same at this moment; any of them will do. */
#define HP_FAULT(index, size) \
  do {                        \
    if (fault[0] == 0) {      \
      fault[1] = (index);     \
      fault[2] = (size);      \
      fault[0] = code;        \
    }                         \
  } while (0)
#define HP_INSIDE(at, size) ((hp_u64)(at) < (hp_u64)(size))
