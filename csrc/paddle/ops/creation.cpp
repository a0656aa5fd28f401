// Fills, copies and conversions.
#include "../../ops/creation.h"

#include <cmath>

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

// Attributes: shape, value, dtype, and which dimensions are the batch's; the sizes are settled.
bool full_batch_size_like(Call& call) {
  if (common::product(call.output(0)->dims()) < 0) return false;
  call.context.Alloc(call.output(0), call.kernel.dtype);
  return fill_with(call, view(*call.output(0)), call.attr<phi::Scalar>(1));
}

// What was filled over has no gradient.
bool fill_grad(Call& call) {
  return to_core(call.kernel.dtype) != DType::kNone && zero(call.device, call.allocate(0)) && decomposed(call);
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

bool assign(Call& call) {
  const DenseTensor* x = call.input(0);
  if (x == nullptr || to_core(x->dtype()) == DType::kNone) return false;
  if (x->numel() != 0 && (!x->initialized() || !on_device(*x))) return false;
  const View out = call.allocate(0);
  return x->numel() == 0 || copy(call.service(), call.device, out, view(*x));
}
bool assign_raw(Call& call) { return assign(call); }

// ---- Values from the host, and from tensors of one element

// Attributes: shape, dtype, values.
bool assign_value(Call& call) {
  const auto& values = call.attr<std::vector<phi::Scalar>>(2);
  const DType dtype = to_core(call.kernel.dtype);
  DenseTensor& out = *call.output(0);
  const common::DDim dims = common::make_ddim(call.integers(0));
  if (dtype == DType::kNone || common::product(dims) != static_cast<int64_t>(values.size())) return false;
  out.Resize(dims);
  call.context.Alloc(&out, call.kernel.dtype);
  if (values.empty()) return true;
  const size_t bytes = info(dtype).bytes;
  std::vector<char> packed(values.size() * bytes);
  for (size_t k = 0; k < values.size(); ++k) {
    std::memcpy(packed.data() + k * bytes, bits_of(values[k], dtype).data(), bytes);
  }
  Stream& stream = current_stream(call.device);
  call.device.copy_to_device(out.data(), packed.data(), packed.size(), stream);
  stream.synchronize();
  return decomposed(call);
}

// Attributes: shape, dtype.
bool full_with_tensor(Call& call) {
  const DenseTensor& value = *call.input(0);
  DenseTensor& out = *call.output(0);
  if (!value.initialized() || !on_device(value) || value.numel() != 1 || to_core(value.dtype()) == DType::kNone ||
      to_core(call.kernel.dtype) == DType::kNone || call.integers(0).size() > kMaxDimensions) {
    return false;
  }
  const DenseTensor given = value;
  out.Resize(common::make_ddim(call.integers(0)));
  call.context.Alloc(&out, call.kernel.dtype);
  const View to = view(out);
  Shaped one(given.data() == nullptr ? nullptr : const_cast<void*>(given.data()), to_core(given.dtype()), 0, nullptr);
  return to.numel() == 0 || copy(call.service(), call.device, to, one.expand(to.ndim, to.sizes));
}

// ---- Sequences

// The number in a tensor of one element, on the device or the host.
phi::Scalar number_in(Call& call, const DenseTensor& tensor) {
  alignas(8) unsigned char bytes[16] = {};
  if (on_device(tensor)) {
    Stream& stream = current_stream(call.device);
    call.device.copy_to_host(bytes, tensor.data(), info(to_core(tensor.dtype())).bytes, stream);
    stream.synchronize();
  } else {
    std::memcpy(bytes, tensor.data(), info(to_core(tensor.dtype())).bytes);
  }
  switch (tensor.dtype()) {
    case phi::DataType::FLOAT32:
      return *reinterpret_cast<float*>(bytes);
    case phi::DataType::FLOAT64:
      return *reinterpret_cast<double*>(bytes);
    case phi::DataType::INT32:
      return *reinterpret_cast<int32_t*>(bytes);
    case phi::DataType::INT64:
      return *reinterpret_cast<int64_t*>(bytes);
    case phi::DataType::FLOAT16:
      return static_cast<float>(*reinterpret_cast<phi::dtype::float16*>(bytes));
    default:
      return static_cast<float>(*reinterpret_cast<phi::dtype::bfloat16*>(bytes));
  }
}
bool is_number(const DenseTensor& tensor) {
  const DType dtype = to_core(tensor.dtype());
  return tensor.initialized() && tensor.numel() == 1 &&
         (is_float(dtype) || dtype == DType::kI32 || dtype == DType::kI64);
}

bool sequence(Call& call, const phi::Scalar& start, const phi::Scalar& end, const phi::Scalar& step) {
  const DType dtype = to_core(call.kernel.dtype);
  if (!(is_float(dtype) || is_integer(dtype)) || !call.service().able()) return false;
  DenseTensor& out = *call.output(0);
  int64_t size;
  if (is_float(dtype)) {
    const double by = step.to<double>();
    if (by == 0) return false;
    size = static_cast<int64_t>(std::ceil(std::abs((end.to<double>() - start.to<double>()) / by)));
  } else {
    const int64_t by = std::abs(step.to<int64_t>());
    if (by == 0) return false;
    size = (std::abs(end.to<int64_t>() - start.to<int64_t>()) + by - 1) / by;
  }
  // Of single precision, Paddle counts in that.
  if (out.dims().size() == 1 && out.dims()[0] >= 0) size = out.dims()[0];
  out.Resize({size});
  call.context.Alloc(&out, call.kernel.dtype);
  if (size == 0) return true;
  const View to = view(out);
  return is_float(dtype) ? hp::ops::arange(call.service(), call.device, to, start.to<double>(), step.to<double>())
                         : hp::ops::arange(call.service(), call.device, to, start.to<int64_t>(), step.to<int64_t>());
}
bool arange(Call& call) {
  return sequence(call, call.attr<phi::Scalar>(0), call.attr<phi::Scalar>(1), call.attr<phi::Scalar>(2));
}
bool arange_tensor(Call& call) {
  for (int i = 0; i < 3; ++i) {
    if (!is_number(*call.input(i))) return false;
  }
  return sequence(call, number_in(call, *call.input(0)), number_in(call, *call.input(1)),
                  number_in(call, *call.input(2)));
}

// Inputs: start, stop, number.
bool linspace(Call& call) {
  for (int i = 0; i < 3; ++i) {
    if (!is_number(*call.input(i))) return false;
  }
  if (!is_float(to_core(call.kernel.dtype)) || !call.service().able()) return false;
  const int64_t count = number_in(call, *call.input(2)).to<int64_t>();
  if (count <= 0) return false;
  const double start = number_in(call, *call.input(0)).to<double>(),
               stop = number_in(call, *call.input(1)).to<double>();
  DenseTensor& out = *call.output(0);
  out.Resize({count});
  call.context.Alloc(&out, call.kernel.dtype);
  return hp::ops::linspace(call.service(), call.device, view(out), start, stop);
}

// Attributes: rows, columns (-1: as many), dtype.
bool eye(Call& call) {
  if (to_core(call.kernel.dtype) == DType::kNone || !call.service().able()) return false;
  const int64_t rows = call.integer(0), columns = call.integer(1) < 0 ? rows : call.integer(1);
  DenseTensor& out = *call.output(0);
  out.Resize({rows, columns});
  call.context.Alloc(&out, call.kernel.dtype);
  return out.numel() == 0 || hp::ops::eye(call.service(), call.device, view(out));
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/creation.inc"
