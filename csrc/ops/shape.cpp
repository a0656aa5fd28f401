#include "shape.h"

#include <vector>

#include "../core/copy_views.h"
#include "../core/template_call.h"
#include "../core/words.h"

namespace hp::ops {
namespace {

// A copy between views that may step backwards.
bool move(const Service& service, Device& device, const View& to, const View& from) {
  return copy_portable(service.op, device, to, from);
}

bool movable(const Service& service, const View& out, const View& self) {
  return service.has_compiler && out.defined() && self.dtype == out.dtype && out.ndim <= kMaxDimensions;
}

// One part of a concatenation; false when no kernel converts it.
bool place(const Service& service, Device& device, const View& out, const View& part, int64_t dim, int64_t start) {
  View to = out;
  to.data = static_cast<char*>(out.data) + start * out.strides[dim] * info(out.dtype).bytes;
  to.sizes = part.sizes;
  if (part.dtype != out.dtype) return move(service, device, to, part);
  const Words target(to), source(part);
  return move(service, device, target.view, source.view);
}

bool triangle(const Service& service, Device& device, const View& out, const View& self, int64_t diagonal, int upper) {
  if (call_vendor(service, device, {output(out), input(self), attribute(diagonal)})) return true;
  static TemplateKernels kernels("shape:triangle", {"T"}, {"UPPER"});
  if (!service.has_compiler || !self.defined()) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {word_of(self.dtype)}, {upper});
  if (!call.available()) return false;
  const int64_t columns = self.sizes[self.ndim - 1], height = self.sizes[self.ndim - 2];
  const int64_t rows = self.numel() / columns, words = words_of(self.dtype);
  const int64_t per_group = call.rows_per_group(columns * words);
  call.arg(out).arg(self).integer(rows).integer(height).integer(columns).integer(diagonal).integer(words);
  call.integer(per_group).launch(service.op, (rows + per_group - 1) / per_group);
  return scope.done();
}

struct WindowGeometry {
  int64_t channels, in[2], out[2];
  Windows windows;
};

WindowGeometry geometry_of(const View& image, const Windows& windows) {
  WindowGeometry g{image.sizes[1], {image.sizes[2], image.sizes[3]}, {}, windows};
  for (int a = 0; a < 2; ++a) {
    const int64_t reach = windows.dilation[a] * (windows.kernel[a] - 1) + 1;
    g.out[a] = (g.in[a] + 2 * windows.padding[a] - reach) / windows.stride[a] + 1;
  }
  return g;
}

}  // namespace

bool cat(const Service& service, Device& device, const View& out, const View* parts, int64_t count, int64_t dim) {
  if (service.kernel() != nullptr) {
    std::vector<VendorArgument> arguments{output(out)};
    for (int64_t i = 0; i < count; ++i) arguments.push_back(input(parts[i]));
    arguments.push_back(attribute(dim));
    if (call_vendor(service, device, arguments.data(), arguments.data() + arguments.size())) return true;
  }
  if (!service.has_compiler || !out.defined() || out.ndim > kMaxDimensions) return false;
  for (int64_t i = 0; i < count; ++i) {
    // The copy kernel converts real numbers only.
    const bool converts = parts[i].dtype != out.dtype;
    if (!parts[i].defined() || (converts && (is_complex(parts[i].dtype) || is_complex(out.dtype)))) return false;
  }
  PortableScope scope(service);
  int64_t start = 0;
  for (int64_t i = 0; i < count; start += parts[i++].sizes[dim]) {
    if (!place(service, device, out, parts[i], dim, start)) return false;
  }
  return scope.done();
}

bool flip(const Service& service, Device& device, const View& out, const View& self, const int64_t* dims,
          int64_t count) {
  if (call_vendor(service, device, {output(out), input(self), attribute(dims, count)})) return true;
  if (!movable(service, out, self)) return false;
  PortableScope scope(service);
  const Words to(out);
  Words from(self);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t d = dims[i];
    from.advance((from.sizes[d] - 1) * from.strides[d]);
    from.strides[d] = -from.strides[d];
  }
  return move(service, device, to.view, from.view) && scope.done();
}

bool roll(const Service& service, Device& device, const View& out, const View& self, const int64_t* shifts) {
  if (call_vendor(service, device, {output(out), input(self), attribute(shifts, self.ndim)})) return true;
  if (!movable(service, out, self)) return false;
  PortableScope scope(service);
  // Along a rotated dimension there are two blocks: what stays in order, and what comes round to the front.
  for (int choice = 0; choice < 1 << self.ndim; ++choice) {
    Words to(out), from(self);
    bool none = false;
    for (int d = 0; d < self.ndim; ++d) {
      const bool wraps = (choice >> d & 1) != 0;
      const int64_t kept = self.sizes[d] - shifts[d];
      to.sizes[d] = from.sizes[d] = wraps ? shifts[d] : kept;
      none = none || to.sizes[d] == 0;
      if (wraps) {
        from.advance(kept * from.strides[d]);
      } else {
        to.advance(shifts[d] * to.strides[d]);
      }
    }
    if (!none && !move(service, device, to.view, from.view)) return false;
  }
  return scope.done();
}

bool triu(const Service& service, Device& device, const View& out, const View& self, int64_t diagonal) {
  return triangle(service, device, out, self, diagonal, 1);
}

bool tril(const Service& service, Device& device, const View& out, const View& self, int64_t diagonal) {
  return triangle(service, device, out, self, diagonal, 0);
}

bool channel_shuffle(const Service& service, Device& device, const View& out, const View& self, int64_t groups) {
  if (call_vendor(service, device, {output(out), input(self), attribute(groups)})) return true;
  if (!movable(service, out, self) || out.ndim + 1 > kMaxDimensions) return false;
  PortableScope scope(service);
  const int64_t members = self.sizes[1] / groups;
  // Channels split in two dimensions: (groups, members) where they are read, (members, groups) where they go.
  int64_t sizes[kMaxDimensions], to_strides[kMaxDimensions], from_strides[kMaxDimensions];
  for (int d = 0; d <= self.ndim; ++d) {
    const int given = d > 1 ? d - 1 : d;
    sizes[d] = self.sizes[given];
    to_strides[d] = out.strides[given];
    from_strides[d] = self.strides[given];
  }
  sizes[1] = members, sizes[2] = groups;
  to_strides[1] = out.strides[1] * groups;
  from_strides[2] = self.strides[1] * members;
  const Words to({out.data, out.dtype, out.ndim + 1, sizes, to_strides});
  const Words from({self.data, self.dtype, self.ndim + 1, sizes, from_strides});
  return move(service, device, to.view, from.view) && scope.done();
}

bool unfold_backward(const Service& service, Device& device, const View& grad_input, const View& grad, int64_t dim,
                     int64_t size, int64_t step) {
  if (call_vendor(service, device, {output(grad_input), input(grad), attribute(dim), attribute(size), attribute(step)}))
    return true;
  static TemplateKernels kernels("shape:unfold_backward", {"T"});
  if (!service.has_compiler || !grad.defined() || is_complex(grad.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {grad.dtype});
  if (!call.available()) return false;
  const bool scalar = grad_input.ndim == 0;
  int64_t inner = 1;
  for (int d = static_cast<int>(dim) + 1; d < grad_input.ndim; ++d) inner *= grad_input.sizes[d];
  const int64_t elements = grad_input.numel(), length = scalar ? 1 : grad_input.sizes[dim];
  const int64_t windows = scalar ? 1 : grad.sizes[dim];
  call.arg(grad_input).arg(grad).integer(elements).integer(length).integer(inner).integer(windows).integer(size);
  call.integer(step).launch_elements(service.op, elements);
  return scope.done();
}

bool im2col(const Service& service, Device& device, const View& out, const View& self, const Windows& w) {
  if (call_vendor(service, device,
                  {output(out), input(self), attribute(w.kernel, 2), attribute(w.dilation, 2), attribute(w.padding, 2),
                   attribute(w.stride, 2)}))
    return true;
  static TemplateKernels kernels("shape:im2col", {"T"});
  if (!service.has_compiler || !self.defined() || words_of(self.dtype) != 1) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {word_of(self.dtype)});
  if (!call.available()) return false;
  const WindowGeometry g = geometry_of(self, w);
  const int64_t rows = self.sizes[0] * g.channels * w.kernel[0] * w.kernel[1];
  const int64_t per_group = call.rows_per_group(g.out[0] * g.out[1]);
  call.arg(out).arg(self).integer(rows).integer(per_group).value(g);
  call.launch(service.op, (rows + per_group - 1) / per_group);
  return scope.done();
}

bool col2im(const Service& service, Device& device, const View& out, const View& columns, const Windows& w) {
  if (call_vendor(service, device,
                  {output(out), input(columns), attribute(w.kernel, 2), attribute(w.dilation, 2),
                   attribute(w.padding, 2), attribute(w.stride, 2)}))
    return true;
  static TemplateKernels kernels("shape:col2im", {"T"});
  if (!service.has_compiler || !out.defined() || is_complex(out.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {out.dtype});
  if (!call.available()) return false;
  const WindowGeometry g = geometry_of(out, w);
  const int64_t rows = out.sizes[0] * g.channels * g.in[0];
  const int64_t per_group = call.rows_per_group(g.in[1] * w.kernel[0] * w.kernel[1]);
  call.arg(out).arg(columns).integer(rows).integer(per_group).value(g);
  call.launch(service.op, (rows + per_group - 1) / per_group);
  return scope.done();
}

}  // namespace hp::ops
