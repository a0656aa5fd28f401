#include "ops/detail/batch_norm_split.h"

#include <algorithm>

#include "core/dispatch/template_call.h"
#include "core/memory/scratch.h"

namespace hp::ops {
namespace {

// Layout shared with kernels/sources/batch_norm.c.
struct BatchNormSplit {
  int64_t channels, parts, part, batch, plane, stride;
};

// Elements per vector load: 16 bytes if the plane size and all addresses allow it, else 1.
int pack_of(const View& input, int64_t plane, std::initializer_list<const View*> views) {
  const int64_t pack = 16 / info(input.dtype).bytes;
  if (plane % pack != 0) return 1;
  for (const View* view : views) {
    if (view->defined() && reinterpret_cast<uintptr_t>(view->data) % 16 != 0) return 1;
  }
  return static_cast<int>(pack);
}

BatchNormSplit share_out(const View& input, int pack) {
  constexpr int64_t kGroups = 2048, kLeast = 4096, kMostParts = 64;
  BatchNormSplit g;
  g.channels = input.sizes[1];
  g.batch = input.sizes[0];
  g.plane = input.numel() / g.batch / g.channels;
  g.stride = g.channels * g.plane;
  const int64_t n = g.batch * g.plane;
  g.parts = std::clamp<int64_t>(std::min(kGroups / g.channels, n / kLeast), 1, kMostParts);
  g.part = ceil_div(ceil_div(n, g.parts), pack) * pack;
  g.parts = ceil_div(n, g.part);
  return g;
}

int64_t plane_of(const View& input) { return input.numel() / input.sizes[0] / input.sizes[1]; }

}  // namespace

bool split_batch_norm(const OpBinding& binding, Device& device, const View& out, const View& input,
                      const BatchNorm& norm, DType parameters, DType running) {
  static KernelTemplate sums("batch_norm:sums", {"T"}, {"PACK"}),
      apply("batch_norm:apply", {"T", "W", "S"}, {"PACK", "TRAIN"});
  const int pack = pack_of(input, plane_of(input), {&out, &input});
  TemplateCall first(sums, device, {input.dtype}, {pack}),
      second(apply, device, {input.dtype, parameters, running}, {pack, norm.train});
  if (!first.available() || !second.available()) return false;
  const BatchNormSplit g = share_out(input, pack);
  const Scratch scratch(device, norm.train ? g.channels * g.parts * 2 * info(accumulator(input.dtype)).bytes : 0);
  if (norm.train) first.pointer(scratch.get()).arg(input).value(g).launch(binding.op, g.channels * g.parts);
  second.arg(out).arg(norm.save_mean).arg(norm.save_invstd).arg(input).arg(norm.weight).arg(norm.bias);
  second.arg(norm.running_mean).arg(norm.running_var).pointer(scratch.get()).value(g);
  second.real(norm.momentum, input.dtype).real(norm.eps, input.dtype).launch(binding.op, g.channels * g.parts);
  return true;
}

bool split_batch_norm_backward(const OpBinding& binding, Device& device, const View& out, const View& grad_weight,
                               const View& grad_bias, const View& grad, const View& input, const BatchNorm& norm,
                               DType parameters, DType running) {
  static KernelTemplate sums("batch_norm:sums_backward", {"T", "S"}, {"PACK", "TRAIN"}),
      apply("batch_norm:apply_backward", {"T", "W", "S"}, {"PACK", "TRAIN"});
  const int pack = pack_of(input, plane_of(input), {&out, &input, &grad});
  TemplateCall first(sums, device, {input.dtype, running}, {pack, norm.train}),
      second(apply, device, {input.dtype, parameters, running}, {pack, norm.train});
  if (!first.available() || !second.available()) return false;
  const BatchNormSplit g = share_out(input, pack);
  const Scratch scratch(device, g.channels * g.parts * 2 * info(accumulator(input.dtype)).bytes);
  first.pointer(scratch.get()).arg(grad).arg(input).arg(norm.save_mean).arg(norm.running_mean).value(g);
  first.launch(binding.op, g.channels * g.parts);
  second.arg(out).arg(grad_weight).arg(grad_bias).arg(grad).arg(input).arg(norm.weight).arg(norm.running_mean);
  second.arg(norm.running_var).arg(norm.save_mean).arg(norm.save_invstd).pointer(scratch.get()).value(g);
  second.real(norm.eps, input.dtype).launch(binding.op, g.channels * g.parts);
  return true;
}

}  // namespace hp::ops
