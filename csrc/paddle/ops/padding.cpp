#include "../../ops/padding.h"

#include "../spatial.h"

namespace hp::paddle_adapter::ops {
namespace {

// The part of a padded tensor that the given one has been: `before` has an entry for each dimension.
Shaped inner_of(const View& padded, const View& given, const int64_t* before) {
  Shaped made(padded);
  int64_t first = 0;
  for (int d = 0; d < padded.ndim; ++d) {
    first += before[d] * padded.strides[d];
    made.size(d) = given.sizes[d];
  }
  made.set_data(static_cast<char*>(padded.data) + first * info(padded.dtype).bytes);
  return made;
}

bool fits(const std::vector<int64_t>& amounts, size_t count) {
  return amounts.size() == count && std::all_of(amounts.begin(), amounts.end(), [](int64_t n) { return n >= 0; });
}

bool pad_by(Call& call, const int64_t* before, const phi::Scalar& value) {
  static Step step("copy");
  const View x = call.view_of(0), out = call.allocate(0);
  return fill(call.device, out, value) &&
         (x.numel() == 0 || copy(step.on(call.device), call.device, inner_of(out, x, before), x)) && decomposed(call);
}

bool cut_out(Call& call, const View& grad, const int64_t* before) {
  static Step step("copy");
  const View out = call.allocate(0);
  return copy(step.on(call.device), call.device, out, inner_of(grad, out, before)) && decomposed(call);
}

// ---- Any number of dimensions. Attributes: paddings, before and after each dimension; pad_value.

std::vector<int64_t> before_of(const std::vector<int64_t>& amounts) {
  std::vector<int64_t> before;
  for (size_t d = 0; d < amounts.size(); d += 2) before.push_back(amounts[d]);
  return before;
}

bool pad(Call& call) {
  const auto amounts = call.integers(0);
  const int ndim = call.input(0)->dims().size();
  if (!call.plain() || ndim > kMaxDimensions || !fits(amounts, 2 * ndim)) return false;
  return pad_by(call, before_of(amounts).data(), call.attr<phi::Scalar>(1));
}

bool pad_grad(Call& call) {
  const auto amounts = call.integers(0);
  const int ndim = call.input(0)->dims().size();
  if (!call.plain() || call.input(0)->numel() == 0 || ndim > kMaxDimensions || !fits(amounts, 2 * ndim)) return false;
  return cut_out(call, call.view_of(0), before_of(amounts).data());
}

// ---- Images. Attributes: paddings, as torch has them, for three dimensions; mode, pad_value, layout.

struct Image {
  bool read(const Call& call) {
    amounts = call.integers(0);
    last = channels_last(call.attr<std::string>(3));
    if (!fits(amounts, 6)) return false;
    const int first = last ? 1 : 2;
    for (int d = 0; d < 3; ++d) before[first + d] = amounts[4 - 2 * d];
    return true;
  }
  std::vector<int64_t> amounts;
  std::array<int64_t, 5> before{};
  bool last;
};

bool pad3d(Call& call) {
  static Step mirror("reflection_pad"), repeat("replication_pad");
  Image image;
  if (!call.plain() || call.input(0)->dims().size() != 5 || !image.read(call)) return false;
  const auto& mode = call.attr<std::string>(1);
  if (mode == "constant") return pad_by(call, image.before.data(), call.real(2));
  if (image.last || call.input(0)->numel() == 0 || (mode != "reflect" && mode != "replicate")) return false;
  const View x = call.view_of(0), out = call.allocate(0);
  const bool done =
      mode == "reflect"
          ? hp::ops::reflection_pad(mirror.on(call.device), call.device, out, x, image.amounts.data(), 6)
          : hp::ops::replication_pad(repeat.on(call.device), call.device, out, x, image.amounts.data(), 6);
  return done && decomposed(call);
}

// Inputs: x, out_grad.
bool pad3d_grad(Call& call) {
  static Step mirror("reflection_pad_backward"), repeat("replication_pad_backward");
  Image image;
  if (!ready(call.input(1)) || call.input(1)->dims().size() != 5 || call.input(1)->numel() == 0 || !image.read(call)) {
    return false;
  }
  const View grad = call.view_of(1);
  const auto& mode = call.attr<std::string>(1);
  if (mode == "constant") return cut_out(call, grad, image.before.data());
  if (image.last || (mode != "reflect" && mode != "replicate")) return false;
  const View out = call.allocate(0);
  const bool done =
      mode == "reflect"
          ? hp::ops::reflection_pad_backward(mirror.on(call.device), call.device, out, grad, image.amounts.data(), 6)
          : hp::ops::replication_pad_backward(repeat.on(call.device), call.device, out, grad, image.amounts.data(), 6);
  return done && decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/padding.inc"
