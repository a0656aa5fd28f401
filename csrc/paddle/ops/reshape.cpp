// Other shapes for the same elements, and parts of complex numbers. In eager mode Paddle makes views instead; graphs
// copy.
#include "dispatch/composition.h"
#include "ops/call_copy.h"
#include "ops/detail/complex_view.h"

namespace hp::paddle_adapter::ops {
namespace {

using hp::ops::ComplexPart;
using hp::ops::real_dtype;

bool supports_reshape(const Call& call, const DenseTensor* tensor) {
  return is_ready(tensor) && tensor->dims().size() < kMaxKernelRank && copy_op.on(call.device).can_serve();
}

// Copies the input's bytes to the output, whose shape InferMeta has set.
bool copy_elements(Call& call, const DenseTensor* input, DType output_dtype) {
  if (!supports_reshape(call, input)) return false;
  const int64_t sizes[] = {input->numel()}, count = common::product(call.output(0)->dims());
  const DType dtype = to_core(input->dtype());
  if (count * info(output_dtype).bytes != sizes[0] * info(dtype).bytes) return false;
  const DenseTensor source = *input;  // keeps the memory alive if the output is the same tensor
  const View out = call.allocate(0);
  return out.dtype == output_dtype &&
         copy_to(call, ShapedView(out.data, dtype, 1, sizes),
                 ShapedView(const_cast<void*>(source.data()), dtype, 1, sizes)) &&
         count_decomposed(call);
}

// ---- Dimensions of size 1. Input: x.

bool reshape_by_axes(Call& call) { return copy_elements(call, call.input(0), to_core(call.kernel.dtype)); }
bool squeeze(Call& call) { return reshape_by_axes(call); }
bool unsqueeze(Call& call) { return reshape_by_axes(call); }
// The second output has a shape but no data.
bool squeeze_with_xshape(Call& call) { return reshape_by_axes(call); }
bool unsqueeze_with_xshape(Call& call) { return reshape_by_axes(call); }

// Inputs: x (only its shape), out_grad.
bool reshape_grad_of(Call& call) { return copy_elements(call, call.input(1), to_core(call.kernel.dtype)); }
bool squeeze_grad(Call& call) { return reshape_grad_of(call); }
bool unsqueeze_grad(Call& call) { return reshape_grad_of(call); }

// ---- Complex numbers

DType complex_dtype(DType dtype) { return dtype == DType::kF64 ? DType::kC128 : DType::kC64; }

bool as_complex(Call& call) { return copy_elements(call, call.input(0), complex_dtype(to_core(call.kernel.dtype))); }
bool as_real(Call& call) { return copy_elements(call, call.input(0), real_dtype(to_core(call.kernel.dtype))); }

bool take_part(Call& call, int which) {
  const DenseTensor* x = call.input(0);
  if (!supports_reshape(call, x) || !is_complex(to_core(x->dtype()))) return false;
  const ComplexPart part(view(*x), which);
  call.output(0)->set_type(x->dtype() == phi::DataType::COMPLEX128 ? phi::DataType::FLOAT64 : phi::DataType::FLOAT32);
  return copy_to(call, call.allocate(0), part.view) && count_decomposed(call);
}
bool real(Call& call) { return take_part(call, 0); }
bool imag(Call& call) { return take_part(call, 1); }

// Input: out_grad.
bool part_grad(Call& call, int which) {
  const DenseTensor* grad = call.input(0);
  if (!supports_reshape(call, grad) || is_complex(to_core(grad->dtype()))) return false;
  call.output(0)->set_type(grad->dtype() == phi::DataType::FLOAT64 ? phi::DataType::COMPLEX128
                                                                   : phi::DataType::COMPLEX64);
  const View out = call.allocate(0);
  const ComplexPart part(out, which);
  return zero(call.device, out) && copy_to(call, part.view, view(*grad)) && count_decomposed(call);
}
bool real_grad(Call& call) { return part_grad(call, 0); }
bool imag_grad(Call& call) { return part_grad(call, 1); }

// Inputs: real part, imaginary part, broadcast against each other.
bool complex(Call& call) {
  const DenseTensor *x = call.input(0), *y = call.input(1);
  if (!supports_reshape(call, x) || !supports_reshape(call, y) || x->dtype() != y->dtype()) return false;
  const View out = call.allocate(0);
  if (!is_complex(out.dtype) || real_dtype(out.dtype) != to_core(x->dtype())) return false;
  ShapedView parts[] = {ShapedView(view(*x)), ShapedView(view(*y))};
  for (int i = 0; i < 2; ++i) {
    const ComplexPart part(out, i);
    if (!copy_to(call, part.view, parts[i].expand(out.ndim, out.sizes))) return false;
  }
  return count_decomposed(call);
}

// Inputs: x, y (only their shapes), out_grad.
bool complex_grad(Call& call) {
  const DenseTensor* grad = call.input(2);
  if (!supports_reshape(call, grad) || !is_complex(to_core(grad->dtype()))) return false;
  for (int i = 0; i < 2; ++i) {
    const ComplexPart part(view(*grad), i);
    if (call.output(i) != nullptr && !sum_to(call.device, call.allocate(i), part.view)) return false;
  }
  return count_decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/reshape.inc"
