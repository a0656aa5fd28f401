/* Discrete Fourier transforms along the middle dimension of outer x n x inner, contiguous. Complex numbers are pairs of
 * reals in memory. A work-group copies `batch` lines at a time to its part of `memory`, with real and imaginary parts
 * separated and the lines interleaved, so that every step is a loop over contiguous elements. Steps alternate between
 * the two halves of that memory (Stockham). An inverse transform is a forward one with real and imaginary parts
 * swapped.
 *
 * KIND: 0 complex to complex, 1 real to complex, 2 half-Hermitian to real. BLUESTEIN: 1 for lengths with a large prime
 * factor, computed as a convolution of `size` elements. `table` contains the powers of the first root of unity of
 * `size`, followed for BLUESTEIN by the chirp (n) and the spectrum of its conjugate (size). */

/* Loops over all (p, q) with p < m and q < s; code that depends on p alone goes between the two. */
#if HP_LSIZE == 1
#define FFT_FOR_P(p) for (hp_i64 p = 0; p < m; ++p)
#define FFT_FOR_Q(q) HP_VECTORIZE for (hp_i64 q = 0; q < s; ++q)
#else
#define FFT_FOR_P(p) for (hp_i64 t = hp_lid, p = t / s; t < m * s; t += HP_LSIZE, p = t / s)
#define FFT_FOR_Q(q) for (hp_i64 q = t - p * s, once = 1; once != 0; once = 0)
#endif

/* Loops over all elements j < n of a batch of lines; FFT_START is the offset of a line in memory with `count` elements
 * per line. */
#define FFT_START(line, count) ((line) / inner * (count) * inner + (line) % inner)
#if HP_LSIZE == 1
enum { FFT_LANES = 16 }; /* largest batch, as in csrc/ops/fft.cpp */
#define FFT_STARTS(name, count) \
  hp_i64 name[FFT_LANES];       \
  for (hp_i64 lane = 0; lane < lanes; ++lane) name[lane] = FFT_START(first + lane, count)
/* 8 elements of each line at a time: neither line by line nor element by element stays in cache. */
#define FFT_FOR_CELLS(j, lane, n)                 \
  for (hp_i64 piece = 0; piece < (n); piece += 8) \
    for (hp_i64 lane = 0; lane < lanes; ++lane)   \
      for (hp_i64 j = piece; j < piece + 8 && j < (n); ++j)
#define FFT_AT(name, lane, count) name[lane]
#else
#define FFT_STARTS(name, count)
#define FFT_FOR_CELLS(j, lane, n) \
  for (hp_i64 lane = 0; lane < lanes; ++lane) HP_FOR_LOCAL(j, n)
#define FFT_AT(name, lane, count) FFT_START(first + (lane), count)
#endif

#define FFT_ROOT(k) const T w##k##r = table[2 * (p * step * (k))], w##k##i = table[2 * (p * step * (k)) + 1]
#define FFT_TAKE(k) const T x##k##r = xr[from + s * m * (k)], x##k##i = xi[from + s * m * (k)]
#define FFT_GIVE(k, re, im)                               \
  do {                                                    \
    const T fft_r = (re), fft_i = (im);                   \
    yr[to + s * (k)] = fft_r * w##k##r - fft_i * w##k##i; \
    yi[to + s * (k)] = fft_r * w##k##i + fft_i * w##k##r; \
  } while (0)
#define FFT_GIVE_FIRST(re, im) \
  do {                         \
    yr[to] = (re);             \
    yi[to] = (im);             \
  } while (0)

/* One step of radix r: the remaining size is r * m, and s lines are interleaved. */
#define FFT_STEP                                                                                          \
  HP_GLOBAL T *const yr, HP_GLOBAL T *const yi, HP_GLOBAL const T *const xr, HP_GLOBAL const T *const xi, \
      const hp_i64 m, const hp_i64 s, const hp_i64 step, HP_GLOBAL const T *const table

HP_FN void fft_radix2(FFT_STEP) {
  FFT_FOR_P(p) {
    FFT_ROOT(1);
    FFT_FOR_Q(q) {
      const hp_i64 from = q + s * p, to = q + s * 2 * p;
      FFT_TAKE(0);
      FFT_TAKE(1);
      FFT_GIVE_FIRST(x0r + x1r, x0i + x1i);
      FFT_GIVE(1, x0r - x1r, x0i - x1i);
    }
  }
}

HP_FN void fft_radix3(FFT_STEP) {
  const T half = (T)0.5, sine = (T)0.86602540378443864676;
  FFT_FOR_P(p) {
    FFT_ROOT(1);
    FFT_ROOT(2);
    FFT_FOR_Q(q) {
      const hp_i64 from = q + s * p, to = q + s * 3 * p;
      FFT_TAKE(0);
      FFT_TAKE(1);
      FFT_TAKE(2);
      const T ar = x1r + x2r, ai = x1i + x2i, br = sine * (x1i - x2i), bi = sine * (x2r - x1r);
      const T cr = x0r - half * ar, ci = x0i - half * ai;
      FFT_GIVE_FIRST(x0r + ar, x0i + ai);
      FFT_GIVE(1, cr + br, ci + bi);
      FFT_GIVE(2, cr - br, ci - bi);
    }
  }
}

HP_FN void fft_radix4(FFT_STEP) {
  FFT_FOR_P(p) {
    FFT_ROOT(1);
    FFT_ROOT(2);
    FFT_ROOT(3);
    FFT_FOR_Q(q) {
      const hp_i64 from = q + s * p, to = q + s * 4 * p;
      FFT_TAKE(0);
      FFT_TAKE(1);
      FFT_TAKE(2);
      FFT_TAKE(3);
      const T ar = x0r + x2r, ai = x0i + x2i, br = x0r - x2r, bi = x0i - x2i;
      const T cr = x1r + x3r, ci = x1i + x3i, dr = x1i - x3i, di = x3r - x1r;
      FFT_GIVE_FIRST(ar + cr, ai + ci);
      FFT_GIVE(1, br + dr, bi + di);
      FFT_GIVE(2, ar - cr, ai - ci);
      FFT_GIVE(3, br - dr, bi - di);
    }
  }
}

HP_FN void fft_radix5(FFT_STEP) {
  const T c1 = (T)0.30901699437494742410, s1 = (T)0.95105651629515357212;
  const T c2 = (T)-0.80901699437494742410, s2 = (T)0.58778525229247312917;
  FFT_FOR_P(p) {
    FFT_ROOT(1);
    FFT_ROOT(2);
    FFT_ROOT(3);
    FFT_ROOT(4);
    FFT_FOR_Q(q) {
      const hp_i64 from = q + s * p, to = q + s * 5 * p;
      FFT_TAKE(0);
      FFT_TAKE(1);
      FFT_TAKE(2);
      FFT_TAKE(3);
      FFT_TAKE(4);
      const T ar = x1r + x4r, ai = x1i + x4i, br = x2r + x3r, bi = x2i + x3i;
      const T cr = x1i - x4i, ci = x4r - x1r, dr = x2i - x3i, di = x3r - x2r;
      const T er = x0r + c1 * ar + c2 * br, ei = x0i + c1 * ai + c2 * bi;
      const T fr = x0r + c2 * ar + c1 * br, fi = x0i + c2 * ai + c1 * bi;
      const T gr = s1 * cr + s2 * dr, gi = s1 * ci + s2 * di;
      const T hr = s2 * cr - s1 * dr, hi = s2 * ci - s1 * di;
      FFT_GIVE_FIRST(x0r + ar + br, x0i + ai + bi);
      FFT_GIVE(1, er + gr, ei + gi);
      FFT_GIVE(2, fr + hr, fi + hi);
      FFT_GIVE(3, fr - hr, fi - hi);
      FFT_GIVE(4, er - gr, ei - gi);
    }
  }
}

/* Any radix. `turn` is the table index of its first root. */
HP_FN void fft_radix(FFT_STEP, const hp_i64 radix, const hp_i64 turn) {
  FFT_FOR_P(p) {
    for (hp_i64 k = 0; k < radix; ++k) {
      FFT_ROOT(k);
      for (hp_i64 j = 0; j < radix; ++j) {
        const T cr = table[2 * (j * k % radix * turn)], ci = table[2 * (j * k % radix * turn) + 1];
        FFT_FOR_Q(q) {
          const hp_i64 from = q + s * (p + m * j), to = q + s * (radix * p + k);
          const T sr = j == 0 ? (T)0 : yr[to], si = j == 0 ? (T)0 : yi[to];
          yr[to] = sr + (xr[from] * cr - xi[from] * ci);
          yi[to] = si + (xr[from] * ci + xi[from] * cr);
        }
      }
      FFT_FOR_Q(q) {
        const hp_i64 to = q + s * (radix * p + k);
        const T r = yr[to], i = yi[to];
        yr[to] = r * wkr - i * wki;
        yi[to] = r * wki + i * wkr;
      }
    }
  }
}

/* Transforms of `size` elements. `work` has four planes: `side` selects the pair with the input, `swap` whether its
 * imaginary parts come first. Returns the side of the result. The barrier before each step makes the previous one
 * visible. */
HP_FN int fft_lines(HP_GLOBAL T* work, hp_i64 plane, hp_i64 size, hp_i64 lanes, HP_GLOBAL const T* table, int side,
                    int swap) {
  hp_i64 rest = size, step = 1;
  while (rest > 1) {
    hp_i64 radix = rest % 4 == 0 ? 4 : 2;
    if (rest % 2 != 0)
      for (radix = 3; rest % radix != 0;) radix += 2;
    HP_GLOBAL const T* const xr = work + (2 * side + swap) * plane;
    HP_GLOBAL const T* const xi = work + (2 * side + 1 - swap) * plane;
    HP_GLOBAL T* const yr = work + (2 - 2 * side + swap) * plane;
    HP_GLOBAL T* const yi = work + (2 - 2 * side + 1 - swap) * plane;
    const hp_i64 m = rest / radix, s = step * lanes;
    hp_barrier();
    if (radix == 4)
      fft_radix4(yr, yi, xr, xi, m, s, step, table);
    else if (radix == 2)
      fft_radix2(yr, yi, xr, xi, m, s, step, table);
    else if (radix == 3)
      fft_radix3(yr, yi, xr, xi, m, s, step, table);
    else if (radix == 5)
      fft_radix5(yr, yi, xr, xi, m, s, step, table);
    else
      fft_radix(yr, yi, xr, xi, m, s, step, table, radix, size / radix);
    rest = m;
    step *= radix;
    side = 1 - side;
  }
  hp_barrier();
  return side;
}

HP_KERNEL(lines)(HP_GLOBAL T* out, HP_GLOBAL const T* self, HP_GLOBAL T* memory, HP_GLOBAL const T* table, hp_i64 lines,
                 hp_i64 n, hp_i64 inner, hp_i64 given, hp_i64 taken, hp_i64 size, hp_i64 batch, hp_i64 slots,
                 hp_i64 inverse, T_a scale) {
  const hp_i64 plane = size * batch;
  HP_GLOBAL T* const work = memory + hp_group * 4 * plane;
  const int swap = (int)inverse;
#if BLUESTEIN
  HP_GLOBAL const T* const chirp = table + 2 * size;
  HP_GLOBAL const T* const spectrum = chirp + 2 * n;
#endif
  for (hp_i64 first = hp_group * batch; first < lines; first += slots * batch) {
    const hp_i64 lanes = first + batch < lines ? batch : lines - first;
    HP_GLOBAL T* const xr = work + swap * plane;
    HP_GLOBAL T* const xi = work + (1 - swap) * plane;
    hp_barrier();
    FFT_STARTS(sources, given);
    FFT_FOR_CELLS(j, lane, n) {
      const hp_i64 base = FFT_AT(sources, lane, given);
#if KIND == 0
      xr[j * lanes + lane] = self[2 * (base + j * inner)];
      xi[j * lanes + lane] = self[2 * (base + j * inner) + 1];
#elif KIND == 1
      xr[j * lanes + lane] = self[base + j * inner];
      xi[j * lanes + lane] = 0;
#else
      /* The second half is the conjugate of the first; self-conjugate elements are real. */
      const hp_i64 mirror = 2 * j > n ? n - j : j;
      const T sign = (T)(j == 0 || 2 * j == n ? 0 : 2 * j > n ? -1 : 1);
      const T part = self[2 * (base + mirror * inner) + 1];
      xr[j * lanes + lane] = self[2 * (base + mirror * inner)];
      xi[j * lanes + lane] = sign == 0 ? (T)0 : sign * part;
#endif
    }
    hp_barrier();
#if BLUESTEIN
    HP_FOR_LOCAL(j, size) {
      const T cr = j < n ? chirp[2 * j] : (T)0, ci = j < n ? chirp[2 * j + 1] : (T)0;
      for (hp_i64 at = j * lanes; at < (j + 1) * lanes; ++at) {
        const T r = j < n ? work[at] : (T)0, i = j < n ? work[plane + at] : (T)0;
        work[at] = r * cr - i * ci;
        work[plane + at] = r * ci + i * cr;
      }
    }
    int side = fft_lines(work, plane, size, lanes, table, 0, 0);
    HP_GLOBAL T* const half = work + 2 * side * plane;
    HP_FOR_LOCAL(j, size) {
      const T cr = spectrum[2 * j], ci = spectrum[2 * j + 1];
      for (hp_i64 at = j * lanes; at < (j + 1) * lanes; ++at) {
        const T r = half[at], i = half[plane + at];
        half[at] = r * cr - i * ci;
        half[plane + at] = r * ci + i * cr;
      }
    }
    side = fft_lines(work, plane, size, lanes, table, side, 1);
#else
    const int side = fft_lines(work, plane, size, lanes, table, 0, 0);
#endif
    HP_GLOBAL const T* const result = work + 2 * side * plane;
    FFT_STARTS(targets, taken);
    FFT_FOR_CELLS(j, lane, taken) {
      const hp_i64 base = FFT_AT(targets, lane, taken);
      T r = result[j * lanes + lane], i = result[plane + j * lanes + lane];
#if BLUESTEIN
      const T cr = chirp[2 * j], ci = chirp[2 * j + 1], kept = r;
      r = r * cr - i * ci;
      i = kept * ci + i * cr;
#endif
      const T re = scale * (swap ? i : r), im = scale * (swap ? r : i);
#if KIND == 2
      out[base + j * inner] = re;
      (void)im;
#else
      out[2 * (base + j * inner)] = re;
      out[2 * (base + j * inner) + 1] = im;
#endif
    }
  }
}
