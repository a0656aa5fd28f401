#include "embedding_bag.h"

#include "../core/template_call.h"

namespace hp::ops {
namespace {

struct Shape {
  int64_t bags, offsets, indices, width, limit, padding, per_group;
};

}  // namespace

bool embedding_bag(const Service& service, Device& device, const View& out, const View& bag_of, const View& sizes,
                   const View& chosen, const View& weight, const View& indices, const View& offsets,
                   const View& samples, int64_t mode, int64_t padding_idx) {
  if (call_vendor(service, device,
                  {output(out), output(bag_of), output(sizes), output(chosen), input(weight), input(indices),
                   input(offsets), input(samples), attribute(mode), attribute(padding_idx)}))
    return true;
  static TemplateKernels kernels("embedding_bag:forward", {"T", "I"}, {"MODE", "WEIGHTED"});
  if (!service.has_compiler || !is_float(weight.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {weight.dtype, indices.dtype}, {static_cast<int>(mode), samples.defined()});
  if (!call.available()) return false;
  const int64_t bags = out.sizes[0], width = out.sizes[1], count = indices.numel();
  const int64_t rows_per_bag = std::max<int64_t>(1, count / std::max<int64_t>(1, bags));
  const Shape shape{
      bags, offsets.numel(), count, width, weight.sizes[0], padding_idx, call.rows_per_group(width * rows_per_bag)};
  call.arg(out).arg(bag_of).arg(sizes).arg(chosen).arg(weight).arg(indices).arg(offsets).arg(samples);
  call.fault(service.op).value(shape).launch(service.op, (bags + shape.per_group - 1) / shape.per_group);
  return scope.done();
}

}  // namespace hp::ops
