#include "reduction.h"

#include <ATen/native/ReduceOpsUtils.h>

#include "../core/view.h"
#include "dtype_name.h"

namespace hp::torch_adapter {
namespace {

// Byte strides, fastest dimension first; the kernel gets it by value.
struct Geometry {
  int64_t outputs = 1, count = 1;
  int64_t reduced_shape[kMaxDimensions], reduced_stride[kMaxDimensions];
  int64_t kept_shape[kMaxDimensions], kept_stride[kMaxDimensions], output_stride[kMaxDimensions];
};

struct Description {
  const char *compute, *output, *input;
  int reduced, kept;
  bool columns, contiguous;
};

std::string describe(const void* given) {
  const auto& d = *static_cast<const Description*>(given);
  return std::string("compute=") + d.compute + " output=" + d.output + " input=" + d.input +
         " reduced=" + std::to_string(d.reduced) + " kept=" + std::to_string(d.kept) +
         " layout=" + (d.columns ? "columns" : "rows") + " inner=" + (d.contiguous ? "contiguous" : "strided");
}

}  // namespace

bool portable_reduction(Operator& op, PortableKernels& kernels, const at::Tensor& output, const at::Tensor& self,
                        at::OptionalIntArrayRef dims, bool keepdim) {
  if (self.numel() == 0 || type_name(self.scalar_type()) == nullptr || type_name(output.scalar_type()) == nullptr) {
    return false;
  }
  const auto iterator = at::meta::make_reduction(self, output, dims, keepdim, self.scalar_type());
  if (iterator.ndim() > kMaxDimensions) return false;

  Geometry geometry;
  Description description{};
  const int64_t item = iterator.element_size(1);
  int fastest = -1;  // the dimension along which the input lies side by side
  for (int d = 0; d < iterator.ndim(); ++d) {
    const int64_t size = iterator.shape()[d], from = iterator.strides(1)[d], to = iterator.strides(0)[d];
    if (fastest < 0 || from < iterator.strides(1)[fastest]) fastest = d;
    if (to == 0 && size > 1) {
      geometry.reduced_shape[description.reduced] = size;
      geometry.reduced_stride[description.reduced++] = from;
      geometry.count *= size;
    } else {
      geometry.kept_shape[description.kept] = size;
      geometry.kept_stride[description.kept] = from;
      geometry.output_stride[description.kept++] = to;
      geometry.outputs *= size;
    }
  }
  if (description.reduced == 0) {
    geometry.reduced_shape[0] = 1;
    geometry.reduced_stride[0] = 0;
    description.reduced = 1;
  }
  // Whether outputs or summands are side by side decides which of them share a vector.
  description.columns = description.kept > 0 && fastest >= 0 &&
                        geometry.kept_stride[0] == iterator.strides(1)[fastest] && iterator.strides(0)[fastest] != 0;
  description.contiguous = (description.columns ? geometry.kept_stride[0] : geometry.reduced_stride[0]) == item;
  // Truth values are found in the input's own dtype; everything else is gathered in the output's.
  const at::ScalarType compute = output.scalar_type() == at::kBool ? self.scalar_type() : output.scalar_type();
  description.compute = type_name(compute);
  description.output = type_name(output.scalar_type());
  description.input = type_name(self.scalar_type());

  SpecialisationKey key;
  key.types = static_cast<uint64_t>(compute) | static_cast<uint64_t>(output.scalar_type()) << 8 |
              static_cast<uint64_t>(self.scalar_type()) << 16;
  key.layout = static_cast<uint64_t>(description.reduced) | static_cast<uint64_t>(description.kept) << 8 |
               static_cast<uint64_t>(description.columns) << 16 | static_cast<uint64_t>(description.contiguous) << 17;
  Device& device = device_holding(self);
  const PortableKernel& kernel = kernels.get(device, key, &describe, &description);
  if (kernel.function == nullptr) return false;

  void *to = iterator.data_ptr(0), *from = iterator.data_ptr(1);
  const HpLaunchArg args[] = {{&to, sizeof(to), 1}, {&from, sizeof(from), 1}, {&geometry, sizeof(geometry), 0}};
  if (C10_UNLIKELY(observed())) notify({op, Tier::kPortable, true, nullptr});
  launch_portable(op, kernel, current_stream(device), geometry.outputs, args, 3);
  op.count(Tier::kPortable);
  if (C10_UNLIKELY(observed())) notify({op, Tier::kPortable, false, nullptr});
  return true;
}

}  // namespace hp::torch_adapter
