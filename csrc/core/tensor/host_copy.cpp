#include "core/tensor/host_copy.h"

#include <complex>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <vector>

#include "core/runtime/error.h"
#include "core/tensor/half.h"

namespace hp {
namespace {

// Calls `visit(offset)` for each index of the first `outer` dimensions, in order. Offsets count elements.
template <class Visit>
void for_each_run(const View& view, int outer, Visit visit) {
  std::vector<int64_t> index(outer, 0);
  int64_t runs = 1, offset = 0;
  for (int d = 0; d < outer; ++d) runs *= view.sizes[d];
  for (int64_t run = 0; run < runs; ++run) {
    visit(offset);
    for (int d = outer - 1; d >= 0; --d) {
      offset += view.strides[d];
      if (++index[d] < view.sizes[d]) break;
      offset -= view.strides[d] * view.sizes[d];
      index[d] = 0;
    }
  }
}

// Copies the elements of a device view into a dense host buffer. Synchronizes the stream.
std::vector<char> read_dense(Device& device, const View& from, Stream& stream) {
  const int64_t item = info(from.dtype).bytes;
  int64_t first = 0, last = 0;
  for (int d = 0; d < from.ndim; ++d) {
    (from.strides[d] < 0 ? first : last) += (from.sizes[d] - 1) * from.strides[d];
  }
  std::vector<char> span((last - first + 1) * item), dense(from.numel() * item);
  device.copy_to_host(span.data(), static_cast<const char*>(from.data) + first * item, span.size(), stream);
  stream.synchronize();
  char* to = dense.data();
  for_each_run(from, from.ndim, [&](int64_t offset) {
    std::memcpy(to, span.data() + (offset - first) * item, item);
    to += item;
  });
  return dense;
}

// Host types of the computable dtypes, in their order.
using HostTypes = std::tuple<float, double, Half, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, bool,
                             std::complex<float>, std::complex<double>>;

// Calls `visit` with a null pointer of the dtype's host type.
template <size_t I = 0, class Visit>
void with_host_type(DType dtype, Visit visit) {
  if constexpr (I < std::tuple_size_v<HostTypes>) {
    if (static_cast<size_t>(dtype) != I + 1) return with_host_type<I + 1>(dtype, visit);
    visit(static_cast<std::tuple_element_t<I, HostTypes>*>(nullptr));
  }
}

template <class To, class From>
To convert_number(From value) {
  if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>) {
    return convert_number<To>(widen(value));
  } else if constexpr (std::is_same_v<To, std::complex<float>> || std::is_same_v<To, std::complex<double>>) {
    using Part = typename To::value_type;
    if constexpr (std::is_arithmetic_v<From>)
      return To(static_cast<Part>(value));
    else
      return To(value);
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (!std::is_arithmetic_v<From>) {
    return convert_number<To>(value.real());
  } else if constexpr (std::is_same_v<To, Half>) {
    return to_half(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

std::vector<char> convert(const std::vector<char>& dense, DType from, DType to, int64_t elements) {
  std::vector<char> result(elements * info(to).bytes);
  with_host_type(from, [&](auto* from_type) {
    const auto* source = reinterpret_cast<decltype(from_type)>(const_cast<char*>(dense.data()));
    with_host_type(to, [&](auto* to_type) {
      auto* target = reinterpret_cast<decltype(to_type)>(result.data());
      using To = std::remove_pointer_t<decltype(to_type)>;
      for (int64_t i = 0; i < elements; ++i) target[i] = convert_number<To>(source[i]);
    });
  });
  return result;
}

}  // namespace

void copy_through_host(Device& device, const View& to, const View& from) {
  if (to.dtype != from.dtype && !(is_computable(to.dtype) && is_computable(from.dtype))) {
    throw Error(HP_NOT_SUPPORTED,
                device.name() + " has no kernel that converts " + info(from.dtype).name + " to " + info(to.dtype).name);
  }
  if (to.numel() == 0) return;
  Stream& stream = current_stream(device);
  std::vector<char> dense = read_dense(device, from, stream);
  if (to.dtype != from.dtype) dense = convert(dense, from.dtype, to.dtype, from.numel());
  // Copy contiguous runs only: the bytes between them may belong to other tensors.
  const int64_t item = info(to.dtype).bytes;
  int outer = to.ndim;
  int64_t run = 1;
  while (outer > 0 && (to.sizes[outer - 1] == 1 || to.strides[outer - 1] == run)) run *= to.sizes[--outer];
  const char* next = dense.data();
  for_each_run(to, outer, [&](int64_t offset) {
    device.copy_to_device(static_cast<char*>(to.data) + offset * item, next, run * item, stream);
    next += run * item;
  });
  stream.synchronize();
}

}  // namespace hp
