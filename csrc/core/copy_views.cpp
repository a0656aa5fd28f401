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
  int order[64], count = 0;
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

}  // namespace

bool copy_portable(Operator& op, Device& device, const View& to, const View& from) {
  static TemplateKernels kernels("copy:strided", {"R", "T"}, {"DIMS", "INNER"});
  if (device.plugin.compiler.compile == nullptr || !to.defined() || !from.defined()) return false;
  const int64_t elements = to.numel();
  if (elements == 0) return true;
  Geometry geometry;
  const int dims = coalesce(to, from, geometry);
  if (dims < 0) return false;
  int inner = 0;
  if (geometry.to[0] == 1) inner = geometry.from[0] == 1 ? 2 : geometry.from[0] == -1 ? 3 : 1;
  TemplateCall call(kernels, device, {to.dtype, from.dtype}, {dims, inner});
  if (!call.available()) return false;
  call.arg(to).arg(from).integer(elements).value(geometry).launch_elements(op, elements);
  return true;
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
