/* Vectorized access to rows by a group of many work-items: rows of T are read, rows of R written. Each work-item has
 * ROW_EACH elements in flight. A short row is loaded once and stays in registers. A long row is processed in vectors
 * from its first aligned element; the few elements before and after are handled one by one. */
#include "vector_access.h"

#ifndef ROW_EACH
#define ROW_EACH 16
#endif

enum { ROW_WIDER = sizeof(T) > sizeof(R) ? sizeof(T) : sizeof(R), ROW_PACK = 16 / ROW_WIDER };
enum { ROW_PACKS = ROW_EACH / ROW_PACK, ROW_SHORT = ROW_EACH * HP_LSIZE };
HP_PACK_TYPE(row_pack_in, T, ROW_PACK);
HP_PACK_TYPE(row_pack_out, R, ROW_PACK);

/* Index of this work-item's k-th vector in a batch that starts at vector `first`, counted from the front or, with
 * `backwards`, from the back; -1 fill the end. */
HP_FN hp_i64 row_vector(hp_i64 first, int k, hp_i64 packs, int backwards) {
  const hp_i64 at = first + k * HP_LSIZE;
  return at < packs ? (backwards ? packs - 1 - at : at) : -1;
}
/* Loads the elements of ROW_PACKS vectors; missing ones become `fill`. All loads are issued before the first
 * conversion. */
HP_FN void row_read(T_a* values, HP_GLOBAL const T* x, hp_i64 first, hp_i64 packs, int backwards, T_a fill) {
  row_pack_in read[ROW_PACKS];
  HP_UNROLL
  for (int k = 0; k < ROW_PACKS; ++k) {
    const hp_i64 at = row_vector(first, k, packs, backwards);
    if (at >= 0) read[k] = *(HP_GLOBAL const row_pack_in*)(x + at * ROW_PACK);
  }
  HP_UNROLL
  for (int k = 0; k < ROW_PACKS; ++k) {
    const int there = row_vector(first, k, packs, backwards) >= 0;
    HP_UNROLL
    for (int u = 0; u < ROW_PACK; ++u) values[k * ROW_PACK + u] = there ? (T_a)T_get(read[k].at[u]) : fill;
  }
}
HP_FN void row_write(HP_GLOBAL R* y, const T_a* values, hp_i64 first, hp_i64 packs, int backwards) {
  HP_UNROLL
  for (int k = 0; k < ROW_PACKS; ++k) {
    const hp_i64 at = row_vector(first, k, packs, backwards);
    if (at < 0) continue;
    row_pack_out written;
    HP_UNROLL
    for (int u = 0; u < ROW_PACK; ++u) written.at[u] = R_put(values[k * ROW_PACK + u]);
    *(HP_GLOBAL row_pack_out*)(y + at * ROW_PACK) = written;
  }
}

/* Loads this work-item's elements of a short row: vectors, or every HP_LSIZE-th element. */
HP_FN void row_load(T_a* values, HP_GLOBAL const T* x, int n, int vectors, T_a fill) {
  if (vectors) {
    row_read(values, x, hp_lid, n / ROW_PACK, 0, fill);
    return;
  }
  HP_UNROLL
  for (int e = 0; e < ROW_EACH; ++e) {
    const int at = (int)hp_lid + e * HP_LSIZE;
    values[e] = at < n ? (T_a)T_get(x[at]) : fill;
  }
}
HP_FN void row_store(HP_GLOBAL R* y, const T_a* values, int n, int vectors) {
  if (vectors) {
    row_write(y, values, hp_lid, n / ROW_PACK, 0);
    return;
  }
  HP_UNROLL
  for (int e = 0; e < ROW_EACH; ++e) {
    const int at = (int)hp_lid + e * HP_LSIZE;
    if (at < n) y[at] = R_put(values[e]);
  }
}
/* Index of this work-item's element e in a short row. May lie fill the end of the row. */
HP_FN int row_index(int e, int vectors) {
  return vectors ? ((int)hp_lid + e / ROW_PACK * HP_LSIZE) * ROW_PACK + e % ROW_PACK : (int)hp_lid + e * HP_LSIZE;
}
/* How many of the ROW_EACH registers hold elements of a row of length n. */
HP_FN int row_used(int n, int vectors) {
  const int unit = vectors ? ROW_PACK : 1, all = HP_LSIZE * unit;
  return (n + all - 1) / all * unit;
}
#define ROW_FOR_LOADED(e, used)      \
  HP_UNROLL                          \
  for (int e = 0; e < ROW_EACH; ++e) \
    if (e < (used))

/* Split of a long row: elements before the first vector, and the number of vectors. No vectors unless all rows involved
 * have the same alignment. */
typedef struct {
  hp_i64 head, packs;
} row_segments;
HP_FN row_segments row_split(HP_GLOBAL const T* x, hp_i64 n, int same_alignment) {
  row_segments parts;
  parts.head = HP_HEAD(x, ROW_PACK);
  parts.packs = same_alignment && parts.head < n ? (n - parts.head) / ROW_PACK : 0;
  return parts;
}
/* Whether two rows reach vector alignment at the same element. */
#define ROW_SAME_ALIGNMENT(x, y) (HP_HEAD(x, ROW_PACK) == HP_HEAD(y, ROW_PACK))
/* Loops over a long row: over the first of each batch of ROW_PACKS vectors, and over the elements outside vectors. */
#define ROW_FOR_PACKS(first, parts) for (hp_i64 first = hp_lid; first < (parts).packs; first += HP_LSIZE * ROW_PACKS)
#define ROW_FOR_SINGLE(j, n, parts)                                                                                 \
  for (hp_i64 j##_nth = hp_lid, j = j##_nth < (parts).head ? j##_nth : j##_nth + (parts).packs * ROW_PACK; j < (n); \
       j##_nth += HP_LSIZE, j = j##_nth < (parts).head ? j##_nth : j##_nth + (parts).packs * ROW_PACK)
