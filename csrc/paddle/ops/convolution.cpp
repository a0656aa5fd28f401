#include "../../ops/convolution.h"

#include "../spatial.h"

namespace hp::paddle_adapter::ops {
namespace {

// Where a kernel has its attributes.
struct Places {
  int strides, paddings, algorithm, dilations, groups, format;
  bool transposed;
};
constexpr Places kPlain{0, 1, 2, 3, 4, 5, false};
constexpr Places kGroupsFirst{0, 1, 2, 4, 3, 5, false};
constexpr Places kTransposed{0, 1, 4, 6, 5, 7, true};

// A convolution with everything settled. The image is what gets padded: the input, of a transposed one the output.
struct Geometry {
  Sizes stride, dilation, output_padding{};
  Padding padding;
  int rank;
  int64_t groups;
  bool transposed;

  bool read(const Call& call, const Places& at, const View& weight, const View& input, const View& output) {
    rank = weight.ndim - 2;
    transposed = at.transposed;
    groups = call.integer(at.groups);
    Sizes kernel;
    std::copy_n(weight.sizes + 2, rank, kernel.begin());
    const auto& algorithm = call.attr<std::string>(at.algorithm);
    if (!read_sizes(call.integers(at.strides), rank, stride) ||
        !read_sizes(call.integers(at.dilations), rank, dilation) ||
        !padding.read(call.integers(at.paddings), algorithm, rank, input.sizes + 2, stride, kernel)) {
      return false;
    }
    if (algorithm == "SAME") std::fill_n(dilation.begin(), rank, 1);
    if (std::any_of(padding.before.begin(), padding.before.end(), [](int64_t amount) { return amount < 0; }) ||
        std::any_of(padding.after.begin(), padding.after.end(), [](int64_t amount) { return amount < 0; })) {
      return false;
    }
    for (int d = 0; d < rank && transposed; ++d) {
      const int64_t reached = (input.sizes[2 + d] - 1) * stride[d] + (kernel[d] - 1) * dilation[d] + 1;
      output_padding[d] = output.sizes[2 + d] + padding.before[d] + padding.after[d] - reached;
      if (output_padding[d] < 0) return false;
    }
    return true;
  }

  hp::ops::ConvolutionAttributes attributes() const {
    static constexpr Sizes none{};
    return {stride.data(),
            padding.even() ? padding.before.data() : none.data(),
            dilation.data(),
            output_padding.data(),
            rank,
            transposed,
            groups};
  }
};

// The image with its padding, in memory of its own where the two sides differ: kernels pad alike before and after.
class Image {
 public:
  Image(Device& device, const View& image, const Geometry& geometry) : device_(device), image_(image), view_(image) {
    const Padding& padding = geometry.padding;
    if (padding.even()) return;
    Sizes offset{};
    std::array<int64_t, 5> sizes{image.sizes[0], image.sizes[1]};
    for (int d = 0; d < geometry.rank; ++d) {
      offset[d] = padding.before[d];
      sizes[2 + d] = image.sizes[2 + d] + padding.before[d] + padding.after[d];
    }
    whole_.emplace(device, image.dtype, image.ndim, sizes.data());
    view_ = *whole_;
    int64_t first = 0;
    for (int d = 0; d < geometry.rank; ++d) first += offset[d] * whole_->stride(2 + d);
    inner_ = *whole_;
    for (int d = 0; d < geometry.rank; ++d) inner_.size(2 + d) = image.sizes[2 + d];
    inner_.set_data(static_cast<char*>(whole_->view().data) + first * info(image.dtype).bytes);
  }

  bool read() {
    static Step step("copy");
    return !whole_ || (fill(device_, view_, 0) && copy(step.on(device_), device_, inner_, image_));
  }
  bool write() {
    static Step step("copy");
    return !whole_ || copy(step.on(device_), device_, image_, inner_);
  }
  const View& view() const { return view_; }

 private:
  Device& device_;
  const View image_;
  View view_;
  std::optional<Temporary> whole_;
  Shaped inner_;
};

bool takes(const Call& call) {
  const int ndim = call.input(0)->dims().size();
  return call.plain() && is_float(to_core(call.kernel.dtype)) && ndim >= 3 && ndim <= 5 &&
         call.input(1)->dims().size() == ndim && call.input(1)->numel() != 0;
}

bool forward(Call& call, const Places& at) {
  if (!takes(call)) return false;
  const bool last = channels_last(call.attr<std::string>(at.format));
  const View made = call.allocate(0);
  if (made.numel() == 0) return true;
  const Shaped x = channels_second(call.view_of(0), last), out = channels_second(made, last);
  const View weight = call.view_of(1);
  Geometry geometry;
  if (x.view().numel() == 0 || !geometry.read(call, at, weight, x, out)) return false;
  Image image(call.device, at.transposed ? out : x, geometry);
  const auto attributes = geometry.attributes();
  if (at.transposed) {
    return hp::ops::convolution(call.service(), call.device, image.view(), x, weight, {}, attributes) && image.write();
  }
  return image.read() && hp::ops::convolution(call.service(), call.device, out, image.view(), weight, {}, attributes);
}

bool backward(Call& call, const Places& at) {
  if (!takes(call) || call.input(0)->numel() == 0 || call.input(2)->numel() == 0) return false;
  static Step for_input("convolution_backward_input"), for_weight("convolution_backward_weight");
  const bool last = channels_last(call.attr<std::string>(at.format));
  const Shaped x = channels_second(call.view_of(0), last), grad = channels_second(call.view_of(2), last);
  const View weight = call.view_of(1);
  Geometry geometry;
  if (!geometry.read(call, at, weight, x, grad)) return false;
  View grad_weight;
  if (call.output(1) != nullptr) grad_weight = call.allocate(1);
  Shaped grad_x;
  if (call.output(0) != nullptr) grad_x = channels_second(call.allocate(0), last);
  const auto launch = [&](const View& dx, const View& dy, const View& input) {
    return hp::ops::convolution_backward(call.service(), for_input.on(call.device).kernel(),
                                         for_weight.on(call.device).kernel(), call.device, dx, grad_weight, {}, dy,
                                         input, weight, geometry.attributes());
  };
  if (at.transposed) {
    Image image(call.device, grad, geometry);
    return image.read() && launch(grad_x, image.view(), x);
  }
  Image image(call.device, x, geometry);
  if (!image.read()) return false;
  if (!grad_x.view().defined()) return launch({}, grad, image.view());
  Image grad_image(call.device, grad_x, geometry);
  return launch(grad_image.view(), grad, image.view()) && grad_image.write();
}

bool conv2d(Call& call) { return forward(call, kPlain); }
bool conv2d_grad(Call& call) { return backward(call, kPlain); }
bool depthwise_conv2d(Call& call) { return forward(call, kGroupsFirst); }
bool depthwise_conv2d_grad(Call& call) { return backward(call, kGroupsFirst); }
bool conv3d(Call& call) { return forward(call, kGroupsFirst); }
bool conv3d_grad(Call& call) { return backward(call, kGroupsFirst); }
bool conv2d_transpose(Call& call) { return forward(call, kTransposed); }
bool conv2d_transpose_grad(Call& call) { return backward(call, kTransposed); }
bool depthwise_conv2d_transpose(Call& call) { return forward(call, kTransposed); }
bool depthwise_conv2d_transpose_grad(Call& call) { return backward(call, kTransposed); }
bool conv3d_transpose(Call& call) { return forward(call, kTransposed); }
bool conv3d_transpose_grad(Call& call) { return backward(call, kTransposed); }

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/convolution.inc"
