#include "pointwise.h"

#include "dtype_name.h"

namespace hp::torch_adapter {
namespace {

const char* name_of(at::ScalarType type) { return info(to_core(type)).name; }

// Shape and byte strides, fastest dimension first; the kernel gets it by value.
struct Geometry {
  int64_t elements;
  int64_t shape[kMaxDimensions];
  int64_t strides[kMaxOperands][kMaxDimensions];
};

// Scalars travel in the widest type of their kind; a complex one is two.
union Number {
  double real;
  int64_t integer;
};
enum class Kind { kReal, kInteger, kComplex };
constexpr int kMaxNumbers = kMaxOperands + kMaxScalars;

// The arguments of a launch that are numbers, in place.
class Numbers {
 public:
  explicit Numbers(at::ScalarType compute)
      : kind_(at::isComplexType(compute)          ? Kind::kComplex
              : at::isIntegralType(compute, true) ? Kind::kInteger
                                                  : Kind::kReal) {}

  void add(const at::Scalar& value, HpLaunchArg* args, uint32_t& count) {
    if (kind_ == Kind::kInteger) {
      args[count++] =
          next({.integer = value.isFloatingPoint() ? static_cast<int64_t>(value.toDouble()) : value.toLong()});
    } else if (kind_ == Kind::kReal) {
      args[count++] = next({.real = value.toDouble()});
    } else {
      const auto number = value.toComplexDouble();
      args[count++] = next({.real = number.real()});
      args[count++] = next({.real = number.imag()});
    }
  }

 private:
  HpLaunchArg next(Number number) {
    numbers_[used_] = number;
    return {&numbers_[used_++], sizeof(Number), 0};
  }

  const Kind kind_;
  std::array<Number, 2 * kMaxNumbers> numbers_;
  int used_ = 0;
};

}  // namespace

void PointwiseCall::inputs(std::initializer_list<const at::Tensor*> given) {
  const int outputs = iterator_.noutputs(), operands = std::min(iterator_.ntensors(), kMaxOperands);
  // Some of torch's shape rules hold an input twice.
  operands_ = outputs + static_cast<int>(given.size());
  for (int i = 0; i < outputs; ++i) order_[i] = static_cast<uint8_t>(i);
  uint32_t taken = 0;
  int position = outputs;
  std::array<int, kMaxOperands> unmatched;
  int num_unmatched = 0;
  for (const at::Tensor* tensor : given) {
    int found = -1;
    for (int i = outputs; tensor != nullptr && i < operands && found < 0; ++i) {
      if ((taken >> i & 1) == 0 && iterator_.tensor_base(i).unsafeGetTensorImpl() == tensor->unsafeGetTensorImpl()) {
        found = i;
      }
    }
    if (found >= 0) {
      taken |= 1U << found;
      order_[position] = static_cast<uint8_t>(found);
    } else {
      unmatched[num_unmatched++] = position;
    }
    ++position;
  }
  // What the iterator made itself, such as a tensor for a number, fills the places that are left.
  int next = outputs;
  for (int k = 0; k < num_unmatched; ++k) {
    while (next < operands && (taken >> next & 1) != 0) ++next;
    order_[unmatched[k]] = static_cast<uint8_t>(next++);
  }
}

bool PointwiseCall::classify() {
  if (operands_ > kMaxOperands || operands_ > iterator_.ntensors() || iterator_.ndim() > kMaxDimensions ||
      to_core(compute_) == DType::kNone) {
    return false;
  }
  for (int k = 0; k < operands_; ++k) {
    const int i = order_[k];
    if (to_core(iterator_.dtype(i)) == DType::kNone) return false;
    is_number_[k] = i >= iterator_.noutputs() && iterator_.is_cpu_scalar(i);
    if (!is_number_[k] && iterator_.device(i).type() != kDeviceType) return false;
    const int64_t item = iterator_.element_size(i);
    const int64_t stride = iterator_.ndim() == 0 ? item : iterator_.strides(i)[0];
    inner_[k] = stride == item ? 1 : stride == 0 ? 0 : 2;
  }
  dimensions_ = std::max(1, iterator_.ndim());
  return true;
}

std::string PointwiseCall::describe(const void* self) {
  const auto& call = *static_cast<const PointwiseCall*>(self);
  std::string text =
      std::string("compute=") + name_of(call.compute_) + " outputs=" + std::to_string(call.iterator_.noutputs()) +
      " variant=" + std::to_string(call.variant_) + " dimensions=" + std::to_string(call.dimensions_) + " operands=";
  static const char* const inner[] = {"broadcast", "contiguous", "strided"};
  for (int k = 0; k < call.operands_; ++k) {
    text += std::string(k == 0 ? "" : ",") + name_of(call.iterator_.dtype(call.order_[k])) + ":" +
            (call.is_number_[k] ? "number" : inner[call.inner_[k]]);
  }
  return text;
}

bool PointwiseCall::run() {
  if (iterator_.numel() == 0) return true;
  if (!classify()) return false;
  const int operands = operands_;
  SpecialisationKey key;
  key.types = static_cast<uint64_t>(compute_) | static_cast<uint64_t>(operands) << 8;
  key.layout = variant_ | static_cast<uint64_t>(dimensions_) << 32;
  for (int k = 0; k < operands; ++k) {
    key.types |= static_cast<uint64_t>(iterator_.dtype(order_[k])) << (16 + 8 * k);
    key.layout |= static_cast<uint64_t>(is_number_[k] ? 3 : inner_[k]) << (40 + 2 * k);
  }
  Device& device = device_at(iterator_.device(0).index());
  const PortableKernel& kernel = kernels_.get(device, key, &describe, this);
  if (kernel.function == nullptr) return false;

  Geometry geometry;
  geometry.elements = iterator_.numel();
  const bool flat = iterator_.ndim() == 0;
  for (int d = 0; d < dimensions_; ++d) geometry.shape[d] = flat ? 1 : iterator_.shape()[d];
  std::array<HpLaunchArg, 1 + 2 * kMaxNumbers> args;
  std::array<void*, kMaxOperands> pointers;
  Numbers numbers(compute_);
  uint32_t count = 0;
  for (int k = 0; k < operands; ++k) {
    const int i = order_[k];
    if (is_number_[k]) {
      numbers.add(iterator_.tensor(i).item(), args.data(), count);
      continue;
    }
    pointers[k] = iterator_.data_ptr(i);
    for (int d = 0; d < dimensions_; ++d) geometry.strides[k][d] = flat ? 0 : iterator_.strides(i)[d];
    args[count++] = {&pointers[k], sizeof(void*), 1};
  }
  for (int s = 0; s < num_scalars_; ++s) numbers.add(scalars_[s], args.data(), count);
  args[count++] = {&geometry, sizeof(geometry), 0};

  if (C10_UNLIKELY(observed())) notify({op_, Tier::kPortable, true, nullptr});
  launch_portable(op_, kernel, current_stream(device), geometry.elements, args.data(), count);
  op_.count(Tier::kPortable);
  if (C10_UNLIKELY(observed())) notify({op_, Tier::kPortable, false, nullptr});
  return true;
}

}  // namespace hp::torch_adapter
