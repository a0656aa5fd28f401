#include "core/dispatch/vendor_call.h"

#include <tvm/ffi/container/shape.h>

#include <algorithm>
#include <memory>
#include <new>
#include <optional>

#include "core/dispatch/kernel_call.h"
#include "core/memory/scratch.h"
#include "core/recording/graph_capture.h"
#include "core/recording/recorder.h"
#include "core/tensor/copy_views.h"

namespace hp {
namespace {

enum class Layout { kAny, kContiguous, kChannelsLast };

bool is_image(const View& view) { return view.ndim == 4 || view.ndim == 5; }

bool has_layout(const View& view, Layout layout) {
  if (layout == Layout::kAny || !view.defined()) return true;
  return layout == Layout::kChannelsLast && is_image(view) ? view.channels_last() : view.contiguous();
}

// The layout in which a kernel gets its tensors. The largest image decides, since converting the others costs less.
Layout layout_for(const Kernel& kernel, const VendorArgument* first, const VendorArgument* last) {
  if (kernel.flags & HP_KERNEL_STRIDED) return Layout::kAny;
  if (!(kernel.flags & HP_KERNEL_CHANNELS_LAST)) return Layout::kContiguous;
  const View* largest = nullptr;
  for (; first != last; ++first) {
    if (first->kind > VendorArgument::kInput || !is_image(first->view)) continue;
    if (largest == nullptr || first->view.numel() > largest->numel()) largest = &first->view;
  }
  const bool channels_last = largest != nullptr && !largest->contiguous() && largest->channels_last();
  return channels_last ? Layout::kChannelsLast : Layout::kContiguous;
}

// A view argument, with a copy in the kernel's layout if its own differs.
struct PreparedArgument {
  PreparedArgument(Device& device, const VendorArgument& argument, Layout layout)
      : original(argument.view), used(argument.view) {
    if (has_layout(original, layout)) return;
    scratch.emplace(device, original.bytes());
    used.data = scratch->get();
    used.strides = layout == Layout::kChannelsLast && is_image(original) ? channels_last_strides(original, strides)
                                                                         : dense_strides(original, strides);
    if (argument.kind == VendorArgument::kInput) copy_views(device, used, original);
  }
  void finish(Device& device, const VendorArgument& argument) const {
    if (scratch && argument.kind == VendorArgument::kOutput) copy_views(device, original, used);
  }
  const View original;
  View used;
  int64_t strides[64];
  std::optional<Scratch> scratch;
  DLTensor tensor;
};

// A list of fixed capacity whose elements never move. Up to N need no allocation.
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
    T* element = new (&slots_[size_]) T{std::forward<Arguments>(arguments)...};
    ++size_;
    return *element;
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

constexpr size_t kMaxDirect = 12;

// Whether no argument needs a copy or an object.
bool passes_unchanged(const VendorArgument* first, const VendorArgument* last, Layout layout) {
  if (static_cast<size_t>(last - first) > kMaxDirect) return false;
  return std::all_of(first, last, [&](const VendorArgument& argument) {
    switch (argument.kind) {
      case VendorArgument::kOutput:
      case VendorArgument::kInput:
        return has_layout(argument.view, layout);
      case VendorArgument::kInteger:
      case VendorArgument::kReal:
      case VendorArgument::kBoolean:
        return true;
      default:
        return false;
    }
  });
}

// A tensor of a dtype that the core does not know: the kernel would take it for an absent one.
bool is_unknown(const View& view) { return !view.defined() && view.sizes != nullptr; }

bool call_unchanged(Operator& op, const Kernel& kernel, Device& device, const VendorArgument* first,
                    const VendorArgument* last) {
  KernelCall<kMaxDirect> call(op, kernel, device);
  for (; first != last; ++first) {
    if (first->kind <= VendorArgument::kInput) {
      if (first->view.defined()) {
        call.add(first->view);
      } else if (is_unknown(first->view)) {
        return false;
      } else {
        call.add(ffi_value(kTVMFFINone, 0));
      }
    } else if (first->kind == VendorArgument::kReal) {
      call.add(ffi_real(first->real));
    } else {
      call.add(ffi_value(first->kind == VendorArgument::kBoolean ? kTVMFFIBool : kTVMFFIInt, first->integer));
    }
  }
  return call.run();
}

void report_random_arguments(Device& device, uint32_t index, const VendorArgument& seed, const VendorArgument& offset) {
  const PhiloxState state{static_cast<uint64_t>(seed.integer), static_cast<uint64_t>(offset.integer)};
  if (Recorder* active = recorder()) active->on_random_arguments(index, state);
  if (GraphCapture* capture = current_stream(device).capture()) capture->on_random_arguments(index, state);
}

bool call_in_layout(Operator& op, const Kernel& kernel, Device& device, const VendorArgument* first,
                    const VendorArgument* last, Layout layout) {
  if (passes_unchanged(first, last, layout)) return call_unchanged(op, kernel, device, first, last);
  const size_t count = static_cast<size_t>(last - first);
  FixedList<PreparedArgument, 12> views(count);
  FixedList<tvm::ffi::Shape, 8> lists(count);
  FixedList<TVMFFIAny, 24> args(count);
  for (const VendorArgument* at = first; at != last; ++at) {
    const VendorArgument& argument = *at;
    switch (argument.kind) {
      case VendorArgument::kSeed:
        report_random_arguments(device, static_cast<uint32_t>(at - first), argument, at[1]);
        args.add(ffi_value(kTVMFFIInt, argument.integer));
        break;
      case VendorArgument::kInteger:
        args.add(ffi_value(kTVMFFIInt, argument.integer));
        break;
      case VendorArgument::kBoolean:
        args.add(ffi_value(kTVMFFIBool, argument.integer));
        break;
      case VendorArgument::kReal:
        args.add(ffi_real(argument.real));
        break;
      case VendorArgument::kComplex:
        return false;
      case VendorArgument::kList: {
        const tvm::ffi::Shape& list = lists.add(argument.list, argument.list + argument.length);
        TVMFFIAny& any = args.add(ffi_value(kTVMFFIShape, 0));
        any.v_obj = const_cast<TVMFFIObject*>(
            reinterpret_cast<const TVMFFIObject*>(tvm::ffi::details::ObjectUnsafe::RawObjectPtrFromObjectRef(list)));
        break;
      }
      default: {
        if (is_unknown(argument.view)) return false;
        PreparedArgument& prepared = views.add(device, argument, layout);
        if (!prepared.used.defined()) {
          args.add(ffi_value(kTVMFFINone, 0));
          break;
        }
        prepared.tensor = to_dlpack(prepared.used, device.index);
        args.add(ffi_tensor(prepared.tensor));
      }
    }
  }
  if (!launch_vendor(op, kernel, current_stream(device), args.data(), static_cast<int32_t>(args.size()))) {
    if (Recorder* active = recorder()) active->on_decline();
    return false;
  }
  size_t prepared = 0;
  for (const VendorArgument* at = first; at != last; ++at) {
    if (at->kind <= VendorArgument::kInput) views[prepared++].finish(device, *at);
  }
  return true;
}

}  // namespace

bool call_vendor(Operator& op, const Kernel* kernel, Device& device, const VendorArgument* first,
                 const VendorArgument* last) {
  if (kernel == nullptr) return false;
  const Layout layout = layout_for(*kernel, first, last);
  if (call_in_layout(op, *kernel, device, first, last, layout)) return true;
  // Libraries have fewer kernels for channels last.
  return layout == Layout::kChannelsLast && call_in_layout(op, *kernel, device, first, last, Layout::kContiguous);
}

}  // namespace hp
