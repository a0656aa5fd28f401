// Stands for a CUDA device, so that kernels of plugins/cuda run in a test on the CPU: a block's threads are fibers that
// are changed at barriers and at instructions of a warp, in an order that the test chooses. Instructions are as the PTX
// manual describes them; an asynchronous copy takes place when it is waited for, and what it overwrites is lost (NaN)
// from its start on. Dynamic shared memory is NaN when a block begins, and ends where no memory is.
#pragma once

// Few headers: every kernel is compiled with them.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifndef DTYPE
#define DTYPE 0
#endif
#define NV_ON_HOST 1
#define __CUDACC_RTC__ 1
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __restrict__

static inline float rsqrtf(float x) { return 1 / sqrtf(x); }

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
static Index threadIdx, blockIdx;
static char* host_shared;  // dynamic shared memory

namespace fibers {

struct Barrier {
  unsigned count = 0, turn = 0;
};
struct Copy {
  void* to;
  const void* from;
  int size, bytes;
};
struct Fiber {
  ucontext_t context;
  char* stack;
  Copy copies[64];
  int num_copies;
  bool done;
};
struct Warp {
  Barrier barrier;
  uint64_t box[32][8];
};

constexpr unsigned kMost = 1024;
constexpr size_t kStack = 1 << 18;
static ucontext_t scheduler;
static Fiber all[kMost];
static Warp warps[kMost / 32];
static Barrier block;
static unsigned threads;
static unsigned shared_bytes;
static unsigned running;
static void (*body)(const void*);
static const void* body_data;

static void enter() {
  body(body_data);
  all[running].done = true;
  swapcontext(&all[running].context, &scheduler);
}
static void wait(Barrier& barrier, unsigned members) {
  const unsigned turn = barrier.turn, me = running;
  if (++barrier.count == members) {
    barrier.count = 0;
    ++barrier.turn;
    return;
  }
  while (barrier.turn == turn) swapcontext(&all[me].context, &scheduler);
}
static Warp& warp() { return warps[running / 32]; }
static unsigned lane() { return running % 32; }
static void together() { wait(warp().barrier, 32); }

static void start(Fiber& fiber) {
  if (!fiber.stack) fiber.stack = static_cast<char*>(malloc(kStack));
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack;
  fiber.context.uc_stack.ss_size = kStack;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, enter, 0);
  fiber.done = false;
  fiber.num_copies = 0;
}

constexpr size_t kShared = 232448, kPage = 4096;
static void provide_shared(unsigned bytes) {
  static char* memory = nullptr;
  const size_t most = (kShared + kPage - 1) / kPage * kPage;
  if (bytes > kShared || bytes % 16 != 0) abort();
  if (!memory) {
    void* made = mmap(nullptr, most + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED || mprotect(static_cast<char*>(made) + most, kPage, PROT_NONE) != 0) abort();
    memory = static_cast<char*>(made);
  }
  host_shared = memory + most - bytes;
  shared_bytes = bytes;
}

// Runs all blocks; `seed` decides in which order threads take their turns.
template <class Kernel>
static void launch(Index blocks, unsigned count, uint32_t seed, const Kernel& kernel, unsigned shared = 0) {
  if (count > kMost) abort();
  provide_shared(shared);
  threads = count;
  body = [](const void* data) { (*static_cast<const Kernel*>(data))(); };
  body_data = &kernel;
  for (Warp& warp : warps) warp.barrier = Barrier();
  block = Barrier();
  unsigned order[kMost];
  for (unsigned i = 0; i < count; ++i) order[i] = i;
  for (uint64_t b = 0; b < uint64_t{blocks.x} * blocks.y * blocks.z; ++b) {
    blockIdx = {unsigned(b % blocks.x), unsigned(b / blocks.x % blocks.y), unsigned(b / blocks.x / blocks.y)};
    memset(host_shared, 0xff, shared_bytes);
    for (unsigned i = 0; i < count; ++i) start(all[i]);
    for (bool left = true; left;) {
      left = false;
      for (unsigned i = count - 1; i > 0; --i) {
        seed = seed * 1664525u + 1013904223u;
        const unsigned other = (seed >> 8) % (i + 1), mine = order[i];
        order[i] = order[other];
        order[other] = mine;
      }
      for (unsigned i = 0; i < count; ++i) {
        if (all[order[i]].done) continue;
        left = true;
        running = threadIdx.x = order[i];
        swapcontext(&scheduler, &all[running].context);
      }
    }
  }
}
template <class Kernel>
static void launch(int64_t blocks, unsigned count, uint32_t seed, const Kernel& kernel, unsigned shared = 0) {
  launch(Index{unsigned(blocks), 1, 1}, count, seed, kernel, shared);
}

}  // namespace fibers

// threadIdx is a plain variable: whoever waits has to set it again.
static void restore_index() { threadIdx.x = fibers::running; }
static void __syncthreads() {
  fibers::wait(fibers::block, fibers::threads);
  restore_index();
}
static void __syncwarp() {
  fibers::together();
  restore_index();
}

template <class V>
static V __shfl_sync(unsigned, V value, int from) {
  fibers::Warp& warp = fibers::warp();
  memcpy(&warp.box[fibers::lane()][0], &value, sizeof value);
  __syncwarp();
  memcpy(&value, &warp.box[from % 32][0], sizeof value);
  __syncwarp();
  return value;
}
template <class V>
static V __shfl_xor_sync(unsigned all, V value, int other) {
  return __shfl_sync(all, value, int(fibers::lane()) ^ other);
}
static unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((uint64_t{a} * b) >> 32); }
static float __uint_as_float(unsigned bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
static long long __double_as_longlong(double value) {
  long long bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
static double __longlong_as_double(long long bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
static unsigned __float_as_uint(float value) {
  unsigned bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// ---- 16-bit floats; DTYPE 1 is float16, 2 is bfloat16.
typedef short Halves __attribute__((vector_size(16)));
typedef float Floats __attribute__((vector_size(16)));
static float host_get(unsigned short x) {
  if (DTYPE == 1) return __builtin_ia32_vcvtph2ps(Halves{short(x)})[0];
  return __uint_as_float(unsigned{x} << 16);
}
static unsigned short host_put(float x) {
  if (DTYPE == 1) return static_cast<unsigned short>(__builtin_ia32_vcvtps2ph(Floats{x}, 0)[0]);
  const unsigned bits = __float_as_uint(x);
  return x != x ? 0x7fc0 : static_cast<unsigned short>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
static unsigned host_pack(float low, float high) { return host_put(low) | unsigned{host_put(high)} << 16; }
static float host_half(unsigned pair, int high) { return host_get(static_cast<unsigned short>(pair >> 16 * high)); }

// ---- Instructions of a warp
// Addresses in dynamic shared memory, whose base is 0 here.
static char* host_address(unsigned address, unsigned bytes) {
  if (address % bytes != 0 || address + bytes > fibers::shared_bytes) abort();
  return host_shared + address;
}
// ldmatrix.x4: lane i gives the address of row i % 8 of matrix i / 8.
static void host_ldmatrix(unsigned* out, unsigned address, bool transposed) {
  fibers::Warp& warp = fibers::warp();
  const int lane = int(fibers::lane());
  const char* const row = host_address(address, 16);
  memcpy(&warp.box[lane][0], &row, sizeof row);
  __syncwarp();
  for (int m = 0; m < 4; ++m) {
    unsigned short pair[2];
    for (int e = 0; e < 2; ++e) {
      const int r = transposed ? 2 * (lane % 4) + e : lane / 4, c = transposed ? lane / 4 : 2 * (lane % 4) + e;
      const unsigned short* from;
      memcpy(&from, &warp.box[m * 8 + r][0], sizeof from);
      pair[e] = from[c];
    }
    out[m] = pair[0] | unsigned{pair[1]} << 16;
  }
  __syncwarp();
}
// mma.m16n8k16: c += a b, in float32.
static void host_mma(float* c, const unsigned* a, unsigned b0, unsigned b1) {
  fibers::Warp& warp = fibers::warp();
  const int lane = int(fibers::lane()), group = lane / 4, pair = lane % 4;
  for (int i = 0; i < 4; ++i) warp.box[lane][i] = a[i];
  warp.box[lane][4] = b0;
  warp.box[lane][5] = b1;
  __syncwarp();
  const auto element_a = [&](int row, int k) {
    return host_half(static_cast<unsigned>(warp.box[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2]), k % 2);
  };
  const auto element_b = [&](int k, int column) {
    return host_half(static_cast<unsigned>(warp.box[column * 4 + k % 8 / 2][4 + k / 8]), k % 2);
  };
  for (int i = 0; i < 4; ++i) {
    const int row = group + i / 2 * 8, column = pair * 2 + i % 2;
    for (int k = 0; k < 16; ++k) c[i] += element_a(row, k) * element_b(k, column);
  }
  __syncwarp();
}
// cp.async of `size` bytes, of which `bytes` are read and the others are zero.
static void host_copy_async(unsigned address, const void* from, int size, int bytes) {
  fibers::Fiber& fiber = fibers::all[fibers::running];
  char* const to = host_address(address, unsigned(size));
  if (fiber.num_copies == 64 || reinterpret_cast<uintptr_t>(from) % size != 0) abort();
  memset(to, 0xff, static_cast<size_t>(size));
  fiber.copies[fiber.num_copies++] = {to, from, size, bytes};
}
static void host_copy_wait() {
  fibers::Fiber& fiber = fibers::all[fibers::running];
  for (int i = 0; i < fiber.num_copies; ++i) {
    const fibers::Copy& copy = fiber.copies[i];
    memset(copy.to, 0, static_cast<size_t>(copy.size));
    memcpy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
  }
  fiber.num_copies = 0;
}

template <class T>
struct Plain {
  using Type = T;
};
template <class T>
struct Plain<const T> {
  using Type = T;
};
static const char FAKE_CUDA_KERNELS[] = "";  // kernels begin after this: system headers have functions of C as well
