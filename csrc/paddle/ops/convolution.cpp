#include "ops/convolution.h"

#include "ops/window_attributes.h"

namespace hp::paddle_adapter::ops {
namespace {

// Attribute positions of a kernel.
struct Positions {
  int strides, paddings, algorithm, dilations, groups, format;
  bool transposed;
};
constexpr Positions kPlain{0, 1, 2, 3, 4, 5, false};
constexpr Positions kGroupsFirst{0, 1, 2, 4, 3, 5, false};
constexpr Positions kTransposed{0, 1, 4, 6, 5, 7, true};

// Validated attributes of a convolution. Padding applies to the "image": the input, or the output if transposed.
struct ConvolutionParameters {
  SpatialSizes stride, dilation, output_padding{};
  Padding padding;
  int rank;
  int64_t groups;
  bool transposed;

  bool read(const Call& call, const Positions& positions, const View& weight, const View& input, const View& output) {
    rank = weight.ndim - 2;
    transposed = positions.transposed;
    groups = call.integer(positions.groups);
    SpatialSizes kernel;
    std::copy_n(weight.sizes + 2, rank, kernel.begin());
    const auto& algorithm = call.attr<std::string>(positions.algorithm);
    if (!read_sizes(call.integers(positions.strides), rank, stride) ||
        !read_sizes(call.integers(positions.dilations), rank, dilation) ||
        !padding.read(call.integers(positions.paddings), algorithm, rank, input.sizes + 2, stride, kernel)) {
      return false;
    }
    if (algorithm == "SAME") std::fill_n(dilation.begin(), rank, 1);
    if (std::any_of(padding.before.begin(), padding.before.end(), [](int64_t amount) { return amount < 0; }) ||
        std::any_of(padding.after.begin(), padding.after.end(), [](int64_t amount) { return amount < 0; })) {
      return false;
    }
    for (int d = 0; d < rank && transposed; ++d) {
      const int64_t extent = (input.sizes[2 + d] - 1) * stride[d] + (kernel[d] - 1) * dilation[d] + 1;
      output_padding[d] = output.sizes[2 + d] + padding.before[d] + padding.after[d] - extent;
      if (output_padding[d] < 0) return false;
    }
    return true;
  }

  hp::ops::ConvolutionAttributes attributes() const {
    static constexpr SpatialSizes none{};
    return {stride.data(),
            padding.is_symmetric() ? padding.before.data() : none.data(),
            dilation.data(),
            output_padding.data(),
            rank,
            transposed,
            groups};
  }
};

// The image as the kernel takes it. The kernels only pad symmetrically, so for asymmetric padding this is a padded
// copy.
class Image {
 public:
  Image(Device& device, const View& image, const ConvolutionParameters& parameters)
      : device_(device), image_(image), view_(image) {
    const Padding& padding = parameters.padding;
    if (padding.is_symmetric()) return;
    std::array<int64_t, 5> before{}, sizes{image.sizes[0], image.sizes[1]};
    for (int d = 0; d < parameters.rank; ++d) {
      before[2 + d] = padding.before[d];
      sizes[2 + d] = image.sizes[2 + d] + padding.before[d] + padding.after[d];
    }
    padded_.emplace(device, image.dtype, image.ndim, sizes.data());
    view_ = *padded_;
    inner_ = inner_view(view_, image, before.data());
  }

  // image -> padded copy; call before the kernel reads it. False if no kernel can copy.
  bool read() {
    static StandardOp step("copy");
    return !padded_ || (fill(device_, view_, 0) && copy(step.on(device_), device_, inner_, image_));
  }
  // padded copy -> image; call after the kernel wrote it. False if no kernel can copy.
  bool write() {
    static StandardOp step("copy");
    return !padded_ || copy(step.on(device_), device_, image_, inner_);
  }
  const View& view() const { return view_; }

 private:
  Device& device_;
  const View image_;
  View view_;
  std::optional<Temporary> padded_;
  ShapedView inner_;
};

bool supports_convolution(const Call& call) {
  const int ndim = call.input(0)->dims().size();
  return call.inputs_ready() && is_float(to_core(call.kernel.dtype)) && ndim >= 3 && ndim <= 5 &&
         call.input(1)->dims().size() == ndim && call.input(1)->numel() != 0;
}

bool forward(Call& call, const Positions& positions) {
  if (!supports_convolution(call)) return false;
  const bool last = channels_last(call.attr<std::string>(positions.format));
  const View result = call.allocate(0);
  if (result.numel() == 0) return true;
  const ShapedView x = channels_second(call.view_of(0), last), out = channels_second(result, last);
  const View weight = call.view_of(1);
  ConvolutionParameters parameters;
  if (x.view().numel() == 0 || !parameters.read(call, positions, weight, x, out)) return false;
  Image image(call.device, positions.transposed ? out : x, parameters);
  const auto attributes = parameters.attributes();
  if (positions.transposed) {
    return hp::ops::convolution(call.binding(), call.device, image.view(), x, weight, {}, attributes) && image.write();
  }
  return image.read() && hp::ops::convolution(call.binding(), call.device, out, image.view(), weight, {}, attributes);
}

bool backward(Call& call, const Positions& positions) {
  if (!supports_convolution(call) || call.input(0)->numel() == 0 || call.input(2)->numel() == 0) return false;
  static StandardOp for_input("convolution_backward_input"), for_weight("convolution_backward_weight");
  const bool last = channels_last(call.attr<std::string>(positions.format));
  const ShapedView x = channels_second(call.view_of(0), last), grad = channels_second(call.view_of(2), last);
  const View weight = call.view_of(1);
  ConvolutionParameters parameters;
  if (!parameters.read(call, positions, weight, x, grad)) return false;
  View grad_weight;
  if (call.output(1) != nullptr) grad_weight = call.allocate(1);
  ShapedView grad_x;
  if (call.output(0) != nullptr) grad_x = channels_second(call.allocate(0), last);
  const auto launch = [&](const View& dx, const View& dy, const View& input) {
    return hp::ops::convolution_backward(call.binding(), for_input.on(call.device).kernel(),
                                         for_weight.on(call.device).kernel(), call.device, dx, grad_weight, {}, dy,
                                         input, weight, parameters.attributes());
  };
  if (positions.transposed) {
    Image image(call.device, grad, parameters);
    return image.read() && launch(grad_x, image.view(), x);
  }
  Image image(call.device, x, parameters);
  if (!image.read()) return false;
  if (!grad_x.view().defined()) return launch({}, grad, image.view());
  Image grad_image(call.device, grad_x, parameters);
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
