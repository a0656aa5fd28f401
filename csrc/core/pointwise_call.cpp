#include "pointwise_call.h"

namespace hp {
namespace {

constexpr int kMaxOperands = 1 + PointwiseCall::kMaxInputs;

// Shape and byte strides, fastest dimension first; the kernel gets it by value (kernels/pointwise.py).
struct Geometry {
  int64_t elements;
  int64_t shape[kMaxDimensions];
  int64_t strides[kMaxOperands][kMaxDimensions];
};

enum Inner : uint8_t { kBroadcast, kContiguous, kStrided };

class Launch {
 public:
  explicit Launch(const PointwiseCall& call) : call_(call), operands_(1 + call.num_inputs) {}

  bool run(Operator& op, PortableKernels& kernels, Device& device) {
    if (!plan()) return false;
    SpecialisationKey key;
    key.types = static_cast<uint64_t>(call_.compute) | static_cast<uint64_t>(operands_) << 8;
    key.layout = call_.variant | static_cast<uint64_t>(dimensions_) << 32;
    for (int k = 0; k < operands_; ++k) {
      key.types |= static_cast<uint64_t>(operand(k).dtype) << (16 + 8 * k);
      key.layout |= static_cast<uint64_t>(inner_[k]) << (40 + 2 * k);
    }
    const PortableKernel& kernel = kernels.get(device, key, &describe, this);
    if (kernel.function == nullptr) return false;

    std::array<HpLaunchArg, kMaxOperands + 2 * PointwiseCall::kMaxAttributes + 1> args;
    std::array<void*, kMaxOperands> pointers;
    uint32_t count = 0;
    for (int k = 0; k < operands_; ++k) {
      pointers[k] = operand(k).data;
      args[count++] = {&pointers[k], sizeof(void*), 1};
    }
    static constexpr double zero = 0;
    for (int a = 0; a < call_.num_attributes; ++a) {
      const PointwiseNumber& number = call_.attributes[a];
      if (is_float(call_.compute) || is_complex(call_.compute)) {
        args[count++] = {&number.real, sizeof(double), 0};
      } else {
        args[count++] = {&number.integer, sizeof(int64_t), 0};
      }
      if (is_complex(call_.compute)) args[count++] = {&zero, sizeof(double), 0};
    }
    args[count++] = {&geometry_, sizeof(geometry_), 0};
    if (__builtin_expect(observed(), 0)) notify({op, Tier::kPortable, true, nullptr});
    launch_portable(op, kernel, current_stream(device), geometry_.elements, args.data(), count);
    op.count(Tier::kPortable);
    if (__builtin_expect(observed(), 0)) notify({op, Tier::kPortable, false, nullptr});
    return true;
  }

 private:
  const View& operand(int k) const { return k == 0 ? call_.output : call_.inputs[k - 1]; }

  int64_t byte_stride(int k, int from_end) const {
    const View& view = operand(k);
    const int d = view.ndim - 1 - from_end;
    return d < 0 || view.sizes[d] == 1 ? 0 : view.strides[d] * info(view.dtype).bytes;
  }

  // Settles the loops: dimensions of one element go, neighbours that follow each other in every operand become one.
  bool plan() {
    const View& output = call_.output;
    geometry_.elements = output.numel();
    dimensions_ = 0;
    for (int from_end = 0; from_end < output.ndim; ++from_end) {
      const int64_t size = output.sizes[output.ndim - 1 - from_end];
      if (size == 1) continue;
      std::array<int64_t, kMaxOperands> strides;
      bool follows = dimensions_ > 0;
      for (int k = 0; k < operands_; ++k) {
        strides[k] = byte_stride(k, from_end);
        follows = follows && strides[k] == geometry_.strides[k][dimensions_ - 1] * geometry_.shape[dimensions_ - 1];
      }
      if (follows) {
        geometry_.shape[dimensions_ - 1] *= size;
        continue;
      }
      if (dimensions_ == kMaxDimensions) return false;
      geometry_.shape[dimensions_] = size;
      for (int k = 0; k < operands_; ++k) geometry_.strides[k][dimensions_] = strides[k];
      ++dimensions_;
    }
    if (dimensions_ == 0) {
      geometry_.shape[0] = 1;
      for (int k = 0; k < operands_; ++k) geometry_.strides[k][0] = info(operand(k).dtype).bytes;
      dimensions_ = 1;
    }
    for (int k = 0; k < operands_; ++k) {
      const int64_t stride = geometry_.strides[k][0];
      inner_[k] = stride == info(operand(k).dtype).bytes ? kContiguous : stride == 0 ? kBroadcast : kStrided;
    }
    return true;
  }

  static std::string describe(const void* self) {
    static const char* const inner[] = {"broadcast", "contiguous", "strided"};
    const auto& launch = *static_cast<const Launch*>(self);
    std::string text = std::string("compute=") + info(launch.call_.compute).name +
                       " outputs=1 variant=" + std::to_string(launch.call_.variant) +
                       " dimensions=" + std::to_string(launch.dimensions_) + " operands=";
    for (int k = 0; k < launch.operands_; ++k) {
      text += std::string(k == 0 ? "" : ",") + info(launch.operand(k).dtype).name + ":" + inner[launch.inner_[k]];
    }
    return text;
  }

  const PointwiseCall& call_;
  const int operands_;
  int dimensions_ = 0;
  std::array<uint8_t, kMaxOperands> inner_{};
  Geometry geometry_;
};

}  // namespace

bool launch_pointwise(Operator& op, PortableKernels& kernels, Device& device, const PointwiseCall& call) {
  if (device.plugin.compiler.compile == nullptr || call.compute == DType::kNone || !call.output.defined()) return false;
  for (int k = 0; k < call.num_inputs; ++k) {
    if (!call.inputs[k].defined() || call.inputs[k].ndim > call.output.ndim) return false;
  }
  if (call.output.numel() == 0) return true;
  return Launch(call).run(op, kernels, device);
}

}  // namespace hp
