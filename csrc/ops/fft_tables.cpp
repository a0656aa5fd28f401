#include "fft_tables.h"

#include <cmath>
#include <complex>
#include <list>
#include <mutex>
#include <vector>

#include "../core/allocator.h"
#include "../core/runtime.h"

namespace hp::ops {
namespace {

using Complex = std::complex<double>;

constexpr int64_t kLargestRadix = 50;       // a larger prime factor costs more than a convolution
constexpr int64_t kKeptBytes = 64ll << 20;  // of all tables together

// exp(-2 pi i t / n) for 0 <= t < n. The angle that sine and cosine see is at most pi / 4, and has one rounding.
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

// Of a power of two elements, in place.
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
  const FourierPlan plan(n);
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

struct Table {
  Device& device;
  int64_t n;
  DType real;
  int64_t bytes;
  Block* block;
  ~Table() { CachingAllocator::release(block); }
};

template <class Real>
std::shared_ptr<Table> upload(Device& device, int64_t n, DType real) {
  std::vector<Real> values;
  for (const Complex& z : elements(n)) {
    values.push_back(static_cast<Real>(z.real()));
    values.push_back(static_cast<Real>(z.imag()));
  }
  const int64_t bytes = static_cast<int64_t>(values.size() * sizeof(Real));
  Stream& stream = current_stream(device);
  std::shared_ptr<Table> table(
      new Table{device, n, real, bytes, device.allocator().allocate(static_cast<size_t>(bytes), stream)});
  device.copy_to_device(CachingAllocator::address(table->block), values.data(), static_cast<size_t>(bytes), stream);
  stream.wait();  // other streams may read it from now on, and `values` goes
  return table;
}

}  // namespace

FourierPlan::FourierPlan(int64_t n) : size(n), bluestein(false) {
  int64_t rest = n;
  for (int64_t factor = 2; factor <= kLargestRadix && rest > 1; ++factor) {
    while (rest % factor == 0) rest /= factor;
  }
  if (rest <= 1) return;
  bluestein = true;
  for (size = 1; size < 2 * n - 1;) size *= 2;
}

std::shared_ptr<const void> fourier_table(Device& device, int64_t n, DType real) {
  static std::mutex& mutex = *new std::mutex;
  static auto& kept = *new std::list<std::shared_ptr<Table>>;  // latest first
  std::shared_ptr<Table> table;
  {
    const std::lock_guard lock(mutex);
    for (auto at = kept.begin(); at != kept.end(); ++at) {
      if (&(*at)->device != &device || (*at)->n != n || (*at)->real != real) continue;
      kept.splice(kept.begin(), kept, at);
      table = *at;
      break;
    }
  }
  std::vector<std::shared_ptr<Table>> dropped;  // released after the lock
  if (table == nullptr) {
    table = real == DType::kF64 ? upload<double>(device, n, real) : upload<float>(device, n, real);
    const std::lock_guard lock(mutex);
    kept.push_front(table);
    int64_t bytes = 0;
    for (auto at = kept.begin(); at != kept.end();) {
      bytes += (*at)->bytes;
      if (bytes <= kKeptBytes) {
        ++at;
        continue;
      }
      dropped.push_back(std::move(*at));
      at = kept.erase(at);
    }
  }
  device.allocator().record_stream(table->block, current_stream(device));
  return {table, CachingAllocator::address(table->block)};
}

}  // namespace hp::ops
