// Kernels that take or return tensors that are not dense: sparse ones, and selected rows, the gradients of embeddings.
// Paddle's own fallback would pass the addresses of device memory to the CPU kernel, or update a copy of a parameter.
#pragma once

#include <paddle/phi/core/selected_rows.h>

#include "dispatch/call.h"

namespace hp::paddle_adapter {

// kTensorList may hold dense tensors and selected rows.
enum class TensorKind : uint8_t { kDense, kOptionalDense, kCoo, kCsr, kRows, kOptionalRows, kRowsList, kTensorList };

inline bool is_list(TensorKind kind) { return kind == TensorKind::kRowsList || kind == TensorKind::kTensorList; }

struct SparseArguments {
  // One tensor, null if an optional one is absent, or those of a list.
  std::vector<paddle::small_vector<const phi::TensorBase*>> inputs;
  std::vector<phi::TensorBase*> outputs;  // null if the caller does not need it

  const DenseTensor* dense(int i) const { return static_cast<const DenseTensor*>(inputs[i].front()); }
  const phi::SelectedRows& rows(int i) const { return *static_cast<const phi::SelectedRows*>(inputs[i].front()); }
  DenseTensor& dense_output(int i) const { return *static_cast<DenseTensor*>(outputs[i]); }
  phi::SelectedRows& rows_output(int i) const { return *static_cast<phi::SelectedRows*>(outputs[i]); }
};

// Serves a call on the device; false hands it to the CPU tier, see call.h. `call` has the attributes.
using SparseFunction = bool (*)(Call& call, const SparseArguments& arguments);

struct SparseKernel {
  PhiKernel kernel;  // its `inputs` and `outputs` are empty: `Call` holds dense tensors only
  std::vector<TensorKind> inputs, outputs;
  SparseFunction function = nullptr;
};

// Registers a function. Instances are statics in generated/FAMILY.inc.
struct SparseRegistration {
  SparseRegistration(const char* phi_name, SparseFunction function);
};

// Returns false if all tensors are dense, or one is of another kind. The kernel's name is known.
bool read_sparse_signature(const phi::KernelArgsDef& definition, SparseKernel& sparse);

// Runs the kernel's function, or the CPU kernel on host copies of the inputs.
void run_sparse(Call& call, const SparseKernel& sparse, const SparseArguments& arguments);

}  // namespace hp::paddle_adapter
