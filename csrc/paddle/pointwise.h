// Pointwise kernels of Paddle, by the rows that the tables give (hardpoint.codegen.paddle_tables).
#pragma once

#include "../core/pointwise_call.h"
#include "call.h"

namespace hp::paddle_adapter {

// One of the operator's attributes: the kernel's attribute at `position`, or a number where that is -1.
struct RowAttribute {
  int position;
  double number;
};

struct PointwiseRow {
  const char* phi_name;
  const char* standard;
  int num_inputs;
  std::array<int, hp::PointwiseCall::kMaxInputs> inputs;  // positions among the kernel's
  int num_attributes;
  std::array<RowAttribute, hp::PointwiseCall::kMaxAttributes> attributes;
  // The variant: the kernel's attribute at that position (its truth value, or a string among the names), else a number.
  int variant_position;
  int variant;
  std::array<const char*, 4> variant_names;
};

// The portable kernels of a standard operator; shared by all that call it.
struct PointwiseKernels : PortableKernels {
  using PortableKernels::PortableKernels;
  bool has_variants = false;  // then the variant is the last attribute of a vendor's kernel
};
PointwiseKernels& pointwise_kernels(const std::string& standard);

// Serves a pointwise operator as a part of a custom function: the vendor's kernel, else ours.
bool run_pointwise(const Service& service, PointwiseKernels& kernels, Device& device, const hp::PointwiseCall& call);

}  // namespace hp::paddle_adapter
