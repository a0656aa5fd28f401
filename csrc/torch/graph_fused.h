// A region of pointwise operators as one portable kernel (hardpoint.kernels.fused).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <string>
#include <vector>

#include "../core/portable.h"

namespace hp::torch_adapter {

class FusedRegion {
 public:
  static constexpr int kMaxOperands = 16, kMaxNumbers = 12;

  struct Output {
    at::ScalarType dtype;
    std::vector<int64_t> order;  // its dimensions, the slowest first
  };

  // `text` is what the generator makes the kernel of; `whole` tells which numbers are integers.
  FusedRegion(const std::string& name, std::string text, std::vector<Output> outputs, std::vector<bool> whole);

  Operator& op;
  const std::vector<Output> outputs;
  const std::vector<bool> whole;
  const std::string text;

  // Inputs are broadcast. `reusable`: inputs that nobody reads afterwards, and that a result may be written over.
  // Empty where the device has no such kernel: nothing was launched.
  std::vector<at::Tensor> run(const std::vector<const at::Tensor*>& inputs, const std::vector<c10::Scalar>& numbers,
                              const std::vector<bool>& reusable);

 private:
  PortableKernels kernels_{"fused"};
};

}  // namespace hp::torch_adapter
