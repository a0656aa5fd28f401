#include "template_call.h"

#include <algorithm>
#include <stdexcept>

#include "recorder.h"

namespace hp {

bool takes_many_arguments(const Device& device) { return std::strcmp(device.plugin.compiler.dialect, "opencl") != 0; }

TemplateCall::TemplateCall(TemplateKernels& kernels, Device& device, std::initializer_list<DType> types,
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
  const size_t unit = bytes > 8 ? 16 : 8, place = (used_ + unit - 1) / unit * unit;
  if (count_ == kMaxArguments || place + bytes > kMaxBytes) throw std::logic_error("too many arguments of a kernel");
  std::memcpy(&values_[place], value, bytes);
  args_[count_++] = {&values_[place], static_cast<uint32_t>(bytes), is_pointer};
  used_ = place + bytes;
  return *this;
}

TemplateCall& TemplateCall::state(PhiloxState at) {
  if (Recorder* active = recorder()) active->random_arguments(count_, at);
  return integer(static_cast<int64_t>(at.seed)).integer(static_cast<int64_t>(at.offset));
}

TemplateCall& TemplateCall::fault(const Operator& op) {
  pointer(current_stream(device_).fault_words());
  return integer(reinterpret_cast<int64_t>(&op));
}

void TemplateCall::launch(Operator& op, int64_t groups) {
  if (groups > 0) launch_groups(op, *kernel_, current_stream(device_), groups, args_.data(), count_);
}

void TemplateCall::launch_elements(Operator& op, int64_t elements) { launch(op, groups_for(elements)); }

int64_t TemplateCall::groups_for(int64_t elements) const {
  return (elements + kernel_->elements_per_group - 1) / kernel_->elements_per_group;
}

int64_t TemplateCall::rows_per_group(int64_t row_elements) const {
  if (device_.plugin.compiler.group_size != 1) return 1;
  return std::max<int64_t>(1, kernel_->elements_per_group / std::max<int64_t>(1, row_elements));
}

}  // namespace hp
