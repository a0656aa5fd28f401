// Splits a reduction into work for a device; shared by all reducing operators.
#pragma once

#include "core/dispatch/template_call.h"
#include "core/dispatch/vendor_call.h"

namespace hp::ops {

// Sizes and strides in elements, fastest dimension first. Layout shared with kernels/headers/reduction.h.
struct ReductionShape {
  int64_t outputs = 1, count = 1;
  int64_t parts = 1, part = 1;
  int64_t total = 1;
  int64_t number_f32 = 0, number_f64 = 0;
  int64_t reduced_dims = 0, kept_dims = 0;
  int64_t reduced_size[kMaxKernelRank], reduced_stride[kMaxKernelRank];
  int64_t kept_size[kMaxKernelRank], kept_stride[kMaxKernelRank], out_stride[kMaxKernelRank];
};

struct ReductionPlan {
  ReductionShape geometry;
  bool columns = false;  // vectors hold neighboring outputs, not elements of one output
  bool inner = false;    // the elements of a vector are contiguous

  // Sets the number that the reduction rule calls `p`.
  void set_number(double value);
  // The plan that reduces the partial results, one element per part, to the outputs.
  ReductionPlan merge() const;
  // Strides of the partial results.
  int64_t output_step() const { return columns ? 1 : geometry.parts; }
  int64_t part_step() const { return columns ? geometry.outputs : 1; }
  // Adds the last two arguments and launches a kernel over the parts of all outputs.
  bool launch(TemplateCall& call, Operator& op) const;
};

// Returns false for layouts that no kernel takes. `dims` has a bit for each reduced dimension of self; out has the
// others, and with keepdim the reduced ones too. The split into parts depends on the shape only, so results do not
// depend on the number of threads.
bool plan_reduction(Device& device, const View& out, const View& self, uint64_t dims, bool keepdim,
                    ReductionPlan& plan);

// The dimensions as a list, for vendor kernels.
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
