#include "service.h"

#include <dlpack/dlpack.h>
#include <tvm/ffi/container/shape.h>

#include <memory>
#include <new>
#include <optional>

#include "allocator.h"
#include "copy_views.h"
#include "launch.h"
#include "recorder.h"

namespace hp {
namespace {

DLDataType to_dlpack(DType dtype) {
  const int code = dtype == DType::kBool   ? kDLBool
                   : dtype == DType::kU8   ? kDLUInt
                   : dtype == DType::kBF16 ? kDLBfloat
                   : is_complex(dtype)     ? kDLComplex
                   : is_float(dtype)       ? kDLFloat
                                           : kDLInt;
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(info(dtype).bytes * 8), 1};
}

// A view in a layout that the kernel takes, for the time of the call.
struct Prepared {
  Prepared(Device& device, const VendorArgument& argument, bool any_strides)
      : given(argument.view), used(argument.view) {
    if (any_strides || !given.defined() || given.contiguous()) return;
    int64_t step = 1;
    for (int d = given.ndim - 1; d >= 0; --d) strides[d] = step, step *= given.sizes[d];
    scratch.emplace(device, given.bytes());
    used.data = scratch->get();
    used.strides = strides;
    if (argument.kind == VendorArgument::kInput) copy_views(device, used, given);
  }
  void finish(Device& device, const VendorArgument& argument) const {
    if (scratch && argument.kind == VendorArgument::kOutput) copy_views(device, given, used);
  }
  const View given;
  View used;
  int64_t strides[64];
  std::optional<Scratch> scratch;
  DLTensor tensor;
};

// A list that is filled once and whose elements stay where they are; up to N of them need no allocation.
template <class T, size_t N>
class FixedList {
 public:
  explicit FixedList(size_t capacity)
      : heap_(capacity > N ? new Slot[capacity] : nullptr), slots_(heap_ ? heap_.get() : inline_) {}
  ~FixedList() {
    while (size_ > 0) (*this)[--size_].~T();
  }
  FixedList(const FixedList&) = delete;
  template <class... Arguments>
  T& add(Arguments&&... arguments) {
    T* made = new (&slots_[size_]) T{std::forward<Arguments>(arguments)...};
    ++size_;
    return *made;
  }
  T& operator[](size_t index) { return *std::launder(reinterpret_cast<T*>(&slots_[index])); }
  T* data() { return &(*this)[0]; }
  size_t size() const { return size_; }

 private:
  struct alignas(T) Slot {
    unsigned char bytes[sizeof(T)];
  };
  Slot inline_[N];
  std::unique_ptr<Slot[]> heap_;
  Slot* slots_;
  size_t size_ = 0;
};

}  // namespace

bool call_vendor(Operator& op, const Kernel* kernel, Device& device, const VendorArgument* first,
                 const VendorArgument* last) {
  if (kernel == nullptr) return false;
  const bool any_strides = (kernel->flags & HP_KERNEL_STRIDED) != 0;
  const size_t count = static_cast<size_t>(last - first);
  FixedList<Prepared, 12> views(count);
  FixedList<tvm::ffi::Shape, 8> lists(count);
  FixedList<TVMFFIAny, 24> args(count);
  for (const VendorArgument* at = first; at != last; ++at) {
    const VendorArgument& argument = *at;
    TVMFFIAny& any = args.add();
    any.zero_padding = 0;
    any.v_int64 = argument.integer;
    switch (argument.kind) {
      case VendorArgument::kSeed:
        if (Recorder* active = recorder()) {
          active->random_arguments(static_cast<uint32_t>(at - first),
                                   {static_cast<uint64_t>(argument.integer), static_cast<uint64_t>(at[1].integer)});
        }
        any.type_index = kTVMFFIInt;
        break;
      case VendorArgument::kInteger:
        any.type_index = kTVMFFIInt;
        break;
      case VendorArgument::kBoolean:
        any.type_index = kTVMFFIBool;
        break;
      case VendorArgument::kReal:
        any.type_index = kTVMFFIFloat;
        any.v_float64 = argument.real;
        break;
      case VendorArgument::kList: {
        const tvm::ffi::Shape& list = lists.add(argument.list, argument.list + argument.length);
        any.type_index = kTVMFFIShape;
        any.v_obj = const_cast<TVMFFIObject*>(
            reinterpret_cast<const TVMFFIObject*>(tvm::ffi::details::ObjectUnsafe::RawObjectPtrFromObjectRef(list)));
        break;
      }
      default: {
        Prepared& prepared = views.add(device, argument, any_strides);
        const View& view = prepared.used;
        if (!view.defined()) {
          any.type_index = kTVMFFINone;
          break;
        }
        prepared.tensor = {view.data,
                           {static_cast<DLDeviceType>(HP_DLPACK_DEVICE_TYPE), device.index},
                           view.ndim,
                           to_dlpack(view.dtype),
                           const_cast<int64_t*>(view.sizes),
                           const_cast<int64_t*>(view.strides),
                           0};
        any.type_index = kTVMFFIDLTensorPtr;
        any.v_ptr = &prepared.tensor;
      }
    }
  }
  if (observed()) notify({op, Tier::kVendor, true, nullptr});
  if (!launch(op, *kernel, current_stream(device), args.data(), static_cast<int32_t>(args.size()))) {
    if (Recorder* active = recorder()) active->declined();
    return false;
  }
  size_t prepared = 0;
  for (const VendorArgument* at = first; at != last; ++at) {
    if (at->kind <= VendorArgument::kInput) views[prepared++].finish(device, *at);
  }
  op.count(Tier::kVendor);
  if (observed()) notify({op, Tier::kVendor, false, nullptr});
  return true;
}

Scratch::Scratch(Device& device, int64_t bytes) {
  if (bytes == 0) return;
  block_ = device.allocator().allocate(static_cast<size_t>(bytes), current_stream(device));
  data_ = CachingAllocator::address(block_);
}

Scratch::~Scratch() {
  if (block_ != nullptr) CachingAllocator::release(block_);
}

int64_t read_integer(Device& device, const int64_t* address) {
  Stream& stream = current_stream(device);
  auto value = std::make_unique<int64_t>();
  device.copy_to_host(value.get(), address, sizeof(int64_t), stream);
  try {
    stream.synchronize();
  } catch (const Error& error) {
    if (error.status == HP_TIMEOUT) value.release();  // the queued copy still writes there
    throw;
  }
  return *value;
}

}  // namespace hp
