// Conversions from Phi types to core types, used by every file of the PaddlePaddle adapter.
#pragma once

#include <paddle/phi/backends/custom/custom_context.h>
#include <paddle/phi/core/dense_tensor.h>

#include <array>
#include <string>
#include <utility>

#include "core/runtime/runtime.h"
#include "core/tensor/view.h"

namespace hp::paddle_adapter {

using phi::DenseTensor;

// kNone if core has no such dtype.
inline DType to_core(phi::DataType dtype) {
  using P = phi::DataType;
  static constexpr auto table = [] {
    constexpr std::pair<P, DType> known[] = {
        {P::FLOAT32, DType::kF32},   {P::FLOAT64, DType::kF64},   {P::FLOAT16, DType::kF16},
        {P::BFLOAT16, DType::kBF16}, {P::INT8, DType::kI8},       {P::INT16, DType::kI16},
        {P::INT32, DType::kI32},     {P::INT64, DType::kI64},     {P::UINT8, DType::kU8},
        {P::BOOL, DType::kBool},     {P::COMPLEX64, DType::kC64}, {P::COMPLEX128, DType::kC128}};
    std::array<DType, static_cast<size_t>(P::NUM_DATA_TYPES)> dtypes{};
    for (const auto& [type, core] : known) dtypes[static_cast<size_t>(type)] = core;
    return dtypes;
  }();
  return dtype < P::NUM_DATA_TYPES ? table[static_cast<size_t>(dtype)] : DType::kNone;
}

// Borrows the tensor's memory, shape and strides: the tensor must outlive the view and keep its shape. Returns an
// undefined view if the tensor has elements but no memory; the view's dtype is kNone if core has no such dtype.
inline View view(const DenseTensor& tensor) {
  const auto& dims = tensor.dims();
  const bool has_memory = tensor.initialized();
  if (dims.size() < 0 || tensor.strides().size() != dims.size() || (!has_memory && tensor.numel() != 0)) return {};
  void* const data = has_memory ? const_cast<void*>(tensor.data()) : nullptr;
  return {data, to_core(tensor.dtype()), dims.size(), dims.Get(), tensor.strides().Get()};
}

// Paddle's stream handles are core streams, created by `create_stream` in device_interface.cpp.
inline Stream& stream_of(const phi::DeviceContext& context) {
  return *static_cast<Stream*>(static_cast<const phi::CustomContext&>(context).stream());
}

inline bool on_device(const DenseTensor& tensor) { return tensor.place().GetType() == phi::AllocationType::CUSTOM; }

// Sets core's current stream of this thread and restores the previous one on destruction.
class StreamScope {
 public:
  explicit StreamScope(Stream& stream) : previous_(set_current_stream(stream)) {}
  ~StreamScope() { set_current_stream(previous_); }
  StreamScope(const StreamScope&) = delete;

 private:
  Stream& previous_;
};

// Calls Callbacks<slot>::fill(table). Paddle's callbacks carry no user data, so each plug-in slot has its own set.
template <template <int> class Callbacks, int kSlot = 0, class Table>
void fill_callbacks(int slot, Table& table) {
  if (slot == kSlot) return Callbacks<kSlot>::fill(table);
  if constexpr (kSlot + 1 < kMaxRuntimes) fill_callbacks<Callbacks, kSlot + 1>(slot, table);
}

// Fills in Paddle's CustomRuntimeParams at `address` for a mounted plug-in. Throws Error if the size of its callback
// table is not supported.
void fill_interface(void* address, Runtime& runtime);
// Whether `size` is the size in bytes of the callback table (C_DeviceInterface) of Paddle 3.0 to 3.3.
bool is_supported_interface(size_t size);

}  // namespace hp::paddle_adapter
