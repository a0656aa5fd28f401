/* Rows of T that a group of many work-items reads, and rows of R that it writes, in vectors. A work-item has ROW_EACH
 * elements under way at once. A short row is read once, and kept. A long one is gone through in vectors from the first
 * aligned place on; a few elements before and after those are single ones. */
#include "vectors.h"

#ifndef ROW_EACH
#define ROW_EACH 16
#endif

enum { ROW_WIDER = sizeof(T) > sizeof(R) ? sizeof(T) : sizeof(R), ROW_PACK = 16 / ROW_WIDER };
enum { ROW_PACKS = ROW_EACH / ROW_PACK, ROW_SHORT = ROW_EACH * HP_LSIZE };
HP_PACK_TYPE(row_pack_in, T, ROW_PACK);
HP_PACK_TYPE(row_pack_out, R, ROW_PACK);

/* Which of `packs` vectors is number k of those that begin with the `first`-th, from either end. */
HP_FN hp_i64 row_vector(hp_i64 first, int k, hp_i64 packs, int backwards) {
  const hp_i64 at = first + k * HP_LSIZE;
  return at < packs ? (backwards ? packs - 1 - at : at) : -1;
}
/* The elements of such vectors; `past` where there is none. */
HP_FN void row_read(T_a* values, HP_GLOBAL const T* x, hp_i64 first, hp_i64 packs, int backwards, T_a past) {
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
    for (int u = 0; u < ROW_PACK; ++u) values[k * ROW_PACK + u] = there ? (T_a)T_get(read[k].at[u]) : past;
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

/* This work-item's elements of a short row, in vectors or every HP_LSIZE-th. */
HP_FN void row_load(T_a* kept, HP_GLOBAL const T* x, int n, int vectors, T_a past) {
  if (vectors) {
    row_read(kept, x, hp_lid, n / ROW_PACK, 0, past);
    return;
  }
  HP_UNROLL
  for (int e = 0; e < ROW_EACH; ++e) {
    const int at = (int)hp_lid + e * HP_LSIZE;
    kept[e] = at < n ? (T_a)T_get(x[at]) : past;
  }
}
HP_FN void row_store(HP_GLOBAL R* y, const T_a* kept, int n, int vectors) {
  if (vectors) {
    row_write(y, kept, hp_lid, n / ROW_PACK, 0);
    return;
  }
  HP_UNROLL
  for (int e = 0; e < ROW_EACH; ++e) {
    const int at = (int)hp_lid + e * HP_LSIZE;
    if (at < n) y[at] = R_put(kept[e]);
  }
}
/* Where element e of this work-item is in a short row; past its end, maybe. */
HP_FN int row_place(int e, int vectors) {
  return vectors ? ((int)hp_lid + e / ROW_PACK * HP_LSIZE) * ROW_PACK + e % ROW_PACK : (int)hp_lid + e * HP_LSIZE;
}
/* How many of its elements a work-item has to look at. */
HP_FN int row_used(int n, int vectors) {
  const int unit = vectors ? ROW_PACK : 1, all = HP_LSIZE * unit;
  return (n + all - 1) / all * unit;
}
#define ROW_FOR_KEPT(e, used)        \
  HP_UNROLL                          \
  for (int e = 0; e < ROW_EACH; ++e) \
    if (e < (used))

/* Of a long row: the elements before its vectors, and how many vectors there are. None where memory is not aligned
 * alike. */
typedef struct {
  hp_i64 head, packs;
} row_parts;
HP_FN row_parts row_split(HP_GLOBAL const T* x, hp_i64 n, int alike) {
  row_parts parts;
  parts.head = HP_HEAD(x, ROW_PACK);
  parts.packs = alike && parts.head < n ? (n - parts.head) / ROW_PACK : 0;
  return parts;
}
/* Whether rows are aligned at the same elements. */
#define ROW_ALIKE(x, y) (HP_HEAD(x, ROW_PACK) == HP_HEAD(y, ROW_PACK))
/* Loops over the first of each work-item's vectors, ROW_PACKS at a time, and over the single elements. */
#define ROW_FOR_PACKS(first, parts) for (hp_i64 first = hp_lid; first < (parts).packs; first += HP_LSIZE * ROW_PACKS)
#define ROW_FOR_SINGLE(j, n, parts)                                                                                 \
  for (hp_i64 j##_nth = hp_lid, j = j##_nth < (parts).head ? j##_nth : j##_nth + (parts).packs * ROW_PACK; j < (n); \
       j##_nth += HP_LSIZE, j = j##_nth < (parts).head ? j##_nth : j##_nth + (parts).packs * ROW_PACK)
