/* Reports an index out of range. `fault` and `code` are the arguments that TemplateCall::fault adds to the launch.
 * Concurrent reports race; keeping any one of them is fine. */
#define HP_FAULT(index, size) \
  do {                        \
    if (fault[0] == 0) {      \
      fault[1] = (index);     \
      fault[2] = (size);      \
      fault[0] = code;        \
    }                         \
  } while (0)
#define HP_INSIDE(at, size) ((hp_u64)(at) < (hp_u64)(size))
