/* Philox 4x32-10, the counter-based generator behind all random numbers: 4 words for each counter value and seed. */
typedef struct {
  hp_u32 w[4];
} random_block;

HP_FN random_block random_philox(hp_u64 seed, hp_u32 c0, hp_u32 c1, hp_u32 c2, hp_u32 c3) {
  hp_u32 k0 = (hp_u32)seed, k1 = (hp_u32)(seed >> 32);
  /* Unrolled by hand: compilers vectorize a loop over blocks only if it contains no inner loop. */
#define RANDOM_ROUND                                                                   \
  {                                                                                    \
    const hp_u64 p0 = (hp_u64)0xD2511F53u * c0, p1 = (hp_u64)0xCD9E8D57u * c2;         \
    const hp_u32 n0 = (hp_u32)(p1 >> 32) ^ c1 ^ k0, n2 = (hp_u32)(p0 >> 32) ^ c3 ^ k1; \
    c1 = (hp_u32)p1, c3 = (hp_u32)p0, c0 = n0, c2 = n2;                                \
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;                                              \
  }
  RANDOM_ROUND RANDOM_ROUND RANDOM_ROUND RANDOM_ROUND RANDOM_ROUND RANDOM_ROUND RANDOM_ROUND RANDOM_ROUND RANDOM_ROUND
      RANDOM_ROUND random_block block;
  block.w[0] = c0, block.w[1] = c1, block.w[2] = c2, block.w[3] = c3;
  return block;
}

/* Block first + j, in 32-bit arithmetic with a carry. */
HP_FN random_block random_at(hp_u64 seed, hp_u64 first, hp_u32 j) {
  const hp_u32 low = (hp_u32)first, c0 = low + j;
  return random_philox(seed, c0, (hp_u32)(first >> 32) + (hp_u32)(c0 < low), 0, 0);
}
