// Fills, copies and conversions.
#include "../../ops/creation.h"

#include "../parts.h"

namespace hp::paddle_adapter::ops {
namespace {

bool fill_with(Call& call, const View& out, const phi::Scalar& value) {
  if (!out.defined()) return false;
  if (out.numel() == 0) return true;
  const Service& service = call.service();
  const VendorArgument number = is_float(out.dtype) ? attribute(value.to<double>()) : attribute(value.to<int64_t>());
  if (!is_complex(out.dtype) && call_vendor(service, call.device, {output(out), number})) return true;
  return service.has_compiler && hp::ops::fill(service, call.device, out, bits_of(value, out.dtype).data());
}

// ---- One value everywhere

bool full(Call& call) {
  DenseTensor& out = *call.output(0);
  out.Resize(common::make_ddim(call.integers(0)));
  call.context.Alloc(&out, call.kernel.dtype);
  return fill_with(call, view(out), call.attr<phi::Scalar>(1));
}

bool full_like(Call& call) {
  call.context.Alloc(call.output(0), call.kernel.dtype);
  return fill_with(call, view(*call.output(0)), call.attr<phi::Scalar>(0));
}

bool fill(Call& call) { return fill_with(call, call.allocate(0), call.attr<phi::Scalar>(0)); }

// ---- Memory alone

bool empty(Call& call) {
  DenseTensor& out = *call.output(0);
  out.Resize(common::make_ddim(call.integers(0)));
  call.context.Alloc(&out, call.kernel.dtype);
  return true;
}

bool empty_like(Call& call) {
  call.context.Alloc(call.output(0), call.kernel.dtype);
  return true;
}

// ---- Copies

// Paddle has no other way for these two.
bool always_copy(Call& call, const View& to, const View& from) {
  if (!to.defined() || !from.defined()) return false;
  if (copy(call.service(), call.device, to, from)) return true;
  copy_through_host(call.device, to, from);
  call.kernel.op->count(Tier::kCpu);
  return true;
}

bool contiguous(Call& call) {
  const DenseTensor& x = *call.input(0);
  DenseTensor& out = *call.output(0);
  if (!x.initialized() || !on_device(x)) return false;
  phi::DenseTensorMeta meta = x.meta();
  meta.strides = phi::DenseTensorMeta::calc_strides(meta.dims);
  meta.offset = 0;
  out.set_meta(meta);
  call.context.Alloc(&out, x.dtype());
  return x.numel() == 0 || always_copy(call, view(out), view(x));
}

// Writes into a part of the output's memory, which the attributes name.
bool strided_copy(Call& call) {
  const DenseTensor& x = *call.input(0);
  DenseTensor& out = *call.output(0);
  if (!x.initialized() || !on_device(x)) return false;
  phi::DenseTensorMeta meta = x.meta();
  meta.dims = common::make_ddim(call.integers(0));
  meta.strides = common::make_ddim(call.integers(1));
  meta.offset = static_cast<size_t>(call.integer(2));
  out.set_meta(meta);
  if (x.numel() == 0) return true;
  return same_sizes(view(x), view(out)) && always_copy(call, view(out), view(x));
}

bool cast(Call& call) {
  // In place, the output is the input itself: it has the new dtype already, and keeps its memory until that is read.
  const DenseTensor x = *call.input(0);
  const phi::DataType wanted = call.attr<phi::DataType>(0);
  DenseTensor& out = *call.output(0);
  if (!x.initialized() || !on_device(x) || to_core(call.kernel.dtype) == DType::kNone ||
      to_core(wanted) == DType::kNone || !x.meta().is_contiguous()) {
    return false;
  }
  const Shaped from(static_cast<char*>(x.Holder()->ptr()) + x.offset(), to_core(call.kernel.dtype), x.dims().size(),
                    x.dims().Get());
  if (out.IsSharedWith(x) && wanted != call.kernel.dtype) out.clear();
  call.context.Alloc(&out, wanted);
  return x.numel() == 0 || copy(call.service(), call.device, view(out), from);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/creation.inc"
