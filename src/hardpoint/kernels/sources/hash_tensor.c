/* Hash of each row of `n` elements: the exclusive or of all bits, with floats converted to double and integers to 64
 * bits. A work-group handles `each` rows. The barriers keep `parts` from being overwritten while work-item 0 reads
 * it. */
HP_FN hp_u64 hash_bits(T stored) {
#if defined(T_IS_F16)
  return hp_bits_f64((double)hp_widen_f16(stored));
#elif T_IS_FLOAT
  return hp_bits_f64((double)T_get(stored));
#else
  return (hp_u64)(hp_i64)T_get(stored);
#endif
}

HP_KERNEL(rows)(HP_GLOBAL hp_u64* out, HP_GLOBAL const T* self, hp_i64 all, hp_i64 n, hp_i64 each) {
  HP_LOCAL hp_u64 parts[HP_LSIZE];
  const hp_i64 begin = hp_group * each, end = begin + each < all ? begin + each : all;
  for (hp_i64 row = begin; row < end; ++row) {
    hp_u64 own = 0;
    HP_FOR_LOCAL(i, n) own ^= hash_bits(self[row * n + i]);
    hp_barrier();
    parts[hp_lid] = own;
    hp_barrier();
    if (hp_lid == 0) {
      for (int i = 1; i < HP_LSIZE; ++i) own ^= parts[i];
      out[row] = own;
    }
  }
}
