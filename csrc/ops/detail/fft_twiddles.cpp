#include "ops/detail/fft_twiddles.h"

#include <atomic>
#include <cmath>
#include <complex>
#include <mutex>
#include <vector>

#include "core/memory/scratch.h"
#include "core/runtime/runtime.h"

namespace hp::ops {
namespace {

using Complex = std::complex<double>;

constexpr int64_t kLargestRadix = 50;          // Bluestein is faster for larger prime factors
constexpr size_t kMaxCachedBytes = 64u << 20;  // all tables together

// exp(-2 pi i t / n) for 0 <= t < n. Reduces the angle to at most pi / 4 in integers, so it is rounded only once.
Complex root(int64_t t, int64_t n) {
  const bool below = 2 * t <= n;
  const int64_t half = below ? t : n - t;  // of n: up to pi
  const bool right = 4 * half <= n;
  const int64_t quarter = right ? 2 * half : n - 2 * half;  // of 2n: up to pi / 2
  const bool low = 2 * quarter <= n;
  const int64_t eighth = low ? 2 * quarter : n - 2 * quarter;  // of 4n: up to pi / 4
  const double angle = 3.14159265358979323846 * static_cast<double>(eighth) / static_cast<double>(2 * n);
  const double c = low ? std::cos(angle) : std::sin(angle), s = low ? std::sin(angle) : std::cos(angle);
  return {right ? c : -c, below ? -s : s};
}

// In-place FFT of a power-of-two size.
void transform(std::vector<Complex>& x, const Complex* roots) {
  const size_t n = x.size();
  for (size_t i = 1, j = 0; i < n; ++i) {
    size_t bit = n >> 1;
    for (; (j & bit) != 0; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(x[i], x[j]);
  }
  for (size_t width = 1; width < n; width *= 2) {
    for (size_t start = 0; start < n; start += 2 * width) {
      for (size_t k = 0; k < width; ++k) {
        const Complex a = x[start + k], b = x[start + k + width] * roots[k * (n / (2 * width))];
        x[start + k] = a + b;
        x[start + k + width] = a - b;
      }
    }
  }
}

std::vector<Complex> elements(int64_t n) {
  const FftPlan plan(n);
  std::vector<Complex> table;
  for (int64_t t = 0; t < plan.size; ++t) table.push_back(root(t, plan.size));
  if (!plan.bluestein) return table;
  std::vector<Complex> filter(static_cast<size_t>(plan.size));
  int64_t square = 0;  // j * j mod 2n
  for (int64_t j = 0; j < n; ++j) {
    const Complex chirp = root(square, 2 * n);
    table.push_back(chirp);
    filter[j] = filter[(plan.size - j) % plan.size] = std::conj(chirp) / static_cast<double>(plan.size);
    square = (square + 2 * j + 1) % (2 * n);
  }
  transform(filter, table.data());
  table.insert(table.end(), filter.begin(), filter.end());
  return table;
}

std::atomic<size_t> cached_bytes{0};

struct TwiddleTable {
  Device& device;
  int64_t n;
  DType real;
  void* memory;
};

template <class Real>
std::vector<Real> parts(int64_t n) {
  std::vector<Real> values;
  for (const Complex& z : elements(n)) {
    values.push_back(static_cast<Real>(z.real()));
    values.push_back(static_cast<Real>(z.imag()));
  }
  return values;
}

// Waits, because `values` is temporary and other streams may read the table afterwards.
template <class Real>
void upload(Device& device, void* memory, const std::vector<Real>& values) {
  Stream& stream = current_stream(device);
  device.copy_to_device(memory, values.data(), values.size() * sizeof(Real), stream);
  stream.wait();
}

// Builds a table: in memory from the plug-in if it is cached, else in scratch memory for one call.
template <class Real>
std::shared_ptr<void> build_table(Device& device, int64_t n, bool& cached) {
  const std::vector<Real> values = parts<Real>(n);
  const size_t bytes = values.size() * sizeof(Real);
  void* memory = nullptr;
  cached = cached_bytes.fetch_add(bytes) + bytes <= kMaxCachedBytes &&
           device.plugin.table.allocate(device.index, bytes, &memory) == HP_OK && memory != nullptr;
  std::shared_ptr<void> table;
  if (cached) {
    table = std::shared_ptr<void>(memory, [](void*) {});
  } else {
    cached_bytes.fetch_sub(bytes);
    const auto scratch = std::make_shared<Scratch>(device, static_cast<int64_t>(bytes));
    table = std::shared_ptr<void>(scratch, scratch->get());
  }
  upload(device, table.get(), values);
  return table;
}

}  // namespace

FftPlan::FftPlan(int64_t n) : size(n), bluestein(false) {
  int64_t rest = n;
  for (int64_t factor = 2; factor <= kLargestRadix && rest > 1; ++factor) {
    while (rest % factor == 0) rest /= factor;
  }
  if (rest <= 1) return;
  bluestein = true;
  for (size = 1; size < 2 * n - 1;) size *= 2;
}

std::shared_ptr<const void> twiddle_table(Device& device, int64_t n, DType real) {
  static std::mutex& mutex = *new std::mutex;
  static auto& tables = *new std::vector<TwiddleTable>;
  {
    const std::lock_guard lock(mutex);
    for (const TwiddleTable& table : tables) {
      if (&table.device == &device && table.n == n && table.real == real) return {table.memory, [](const void*) {}};
    }
  }
  bool cached = false;
  auto table = real == DType::kF64 ? build_table<double>(device, n, cached) : build_table<float>(device, n, cached);
  if (cached) {
    const std::lock_guard lock(mutex);
    tables.push_back({device, n, real, table.get()});
  }
  return table;
}

}  // namespace hp::ops
