#include "collectives/reduction.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/dtype.h"

namespace sim {

namespace {

// Unsigned and wide enough to avoid promotion to a signed type: integers wrap around.
template <class V>
using Wrapping = std::conditional_t<(sizeof(V) < 8), uint32_t, uint64_t>;

struct Sum {
  template <class V>
  static V apply(V a, V b) {
    if constexpr (std::is_integral_v<V>) {
      return static_cast<V>(static_cast<Wrapping<V>>(a) + static_cast<Wrapping<V>>(b));
    } else {
      return a + b;
    }
  }
};
struct Product {
  template <class V>
  static V apply(V a, V b) {
    if constexpr (std::is_integral_v<V>) {
      return static_cast<V>(static_cast<Wrapping<V>>(a) * static_cast<Wrapping<V>>(b));
    } else {
      return a * b;
    }
  }
};
// Comparisons with NaN are false, which returns a NaN in `b`; a NaN in `a` needs the second test.
struct Min {
  template <class V>
  static V apply(V a, V b) {
    return a < b || a != a ? a : b;
  }
};
struct Max {
  template <class V>
  static V apply(V a, V b) {
    return a > b || a != a ? a : b;
  }
};

template <class T, class Operation, bool mean>
void reduce(const char* const* sources, int num, size_t count, char* out, char* copy) {
  using V = Value<T>;
  constexpr size_t kBlock = 2048;
  alignas(64) V result[kBlock];  // fits in the L1 cache
  for (size_t first = 0; first < count; first += kBlock) {
    const size_t n = std::min(kBlock, count - first);
    const auto source = [&](int s) { return reinterpret_cast<const T*>(sources[s]) + first; };
    const T* const a = source(0);
    if (num == 1) {
      for (size_t i = 0; i < n; ++i) result[i] = Arithmetic<T>::load(a[i]);
    } else {
      const T* const b = source(1);
      for (size_t i = 0; i < n; ++i)
        result[i] = Operation::template apply<V>(Arithmetic<T>::load(a[i]), Arithmetic<T>::load(b[i]));
    }
    for (int s = 2; s < num; ++s) {
      const T* const next = source(s);
      for (size_t i = 0; i < n; ++i) result[i] = Operation::template apply<V>(result[i], Arithmetic<T>::load(next[i]));
    }
    if constexpr (mean) {
      for (size_t i = 0; i < n; ++i) result[i] = static_cast<V>(result[i] / static_cast<V>(num));
    }
    for (char* const to : {out, copy}) {
      if (to == nullptr) continue;
      T* const elements = reinterpret_cast<T*>(to) + first;
      for (size_t i = 0; i < n; ++i) elements[i] = Arithmetic<T>::store(result[i]);
    }
  }
}

template <class T>
auto find(HpReduction reduction) {
  switch (reduction) {
    case HP_PRODUCT:
      return &reduce<T, Product, false>;
    case HP_MIN:
      return &reduce<T, Min, false>;
    case HP_MAX:
      return &reduce<T, Max, false>;
    case HP_MEAN:
      return &reduce<T, Sum, true>;
    case HP_SUM:
      break;
  }
  return &reduce<T, Sum, false>;
}

auto find(HpElement element, HpReduction reduction) {
  switch (element) {
    case HP_UINT8:
      return find<uint8_t>(reduction);
    case HP_INT8:
      return find<int8_t>(reduction);
    case HP_INT16:
      return find<int16_t>(reduction);
    case HP_INT32:
      return find<int32_t>(reduction);
    case HP_INT64:
      return find<int64_t>(reduction);
    case HP_FLOAT16:
      return find<Half>(reduction);
    case HP_BFLOAT16:
      return find<BFloat16>(reduction);
    case HP_FLOAT64:
      return find<double>(reduction);
    case HP_FLOAT32:
      break;
  }
  return find<float>(reduction);
}

constexpr struct {
  const char* name;
  size_t bytes;
} kElements[] = {{"uint8", 1},   {"int8", 1},     {"int16", 2},   {"int32", 4},  {"int64", 8},
                 {"float16", 2}, {"bfloat16", 2}, {"float32", 4}, {"float64", 8}};
constexpr const char* kReductions[] = {"sum", "product", "min", "max", "mean"};

}  // namespace

size_t element_bytes(HpElement element) {
  const size_t index = static_cast<size_t>(element);
  return index < std::size(kElements) ? kElements[index].bytes : 0;
}

const char* element_name(HpElement element) { return kElements[static_cast<size_t>(element)].name; }

const char* reduction_name(HpReduction reduction) {
  const size_t index = static_cast<size_t>(reduction);
  return index < std::size(kReductions) ? kReductions[index] : nullptr;
}

void reduce_elements(HpElement element, HpReduction reduction, const char* const* sources, int num, size_t count,
                     char* out, char* copy) {
  find(element, reduction)(sources, num, count, out, copy);
}

}  // namespace sim
