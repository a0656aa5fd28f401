#include "core/tensor/copy_views.h"

#include <utility>

#include "core/dispatch/kernel_call.h"
#include "core/dispatch/template_call.h"
#include "core/tensor/collapsed_dims.h"
#include "core/tensor/host_copy.h"
#include "core/tensor/raw_view.h"

namespace hp {
namespace {

enum { kTo, kFrom };

// Whether source and destination are contiguous along different dimensions, both long enough for tiles. If so, moves
// the source's to index 1.
bool transposed(StridedShape<2>& g, int dims) {
  constexpr int64_t kShort = 8;
  if (dims < 2 || g.stride[kTo][0] != 1 || g.stride[kFrom][0] == 1 || g.size[0] < kShort) return false;
  for (int d = 1; d < dims; ++d) {
    if (g.stride[kFrom][d] != 1 || g.size[d] < kShort) continue;
    std::swap(g.size[1], g.size[d]);
    for (auto& stride : g.stride) std::swap(stride[1], stride[d]);
    return true;
  }
  return false;
}

bool transpose(Operator& op, Device& device, const View& to, const View& from, const StridedShape<2>& geometry,
               int dims) {
  static KernelTemplate kernels("copy:transpose", {"T"}, {"DIMS", "BLOCK"});
  const int block = device.group_size() == 1 ? 128 : 32;
  TemplateCall call(kernels, device, {to.dtype}, {dims, block});
  int64_t groups = ((geometry.size[0] + block - 1) / block) * ((geometry.size[1] + block - 1) / block);
  for (int d = 2; d < dims; ++d) groups *= geometry.size[d];
  return call.arg(to).arg(from).value(geometry).launch(op, groups);
}

bool copy_kernel(Operator& op, Device& device, const View& to, const View& from) {
  static KernelTemplate kernels("copy:strided", {"R", "T"}, {"DIMS", "INNER"});
  CollapsedDims<2> dimensions;
  for (int d = to.ndim - 1; d >= 0; --d) dimensions.add(to.sizes[d], {to.strides[d], from.strides[d]});
  dimensions.sort(kTo);
  dimensions.finish(1);
  const int dims = dimensions.count();
  if (dims > kMaxKernelRank) return false;
  StridedShape<2> geometry;
  dimensions.write(geometry);
  if (to.dtype == from.dtype && transposed(geometry, dims)) {
    return transpose(op, device, to, from, geometry, dims);
  }
  const int64_t elements = to.numel();
  int inner = 0;
  const int64_t step = geometry.stride[kFrom][0];
  if (geometry.stride[kTo][0] == 1) inner = step == 1 ? 2 : step == -1 ? 3 : 1;
  TemplateCall call(kernels, device, {to.dtype, from.dtype}, {dims, inner});
  return call.arg(to).arg(from).integer(elements).value(geometry).launch_elements(op, elements);
}

}  // namespace

bool copy_portable(Operator& op, Device& device, const View& to, const View& from) {
  if (device.plugin.compiler.compile == nullptr || !to.defined() || !from.defined()) return false;
  if (to.numel() == 0) return true;
  if (to.dtype == from.dtype) return copy_raw_portable(op, device, to, from, info(to.dtype).bytes);
  if (!is_convertible(to.dtype) || !is_convertible(from.dtype)) return false;
  return copy_kernel(op, device, to, from);
}

bool copy_raw_portable(Operator& op, Device& device, const View& to, const View& from, int bytes) {
  if (device.plugin.compiler.compile == nullptr) return false;
  if (to.numel() == 0) return true;
  return copy_kernel(op, device, RawView(to, bytes).view, RawView(from, bytes).view);
}

bool copy_vendor(Operator& op, const KernelSlot& slot, Device& device, const View& to, const View& from) {
  const Kernel* const kernel = op.allows(Tier::kVendor) ? slot.get() : nullptr;
  if (kernel == nullptr || !to.defined() || !from.defined()) return false;
  if (!(kernel->flags & HP_KERNEL_STRIDED) && !(to.contiguous() && from.contiguous())) return false;
  KernelCall<2> call(op, *kernel, device);
  call.add(to);
  call.add(from);
  return call.run();
}

void copy_views(Device& device, const View& to, const View& from) {
  static Operator& op = Operator::intern("hardpoint::copy");
  if (copy_portable(op, device, to, from)) return;
  if (copy_vendor(op, KernelRegistry::slot(device.runtime, "copy"), device, to, from)) return;
  copy_through_host(device, to, from);
}

}  // namespace hp
