/* Compares two contiguous tensors: one flag per work-group, 1 if its elements are equal. The reduction halves the
 * number of active work-items after each barrier. */
HP_KERNEL(groups)(HP_GLOBAL hp_u8* out, HP_GLOBAL const T* self, HP_GLOBAL const T* other, hp_i64 elements,
                  hp_i64 per_group) {
  HP_LOCAL hp_u8 shared[HP_LSIZE];
  const hp_i64 begin = hp_group * per_group;
  const hp_i64 n = elements - begin < per_group ? elements - begin : per_group;
  int differ = 0;
  HP_FOR_LOCAL(i, n) differ |= T_get(self[begin + i]) != T_get(other[begin + i]);
  shared[hp_lid] = (hp_u8)(differ == 0);
  hp_barrier();
  for (int width = HP_LSIZE / 2; width > 0; width /= 2) {
    if (hp_lid < width) shared[hp_lid] &= shared[hp_lid + width];
    hp_barrier();
  }
  if (hp_lid == 0) out[hp_group] = shared[0];
}
