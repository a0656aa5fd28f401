/* Places in a shape: a coordinate for each of `dims` dimensions, fastest first. */
HP_FN void hp_place_of(hp_i64 element, const hp_i64* size, int dims, hp_i64* place) {
  for (int d = 0; d < dims; ++d) {
    place[d] = element % size[d];
    element /= size[d];
  }
}
/* The coordinate along the next dimension: `rest` counts on in the ones after it. Numbers that fit 32 bits are divided
 * as such, which GPUs do several times faster. */
HP_FN hp_i64 hp_next_place(hp_i64* rest, hp_i64 size) {
  if ((((hp_u64)*rest | (hp_u64)size) >> 32) == 0) {
    const hp_u32 all = (hp_u32)*rest, n = (hp_u32)size, quotient = all / n;
    *rest = quotient;
    return all - quotient * n;
  }
  const hp_i64 place = *rest % size;
  *rest /= size;
  return place;
}
/* After a step to the end of the first dimension: carries it on to the next ones. */
HP_FN void hp_place_carry(const hp_i64* size, int dims, hp_i64* place) {
  for (int d = 0; d + 1 < dims && place[d] == size[d]; ++d) {
    place[d] = 0;
    ++place[d + 1];
  }
}
