// Converts torch tensors and dtypes to the core's View and DType.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <optional>
#include <utility>

#include "core/tensor/view.h"

namespace hp::torch_adapter {

// The core's dtype of every ScalarType that DLPack knows; kNone for others.
constexpr auto kStorageDtypes = [] {
  using S = c10::ScalarType;
  constexpr std::pair<S, DType> known[] = {{S::Float, DType::kF32},
                                           {S::Double, DType::kF64},
                                           {S::Half, DType::kF16},
                                           {S::BFloat16, DType::kBF16},
                                           {S::Char, DType::kI8},
                                           {S::Short, DType::kI16},
                                           {S::Int, DType::kI32},
                                           {S::Long, DType::kI64},
                                           {S::Byte, DType::kU8},
                                           {S::Bool, DType::kBool},
                                           {S::ComplexFloat, DType::kC64},
                                           {S::ComplexDouble, DType::kC128},
                                           {S::UInt16, DType::kU16},
                                           {S::UInt32, DType::kU32},
                                           {S::UInt64, DType::kU64},
                                           {S::ComplexHalf, DType::kC32},
                                           {S::Float8_e4m3fn, DType::kF8E4M3FN},
                                           {S::Float8_e5m2, DType::kF8E5M2},
                                           {S::Float8_e4m3fnuz, DType::kF8E4M3FNUZ},
                                           {S::Float8_e5m2fnuz, DType::kF8E5M2FNUZ}};
  std::array<DType, static_cast<size_t>(S::NumOptions)> table{};
  for (const auto& [type, dtype] : known) table[static_cast<size_t>(type)] = dtype;
  return table;
}();

// For vendor kernels, which may take any of them.
inline DType storage_dtype(c10::ScalarType type) { return kStorageDtypes[static_cast<size_t>(type)]; }

// kNone if portable kernels do not support the dtype.
inline DType to_core(c10::ScalarType type) {
  const DType dtype = storage_dtype(type);
  return is_computable(dtype) ? dtype : DType::kNone;
}

// The tensor must outlive the view and keep its shape.
inline View view_as(const at::Tensor& tensor, DType dtype) {
  const at::IntArrayRef sizes = tensor.sizes();
  return {const_cast<void*>(tensor.const_data_ptr()), dtype, static_cast<int>(sizes.size()), sizes.data(),
          tensor.strides().data()};
}
inline View view(const at::Tensor& tensor) {
  return tensor.defined() ? view_as(tensor, to_core(tensor.scalar_type())) : View{};
}
inline View view(const std::optional<at::Tensor>& tensor) { return tensor ? view(*tensor) : View{}; }

// The same for vendor kernels.
inline View storage_view(const at::Tensor& tensor) {
  return tensor.defined() ? view_as(tensor, storage_dtype(tensor.scalar_type())) : View{};
}

}  // namespace hp::torch_adapter
