// How a reduction is laid out over a device: shared by all that reduce.
#pragma once

#include "../core/service.h"
#include "../core/template_call.h"

namespace hp::ops {

// Sizes and strides in elements, fastest dimension first; kernels/reduce.h declares the same.
struct ReduceGeometry {
  int64_t outputs = 1, count = 1;
  int64_t parts = 1, part = 1;
  int64_t total = 1;
  int64_t number_f32 = 0, number_f64 = 0;
  int64_t reduced_dims = 0, kept_dims = 0;
  int64_t reduced_size[kMaxDimensions], reduced_stride[kMaxDimensions];
  int64_t kept_size[kMaxDimensions], kept_stride[kMaxDimensions], out_stride[kMaxDimensions];
};

struct ReducePlan {
  ReduceGeometry geometry;
  bool columns = false;  // neighbouring outputs share a vector, not the elements of one output
  bool inner = false;    // what shares a vector lies side by side in memory

  // The number that the rule calls `p`.
  void set_number(double value);
  // What partial results, of this type, become the outputs by: each part is one element.
  ReducePlan merge() const;
  // Where the partial result of a part of an output lies.
  int64_t output_step() const { return columns ? 1 : geometry.parts; }
  int64_t part_step() const { return columns ? geometry.outputs : 1; }
  // Launches a kernel that shares out parts of outputs; the last two of its arguments are added.
  void launch(TemplateCall& call, Operator& op) const;
};

// False for layouts that no kernel takes. `dims` has a bit for each dimension of self that is reduced; out has the kept
// ones, and with keepdim the reduced ones too. The split into parts depends on the shape alone, so that results do not
// depend on the number of threads.
bool plan_reduction(Device& device, const View& out, const View& self, uint64_t dims, bool keepdim, ReducePlan& plan);

// The dimensions as the list that a vendor's kernel gets.
struct DimensionList {
  explicit DimensionList(uint64_t dims) {
    for (int d = 0; d < 64; ++d) {
      if (dims >> d & 1) list[length++] = d;
    }
  }
  int64_t list[64], length = 0;
};
inline VendorArgument attribute_dims(const DimensionList& dims) { return attribute(dims.list, dims.length); }

}  // namespace hp::ops
