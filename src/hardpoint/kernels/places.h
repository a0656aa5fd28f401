/* Places in a shape: a coordinate for each of `dims` dimensions, fastest first. */
HP_FN void hp_place_of(hp_i64 element, const hp_i64* size, int dims, hp_i64* place) {
  for (int d = 0; d < dims; ++d) {
    place[d] = element % size[d];
    element /= size[d];
  }
}
/* After a step to the end of the first dimension: carries it on to the next ones. */
HP_FN void hp_place_carry(const hp_i64* size, int dims, hp_i64* place) {
  for (int d = 0; d + 1 < dims && place[d] == size[d]; ++d) {
    place[d] = 0;
    ++place[d + 1];
  }
}
