#include "convolution_columns.h"

#include <algorithm>

#include "../core/copy_views.h"
#include "../core/template_call.h"
#include "matmul.h"

namespace hp::ops {
namespace {

// A channel's taps follow each other, and the channels of a row.
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

// y's channels, each with the places of some images: a tensor's, or a dense matrix of them.
struct Channels {
  Channels(const View& y, const Convolution& g, int64_t first, int64_t count)
      : sizes{g.outer, count, g.y_size[0], g.y_size[1], g.y_size[2]}, strides{g.y[1], g.y[0], g.y[2], g.y[3], g.y[4]} {
    view = {image(y, g.y[0], first), y.dtype, 5, sizes, strides};
  }
  Channels(void* data, DType dtype, const Convolution& g, int64_t count)
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

ByColumns::ByColumns(const Service& service, Device& device, const Convolution& g)
    : service_(service),
      device_(device),
      g_(g),
      places_(volume(g.y_size)),
      depth_(g.inner * volume(g.kernel)),
      images_(std::min(g.batch, ceil_div(kColumnsAtOnce, places_))) {}

bool ByColumns::suits(const Device& device, const Convolution& g, const View& weight) {
  constexpr int64_t kFewPlaces = 64, kManyChannels = 32;
  if (g.groups != 1 || !is_float(weight.dtype) || g.batch * volume(g.y_size) == 0 || !is_dense(weight)) return false;
  if (device.plugin.compiler.group_size != 1) return true;
  return volume(g.y_size) <= kFewPlaces && g.inner >= kManyChannels && g.outer >= kManyChannels;
}

// Calls work(first image, number of images) until all are done.
template <class Work>
bool ByColumns::for_images(const Work& work) const {
  for (int64_t first = 0; first < g_.batch; first += images_) {
    if (!work(first, std::min(images_, g_.batch - first))) return false;
  }
  return true;
}

Matrix ByColumns::weight_rows(const View& weight) const {
  return {weight.data, weight.dtype, 1, g_.outer, depth_, 0, g_.weight[0], 1};
}

bool ByColumns::gather(const Scratch& columns, const View& x, int64_t first, int64_t count) const {
  static TemplateKernels kernels("convolution:columns", {"T"});
  TemplateCall call(kernels, device_, {x.dtype});
  if (!call.available()) return false;
  const int64_t per_group = call.rows_per_group(count * places_);
  call.pointer(columns.get()).pointer(image(x, g_.x[0], first)).value(g_).integer(count).integer(per_group);
  call.launch(service_.op, ceil_div(depth_, per_group));
  return true;
}

bool ByColumns::gather_channels(const Scratch& to, const View& y, int64_t first, int64_t count) const {
  return copy_portable(service_.op, device_, Channels(to.get(), y.dtype, g_, count).view,
                       Channels(y, g_, first, count).view);
}

bool ByColumns::make_y(const View& y, const View& x, const View& weight, const View& bias) const {
  const Scratch columns(device_, depth_ * images_ * places_ * info(y.dtype).bytes);
  const Scratch made(device_, g_.outer * images_ * places_ * info(y.dtype).bytes);
  return for_images([&](int64_t first, int64_t count) {
    const int64_t width = count * places_;
    if (!gather(columns, x, first, count)) return false;
    const Matrix out(made.get(), y.dtype, 1, g_.outer, width, 0, width, 1);
    const Matrix right(columns.get(), y.dtype, 1, depth_, width, 0, width, 1);
    const Matrix more(bias.data, y.dtype, 1, g_.outer, width, 0, 1, 0);
    return launch_product(service_, device_, out.view, bias.defined() ? more.view : View{}, weight_rows(weight).view,
                          right.view, {}, {}) &&
           copy_portable(service_.op, device_, Channels(y, g_, first, count).view,
                         Channels(made.get(), y.dtype, g_, count).view);
  });
}

bool ByColumns::make_x(const View& x, const View& y, const View& weight, const View& bias) const {
  static TemplateKernels kernels("convolution:fold", {"T"});
  const DType sum = accumulator(x.dtype);
  const Scratch gathered(device_, g_.outer * images_ * places_ * info(y.dtype).bytes);
  const Scratch columns(device_, depth_ * images_ * places_ * info(sum).bytes);
  return for_images([&](int64_t first, int64_t count) {
    const int64_t width = count * places_;
    if (!gather_channels(gathered, y, first, count)) return false;
    const Matrix left(weight.data, weight.dtype, 1, depth_, g_.outer, 0, 1, g_.weight[0]);
    const Matrix right(gathered.get(), y.dtype, 1, g_.outer, width, 0, width, 1);
    const Matrix out(columns.get(), sum, 1, depth_, width, 0, width, 1);
    TemplateCall call(kernels, device_, {x.dtype});
    if (!call.available() || !launch_product(service_, device_, out.view, {}, left.view, right.view, {}, {}))
      return false;
    const int64_t lines = count * g_.inner * g_.x_size[0] * g_.x_size[1];
    const int64_t per_group = call.rows_per_group(g_.x_size[2] * volume(g_.kernel));
    call.pointer(image(x, g_.x[0], first)).pointer(columns.get()).pointer(bias.defined() ? bias.data : x.data);
    call.value(g_).integer(count).integer(per_group).launch(service_.op, ceil_div(lines, per_group));
    return true;
  });
}

bool ByColumns::make_weight(const View& weight, const View& x, const View& y) const {
  // Sums over more images than fit at a time would be rounded in between.
  if (images_ != g_.batch && accumulator(weight.dtype) != weight.dtype) return false;
  const Scratch columns(device_, depth_ * images_ * places_ * info(x.dtype).bytes);
  const Scratch gathered(device_, g_.outer * images_ * places_ * info(y.dtype).bytes);
  return for_images([&](int64_t first, int64_t count) {
    const int64_t width = count * places_;
    if (!gather(columns, x, first, count) || !gather_channels(gathered, y, first, count)) return false;
    const Matrix out = weight_rows(weight);
    const Matrix left(gathered.get(), y.dtype, 1, g_.outer, width, 0, width, 1);
    const Matrix right(columns.get(), x.dtype, 1, width, depth_, 0, 1, width);
    return launch_product(service_, device_, out.view, first == 0 ? View{} : out.view, left.view, right.view, {}, {});
  });
}

}  // namespace hp::ops
