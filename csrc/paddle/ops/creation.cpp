// Fills, copies and conversions.
#include "ops/creation.h"

#include <cmath>

#include "core/dispatch/cpu_tier_call.h"
#include "dispatch/composition.h"
#include "runtime/borrowed_memory.h"

namespace hp::paddle_adapter::ops {
namespace {

bool fill_with(Call& call, const View& out, const phi::Scalar& value) {
  return out.defined() && (out.numel() == 0 || paddle_adapter::fill(call.binding(), call.device, out, value));
}

// ---- Fills

bool full(Call& call) {
  DenseTensor& out = *call.output(0);
  if (take_lent_memory(out, call.kernel.dtype, call.context.GetPlace())) return true;
  out.Resize(common::make_ddim(call.integers(0)));
  call.context.Alloc(&out, call.kernel.dtype);
  return fill_with(call, view(out), call.attr<phi::Scalar>(1));
}

bool full_like(Call& call) {
  call.context.Alloc(call.output(0), call.kernel.dtype);
  return fill_with(call, view(*call.output(0)), call.attr<phi::Scalar>(0));
}

// Attributes: shape, value, dtype, input_dim_idx, output_dim_idx. InferMeta has set the output's shape, unless the
// input has sequences (LoD), whose number Paddle's kernel takes instead of a dimension.
bool full_batch_size_like(Call& call) {
  if (common::product(call.output(0)->dims()) < 0 || !call.input(0)->lod().empty()) return false;
  call.context.Alloc(call.output(0), call.kernel.dtype);
  return fill_with(call, view(*call.output(0)), call.attr<phi::Scalar>(1));
}

// An overwritten tensor has a zero gradient.
bool fill_grad(Call& call) {
  return to_core(call.kernel.dtype) != DType::kNone && zero(call.device, call.allocate(0)) && count_decomposed(call);
}

bool fill(Call& call) { return fill_with(call, call.allocate(0), call.attr<phi::Scalar>(0)); }

// ---- Masks

// True where the position in the last dimension is below the length. Input: lengths. Attributes: maxlen, out_dtype.
// Without maxlen, the CPU tier finds the largest length.
bool sequence_mask_scalar(Call& call) {
  static StandardOp arange("arange");
  static PointwiseOp less("lt");
  const DenseTensor& lengths = *call.input(0);
  const int64_t size = call.integer(0), sizes[] = {size};
  if (!call.inputs_ready() || lengths.numel() == 0 || size <= 0 || lengths.dims().size() >= kMaxKernelRank ||
      !is_integer(to_core(call.kernel.dtype))) {
    return false;
  }
  auto dims = common::vectorize(lengths.dims());
  dims.push_back(size);
  call.output(0)->Resize(common::make_ddim(dims));
  call.context.Alloc(call.output(0), call.attr<phi::DataType>(1));
  const View out = view(*call.output(0));
  ShapedView column(call.view_of(0));
  column.unsqueeze(column.ndim());
  const Temporary positions(call.device, column.view().dtype, 1, sizes);
  const Temporary mask(call.device, DType::kBool, out.ndim, out.sizes);
  return hp::ops::arange(arange.on(call.device), call.device, positions, int64_t{0}, int64_t{1}) &&
         less(call.device, mask, {positions, column}) && copy(copy_op.on(call.device), call.device, out, mask) &&
         count_decomposed(call);
}

// ---- Uninitialized tensors

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

// Copies through the host if no kernel can: Paddle has no other implementation of the two kernels that use this.
bool always_copy(Call& call, const View& to, const View& from) {
  if (!to.defined() || !from.defined()) return false;
  if (copy(call.binding(), call.device, to, from)) return true;
  CpuTierCall on_cpu(*call.kernel.op);
  copy_through_host(call.device, to, from);
  on_cpu.done(static_cast<uint64_t>(from.bytes() + to.bytes()));
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

// Copies x into a strided view of the output's memory. Attributes: dims, strides, offset.
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
  // In place, the output is the input tensor and already has the new dtype. The copy keeps the input's memory alive.
  const DenseTensor x = *call.input(0);
  const phi::DataType out_dtype = call.attr<phi::DataType>(0);
  DenseTensor& out = *call.output(0);
  if (!x.initialized() || !on_device(x) || to_core(call.kernel.dtype) == DType::kNone ||
      to_core(out_dtype) == DType::kNone || !x.meta().is_contiguous()) {
    return false;
  }
  const ShapedView from(static_cast<char*>(x.Holder()->ptr()) + x.offset(), to_core(call.kernel.dtype), x.dims().size(),
                        x.dims().Get());
  if (out.IsSharedWith(x) && out_dtype != call.kernel.dtype) out.clear();
  call.context.Alloc(&out, out_dtype);
  return x.numel() == 0 || copy(call.binding(), call.device, view(out), from);
}

bool assign(Call& call) {
  const DenseTensor* x = call.input(0);
  if (x == nullptr || to_core(x->dtype()) == DType::kNone) return false;
  if (x->numel() != 0 && (!x->initialized() || !on_device(*x))) return false;
  const View out = call.allocate(0);
  return x->numel() == 0 || copy(call.binding(), call.device, out, view(*x));
}
bool assign_raw(Call& call) { return assign(call); }

// ---- Values from the host, and from one-element tensors

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
  return count_decomposed(call);
}

// Attributes: shape, dtype.
bool full_with_tensor(Call& call) {
  const DenseTensor& value = *call.input(0);
  DenseTensor& out = *call.output(0);
  if (!value.initialized() || !on_device(value) || value.numel() != 1 || to_core(value.dtype()) == DType::kNone ||
      to_core(call.kernel.dtype) == DType::kNone || call.integers(0).size() > kMaxKernelRank) {
    return false;
  }
  const DenseTensor source = value;  // keeps the memory alive if `out` is the same tensor
  out.Resize(common::make_ddim(call.integers(0)));
  call.context.Alloc(&out, call.kernel.dtype);
  const View to = view(out);
  ShapedView scalar(const_cast<void*>(source.data()), to_core(source.dtype()), 0, nullptr);
  return to.numel() == 0 || copy(call.binding(), call.device, to, scalar.expand(to.ndim, to.sizes));
}

// ---- Sequences

// Reads a one-element tensor on the device or the host. Requires `is_number`. Synchronizes the stream.
phi::Scalar read_number(Call& call, const DenseTensor& tensor) {
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
  if (!(is_float(dtype) || is_integer(dtype)) || !call.binding().can_serve()) return false;
  DenseTensor& out = *call.output(0);
  int64_t size;
  if (is_float(dtype)) {
    const double stride = step.to<double>();
    if (stride == 0) return false;
    size = static_cast<int64_t>(std::ceil(std::abs((end.to<double>() - start.to<double>()) / stride)));
  } else {
    const int64_t stride = std::abs(step.to<int64_t>());
    if (stride == 0) return false;
    size = (std::abs(end.to<int64_t>() - start.to<int64_t>()) + stride - 1) / stride;
  }
  // Use the size that InferMeta has set, if any: for float32 Paddle computes it in float32.
  if (out.dims().size() == 1 && out.dims()[0] >= 0) size = out.dims()[0];
  out.Resize({size});
  call.context.Alloc(&out, call.kernel.dtype);
  if (size == 0) return true;
  const View to = view(out);
  return is_float(dtype) ? hp::ops::arange(call.binding(), call.device, to, start.to<double>(), step.to<double>())
                         : hp::ops::arange(call.binding(), call.device, to, start.to<int64_t>(), step.to<int64_t>());
}
bool arange(Call& call) {
  return sequence(call, call.attr<phi::Scalar>(0), call.attr<phi::Scalar>(1), call.attr<phi::Scalar>(2));
}
bool arange_tensor(Call& call) {
  for (int i = 0; i < 3; ++i) {
    if (!is_number(*call.input(i))) return false;
  }
  return sequence(call, read_number(call, *call.input(0)), read_number(call, *call.input(1)),
                  read_number(call, *call.input(2)));
}

// Inputs: start, stop, number.
bool linspace(Call& call) {
  for (int i = 0; i < 3; ++i) {
    if (!is_number(*call.input(i))) return false;
  }
  if (!is_float(to_core(call.kernel.dtype)) || !call.binding().can_serve()) return false;
  const int64_t count = read_number(call, *call.input(2)).to<int64_t>();
  if (count <= 0) return false;
  const double start = read_number(call, *call.input(0)).to<double>(),
               stop = read_number(call, *call.input(1)).to<double>();
  DenseTensor& out = *call.output(0);
  out.Resize({count});
  call.context.Alloc(&out, call.kernel.dtype);
  return hp::ops::linspace(call.binding(), call.device, view(out), start, stop);
}

// Attributes: rows, columns (-1: same as rows), dtype.
bool eye(Call& call) {
  if (to_core(call.kernel.dtype) == DType::kNone || !call.binding().can_serve()) return false;
  const int64_t rows = call.integer(0), columns = call.integer(1) < 0 ? rows : call.integer(1);
  DenseTensor& out = *call.output(0);
  out.Resize({rows, columns});
  call.context.Alloc(&out, call.kernel.dtype);
  return out.numel() == 0 || hp::ops::eye(call.binding(), call.device, view(out));
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/creation.inc"
