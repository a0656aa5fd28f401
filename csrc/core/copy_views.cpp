#include "copy_views.h"

#include <algorithm>
#include <atomic>

#include "template_call.h"

namespace hp {
namespace {

std::atomic<CopyFunction> adapter_copy{nullptr};

// Sizes and strides with the fastest dimension of the destination first, and neighbours joined where both allow it.
struct Geometry {
  int64_t size[kMaxDimensions], to[kMaxDimensions], from[kMaxDimensions];
};

int coalesce(const View& to, const View& from, Geometry& geometry) {
  int order[65], count = 0;
  for (int d = to.ndim - 1; d >= 0; --d) {
    if (to.sizes[d] != 1) order[count++] = d;
  }
  std::stable_sort(order, order + count, [&](int a, int b) { return to.strides[a] < to.strides[b]; });
  int dims = 0;
  for (int k = 0; k < count; ++k) {
    const int64_t size = to.sizes[order[k]], a = to.strides[order[k]], b = from.strides[order[k]];
    if (dims > 0 && geometry.to[dims - 1] * geometry.size[dims - 1] == a &&
        geometry.from[dims - 1] * geometry.size[dims - 1] == b) {
      geometry.size[dims - 1] *= size;
      continue;
    }
    if (dims == kMaxDimensions) return -1;
    geometry.size[dims] = size;
    geometry.to[dims] = a;
    geometry.from[dims++] = b;
  }
  if (dims == 0) {
    geometry.size[0] = 1;
    geometry.to[0] = geometry.from[0] = 1;
    dims = 1;
  }
  return dims;
}

// Whether the source runs along another dimension than the destination, which is then put second, and both are long
// enough for tiles.
bool transposed(Geometry& g, int dims) {
  constexpr int64_t kShort = 8;
  if (dims < 2 || g.to[0] != 1 || g.from[0] == 1 || g.size[0] < kShort) return false;
  for (int d = 1; d < dims; ++d) {
    if (g.from[d] != 1 || g.size[d] < kShort) continue;
    std::swap(g.size[1], g.size[d]);
    std::swap(g.to[1], g.to[d]);
    std::swap(g.from[1], g.from[d]);
    return true;
  }
  return false;
}

bool transpose(Operator& op, Device& device, const View& to, const View& from, const Geometry& geometry, int dims) {
  static TemplateKernels kernels("copy:transpose", {"T"}, {"DIMS", "BLOCK"});
  const int block = device.plugin.compiler.group_size == 1 ? 128 : 32;
  TemplateCall call(kernels, device, {to.dtype}, {dims, block});
  if (!call.available()) return false;
  int64_t groups = ((geometry.size[0] + block - 1) / block) * ((geometry.size[1] + block - 1) / block);
  for (int d = 2; d < dims; ++d) groups *= geometry.size[d];
  call.arg(to).arg(from).value(geometry).launch(op, groups);
  return true;
}

// A copy without conversion moves bytes: the dtype is an integer of the same size, or two of them.
class Moved {
 public:
  Moved(const View& view, int bytes) : view_(view) {
    view_.dtype = bytes == 1 ? DType::kU8 : bytes == 2 ? DType::kI16 : bytes == 4 ? DType::kI32 : DType::kI64;
    if (bytes != 16) return;
    for (int d = 0; d < view.ndim; ++d) {
      sizes_[d] = view.sizes[d];
      strides_[d] = view.strides[d] * 2;
    }
    sizes_[view.ndim] = 2;
    strides_[view.ndim] = 1;
    view_.ndim = view.ndim + 1;
    view_.sizes = sizes_;
    view_.strides = strides_;
  }
  Moved(const Moved&) = delete;
  const View& get() const { return view_; }

 private:
  View view_;
  int64_t sizes_[65], strides_[65];
};

// The real parts of complex numbers, or both parts as one more dimension.
class Parts {
 public:
  Parts(const View& view, bool both) : view_(view) {
    view_.dtype = view.dtype == DType::kC64 ? DType::kF32 : DType::kF64;
    for (int d = 0; d < view.ndim; ++d) {
      sizes_[d] = view.sizes[d];
      strides_[d] = view.strides[d] * 2;
    }
    sizes_[view.ndim] = 2;
    strides_[view.ndim] = 1;
    view_.ndim = view.ndim + (both ? 1 : 0);
    view_.sizes = sizes_;
    view_.strides = strides_;
  }
  Parts(const Parts&) = delete;
  const View& get() const { return view_; }

 private:
  View view_;
  int64_t sizes_[65], strides_[65];
};

// On one side each element is the real part of a complex number. Where the kernel writes there, the imaginary part
// becomes zero; where it reads, the result is whether the number is not zero. The values are those of INNER in copy.c.
enum class Pairs { kNone = 0, kWritten = 4, kTested = 5 };

bool copy_kernel(Operator& op, Device& device, const View& to, const View& from, Pairs pairs = Pairs::kNone) {
  static TemplateKernels kernels("copy:strided", {"R", "T"}, {"DIMS", "INNER"});
  Geometry geometry;
  const int dims = coalesce(to, from, geometry);
  if (dims < 0) return false;
  if (pairs == Pairs::kNone && to.dtype == from.dtype && transposed(geometry, dims)) {
    return transpose(op, device, to, from, geometry, dims);
  }
  const int64_t elements = to.numel();
  int inner = static_cast<int>(pairs);
  if (pairs == Pairs::kNone && geometry.to[0] == 1) {
    inner = geometry.from[0] == 1 ? 2 : geometry.from[0] == -1 ? 3 : 1;
  }
  TemplateCall call(kernels, device, {to.dtype, from.dtype}, {dims, inner});
  if (!call.available()) return false;
  call.arg(to).arg(from).integer(elements).value(geometry).launch_elements(op, elements);
  return true;
}

}  // namespace

bool copy_portable(Operator& op, Device& device, const View& to, const View& from) {
  if (device.plugin.compiler.compile == nullptr || !to.defined() || !from.defined()) return false;
  if (to.numel() == 0) return true;
  if (to.dtype == from.dtype) return move_portable(op, device, to, from, info(to.dtype).bytes);
  const bool complex_from = is_complex(from.dtype);
  if (is_complex(to.dtype)) {
    if (!complex_from) return copy_kernel(op, device, Parts(to, false).get(), from, Pairs::kWritten);
    return copy_kernel(op, device, Parts(to, true).get(), Parts(from, true).get());
  }
  if (complex_from) {
    return copy_kernel(op, device, to, Parts(from, false).get(),
                       to.dtype == DType::kBool ? Pairs::kTested : Pairs::kNone);
  }
  return copy_kernel(op, device, to, from);
}

bool move_portable(Operator& op, Device& device, const View& to, const View& from, int bytes) {
  if (device.plugin.compiler.compile == nullptr) return false;
  if (to.numel() == 0) return true;
  return copy_kernel(op, device, Moved(to, bytes).get(), Moved(from, bytes).get());
}

void copy_views(Device& device, const View& to, const View& from) {
  static Operator& op = Operator::intern("hardpoint::copy");
  if (copy_portable(op, device, to, from)) return;
  const CopyFunction function = adapter_copy.load(std::memory_order_acquire);
  if (function == nullptr) throw Error(HP_NOT_SUPPORTED, device.name() + " has no kernel that copies this layout");
  function(device, to, from);
}

void set_copy_function(CopyFunction function) { adapter_copy.store(function, std::memory_order_release); }

}  // namespace hp
