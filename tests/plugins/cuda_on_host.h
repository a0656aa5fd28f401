// Stands for a CUDA device, so that kernels of plugins/cuda run in a test on the CPU: a block's threads are fibers that
// are changed at barriers and at instructions of a warp, in an order that the test chooses. Instructions are as the PTX
// manual describes them; an asynchronous copy takes place when it is waited for, not before.
#pragma once

#include <immintrin.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

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

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
static Index threadIdx, blockIdx;

namespace fibers {

struct Barrier {
  int count = 0, turn = 0;
};
struct Copy {
  void* to;
  const void* from;
  int bytes;
};
struct Fiber {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(1 << 18);
  std::vector<Copy> copies;
  bool done = true;
};
struct Warp {
  Barrier barrier;
  uint64_t box[32][8];
};

static ucontext_t scheduler;
static std::vector<Fiber> all;
static std::vector<Warp> warps;
static Barrier block;
static std::function<void()> body;
static int running;

static void enter() {
  body();
  all[static_cast<size_t>(running)].done = true;
  swapcontext(&all[static_cast<size_t>(running)].context, &scheduler);
}
static void wait(Barrier& barrier, int members) {
  const int turn = barrier.turn, me = running;
  if (++barrier.count == members) {
    barrier.count = 0;
    ++barrier.turn;
    return;
  }
  while (barrier.turn == turn) swapcontext(&all[static_cast<size_t>(me)].context, &scheduler);
}
static Warp& warp() { return warps[static_cast<size_t>(running) / 32]; }
static int lane() { return running % 32; }
static void together() { wait(warp().barrier, 32); }

// Runs all blocks; `seed` decides in which order threads take their turns.
static void launch(Index blocks, unsigned threads, unsigned seed, std::function<void()> kernel) {
  all.resize(threads);
  warps.assign((threads + 31) / 32, Warp());
  body = std::move(kernel);
  std::mt19937 random(seed);
  std::vector<int> order(threads);
  std::iota(order.begin(), order.end(), 0);
  for (uint64_t b = 0; b < uint64_t{blocks.x} * blocks.y * blocks.z; ++b) {
    for (Fiber& fiber : all) {
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.data();
      fiber.context.uc_stack.ss_size = fiber.stack.size();
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, enter, 0);
      fiber.done = false;
      fiber.copies.clear();
    }
    for (bool left = true; left;) {
      left = false;
      std::shuffle(order.begin(), order.end(), random);
      for (int i : order) {
        if (all[static_cast<size_t>(i)].done) continue;
        left = true;
        running = i;
        threadIdx.x = static_cast<unsigned>(i);
        blockIdx = {static_cast<unsigned>(b % blocks.x), static_cast<unsigned>(b / blocks.x % blocks.y),
                    static_cast<unsigned>(b / blocks.x / blocks.y)};
        swapcontext(&scheduler, &all[static_cast<size_t>(i)].context);
      }
    }
  }
}

static void launch(int64_t blocks, unsigned threads, unsigned seed, std::function<void()> kernel) {
  launch(Index{static_cast<unsigned>(blocks), 1, 1}, threads, seed, std::move(kernel));
}

}  // namespace fibers

// threadIdx is a plain variable: whoever waits has to set it again.
static void restore_index() { threadIdx.x = static_cast<unsigned>(fibers::running); }
static void __syncthreads() {
  fibers::wait(fibers::block, static_cast<int>(fibers::all.size()));
  restore_index();
}
static void __syncwarp() {
  fibers::together();
  restore_index();
}

template <class V>
static V __shfl_sync(unsigned, V value, int from) {
  fibers::Warp& warp = fibers::warp();
  std::memcpy(&warp.box[fibers::lane()][0], &value, sizeof value);
  __syncwarp();
  std::memcpy(&value, &warp.box[from % 32][0], sizeof value);
  __syncwarp();
  return value;
}
template <class V>
static V __shfl_xor_sync(unsigned all, V value, int other) {
  return __shfl_sync(all, value, fibers::lane() ^ other);
}
static unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((uint64_t{a} * b) >> 32); }
static float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
static long long __double_as_longlong(double value) {
  long long bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
static double __longlong_as_double(long long bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
static unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// ---- 16-bit floats; DTYPE 1 is float16, 2 is bfloat16.
static float host_get(unsigned short x) { return DTYPE == 1 ? _cvtsh_ss(x) : __uint_as_float(unsigned{x} << 16); }
static unsigned short host_put(float x) {
  if (DTYPE == 1) return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
  const unsigned bits = __float_as_uint(x);
  return x != x ? 0x7fc0 : static_cast<unsigned short>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
static unsigned host_pack(float low, float high) { return host_put(low) | unsigned{host_put(high)} << 16; }
static float host_half(unsigned pair, int high) { return host_get(static_cast<unsigned short>(pair >> 16 * high)); }

// ---- Instructions of a warp
// ldmatrix.x4: lane i gives the address of row i % 8 of matrix i / 8.
static void host_ldmatrix(unsigned* out, const void* row, bool transposed) {
  fibers::Warp& warp = fibers::warp();
  const int lane = fibers::lane();
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) abort();
  std::memcpy(&warp.box[lane][0], &row, sizeof row);
  __syncwarp();
  for (int m = 0; m < 4; ++m) {
    unsigned short pair[2];
    for (int e = 0; e < 2; ++e) {
      const int r = transposed ? 2 * (lane % 4) + e : lane / 4, c = transposed ? lane / 4 : 2 * (lane % 4) + e;
      const unsigned short* from;
      std::memcpy(&from, &warp.box[m * 8 + r][0], sizeof from);
      pair[e] = from[c];
    }
    out[m] = pair[0] | unsigned{pair[1]} << 16;
  }
  __syncwarp();
}
// mma.m16n8k16: c += a b, in float32.
static void host_mma(float* c, const unsigned* a, unsigned b0, unsigned b1) {
  fibers::Warp& warp = fibers::warp();
  const int lane = fibers::lane(), group = lane / 4, pair = lane % 4;
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
// cp.async of 16 bytes, of which `bytes` are read and the others are zero.
static void host_copy_async(void* to, const void* from, int bytes) {
  fibers::all[static_cast<size_t>(fibers::running)].copies.push_back({to, from, bytes});
}
static void host_copy_wait() {
  for (const fibers::Copy& copy : fibers::all[static_cast<size_t>(fibers::running)].copies) {
    std::memset(copy.to, 0, 16);
    std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
  }
  fibers::all[static_cast<size_t>(fibers::running)].copies.clear();
}

static const char FAKE_CUDA_KERNELS[] = "";  // kernels begin after this: system headers have functions of C as well
