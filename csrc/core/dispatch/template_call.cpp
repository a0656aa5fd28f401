#include "core/dispatch/template_call.h"

#include <algorithm>
#include <stdexcept>

#include "core/recording/graph_capture.h"
#include "core/recording/recorder.h"

namespace hp {

bool takes_many_arguments(const Device& device) { return std::strcmp(device.plugin.compiler.dialect, "opencl") != 0; }

TemplateCall::TemplateCall(KernelTemplate& kernels, Device& device, std::initializer_list<DType> types,
                           std::initializer_list<int> integers)
    : kernels_(kernels), device_(device) {
  int shift = 0;
  for (DType type : types) key_.types |= static_cast<uint64_t>(type) << shift, shift += 8;
  shift = 0;
  for (int integer : integers) key_.layout |= static_cast<uint64_t>(integer & 255) << shift, shift += 8;
  kernel_ = &kernels.get(device, key_, &describe, this);
}

std::string TemplateCall::describe(const void* self) {
  const auto& call = *static_cast<const TemplateCall*>(self);
  std::string text;
  for (int i = 0; i < call.kernels_.num_types_; ++i) {
    text += std::string(call.kernels_.types_[i]) + "=" +
            info(static_cast<DType>(call.key_.types >> (8 * i) & 255)).name + " ";
  }
  for (int i = 0; i < call.kernels_.num_integers_; ++i) {
    text += std::string(call.kernels_.integers_[i]) + "=" + std::to_string(call.key_.layout >> (8 * i) & 255) + " ";
  }
  return text;
}

TemplateCall& TemplateCall::pack(const void* value, size_t bytes, bool is_pointer) {
  const size_t unit = bytes > 8 ? 16 : 8, offset = (used_ + unit - 1) / unit * unit;
  if (count_ == kMaxArguments || offset + bytes > kMaxBytes)
    throw std::logic_error("TemplateCall: too many kernel arguments");
  std::memcpy(&values_[offset], value, bytes);
  args_[count_++] = {&values_[offset], static_cast<uint32_t>(bytes), is_pointer};
  used_ = offset + bytes;
  return *this;
}

TemplateCall& TemplateCall::state(PhiloxState state) {
  if (Recorder* active = recorder(); active != nullptr && available()) active->on_random_arguments(count_, state);
  if (GraphCapture* capture = current_stream(device_).capture(); capture != nullptr && available()) {
    capture->on_random_arguments(count_, state);
  }
  return integer(static_cast<int64_t>(state.seed)).integer(static_cast<int64_t>(state.offset));
}

TemplateCall& TemplateCall::fault(const Operator& op) {
  pointer(current_stream(device_).fault_record());
  return integer(reinterpret_cast<int64_t>(&op));
}

bool TemplateCall::launch(Operator& op, int64_t groups) {
  if (!available()) return false;
  Stream& stream = current_stream(device_);
  if (groups > 0) {
    launch_groups(op, *kernel_, stream, groups, args_.data(), count_);
  } else if (GraphCapture* capture = stream.capture()) {
    capture->on_decline();
  }
  return true;
}

bool TemplateCall::run(const OpBinding& binding, int64_t groups) {
  if (!available()) return false;
  PortableScope scope(binding);
  return launch(binding.op, groups) && scope.done();
}

int64_t TemplateCall::rows_per_group(int64_t row_elements) const {
  if (device_.group_size() != 1) return 1;
  return std::max<int64_t>(1, kernel_->elements_per_group / std::max<int64_t>(1, row_elements));
}

}  // namespace hp
