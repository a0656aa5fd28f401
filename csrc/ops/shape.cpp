#include "ops/shape.h"

#include <algorithm>
#include <vector>

#include "core/dispatch/template_call.h"
#include "core/tensor/copy_views.h"
#include "core/tensor/raw_view.h"

namespace hp::ops {
namespace {

// Copies between views whose strides may be negative.
bool move(const OpBinding& binding, Device& device, const View& to, const View& from) {
  return copy_portable(binding.op, device, to, from);
}

bool movable(const OpBinding& binding, const View& out, const View& self) {
  return binding.portable_allowed && out.defined() && self.dtype == out.dtype && out.ndim <= kMaxKernelRank;
}

// Copies one part of a concatenation; false if no kernel converts its dtype.
bool copy_part(const OpBinding& binding, Device& device, const View& out, const View& part, int64_t dim,
               int64_t start) {
  View to = out;
  to.data = static_cast<char*>(out.data) + start * out.strides[dim] * info(out.dtype).bytes;
  to.sizes = part.sizes;
  if (part.dtype != out.dtype) return move(binding, device, to, part);
  const RawView target(to), source(part);
  return move(binding, device, target.view, source.view);
}

bool triangle(const OpBinding& binding, Device& device, const View& out, const View& self, int64_t diagonal,
              int upper) {
  // All diagonals outside the matrix give the same result; unclamped, they could overflow.
  if (self.defined()) {
    diagonal = std::clamp(diagonal, -self.sizes[self.ndim - 2] - 1, self.sizes[self.ndim - 1] + 1);
  }
  if (call_vendor(binding, device, {output(out), input(self), attribute(diagonal)})) return true;
  static KernelTemplate kernels("shape:triangle", {"T"}, {"UPPER"});
  if (!binding.portable_allowed || !self.defined()) return false;
  TemplateCall call(kernels, device, {raw_dtype(self.dtype)}, {upper});
  const int64_t columns = self.sizes[self.ndim - 1], height = self.sizes[self.ndim - 2];
  const int64_t rows = self.numel() / columns, words = raw_units(self.dtype);
  const int64_t per_group = call.rows_per_group(columns * words);
  call.arg(out).arg(self).integer(rows).integer(height).integer(columns).integer(diagonal).integer(words);
  return call.integer(per_group).run(binding, ceil_div(rows, per_group));
}

struct Im2colShape {
  int64_t channels, in[2], out[2];
  Im2colWindow windows;
};

Im2colShape shape_of(const View& image, const Im2colWindow& windows) {
  Im2colShape g{image.sizes[1], {image.sizes[2], image.sizes[3]}, {}, windows};
  for (int a = 0; a < 2; ++a) {
    const int64_t reach = windows.dilation[a] * (windows.kernel[a] - 1) + 1;
    g.out[a] = (g.in[a] + 2 * windows.padding[a] - reach) / windows.stride[a] + 1;
  }
  return g;
}

}  // namespace

bool cat(const OpBinding& binding, Device& device, const View& out, const View* parts, int64_t count, int64_t dim) {
  if (binding.kernel() != nullptr) {
    std::vector<VendorArgument> arguments{output(out)};
    for (int64_t i = 0; i < count; ++i) arguments.push_back(input(parts[i]));
    arguments.push_back(attribute(dim));
    if (call_vendor(binding, device, arguments.data(), arguments.data() + arguments.size())) return true;
  }
  if (!binding.portable_allowed || !out.defined() || out.ndim > kMaxKernelRank) return false;
  for (int64_t i = 0; i < count; ++i) {
    // The copy kernel converts real numbers only.
    const bool converts = parts[i].dtype != out.dtype;
    if (!parts[i].defined() || (converts && (is_complex(parts[i].dtype) || is_complex(out.dtype)))) return false;
  }
  PortableScope scope(binding);
  int64_t start = 0;
  for (int64_t i = 0; i < count; start += parts[i++].sizes[dim]) {
    if (!copy_part(binding, device, out, parts[i], dim, start)) return false;
  }
  return scope.done();
}

bool flip(const OpBinding& binding, Device& device, const View& out, const View& self, const int64_t* dims,
          int64_t count) {
  if (call_vendor(binding, device, {output(out), input(self), attribute(dims, count)})) return true;
  if (!movable(binding, out, self)) return false;
  PortableScope scope(binding);
  const RawView to(out);
  RawView from(self);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t d = dims[i];
    from.advance((from.sizes[d] - 1) * from.strides[d]);
    from.strides[d] = -from.strides[d];
  }
  return move(binding, device, to.view, from.view) && scope.done();
}

bool roll(const OpBinding& binding, Device& device, const View& out, const View& self, const int64_t* shifts) {
  if (call_vendor(binding, device, {output(out), input(self), attribute(shifts, self.ndim)})) return true;
  if (!movable(binding, out, self)) return false;
  PortableScope scope(binding);
  // Each rotated dimension has two blocks: one shifts back, one wraps around to the front.
  for (int choice = 0; choice < 1 << self.ndim; ++choice) {
    RawView to(out), from(self);
    bool none = false;
    for (int d = 0; d < self.ndim; ++d) {
      const bool wraps = (choice >> d & 1) != 0;
      const int64_t unwrapped = self.sizes[d] - shifts[d];
      to.sizes[d] = from.sizes[d] = wraps ? shifts[d] : unwrapped;
      none = none || to.sizes[d] == 0;
      if (wraps) {
        from.advance(unwrapped * from.strides[d]);
      } else {
        to.advance(shifts[d] * to.strides[d]);
      }
    }
    if (!none && !move(binding, device, to.view, from.view)) return false;
  }
  return scope.done();
}

bool triu(const OpBinding& binding, Device& device, const View& out, const View& self, int64_t diagonal) {
  return triangle(binding, device, out, self, diagonal, 1);
}

bool tril(const OpBinding& binding, Device& device, const View& out, const View& self, int64_t diagonal) {
  return triangle(binding, device, out, self, diagonal, 0);
}

bool channel_shuffle(const OpBinding& binding, Device& device, const View& out, const View& self, int64_t groups) {
  if (call_vendor(binding, device, {output(out), input(self), attribute(groups)})) return true;
  if (!movable(binding, out, self) || out.ndim + 1 > kMaxKernelRank) return false;
  PortableScope scope(binding);
  const int64_t members = self.sizes[1] / groups;
  // Split channels into two dimensions, read as (groups, members) and written as (members, groups).
  int64_t sizes[kMaxKernelRank], to_strides[kMaxKernelRank], from_strides[kMaxKernelRank];
  for (int d = 0; d <= self.ndim; ++d) {
    const int source_dim = d > 1 ? d - 1 : d;
    sizes[d] = self.sizes[source_dim];
    to_strides[d] = out.strides[source_dim];
    from_strides[d] = self.strides[source_dim];
  }
  sizes[1] = members, sizes[2] = groups;
  to_strides[1] = out.strides[1] * groups;
  from_strides[2] = self.strides[1] * members;
  const RawView to({out.data, out.dtype, out.ndim + 1, sizes, to_strides});
  const RawView from({self.data, self.dtype, self.ndim + 1, sizes, from_strides});
  return move(binding, device, to.view, from.view) && scope.done();
}

bool unfold_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad, int64_t dim,
                     int64_t size, int64_t step) {
  if (call_vendor(binding, device, {output(grad_input), input(grad), attribute(dim), attribute(size), attribute(step)}))
    return true;
  static KernelTemplate kernels("shape:unfold_backward", {"T"});
  if (!binding.portable_allowed || !grad.defined() || is_complex(grad.dtype)) return false;
  TemplateCall call(kernels, device, {grad.dtype});
  const bool scalar = grad_input.ndim == 0;
  int64_t inner = 1;
  for (int d = static_cast<int>(dim) + 1; d < grad_input.ndim; ++d) inner *= grad_input.sizes[d];
  const int64_t elements = grad_input.numel(), length = scalar ? 1 : grad_input.sizes[dim];
  const int64_t windows = scalar ? 1 : grad.sizes[dim];
  call.arg(grad_input).arg(grad).integer(elements).integer(length).integer(inner).integer(windows).integer(size);
  return call.integer(step).run_elements(binding, elements);
}

bool im2col(const OpBinding& binding, Device& device, const View& out, const View& self, const Im2colWindow& w) {
  if (call_vendor(binding, device,
                  {output(out), input(self), attribute(w.kernel, 2), attribute(w.dilation, 2), attribute(w.padding, 2),
                   attribute(w.stride, 2)}))
    return true;
  static KernelTemplate kernels("shape:im2col", {"T"});
  if (!binding.portable_allowed || !self.defined() || raw_units(self.dtype) != 1) return false;
  TemplateCall call(kernels, device, {raw_dtype(self.dtype)});
  const Im2colShape g = shape_of(self, w);
  const int64_t rows = self.sizes[0] * g.channels * w.kernel[0] * w.kernel[1];
  const int64_t per_group = call.rows_per_group(g.out[0] * g.out[1]);
  call.arg(out).arg(self).integer(rows).integer(per_group).value(g);
  return call.run(binding, ceil_div(rows, per_group));
}

bool col2im(const OpBinding& binding, Device& device, const View& out, const View& columns, const Im2colWindow& w) {
  if (call_vendor(binding, device,
                  {output(out), input(columns), attribute(w.kernel, 2), attribute(w.dilation, 2),
                   attribute(w.padding, 2), attribute(w.stride, 2)}))
    return true;
  static KernelTemplate kernels("shape:col2im", {"T"});
  if (!binding.portable_allowed || !out.defined() || is_complex(out.dtype)) return false;
  TemplateCall call(kernels, device, {out.dtype});
  const Im2colShape g = shape_of(out, w);
  const int64_t rows = out.sizes[0] * g.channels * g.in[0];
  const int64_t per_group = call.rows_per_group(g.in[1] * w.kernel[0] * w.kernel[1]);
  call.arg(out).arg(columns).integer(rows).integer(per_group).value(g);
  return call.run(binding, ceil_div(rows, per_group));
}

}  // namespace hp::ops
