#include "copy_views.h"

#include <utility>

#include "dimensions.h"
#include "host_copy.h"
#include "template_call.h"
#include "words.h"

namespace hp {
namespace {

enum { kTo, kFrom };

// Whether the source runs along another dimension than the destination, which is then put second, and both are long
// enough for tiles.
bool transposed(Geometry<2>& g, int dims) {
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

bool transpose(Operator& op, Device& device, const View& to, const View& from, const Geometry<2>& geometry, int dims) {
  static TemplateKernels kernels("copy:transpose", {"T"}, {"DIMS", "BLOCK"});
  const int block = device.plugin.compiler.group_size == 1 ? 128 : 32;
  TemplateCall call(kernels, device, {to.dtype}, {dims, block});
  if (!call.available()) return false;
  int64_t groups = ((geometry.size[0] + block - 1) / block) * ((geometry.size[1] + block - 1) / block);
  for (int d = 2; d < dims; ++d) groups *= geometry.size[d];
  call.arg(to).arg(from).value(geometry).launch(op, groups);
  return true;
}

bool copy_kernel(Operator& op, Device& device, const View& to, const View& from) {
  static TemplateKernels kernels("copy:strided", {"R", "T"}, {"DIMS", "INNER"});
  Dimensions<2> dimensions;
  for (int d = to.ndim - 1; d >= 0; --d) dimensions.add(to.sizes[d], {to.strides[d], from.strides[d]});
  dimensions.sort(kTo);
  dimensions.finish(1);
  const int dims = dimensions.count();
  if (dims > kMaxDimensions) return false;
  Geometry<2> geometry;
  dimensions.write(geometry);
  if (to.dtype == from.dtype && transposed(geometry, dims)) {
    return transpose(op, device, to, from, geometry, dims);
  }
  const int64_t elements = to.numel();
  int inner = 0;
  const int64_t step = geometry.stride[kFrom][0];
  if (geometry.stride[kTo][0] == 1) inner = step == 1 ? 2 : step == -1 ? 3 : 1;
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
  return copy_kernel(op, device, to, from);
}

bool move_portable(Operator& op, Device& device, const View& to, const View& from, int bytes) {
  if (device.plugin.compiler.compile == nullptr) return false;
  if (to.numel() == 0) return true;
  return copy_kernel(op, device, Words(to, bytes).view, Words(from, bytes).view);
}

void copy_views(Device& device, const View& to, const View& from) {
  static Operator& op = Operator::intern("hardpoint::copy");
  if (!copy_portable(op, device, to, from)) copy_through_host(device, to, from);
}

}  // namespace hp
