// Storage, views and resizing: the operators that every device must implement itself.
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_lazy_clone_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>

#include "runtime/adapter.h"
#include "runtime/lazy_memory.h"

namespace hp::torch_adapter {
namespace {

using at::Tensor;

// A guard that costs one comparison if the device is already current.
class CurrentDevice {
 public:
  explicit CurrentDevice(int index) : previous_(current_device(runtime())) {
    if (index >= 0 && index != previous_)
      set_current_device(runtime(), device_at(static_cast<c10::DeviceIndex>(index)).index);
  }
  ~CurrentDevice() { set_current_device(runtime(), previous_); }

 private:
  int previous_;
};

bool deterministic() {
  return at::globalContext().deterministicAlgorithms() && at::globalContext().deterministicFillUninitializedMemory();
}

void fill_if_deterministic(Tensor& tensor) {
  if (C10_UNLIKELY(deterministic())) at::native::fill_empty_deterministic_(tensor);
}

void check_factory(std::optional<at::Layout> layout, std::optional<bool> pin) {
  TORCH_CHECK(c10::layout_or_default(layout) == c10::kStrided, runtime().name(),
              " holds dense (strided) tensors only, not ", c10::layout_or_default(layout),
              ": create it on the CPU, or use a dense tensor");
  TORCH_CHECK(!c10::pinned_memory_or_default(pin), "Only dense CPU tensors can be pinned");
}

Tensor empty_memory_format(c10::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                           std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pin,
                           std::optional<at::MemoryFormat> memory_format) {
  check_factory(layout, pin);
  const CurrentDevice guard(device ? device->index() : -1);
  Tensor result = at::detail::empty_generic(sizes, c10::GetAllocator(kDeviceType), kKeySet,
                                            c10::dtype_or_default(dtype), memory_format);
  fill_if_deterministic(result);
  return result;
}

Tensor empty_with_strides(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                          std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pin) {
  check_factory(layout, pin);
  const CurrentDevice guard(device ? device->index() : -1);
  Tensor result = at::detail::empty_strided_generic(sizes, strides, c10::GetAllocator(kDeviceType), kKeySet,
                                                    c10::dtype_or_default(dtype));
  fill_if_deterministic(result);
  return result;
}

// Zeros without storage, as forward-mode autograd creates them.
Tensor efficient_zero_tensor(c10::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                             std::optional<at::Layout> layout, std::optional<at::Device> device,
                             std::optional<bool> pin) {
  check_factory(layout, pin);
  const auto index = static_cast<c10::DeviceIndex>(device_at(device ? device->index() : -1).index);
  at::native::ZeroTensorAllocator allocator(c10::Device(kDeviceType, index));
  return at::detail::empty_generic(sizes, &allocator, kKeySet | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor),
                                   c10::dtype_or_default(dtype), std::nullopt);
}

Tensor view_of(const Tensor& self, c10::SymIntArrayRef sizes) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(sizes));
}
Tensor as_strided(const Tensor& self, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                  std::optional<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(
      self, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
      offset ? std::make_optional(offset->guard_int(__FILE__, __LINE__)) : std::nullopt);
}
Tensor reshape_alias(const Tensor& self, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides));
}
// Grows the storage if it is too small; torch's own implementation would access device memory.
void grow(const Tensor& self, size_t bytes) {
  const c10::Storage& storage = self.storage();
  const auto before = static_cast<int64_t>(storage.nbytes());
  if (storage.nbytes() >= bytes) return;
  const CurrentDevice guard(self.device().index());
  at::native::resize_bytes_nocuda(storage, static_cast<int64_t>(bytes));
  if (deterministic()) at::native::fill_resize_deterministic_(self, before);
}

const Tensor& resize_(const Tensor& self, c10::SymIntArrayRef sizes, std::optional<at::MemoryFormat> memory_format) {
  const auto shape = C10_AS_INTARRAYREF_SLOW(sizes);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  if (shape != self.sizes()) {
    grow(self, at::detail::computeStorageNbytesContiguous(shape, self.itemsize(), self.storage_offset()));
    impl->set_sizes_contiguous(shape);
  }
  if (memory_format) {
    TORCH_CHECK(*memory_format != at::MemoryFormat::Preserve, "Unsupported memory format ", *memory_format);
    impl->empty_tensor_restride(*memory_format);
  }
  return self;
}
Tensor& set_storage_view(Tensor& self, at::Storage source, int64_t offset, c10::IntArrayRef sizes,
                         c10::IntArrayRef strides) {
  at::native::checkSetStorage(self, std::move(source), offset, sizes, strides);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  if (strides.data() != nullptr) {
    grow(self, at::detail::computeStorageNbytes(sizes, strides, self.itemsize(), offset));
    impl->set_sizes_and_strides(sizes, strides);
  } else {
    grow(self, at::detail::computeStorageNbytesContiguous(sizes, self.itemsize(), offset));
    impl->set_sizes_contiguous(sizes);
  }
  return self;
}
Tensor& set_storage(Tensor& self, at::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage_view(self, std::move(source), 0, {elements}, {});
}
Tensor& set_tensor(Tensor& self, const Tensor& source) {
  if (self.is_same(source)) return self;
  return set_storage_view(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}
Tensor& set_empty(Tensor& self) {
  const CurrentDevice guard(self.device().index());
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0, c10::GetAllocator(kDeviceType), true);
  return set_storage_view(self, std::move(storage), 0, {0}, {});
}

// Whether `self.data = from` may replace the contents of `self`. module.to() depends on it to keep its parameter
// objects, to which optimizers and tied weights refer.
bool has_compatible_shallow_copy_type(const Tensor& self, const Tensor& from) {
  auto dense = [](const Tensor& tensor) {
    return tensor.layout() == c10::kStrided && (tensor.is_cpu() || tensor.is_privateuseone());
  };
  return self.key_set() == from.key_set() || (dense(self) && dense(from));
}

// Kernels write through raw addresses, which does not trigger the copy. prepare_lazy_clone intercepts calls instead.
Tensor lazy_clone(const Tensor& self) {
  const CurrentDevice guard(self.device().index());
  if (!prepare_lazy_clone(*self.storage().unsafeGetStorageImpl())) return self.clone();
  return at::native::_lazy_clone(self);
}

void record_stream(Tensor& self, c10::Stream stream) {
  c10::getDeviceAllocator(kDeviceType)->recordStream(self.storage().data_ptr(), stream);
}

}  // namespace

Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, int device) {
  const CurrentDevice guard(device);
  return at::detail::empty_generic(sizes, c10::GetAllocator(kDeviceType), kKeySet, dtype, std::nullopt);
}

Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype, int device) {
  const CurrentDevice guard(device);
  return at::detail::empty_strided_generic(sizes, strides, c10::GetAllocator(kDeviceType), kKeySet, dtype);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty_memory_format));
  m.impl("empty_strided", TORCH_FN(empty_with_strides));
  m.impl("_efficientzerotensor", TORCH_FN(efficient_zero_tensor));
  m.impl("view", TORCH_FN(view_of));
  m.impl("as_strided", TORCH_FN(as_strided));
  m.impl("_reshape_alias", TORCH_FN(reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("resize_", TORCH_FN(resize_));
  m.impl("set_", TORCH_FN(set_empty));
  m.impl("set_.source_Storage", TORCH_FN(set_storage));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage_view));
  m.impl("set_.source_Tensor", TORCH_FN(set_tensor));
  m.impl("is_set_to", TORCH_FN(at::native::is_set_to));
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
  m.impl("record_stream", TORCH_FN(record_stream));
  m.impl("_lazy_clone", TORCH_FN(lazy_clone));
}

}  // namespace hp::torch_adapter
