#include "parts.h"

#include <mutex>

#include "../core/copy_views.h"
#include "../ops/creation.h"
#include "../ops/reduction.h"

namespace hp::paddle_adapter {
namespace {

template <class T>
std::array<int64_t, 2> bits_as(const phi::Scalar& value) {
  std::array<int64_t, 2> words{};
  const T element = value.to<T>();
  std::memcpy(words.data(), &element, sizeof(element));
  return words;
}

}  // namespace

const Service& Step::make(Runtime& runtime) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  auto& place = services_[runtime.slot];
  const Service* known = place.load(std::memory_order_acquire);
  if (known == nullptr) {
    known = new Service(runtime, "hardpoint::" + standard_, standard_);
    place.store(known, std::memory_order_release);
  }
  return *known;
}

bool PointwiseStep::operator()(Device& device, const View& output, std::initializer_list<View> inputs,
                               std::initializer_list<double> attributes, uint32_t variant) {
  hp::PointwiseCall call;
  call.compute = output.dtype == DType::kBool ? inputs.begin()->dtype : output.dtype;
  call.variant = variant;
  call.output = output;
  for (const View& input : inputs) call.inputs[call.num_inputs++] = input;
  for (double value : attributes) call.attributes[call.num_attributes++] = {value, static_cast<int64_t>(value)};
  return run_pointwise(on(device), kernels_, device, call);
}

bool decomposed(const Call& call) {
  call.kernel.op->count(Tier::kDecomposition);
  if (observed()) notify({*call.kernel.op, Tier::kDecomposition, false, nullptr});
  return true;
}

Shaped& Shaped::unsqueeze(int d) {
  for (int k = view_.ndim++; k > d; --k) sizes_[k] = sizes_[k - 1], strides_[k] = strides_[k - 1];
  sizes_[d] = 1;
  strides_[d] = 0;
  return *this;
}

Shaped& Shaped::drop(int d) {
  --view_.ndim;
  for (int k = d; k < view_.ndim; ++k) sizes_[k] = sizes_[k + 1], strides_[k] = strides_[k + 1];
  return *this;
}

Shaped& Shaped::expand(int ndim, const int64_t* sizes) {
  while (view_.ndim < ndim) unsqueeze(0);
  for (int d = 0; d < ndim; ++d) {
    if (sizes_[d] == sizes[d]) continue;
    sizes_[d] = sizes[d];
    strides_[d] = 0;
  }
  return *this;
}

std::array<int64_t, 2> bits_of(const phi::Scalar& value, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return bits_as<float>(value);
    case DType::kF64:
      return bits_as<double>(value);
    case DType::kF16:
      return bits_as<phi::dtype::float16>(value);
    case DType::kBF16:
      return bits_as<phi::dtype::bfloat16>(value);
    case DType::kI8:
      return bits_as<int8_t>(value);
    case DType::kI16:
      return bits_as<int16_t>(value);
    case DType::kI32:
      return bits_as<int32_t>(value);
    case DType::kU8:
      return bits_as<uint8_t>(value);
    case DType::kBool:
      return bits_as<bool>(value);
    case DType::kC64:
      return bits_as<phi::dtype::complex<float>>(value);
    case DType::kC128:
      return bits_as<phi::dtype::complex<double>>(value);
    default:
      return bits_as<int64_t>(value);
  }
}

bool copy(const Service& service, Device& device, const View& to, const View& from) {
  if (to.numel() == 0) return true;
  if (to.dtype == from.dtype && to.contiguous() && from.contiguous()) {
    if (to.data != from.data) device.copy_on_device(to.data, from.data, to.bytes(), current_stream(device));
    service.op.count(Tier::kVendor);  // the plug-in's own function
    return true;
  }
  if (call_vendor(service, device, {output(to), input(from)})) return true;
  PortableScope scope(service);
  return copy_portable(service.op, device, to, from) && scope.done();
}

bool zero(Device& device, const View& out) {
  static Step step("fill");
  if (out.numel() == 0) return true;
  const Service& service = step.on(device);
  const VendorArgument nothing = is_float(out.dtype) ? attribute(0.0) : attribute(int64_t{0});
  if (!is_complex(out.dtype) && call_vendor(service, device, {output(out), nothing})) return true;
  const int64_t words[2] = {0, 0};
  return service.has_compiler && hp::ops::fill(service, device, out, words);
}

bool sum_to(Device& device, const View& out, const View& from) {
  static Step copying("copy"), sum("sum");
  if (same_sizes(out, from)) return copy(copying.on(device), device, out, from);
  Shaped target(out);
  while (target.ndim() < from.ndim) target.unsqueeze(0);
  uint64_t dims = 0;
  for (int d = 0; d < from.ndim; ++d) {
    if (target.size(d) == 1 && from.sizes[d] != 1) dims |= uint64_t{1} << d;
  }
  // Only dimensions of one element were in front.
  if (dims == 0) return copy(copying.on(device), device, target, from);
  return hp::ops::sum(sum.on(device), device, target, from, dims, true);
}

bool fill(Device& device, const View& out, const phi::Scalar& value) {
  static Step step("fill");
  if (out.numel() == 0) return true;
  const Service& service = step.on(device);
  const VendorArgument number = is_float(out.dtype) ? attribute(value.to<double>()) : attribute(value.to<int64_t>());
  if (!is_complex(out.dtype) && call_vendor(service, device, {output(out), number})) return true;
  return service.has_compiler && hp::ops::fill(service, device, out, bits_of(value, out.dtype).data());
}

Converted::Converted(Device& device, const View& given, DType wanted) : device_(device), given_(given), view_(given) {
  if (!given.defined() || given.dtype == wanted) return;
  made_.emplace(device, wanted, given.ndim, given.sizes);
  view_ = *made_;
}

bool Converted::read() {
  static Step step("copy");
  return !made_ || copy(step.on(device_), device_, view_, given_);
}

bool Converted::write() {
  static Step step("copy");
  return !made_ || copy(step.on(device_), device_, given_, view_);
}

uint64_t mask_of(const std::vector<int64_t>& dims, int ndim) {
  if (dims.empty()) return (uint64_t{1} << ndim) - 1;
  uint64_t mask = 0;
  for (int64_t d : dims) mask |= uint64_t{1} << (d < 0 ? d + ndim : d);
  return mask;
}

}  // namespace hp::paddle_adapter
