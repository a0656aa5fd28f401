/* Linear index to coordinates, one for each of `dims` dimensions, fastest first. */
HP_FN void hp_unravel_index(hp_i64 element, const hp_i64* size, int dims, hp_i64* coordinate) {
  for (int d = 0; d < dims; ++d) {
    coordinate[d] = element % size[d];
    element /= size[d];
  }
}
/* Splits off the coordinate of the next dimension; `rest` becomes the index over the remaining ones. 32-bit operands
 * use a 32-bit division, which is several times faster on GPUs. */
HP_FN hp_i64 hp_next_coordinate(hp_i64* rest, hp_i64 size) {
  if ((((hp_u64)*rest | (hp_u64)size) >> 32) == 0) {
    const hp_u32 all = (hp_u32)*rest, n = (hp_u32)size, quotient = all / n;
    *rest = quotient;
    return all - quotient * n;
  }
  const hp_i64 coordinate = *rest % size;
  *rest /= size;
  return coordinate;
}
/* Carries into the next dimensions when the first coordinate has reached its size. */
HP_FN void hp_carry_coordinates(const hp_i64* size, int dims, hp_i64* coordinate) {
  for (int d = 0; d + 1 < dims && coordinate[d] == size[d]; ++d) {
    coordinate[d] = 0;
    ++coordinate[d + 1];
  }
}
