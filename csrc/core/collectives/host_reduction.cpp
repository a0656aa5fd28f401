#include "core/collectives/host_reduction.h"

#include <algorithm>
#include <type_traits>

#include "core/runtime/error.h"
#include "core/tensor/half.h"

namespace hp {
namespace {

// The type an element is computed in. Integer sums and products go through uint64_t, where wraparound is defined.
template <class T>
struct Computed {
  using Type = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
  static Type load(T x) { return static_cast<Type>(x); }
  static T store(Type x) { return static_cast<T>(x); }
};
template <>
struct Computed<Half> {
  using Type = float;
  static float load(Half x) { return widen(x); }
  static Half store(float x) { return to_half(x); }
};
template <>
struct Computed<BFloat16> {
  using Type = float;
  static float load(BFloat16 x) { return widen(x); }
  static BFloat16 store(float x) { return to_bfloat16(x); }
};

struct Sum {
  static int64_t of(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
  template <class T>
  static T of(T a, T b) {
    return a + b;
  }
};
struct Product {
  static int64_t of(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
  template <class T>
  static T of(T a, T b) {
    return a * b;
  }
};
// b != b tests for NaN.
struct Min {
  template <class T>
  static T of(T a, T b) {
    return b < a || b != b ? b : a;
  }
};
struct Max {
  template <class T>
  static T of(T a, T b) {
    return b > a || b != b ? b : a;
  }
};

template <class T, class Reduction>
void reduce_typed(void* dst, const std::vector<const void*>& parts, size_t count, int divisor) {
  using Value = typename Computed<T>::Type;
  constexpr size_t kBlock = 512;  // fits in L1, and gives the compiler vectorizable loops
  Value block[kBlock];
  for (size_t start = 0; start < count; start += kBlock) {
    const size_t length = std::min(kBlock, count - start);
    const T* first = static_cast<const T*>(parts[0]) + start;
    for (size_t i = 0; i < length; ++i) block[i] = Computed<T>::load(first[i]);
    for (size_t k = 1; k < parts.size(); ++k) {
      const T* part = static_cast<const T*>(parts[k]) + start;
      for (size_t i = 0; i < length; ++i) block[i] = Reduction::of(block[i], Computed<T>::load(part[i]));
    }
    T* out = static_cast<T*>(dst) + start;
    if (divisor != 1) {
      for (size_t i = 0; i < length; ++i) block[i] /= static_cast<Value>(divisor);
    }
    for (size_t i = 0; i < length; ++i) out[i] = Computed<T>::store(block[i]);
  }
}

template <class T>
void reduce_elements(void* dst, const std::vector<const void*>& parts, size_t count, HpReduction reduction) {
  switch (reduction) {
    case HP_SUM:
      return reduce_typed<T, Sum>(dst, parts, count, 1);
    case HP_PRODUCT:
      return reduce_typed<T, Product>(dst, parts, count, 1);
    case HP_MIN:
      return reduce_typed<T, Min>(dst, parts, count, 1);
    case HP_MAX:
      return reduce_typed<T, Max>(dst, parts, count, 1);
    case HP_MEAN:
      return reduce_typed<T, Sum>(dst, parts, count, static_cast<int>(parts.size()));
  }
  throw Error(HP_INVALID_ARGUMENT, "unknown HpReduction " + std::to_string(reduction));
}

struct ElementInfo {
  const char* name;
  size_t bytes;
  void (*reduce)(void*, const std::vector<const void*>&, size_t, HpReduction);
};

const ElementInfo& element_info(HpElement element) {
  // In the order of HpElement.
  static const ElementInfo all[] = {
      {"uint8", 1, reduce_elements<uint8_t>},     {"int8", 1, reduce_elements<int8_t>},
      {"int16", 2, reduce_elements<int16_t>},     {"int32", 4, reduce_elements<int32_t>},
      {"int64", 8, reduce_elements<int64_t>},     {"float16", 2, reduce_elements<Half>},
      {"bfloat16", 2, reduce_elements<BFloat16>}, {"float32", 4, reduce_elements<float>},
      {"float64", 8, reduce_elements<double>},
  };
  if (static_cast<unsigned>(element) > HP_FLOAT64) {
    throw Error(HP_INVALID_ARGUMENT, "unknown HpElement " + std::to_string(element));
  }
  return all[element];
}

}  // namespace

size_t element_bytes(HpElement element) { return element_info(element).bytes; }
const char* element_name(HpElement element) { return element_info(element).name; }

const char* reduction_name(HpReduction reduction) {
  static const char* const names[] = {"sum", "product", "min", "max", "mean"};
  return static_cast<unsigned>(reduction) <= HP_MEAN ? names[reduction] : "unknown reduction";
}

void reduce_arrays(void* dst, const std::vector<const void*>& parts, size_t count, HpElement element,
                   HpReduction reduction) {
  element_info(element).reduce(dst, parts, count, reduction);
}

}  // namespace hp
