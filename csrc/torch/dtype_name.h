// The names that the generators of portable kernels have for dtypes.
#pragma once

#include <c10/core/ScalarType.h>

namespace hp::torch_adapter {

// Null for a dtype that portable kernels do not compute with.
inline const char* type_name(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Float:
      return "f32";
    case c10::ScalarType::Double:
      return "f64";
    case c10::ScalarType::Half:
      return "f16";
    case c10::ScalarType::BFloat16:
      return "bf16";
    case c10::ScalarType::Char:
      return "i8";
    case c10::ScalarType::Short:
      return "i16";
    case c10::ScalarType::Int:
      return "i32";
    case c10::ScalarType::Long:
      return "i64";
    case c10::ScalarType::Byte:
      return "u8";
    case c10::ScalarType::Bool:
      return "bool";
    default:
      return nullptr;
  }
}

}  // namespace hp::torch_adapter
