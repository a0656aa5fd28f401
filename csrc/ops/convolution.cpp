#include "ops/convolution.h"

#include <algorithm>

#include "core/dispatch/template_call.h"
#include "core/memory/scratch.h"
#include "ops/detail/convolution_im2col.h"
#include "ops/matmul.h"

namespace hp::ops {
namespace {

// Structs below share their layout with kernels/sources/convolution.c and convolution_cpu.c.

struct Padding {
  int64_t batch, channels, channel;
  int64_t size[3], from[5], before[3], stride[3], phases[3], length[3];
};

struct Taps {
  int64_t count, transposed, kernel[3], dilation[3], stride[3], phases[3], length[3], weight[3];
  int64_t phase[3];
};

struct Application {
  int64_t groups, rows, channels, channel, pitch[2], start, grid[3], out[5];
  int64_t panel_group, weight_group, weight_row, weight_channel;
  int64_t block, blocks, block_rows, row_blocks, with_bias;
  Taps taps;
};

struct Correlation {
  int64_t batch, groups, outer, inner, x_channel, y_channel, length, weight[2], block, blocks;
  Taps taps;
};

constexpr int64_t kMaxTaps = 512;  // limit of the vectorized kernels
constexpr int64_t kRows = 12;      // a multiple of every tile height
constexpr int64_t kMinPanelRows = 4;
constexpr int64_t kTileColumns = 128;  // a multiple of every tile width; kernels read up to this far beyond the end
constexpr int64_t kChannelTail = 16;   // zeros after a padded channel: one vector

// Adds missing leading spatial dimensions of size 1.
void spatial(const View& view, int64_t (&strides)[5], int64_t (*sizes)[3]) {
  const int missing = 5 - view.ndim;
  strides[0] = view.strides[0];
  strides[1] = view.strides[1];
  for (int d = 0; d < 3; ++d) {
    strides[2 + d] = d < missing ? 0 : view.strides[2 + d - missing];
    if (sizes != nullptr) (*sizes)[d] = d < missing ? 1 : view.sizes[2 + d - missing];
  }
}
void attribute_list(const int64_t* from, int dimensions, int64_t fill, int64_t (&to)[3]) {
  for (int d = 0; d < 3; ++d) to[d] = d < 3 - dimensions ? fill : from[d - (3 - dimensions)];
}

ConvolutionShape relate(const View& x, const View& y, const View& weight, const ConvolutionAttributes& attributes) {
  ConvolutionShape g;
  g.batch = x.sizes[0];
  g.groups = attributes.groups;
  g.outer = weight.sizes[0] / attributes.groups;
  g.inner = weight.sizes[1];
  g.with_bias = 0;
  spatial(x, g.x, &g.x_size);
  spatial(y, g.y, &g.y_size);
  spatial(weight, g.weight, &g.kernel);
  attribute_list(attributes.stride, attributes.dimensions, 1, g.stride);
  attribute_list(attributes.padding, attributes.dimensions, 0, g.padding);
  attribute_list(attributes.dilation, attributes.dimensions, 1, g.dilation);
  return g;
}

bool has_vectors(const Device& device, DType dtype, const ConvolutionShape& g) {
  return device.group_size() == 1 && is_float(dtype) && volume(g.kernel) <= kMaxTaps;
}

// A padded copy of a tensor in scratch memory.
struct Padded {
  Padding geometry;
  TemplateCall call;
  Scratch scratch;

  static KernelTemplate& kernels() {
    static KernelTemplate pad("convolution_cpu:pad", {"T"});
    return pad;
  }
  static int64_t bytes(const Padding& g, DType dtype) {
    return (g.batch * g.channels * g.channel + kTileColumns) * info(accumulator(dtype)).bytes;
  }
  Padded(Device& device, const View& tensor, const Padding& geometry)
      : geometry(geometry), call(kernels(), device, {tensor.dtype}), scratch(device, bytes(geometry, tensor.dtype)) {
    call.pointer(scratch.get()).arg(tensor).value(geometry);
  }
  void launch(Operator& op) {
    const int64_t all = geometry.batch * geometry.channels;
    const int64_t per_group = call.rows_per_group(geometry.channel);
    call.integer(per_group).launch(op, ceil_div(all, per_group));
  }
};

// Pads x with zeros and splits it by stride phase, so that each kernel tap is at a fixed distance.
Padding pad_x(const ConvolutionShape& g) {
  Padding p;
  p.batch = g.batch;
  p.channels = g.groups * g.inner;
  std::copy_n(g.x_size, 3, p.size);
  std::copy_n(g.x, 5, p.from);
  for (int d = 0; d < 3; ++d) {
    p.before[d] = g.padding[d];
    p.stride[d] = g.stride[d];
    p.phases[d] = g.kernel[d] == 1 ? 1 : g.stride[d];
    p.length[d] = ((g.y_size[d] - 1) * g.stride[d] + (g.kernel[d] - 1) * g.dilation[d]) / g.stride[d] + 1;
  }
  p.channel = round_up(volume(p.phases) * volume(p.length), kChannelTail) + kChannelTail;
  return p;
}

// Element i of x is row (i + padding) / stride of its phase. Returns the lowest row.
int64_t first_row(const ConvolutionShape& g, int d) { return g.padding[d] / g.stride[d]; }

// Pads y so that the taps of a transposed convolution are at fixed distances.
Padding pad_y(const ConvolutionShape& g) {
  Padding p;
  p.batch = g.batch;
  p.channels = g.groups * g.outer;
  std::copy_n(g.y_size, 3, p.size);
  std::copy_n(g.y, 5, p.from);
  for (int d = 0; d < 3; ++d) {
    const int64_t reach = (g.kernel[d] - 1) * g.dilation[d] / g.stride[d], first = first_row(g, d);
    p.before[d] = reach - first;
    p.stride[d] = p.phases[d] = 1;
    p.length[d] = (g.x_size[d] - 1 + g.padding[d]) / g.stride[d] - first + reach + 1;
  }
  p.channel = round_up(volume(p.length), kChannelTail) + kChannelTail;
  return p;
}

// Pads y to the row length of the padded x.
Padding pad_y_like(const ConvolutionShape& g, const Padding& x) {
  Padding p = pad_y(g);
  for (int d = 0; d < 3; ++d) {
    p.before[d] = 0;
    p.length[d] = d == 0 ? g.y_size[0] : x.length[d];
  }
  p.channel = round_up(volume(p.length), kChannelTail);
  return p;
}

Taps taps_of(const ConvolutionShape& g, const Padding& p, bool transposed) {
  Taps taps;
  taps.count = volume(g.kernel);
  taps.transposed = transposed;
  std::copy_n(g.kernel, 3, taps.kernel);
  std::copy_n(g.dilation, 3, taps.dilation);
  std::copy_n(g.stride, 3, taps.stride);
  std::copy_n(p.phases, 3, taps.phases);
  std::copy_n(p.length, 3, taps.length);
  std::copy_n(g.weight + 2, 3, taps.weight);
  std::fill_n(taps.phase, 3, 0);
  return taps;
}

// Splits the result among work-groups and returns their number, which depends on shapes only.
int64_t partition(Application& a, int64_t batch) {
  constexpr int64_t kWorth = 1 << 19, kEnough = 8, kSourceElements = 1 << 16;
  const int64_t all = (a.grid[0] - 1) * a.pitch[0] + (a.grid[1] - 1) * a.pitch[1] + a.grid[2];
  const int64_t depth = std::max<int64_t>(1, a.channels * a.taps.count), every = batch * a.groups;
  int64_t max_block = std::clamp<int64_t>(kSourceElements / a.channels, kTileColumns, 4096);
  a.block_rows = round_up(a.rows, kRows);
  for (;;) {
    a.block = round_up(ceil_div(all, ceil_div(all, max_block)), kTileColumns);
    a.blocks = ceil_div(all, a.block);
    a.row_blocks = ceil_div(a.rows, a.block_rows);
    const int64_t work = std::min(a.block, all) * std::min(a.block_rows, a.rows) * depth;
    if (every * a.blocks * a.row_blocks >= kEnough || work <= kWorth) break;
    if (max_block > kTileColumns && a.block > kTileColumns) {
      max_block = std::max(kTileColumns, max_block / 2);
    } else if (a.block_rows > 2 * kRows && a.rows > 2) {
      a.block_rows = round_up(a.block_rows / 2, kRows);
    } else {
      break;
    }
  }
  return every * a.blocks * a.row_blocks;
}

// Launches two kernels: one packs the weight into panels, one computes the result.
bool apply(const OpBinding& binding, Device& device, const View& out, int64_t offset, const Scratch& from,
           const View& weight, const View& bias, Application& a, int64_t batch) {
  static KernelTemplate packing("convolution_cpu:panels", {"T"}), applying("convolution_cpu:apply", {"T"});
  TemplateCall pack(packing, device, {weight.dtype}), call(applying, device, {weight.dtype});
  if (!pack.available() || !call.available()) return false;
  a.panel_group = round_up(a.rows, kRows) * a.channels * a.taps.count;
  a.with_bias = bias.defined();
  const Scratch panels(device, std::max<int64_t>(1, a.groups * a.panel_group) * info(accumulator(weight.dtype)).bytes);
  const int64_t groups = partition(a, batch);
  // Only the kernel knows the panel height: surplus groups do nothing.
  pack.pointer(panels.get()).arg(weight).value(a).launch(binding.op, a.groups * ceil_div(a.rows, kMinPanelRows));
  void* const to = static_cast<char*>(out.data) + offset * info(out.dtype).bytes;
  call.pointer(to).pointer(from.get()).pointer(panels.get()).pointer(a.with_bias ? bias.data : to).value(a);
  return call.launch(binding.op, groups);
}

// Whether the convolution is a plain matrix product: kernel size 1, and spatial dimensions that collapse into one.
bool is_product(const ConvolutionShape& g) {
  const auto dense = [](const int64_t (&size)[3], const int64_t (&strides)[5]) {
    int64_t expected = -1;
    for (int d = 2; d >= 0; --d) {
      if (size[d] == 1) continue;
      if (expected >= 0 && strides[2 + d] != expected) return false;
      expected = size[d] * strides[2 + d];
    }
    return true;
  };
  for (int d = 0; d < 3; ++d) {
    if (g.kernel[d] != 1 || g.stride[d] != 1 || g.padding[d] != 0 || g.x_size[d] != g.y_size[d]) return false;
  }
  return g.groups == 1 && dense(g.x_size, g.x) && dense(g.y_size, g.y);
}

int64_t spatial_stride(const int64_t (&size)[3], const int64_t (&strides)[5]) {
  return size[2] != 1 ? strides[4] : size[1] != 1 ? strides[3] : strides[2];
}

// x or y of a convolution, as a batch of channel x position matrices.
struct Side {
  const View& tensor;
  int64_t channels;
  const int64_t (&size)[3];
  const int64_t (&strides)[5];

  MatrixView matrix(int64_t batch) const {
    return {tensor, batch, channels, volume(size), strides[0], strides[1], spatial_stride(size, strides)};
  }
};

// Computes one side from the other if is_product. `row` and `column` are the weight's strides for their channels.
bool make_by_product(const OpBinding& binding, Device& device, const Side& to, const Side& from, const View& weight,
                     int64_t row, int64_t column, const View& bias, int64_t batch) {
  const MatrixView out = to.matrix(batch), right = from.matrix(batch);
  const MatrixView left(weight, batch, to.channels, from.channels, 0, row, column);
  const MatrixView more(bias, batch, to.channels, volume(to.size), 0, 1, 0);
  return launch_matmul(binding, device, out.view, bias.defined() ? more.view : View{}, left.view, right.view, {}, {});
}

// The fields that both directions share.
Application application_of(const ConvolutionShape& g, const Padding& padding, bool transposed) {
  Application a;
  a.groups = g.groups;
  a.rows = transposed ? g.inner : g.outer;
  a.channels = transposed ? g.outer : g.inner;
  a.channel = padding.channel;
  a.pitch[0] = padding.length[1] * padding.length[2];
  a.pitch[1] = padding.length[2];
  a.start = 0;
  a.weight_group = g.outer * g.weight[0];
  a.weight_row = g.weight[transposed ? 1 : 0];
  a.weight_channel = g.weight[transposed ? 0 : 1];
  a.taps = taps_of(g, padding, transposed);
  return a;
}

bool make_y(const OpBinding& binding, Device& device, const View& y, const View& x, const View& weight,
            const View& bias, ConvolutionShape& g) {
  g.with_bias = bias.defined();
  if (is_product(g)) {
    return make_by_product(binding, device, {y, g.outer, g.y_size, g.y}, {x, g.inner, g.x_size, g.x}, weight,
                           g.weight[0], g.weight[1], bias, g.batch);
  }
  if (Im2colConvolution::is_preferred(device, g, weight) &&
      Im2colConvolution(binding, device, g).make_y(y, x, weight, bias))
    return true;
  if (has_vectors(device, y.dtype, g)) {
    const Padding padding = pad_x(g);
    Application a = application_of(g, padding, false);
    std::copy_n(g.y_size, 3, a.grid);
    std::copy_n(g.y, 5, a.out);
    Padded padded(device, x, padding);
    if (padded.call.available()) {
      padded.launch(binding.op);
      if (apply(binding, device, y, 0, padded.scratch, weight, bias, a, g.batch)) return true;
    }
  }
  static KernelTemplate kernels("convolution:y", {"T"});
  TemplateCall call(kernels, device, {y.dtype});
  const int64_t elements = y.numel();
  call.arg(y).arg(x).arg(weight).pointer(bias.defined() ? bias.data : y.data).value(g).integer(elements);
  return call.launch_elements(binding.op, elements);
}

// One application per stride phase of x, each with the taps that reach it.
bool make_x_by_phases(const OpBinding& binding, Device& device, const View& x, const View& y, const View& weight,
                      const View& bias, const ConvolutionShape& g) {
  const Padding padding = pad_y(g);
  Padded padded(device, y, padding);
  if (!padded.call.available()) return false;
  padded.launch(binding.op);
  for (int64_t number = 0; number < volume(g.stride); ++number) {
    const int64_t phase[3] = {number / g.stride[2] / g.stride[1], number / g.stride[2] % g.stride[1],
                              number % g.stride[2]};
    Application a = application_of(g, padding, true);
    std::copy_n(g.x, 2, a.out);
    int64_t offset = 0;
    bool empty = false;
    a.taps.count = 1;
    for (int d = 0; d < 3; ++d) {
      const int64_t stride = g.stride[d], shift = g.padding[d] - phase[d];
      const int64_t first = shift <= 0 ? 0 : ceil_div(shift, stride);
      const int64_t last = g.x_size[d] - 1 + shift < 0 ? -1 : (g.x_size[d] - 1 + shift) / stride;
      a.grid[d] = last - first + 1;
      empty |= a.grid[d] <= 0;
      a.start = a.start * padding.length[d] + first - first_row(g, d);
      offset += (first * stride - shift) * g.x[2 + d];
      a.out[2 + d] = g.x[2 + d] * stride;
      a.taps.phase[d] = phase[d];
      int64_t reached = 0;
      for (int64_t k = 0; k < g.kernel[d]; ++k) reached += k * g.dilation[d] % stride == phase[d];
      a.taps.count *= reached;
    }
    if (empty) continue;
    if (!apply(binding, device, x, offset, padded.scratch, weight, bias, a, g.batch)) return false;
  }
  return true;
}

bool make_x(const OpBinding& binding, Device& device, const View& x, const View& y, const View& weight,
            const View& bias, ConvolutionShape& g) {
  g.with_bias = bias.defined();
  if (is_product(g)) {
    return make_by_product(binding, device, {x, g.inner, g.x_size, g.x}, {y, g.outer, g.y_size, g.y}, weight,
                           g.weight[1], g.weight[0], bias, g.batch);
  }
  if (Im2colConvolution::is_preferred(device, g, weight) &&
      Im2colConvolution(binding, device, g).make_x(x, y, weight, bias))
    return true;
  if (has_vectors(device, x.dtype, g) && make_x_by_phases(binding, device, x, y, weight, bias, g)) return true;
  static KernelTemplate kernels("convolution:x", {"T"});
  TemplateCall call(kernels, device, {x.dtype});
  const int64_t elements = x.numel();
  call.arg(x).arg(y).arg(weight).pointer(bias.defined() ? bias.data : x.data).value(g).integer(elements);
  return call.launch_elements(binding.op, elements);
}

bool make_weight(const OpBinding& binding, Device& device, const View& weight, const View& x, const View& y,
                 const ConvolutionShape& g) {
  static KernelTemplate kernels("convolution:weight", {"T"}), fast("convolution_cpu:correlate", {"T"});
  if (Im2colConvolution::is_preferred(device, g, weight) &&
      Im2colConvolution(binding, device, g).make_weight(weight, x, y))
    return true;
  if (has_vectors(device, weight.dtype, g)) {
    const Padding x_padding = pad_x(g), y_padding = pad_y_like(g, x_padding);
    Padded padded_x(device, x, x_padding), padded_y(device, y, y_padding);
    TemplateCall call(fast, device, {weight.dtype});
    if (call.available() && padded_x.call.available()) {
      Correlation c;
      c.batch = g.batch;
      c.groups = g.groups;
      c.outer = g.outer;
      c.inner = g.inner;
      c.x_channel = x_padding.channel;
      c.y_channel = y_padding.channel;
      const int64_t row = x_padding.length[2], plane = x_padding.length[1] * row;
      c.length = round_up((g.y_size[0] - 1) * plane + (g.y_size[1] - 1) * row + g.y_size[2], kChannelTail);
      std::copy_n(g.weight, 2, c.weight);
      c.taps = taps_of(g, x_padding, false);
      // Enough groups to occupy many threads, each with whole tiles.
      constexpr int64_t kEnough = 16, kBand = 4, kTile = 12;
      const int64_t columns = g.inner * c.taps.count, bands = g.groups * ceil_div(g.outer, kBand);
      c.block = round_up(ceil_div(columns, ceil_div(kEnough, bands)), kTile);
      c.blocks = ceil_div(columns, c.block);
      padded_x.launch(binding.op);
      padded_y.launch(binding.op);
      call.arg(weight).pointer(padded_x.scratch.get()).pointer(padded_y.scratch.get()).value(c);
      return call.launch(binding.op, bands * c.blocks);
    }
  }
  TemplateCall call(kernels, device, {weight.dtype});
  return call.arg(weight).arg(x).arg(y).value(g).launch(binding.op, weight.numel());
}

bool sum_channels(const OpBinding& binding, Device& device, const View& sums, const View& tensor) {
  static KernelTemplate kernels("convolution:bias", {"T"});
  TemplateCall call(kernels, device, {sums.dtype});
  ConvolutionShape g{};
  g.batch = tensor.sizes[0];
  spatial(tensor, g.y, &g.y_size);
  return call.arg(sums).arg(tensor).value(g).launch(binding.op, sums.sizes[0]);
}

}  // namespace

bool convolution(const OpBinding& binding, Device& device, const View& out, const View& input_view, const View& weight,
                 const View& bias, const ConvolutionAttributes& a) {
  const int n = a.dimensions;
  if (call_vendor(
          binding, device,
          {output(out), input(input_view), input(weight), input(bias), attribute(a.stride, n), attribute(a.padding, n),
           attribute(a.dilation, n), attribute(a.transposed), attribute(a.output_padding, n), attribute(a.groups)}))
    return true;
  if (!binding.portable_allowed || !(is_float(out.dtype) || out.dtype == DType::kI64)) return false;
  ConvolutionShape g = a.transposed ? relate(out, input_view, weight, a) : relate(input_view, out, weight, a);
  PortableScope scope(binding);
  const bool done = a.transposed ? make_x(binding, device, out, input_view, weight, bias, g)
                                 : make_y(binding, device, out, input_view, weight, bias, g);
  return done && scope.done();
}

bool convolution_backward(const OpBinding& binding, const Kernel* input_kernel, const Kernel* weight_kernel,
                          Device& device, const View& grad_input, const View& grad_weight, const View& grad_bias,
                          const View& grad, const View& input_view, const View& weight,
                          const ConvolutionAttributes& a) {
  const int n = a.dimensions;
  if (!is_float(grad.dtype)) return false;
  const auto call = [&](const Kernel* kernel, const View& to, const View& other) {
    return !to.defined() || call_vendor(binding.op, kernel, device,
                                        {output(to), input(grad), input(other), attribute(a.stride, n),
                                         attribute(a.padding, n), attribute(a.dilation, n), attribute(a.transposed),
                                         attribute(a.output_padding, n), attribute(a.groups)});
  };
  const bool input_done = call(input_kernel, grad_input, weight);
  const bool weight_done = call(weight_kernel, grad_weight, input_view);
  if (input_done && weight_done && !grad_bias.defined()) return true;
  if (!binding.portable_allowed) return false;
  PortableScope scope(binding);
  const ConvolutionShape g = a.transposed ? relate(grad, input_view, weight, a) : relate(input_view, grad, weight, a);
  if (!input_done) {
    ConvolutionShape backward = g;
    spatial(grad_input, a.transposed ? backward.y : backward.x, nullptr);
    const bool done = a.transposed ? make_y(binding, device, grad_input, grad, weight, {}, backward)
                                   : make_x(binding, device, grad_input, grad, weight, {}, backward);
    if (!done) return false;
  }
  if (!weight_done) {
    ConvolutionShape backward = g;
    spatial(grad_weight, backward.weight, nullptr);
    const bool done = a.transposed ? make_weight(binding, device, grad_weight, grad, input_view, backward)
                                   : make_weight(binding, device, grad_weight, input_view, grad, backward);
    if (!done) return false;
  }
  if (grad_bias.defined() && !sum_channels(binding, device, grad_bias, grad)) return false;
  return scope.done();
}

}  // namespace hp::ops
