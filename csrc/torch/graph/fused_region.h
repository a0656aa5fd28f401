// A fused region of pointwise operators, launched as one portable kernel (hardpoint.kernels.fused).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <string>
#include <vector>

#include "core/dispatch/portable_kernel.h"

namespace hp::torch_adapter {

class FusedRegion {
 public:
  static constexpr int kMaxOperands = 16, kMaxNumbers = 12;

  struct Output {
    at::ScalarType dtype;
    std::vector<int64_t> order;  // dimensions, slowest first
  };

  // `text` is the kernel generator's input; `integral` tells which numbers are integers.
  FusedRegion(const std::string& name, std::string text, std::vector<Output> outputs, std::vector<bool> integral);

  Operator& op;
  const std::vector<Output> outputs;
  const std::vector<bool> integral;
  const std::string text;

  // Broadcasts the inputs. `reusable`: inputs that nothing reads afterwards, which a result may overwrite. Empty if the
  // device has no such kernel; nothing was launched then.
  std::vector<at::Tensor> run(const std::vector<const at::Tensor*>& inputs, const std::vector<c10::Scalar>& numbers,
                              const std::vector<bool>& reusable);

 private:
  PortableKernelTable kernels_{"fused"};
};

}  // namespace hp::torch_adapter
