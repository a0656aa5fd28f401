// Kernels that take or return sparse tensors: their CPU tier. Paddle's own fallback would pass the addresses of device
// memory to the CPU kernel.
#pragma once

#include "dispatch/call.h"

namespace hp::paddle_adapter {

enum class TensorKind : uint8_t { kDense, kOptionalDense, kCoo, kCsr };

struct SparseKernel {
  PhiKernel kernel;  // its `inputs` and `outputs` are empty: `Call` holds dense tensors only
  std::vector<TensorKind> inputs, outputs;
};

struct SparseArguments {
  std::vector<const phi::TensorBase*> inputs;  // null if an optional input is absent
  std::vector<phi::TensorBase*> outputs;       // null if the caller does not need it
};

// Returns false if no tensor is sparse, or one is of another kind.
bool read_sparse_signature(const phi::KernelArgsDef& definition, SparseKernel& sparse);

// Runs the CPU kernel on host copies of the inputs and copies the outputs to the device. `call` has the attributes.
void run_sparse(Call& call, const SparseKernel& sparse, const SparseArguments& arguments);

}  // namespace hp::paddle_adapter
