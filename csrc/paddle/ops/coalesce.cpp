// Tensors that share memory. No other tier can do that.
#include "dispatch/composition.h"

namespace hp::paddle_adapter::ops {
namespace {

// Copies `from`, on the host or the device, into the slice. Both have the same dtype.
void copy_to_slice(Call& call, DenseTensor& slice, const DenseTensor& from) {
  const View to = view(slice);
  if (!on_device(from)) {
    Stream& stream = current_stream(call.device);
    call.device.copy_to_device(to.data, from.data(), to.bytes(), stream);
    stream.synchronize();
    return;
  }
  const int64_t length[] = {to.numel()};
  const View source = view(from);
  const ShapedView flat_to(to.data, to.dtype, 1, length), flat_source(source.data, to.dtype, 1, length);
  if (source.contiguous() && copy(copy_op.on(call.device), call.device, flat_to, flat_source)) return;
  ShapedView shaped(to.data, to.dtype, source.ndim, source.sizes);
  if (!copy(copy_op.on(call.device), call.device, shaped, source)) copy_through_host(call.device, shaped, source);
}

// Attributes: dtype, copy_data, set_constant, persist_output, constant, use_align, align_size, size_of_dtype,
// concated_shapes, concated_ranks. Outputs: the slices, which may be the same tensors as the inputs, and the buffer.
bool coalesce_tensor(Call& call) {
  const auto inputs = call.inputs(0);
  const auto slices = call.outputs(0);
  const auto dtype = call.attr<phi::DataType>(0);
  const bool copies = call.attr<bool>(1), fills = call.attr<bool>(2), persists = call.attr<bool>(3);
  const bool aligned = call.attr<bool>(5);
  const int64_t alignment = call.integer(6) > 0 ? call.integer(6) : HP_ALIGNMENT;
  const auto element_bytes = call.integer(7) > 0 ? call.integer(7) : static_cast<int64_t>(phi::SizeOf(dtype));
  const std::vector<int64_t> shapes = call.integers(8), ranks = call.integers(9);
  if (inputs.count == 0 || inputs.count != slices.count) {
    throw Error(HP_INVALID_ARGUMENT, "expected at least one input tensor and as many outputs, got " +
                                         std::to_string(inputs.count) + " inputs and " + std::to_string(slices.count) +
                                         " outputs");
  }
  std::vector<int64_t> offsets;
  int64_t total = 0, shape_offset = 0;  // total: in elements
  for (int i = 0; i < inputs.count; ++i) {
    phi::DDim dims = inputs[i]->dims();
    if (!inputs[i]->initialized() && ranks.size() == static_cast<size_t>(inputs.count)) {
      dims = phi::DDim(shapes.data() + shape_offset, static_cast<int>(ranks[i]));
    }
    if (!ranks.empty()) shape_offset += ranks[i];
    slices[i]->Resize(dims);
    if (slices[i]->numel() == 0) {
      throw Error(HP_INVALID_ARGUMENT, "input tensor " + std::to_string(i) + " has no elements");
    }
    offsets.push_back(total);
    const int64_t bytes = slices[i]->numel() * element_bytes;
    total += (aligned ? (bytes + alignment - 1) / alignment * alignment : bytes) / element_bytes;
  }
  DenseTensor& buffer = *call.output(1);
  buffer.Resize({total});
  call.context.Alloc(&buffer, dtype);
  if (!copies && fills && !fill(call.device, view(buffer), call.real(4))) {
    throw Error(HP_NOT_SUPPORTED, "the device has no kernel for 'fill'");
  }
  for (int i = 0; i < inputs.count; ++i) {
    const phi::DDim dims = slices[i]->dims();
    DenseTensor slice = buffer.Slice(offsets[i], offsets[i] + slices[i]->numel());
    const DenseTensor& from = copies ? *inputs[i] : *slices[i];
    if ((copies || (persists && !fills)) && from.initialized()) copy_to_slice(call, slice, from);
    slices[i]->ShareDataWith(slice).Resize(dims);
  }
  return count_decomposed(call);
}

// The output is the input's memory, in which later writes to either show.
bool share_data(Call& call) {
  if (!call.input(0)->initialized()) return false;
  call.output(0)->ShareDataWith(*call.input(0));
  return count_decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/coalesce.inc"
