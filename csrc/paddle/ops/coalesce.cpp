// Tensors put into one: each becomes a part of its memory. No other tier can do that.
#include "../parts.h"

namespace hp::paddle_adapter::ops {
namespace {

Step copying("copy");

// Into memory of the device; the tensors have the same dtype.
void copy_in(Call& call, DenseTensor& part, const DenseTensor& from) {
  const View to = view(part);
  if (!on_device(from)) {
    Stream& stream = current_stream(call.device);
    call.device.copy_to_device(to.data, from.data(), to.bytes(), stream);
    stream.synchronize();
    return;
  }
  const int64_t length[] = {to.numel()};
  const View given = view(from);
  const Shaped row(to.data, to.dtype, 1, length), source(given.data, to.dtype, 1, length);
  if (given.contiguous() && copy(copying.on(call.device), call.device, row, source)) return;
  Shaped shaped(to.data, to.dtype, given.ndim, given.sizes);
  if (!copy(copying.on(call.device), call.device, shaped, given)) copy_through_host(call.device, shaped, given);
}

// Attributes: dtype, copy_data, set_constant, persist_output, constant, use_align, align_size, size_of_dtype,
// concated_shapes, concated_ranks. Outputs: the parts, which may be the inputs themselves, and the whole.
bool coalesce_tensor(Call& call) {
  const auto given = call.inputs(0);
  const auto parts = call.outputs(0);
  const auto dtype = call.attr<phi::DataType>(0);
  const bool copies = call.attr<bool>(1), fills = call.attr<bool>(2), keeps = call.attr<bool>(3);
  const bool aligned = call.attr<bool>(5);
  const int64_t alignment = call.integer(6) > 0 ? call.integer(6) : HP_ALIGNMENT;
  const auto bytes = call.integer(7) > 0 ? call.integer(7) : static_cast<int64_t>(phi::SizeOf(dtype));  // of an element
  const std::vector<int64_t> shapes = call.integers(8), ranks = call.integers(9);
  if (given.count == 0 || given.count != parts.count) {
    throw Error(HP_INVALID_ARGUMENT, "as many tensors are expected as are given, and at least one");
  }
  std::vector<int64_t> offsets;
  int64_t whole = 0, described = 0;
  for (int i = 0; i < given.count; ++i) {
    phi::DDim dims = given[i]->dims();
    if (!given[i]->initialized() && ranks.size() == static_cast<size_t>(given.count)) {
      dims = phi::DDim(shapes.data() + described, static_cast<int>(ranks[i]));
    }
    if (!ranks.empty()) described += ranks[i];
    parts[i]->Resize(dims);
    if (parts[i]->numel() == 0) throw Error(HP_INVALID_ARGUMENT, "a tensor without elements");
    offsets.push_back(whole);
    const int64_t size = parts[i]->numel() * bytes;
    whole += (aligned ? (size + alignment - 1) / alignment * alignment : size) / bytes;
  }
  DenseTensor& all = *call.output(1);
  all.Resize({whole});
  call.context.Alloc(&all, dtype);
  if (!copies && fills && !fill(call.device, view(all), call.real(4))) {
    throw Error(HP_NOT_SUPPORTED, "the device has no kernel that fills a tensor");
  }
  for (int i = 0; i < given.count; ++i) {
    const phi::DDim dims = parts[i]->dims();
    DenseTensor part = all.Slice(offsets[i], offsets[i] + parts[i]->numel());
    const DenseTensor& from = copies ? *given[i] : *parts[i];
    if ((copies || (keeps && !fills)) && from.initialized()) copy_in(call, part, from);
    parts[i]->ShareDataWith(part).Resize(dims);
  }
  return decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/coalesce.inc"
