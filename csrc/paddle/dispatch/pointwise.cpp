#include "dispatch/pointwise.h"

#include <mutex>
#include <unordered_map>

namespace hp::paddle_adapter {
namespace {

#include "generated/pointwise_rows.inc"

struct MappedRow {
  const PointwiseRow& row;
  PointwiseKernels& kernels;
};

uint32_t variant_of(const Call& call, const PointwiseRow& row) {
  if (row.variant_position < 0) return static_cast<uint32_t>(row.variant);
  if (call.kernel.attributes[row.variant_position] != phi::AttributeType::STRING) {
    return static_cast<uint32_t>(call.integer(row.variant_position));
  }
  const auto& name = call.attr<std::string>(row.variant_position);
  uint32_t position = 0;
  while (position < row.variant_names.size() && row.variant_names[position] != nullptr &&
         name != row.variant_names[position]) {
    ++position;
  }
  return position;  // an unknown name has no kernel: the CPU tier reports the error
}

bool pointwise(Call& call) {
  const auto& [row, kernels] = *static_cast<const MappedRow*>(call.kernel.mapping->data);
  const OpBinding& binding = call.binding();
  if (!binding.can_serve() || call.output(0) == nullptr) return false;
  if (call.output(0)->numel() == 0) return call.allocate(0), true;
  hp::PointwiseCall launch;
  launch.num_inputs = row.num_inputs;
  for (int i = 0; i < row.num_inputs; ++i) {
    const DenseTensor* input = call.input(row.inputs[i]);
    if (input == nullptr || !input->initialized() || !on_device(*input)) return false;
    launch.inputs[i] = view(*input);
  }
  launch.num_attributes = row.num_attributes;
  for (int a = 0; a < row.num_attributes; ++a) {
    const RowAttribute& attribute = row.attributes[a];
    if (attribute.position < 0 || (attribute.number != 0 && call.real(attribute.position) == 0)) {
      launch.attributes[a] = {attribute.number, static_cast<int64_t>(attribute.number), 0};
    } else {
      launch.attributes[a] = {call.real(attribute.position), call.integer(attribute.position), 0};
    }
  }
  // The CPU kernel reports the error.
  if (row.ascending && launch.attributes[0].real > launch.attributes[1].real) return false;
  launch.variant = variant_of(call, row);
  launch.output = call.allocate(0);
  launch.compute = to_core(call.kernel.dtype);
  // Integer inputs with a floating-point result are computed in the result's dtype.
  if (is_float(launch.output.dtype) && !is_float(launch.compute)) launch.compute = launch.output.dtype;
  return run_pointwise(binding, kernels, call.device, launch);
}

struct Rows {
  Rows() {
    for (const PointwiseRow& row : kPointwiseRows) {
      const auto* mapped = new MappedRow{row, pointwise_kernels(row.standard)};
      MappingRegistration(row.phi_name, Mapping{row.standard, &pointwise, mapped});
    }
  }
};
const Rows rows;

// Calls the vendor kernel. False if there is none, it declined, or the inputs have mixed dtypes, which only the
// portable kernel reads.
bool run_vendor(const OpBinding& binding, Device& device, const hp::PointwiseCall& call, bool has_variants) {
  const Kernel* kernel = binding.kernel();
  if (kernel == nullptr || call.output.ndim > kMaxKernelRank) return false;
  std::array<VendorArgument, 2 + hp::PointwiseCall::kMaxInputs + PointwiseLaunch::kMaxAttributes> arguments;
  VendorArgument* last = arguments.data();
  *last++ = hp::output(call.output);
  for (int k = 0; k < call.num_inputs; ++k) {
    if (call.inputs[k].dtype != call.compute) return false;
    *last++ = hp::input(call.inputs[k]);
  }
  for (int a = 0; a < call.num_attributes; ++a) {
    *last++ =
        is_float(call.compute) ? hp::attribute(call.attributes[a].real) : hp::attribute(call.attributes[a].integer);
  }
  if (has_variants) *last++ = hp::attribute(static_cast<int64_t>(call.variant));
  return call_vendor_pointwise(binding.op, *kernel, device, call.compute, arguments.data(), last);
}

}  // namespace

PointwiseKernels& pointwise_kernels(const std::string& standard) {
  static std::mutex mutex;
  static auto* known = new std::unordered_map<std::string, std::unique_ptr<PointwiseKernels>>;
  std::lock_guard<std::mutex> lock(mutex);
  auto& kernels = (*known)[standard];
  if (!kernels) {
    kernels = std::make_unique<PointwiseKernels>(standard);
    for (const char* name : kWithVariants) kernels->has_variants |= standard == name;
  }
  return *kernels;
}

bool run_pointwise(const OpBinding& binding, PointwiseKernels& kernels, Device& device, const hp::PointwiseCall& call) {
  if (call.output.defined() && call.output.numel() == 0) return true;
  if (run_vendor(binding, device, call, kernels.has_variants)) return true;
  return launch_pointwise(binding.op, kernels, device, call);
}

}  // namespace hp::paddle_adapter
