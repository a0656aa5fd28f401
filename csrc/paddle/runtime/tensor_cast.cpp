#include "runtime/tensor_cast.h"

#include <paddle/phi/backends/context_pool.h>
#include <paddle/phi/core/utils/data_type.h>

#include <algorithm>
#include <atomic>

#include "core/tensor/copy_views.h"
#include "runtime/adapter.h"
#include "runtime/jump_table.h"

namespace hp::paddle_adapter {
namespace {

// Dtypes are numbers of Paddle's program format.
using Cast = void(const DenseTensor& from, const int& dtype, DenseTensor* to);
using CastToReal = void(const int& dtype, const int& from_dtype, const DenseTensor& from, DenseTensor* to);

// If Paddle no longer has such a function, it keeps rejecting custom devices.
constexpr const char* kCast =
    "_ZN6paddle9framework13TransDataTypeERKN3phi11DenseTensorERKNS0_5proto12VarType_TypeEPS2_";
constexpr const char* kCastToReal =
    "_ZN6paddle9framework18TransComplexToRealERKNS0_5proto12VarType_TypeES4_RKN3phi11DenseTensorEPS6_";

// Paddle's own functions.
std::atomic<Cast*> paddle_cast{nullptr};
std::atomic<CastToReal*> paddle_cast_to_real{nullptr};

bool is_mounted(const phi::Place& place) {
  if (place.GetType() != phi::AllocationType::CUSTOM) return false;
  const auto& runtimes = Runtime::mounted();
  return std::any_of(runtimes.begin(), runtimes.end(),
                     [&](const Runtime* runtime) { return runtime->name() == place.GetDeviceType(); });
}

bool is_served(const DenseTensor& tensor) { return tensor.initialized() && is_mounted(tensor.place()); }

// A complex number becomes its real part, as on the CPU.
void cast_on_device(const DenseTensor& from, phi::DataType dtype, DenseTensor* to) {
  if (to_core(dtype) == DType::kNone || to_core(from.dtype()) == DType::kNone) {
    throw Error(HP_NOT_SUPPORTED, "cannot cast a tensor from " + phi::DataTypeToString(from.dtype()) + " to " +
                                      phi::DataTypeToString(dtype));
  }
  const auto& context = *phi::DeviceContextPool::Instance().Get(from.place());
  Stream& stream = stream_of(context);
  const StreamScope scope(stream);
  to->Resize(from.dims());
  context.Alloc(to, dtype);
  if (from.numel() != 0) copy_views(stream.device, view(*to), view(from));
}

void cast(const DenseTensor& from, const int& dtype, DenseTensor* to) {
  if (!is_served(from)) return paddle_cast.load()(from, dtype, to);
  cast_on_device(from, phi::TransToPhiDataType(dtype), to);
}

void cast_to_real(const int& dtype, const int& from_dtype, const DenseTensor& from, DenseTensor* to) {
  if (!is_served(from)) return paddle_cast_to_real.load()(dtype, from_dtype, from, to);
  cast_on_device(from, phi::TransToPhiDataType(dtype), to);
}

}  // namespace

void extend_tensor_cast() {
  if (paddle_cast != nullptr || paddle_cast_to_real != nullptr) return;
  const JumpTable table("/libpaddle.so");
  table.replace(kCast, &cast, paddle_cast);
  table.replace(kCastToReal, &cast_to_real, paddle_cast_to_real);
}

}  // namespace hp::paddle_adapter
