#include "ops/detail/convolution_im2col.h"

#include <algorithm>

#include "core/dispatch/template_call.h"
#include "core/memory/scratch.h"
#include "core/tensor/copy_views.h"
#include "ops/matmul.h"

namespace hp::ops {
namespace {

// Whether the taps of a channel, and the channels of a row, are contiguous.
bool is_dense(const View& weight) {
  View row = weight;
  row.sizes += 1;
  row.strides += 1;
  row.ndim -= 1;
  return row.contiguous();
}

void* image(const View& tensor, int64_t stride, int64_t number) {
  return static_cast<char*>(tensor.data) + number * stride * info(tensor.dtype).bytes;
}

// Channel-major view of y for some images, in the tensor itself or in a dense matrix.
struct Channels {
  Channels(const View& y, const ConvolutionShape& g, int64_t first, int64_t count)
      : sizes{g.outer, count, g.y_size[0], g.y_size[1], g.y_size[2]}, strides{g.y[1], g.y[0], g.y[2], g.y[3], g.y[4]} {
    view = {image(y, g.y[0], first), y.dtype, 5, sizes, strides};
  }
  Channels(void* data, DType dtype, const ConvolutionShape& g, int64_t count)
      : sizes{g.outer, count, g.y_size[0], g.y_size[1], g.y_size[2]} {
    int64_t step = 1;
    for (int d = 4; d >= 0; --d) strides[d] = step, step *= sizes[d];
    view = {data, dtype, 5, sizes, strides};
  }
  Channels(const Channels&) = delete;  // the view points into it
  View view;
  int64_t sizes[5], strides[5];
};

constexpr int64_t kColumnsAtOnce = 512;

}  // namespace

Im2colConvolution::Im2colConvolution(const OpBinding& binding, Device& device, const ConvolutionShape& g)
    : binding_(binding),
      device_(device),
      g_(g),
      positions_(volume(g.y_size)),
      depth_(g.inner * volume(g.kernel)),
      images_(std::min(g.batch, ceil_div(kColumnsAtOnce, positions_))) {}

bool Im2colConvolution::is_preferred(const Device& device, const ConvolutionShape& g, const View& weight) {
  constexpr int64_t kFewPlaces = 64, kManyChannels = 32;
  if (g.groups != 1 || !is_float(weight.dtype) || g.batch * volume(g.y_size) == 0 || !is_dense(weight)) return false;
  if (device.group_size() != 1) return true;
  return volume(g.y_size) <= kFewPlaces && g.inner >= kManyChannels && g.outer >= kManyChannels;
}

// Calls work(first image, number of images) for all batches of images.
template <class Work>
bool Im2colConvolution::for_images(const Work& work) const {
  for (int64_t first = 0; first < g_.batch; first += images_) {
    if (!work(first, std::min(images_, g_.batch - first))) return false;
  }
  return true;
}

MatrixView Im2colConvolution::weight_rows(const View& weight) const {
  return {weight.data, weight.dtype, 1, g_.outer, depth_, 0, g_.weight[0], 1};
}

bool Im2colConvolution::gather(const Scratch& columns, const View& x, int64_t first, int64_t count) const {
  static KernelTemplate kernels("convolution:columns", {"T"});
  TemplateCall call(kernels, device_, {x.dtype});
  const int64_t per_group = call.rows_per_group(count * positions_);
  call.pointer(columns.get()).pointer(image(x, g_.x[0], first)).value(g_).integer(count).integer(per_group);
  return call.launch(binding_.op, ceil_div(depth_, per_group));
}

bool Im2colConvolution::gather_channels(const Scratch& to, const View& y, int64_t first, int64_t count) const {
  return copy_portable(binding_.op, device_, Channels(to.get(), y.dtype, g_, count).view,
                       Channels(y, g_, first, count).view);
}

bool Im2colConvolution::make_y(const View& y, const View& x, const View& weight, const View& bias) const {
  const Scratch columns(device_, depth_ * images_ * positions_ * info(y.dtype).bytes);
  const Scratch result(device_, g_.outer * images_ * positions_ * info(y.dtype).bytes);
  return for_images([&](int64_t first, int64_t count) {
    const int64_t width = count * positions_;
    if (!gather(columns, x, first, count)) return false;
    const MatrixView out(result.get(), y.dtype, 1, g_.outer, width, 0, width, 1);
    const MatrixView right(columns.get(), y.dtype, 1, depth_, width, 0, width, 1);
    const MatrixView more(bias.data, y.dtype, 1, g_.outer, width, 0, 1, 0);
    return launch_matmul(binding_, device_, out.view, bias.defined() ? more.view : View{}, weight_rows(weight).view,
                         right.view, {}, {}) &&
           copy_portable(binding_.op, device_, Channels(y, g_, first, count).view,
                         Channels(result.get(), y.dtype, g_, count).view);
  });
}

bool Im2colConvolution::make_x(const View& x, const View& y, const View& weight, const View& bias) const {
  static KernelTemplate kernels("convolution:fold", {"T"});
  const DType sum = accumulator(x.dtype);
  const Scratch gathered(device_, g_.outer * images_ * positions_ * info(y.dtype).bytes);
  const Scratch columns(device_, depth_ * images_ * positions_ * info(sum).bytes);
  return for_images([&](int64_t first, int64_t count) {
    const int64_t width = count * positions_;
    if (!gather_channels(gathered, y, first, count)) return false;
    const MatrixView left(weight.data, weight.dtype, 1, depth_, g_.outer, 0, 1, g_.weight[0]);
    const MatrixView right(gathered.get(), y.dtype, 1, g_.outer, width, 0, width, 1);
    const MatrixView out(columns.get(), sum, 1, depth_, width, 0, width, 1);
    TemplateCall call(kernels, device_, {x.dtype});
    if (!call.available() || !launch_matmul(binding_, device_, out.view, {}, left.view, right.view, {}, {}))
      return false;
    const int64_t lines = count * g_.inner * g_.x_size[0] * g_.x_size[1];
    const int64_t per_group = call.rows_per_group(g_.x_size[2] * volume(g_.kernel));
    call.pointer(image(x, g_.x[0], first)).pointer(columns.get()).pointer(bias.defined() ? bias.data : x.data);
    return call.value(g_).integer(count).integer(per_group).launch(binding_.op, ceil_div(lines, per_group));
  });
}

bool Im2colConvolution::make_weight(const View& weight, const View& x, const View& y) const {
  // Sums over several batches of images would round in between.
  if (images_ != g_.batch && accumulator(weight.dtype) != weight.dtype) return false;
  const Scratch columns(device_, depth_ * images_ * positions_ * info(x.dtype).bytes);
  const Scratch gathered(device_, g_.outer * images_ * positions_ * info(y.dtype).bytes);
  return for_images([&](int64_t first, int64_t count) {
    const int64_t width = count * positions_;
    if (!gather(columns, x, first, count) || !gather_channels(gathered, y, first, count)) return false;
    const MatrixView out = weight_rows(weight);
    const MatrixView left(gathered.get(), y.dtype, 1, g_.outer, width, 0, width, 1);
    const MatrixView right(columns.get(), x.dtype, 1, width, depth_, 0, 1, width);
    return launch_matmul(binding_, device_, out.view, first == 0 ? View{} : out.view, left.view, right.view, {}, {});
  });
}

}  // namespace hp::ops
