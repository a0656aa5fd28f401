#include "ops/segment.h"

#include <algorithm>

#include "core/dispatch/template_call.h"
#include "ops/detail/row_shape.h"

namespace hp::ops {
namespace {

struct Segments {
  Segments(const View& data, const View& offsets, int64_t axis)
      : rows(data, axis), count(offsets.sizes[axis] - 1), all(rows.outer * count) {}
  int64_t each(const TemplateCall& call) const {
    return call.rows_per_group(std::max<int64_t>(1, rows.n / count) * rows.inner);
  }
  const RowShape rows;
  const int64_t count, all;
};

}  // namespace

bool segment_reduce(const OpBinding& binding, Device& device, const View& out, const View& data, const View& offsets,
                    int64_t reduction, int64_t axis, bool has_initial, double initial) {
  static KernelTemplate kernels("segment:forward", {"T"}, {"REDUCTION"});
  if (call_vendor(binding, device,
                  {output(out), input(data), input(offsets), attribute(reduction), attribute(axis),
                   attribute(has_initial), attribute(initial)}))
    return true;
  if (!binding.portable_allowed || !is_float(data.dtype)) return false;
  TemplateCall call(kernels, device, {data.dtype}, {static_cast<int>(reduction)});
  const Segments segments(data, offsets, axis);
  const int64_t each = segments.each(call);
  call.arg(out).arg(data).arg(offsets).integer(segments.all).integer(segments.count).integer(segments.rows.n);
  call.integer(segments.rows.inner).integer(each).integer(has_initial).real(initial, data.dtype);
  return call.run(binding, ceil_div(segments.all, each));
}

bool segment_reduce_backward(const OpBinding& binding, Device& device, const View& out, const View& grad,
                             const View& result, const View& data, const View& offsets, int64_t reduction, int64_t axis,
                             double initial) {
  static KernelTemplate kernels("segment:backward", {"T"}, {"REDUCTION"});
  if (call_vendor(binding, device,
                  {output(out), input(grad), input(result), input(data), input(offsets), attribute(reduction),
                   attribute(axis), attribute(initial)}))
    return true;
  if (!binding.portable_allowed || !is_float(data.dtype)) return false;
  TemplateCall call(kernels, device, {data.dtype}, {static_cast<int>(reduction)});
  const Segments segments(data, offsets, axis);
  const int64_t each = segments.each(call);
  call.arg(out).arg(grad).arg(result).arg(data).arg(offsets).integer(segments.all).integer(segments.count);
  call.integer(segments.rows.n).integer(segments.rows.inner).integer(each).real(initial, data.dtype);
  return call.run(binding, ceil_div(segments.all, each));
}

}  // namespace hp::ops
