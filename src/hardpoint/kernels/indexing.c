/* Reading and writing by index. T: the elements, I: the indices. Sizes and strides count elements, first dimension
 * first. An index out of range reads nothing: the result is zero, and memory stays as it is. */
typedef struct {
  hp_i64 size[8], out[8], self[8], index[8];
} gather_geometry;

HP_KERNEL(gather)(HP_GLOBAL T* out, HP_GLOBAL const T* self, HP_GLOBAL const I* index, hp_i64 elements, hp_i64 dim,
                  hp_i64 limit, gather_geometry g) {
  HP_FOR_ELEMENTS(i, elements) {
    hp_i64 rest = i, to = 0, from = 0, place = 0;
    for (int d = DIMS - 1; d >= 0; --d) {
      const hp_i64 at = rest % g.size[d];
      rest /= g.size[d];
      to += at * g.out[d];
      place += at * g.index[d];
      from += d == dim ? 0 : at * g.self[d];
    }
    hp_i64 chosen = (hp_i64)index[place];
    chosen += chosen < 0 ? limit : 0;
    out[to] = chosen >= 0 && chosen < limit ? self[from + (DIMS > 0 ? chosen * g.self[dim] : 0)] : (T)0;
  }
}

HP_KERNEL(rows)(HP_GLOBAL T* out, HP_GLOBAL const T* weight, HP_GLOBAL const I* indices, hp_i64 rows, hp_i64 width,
                hp_i64 limit, hp_i64 per_group) {
  const hp_i64 end = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  for (hp_i64 row = hp_group * per_group; row < end; ++row) {
    const hp_i64 chosen = (hp_i64)indices[row];
    const int inside = chosen >= 0 && chosen < limit;
    HP_GLOBAL const T* const from = weight + (inside ? chosen : 0) * width;
    HP_GLOBAL T* const to = out + row * width;
    HP_VECTORISE
    HP_FOR_LOCAL(j, width) to[j] = inside ? from[j] : (T)0;
  }
}
