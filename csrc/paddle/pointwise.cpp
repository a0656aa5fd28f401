#include "pointwise.h"

#include <mutex>
#include <optional>
#include <unordered_map>

#include "../core/copy_views.h"

namespace hp::paddle_adapter {
namespace {

#include "generated/pointwise_rows.inc"

// A row with its kernels.
struct MappedRow {
  const PointwiseRow& row;
  PointwiseKernels& kernels;
};

uint32_t variant_of(const Call& call, const PointwiseRow& row) {
  if (row.variant_position < 0) return static_cast<uint32_t>(row.variant);
  if (call.kernel.attributes[row.variant_position] != phi::AttributeType::STRING) {
    return static_cast<uint32_t>(call.integer(row.variant_position));
  }
  const auto& wanted = call.attr<std::string>(row.variant_position);
  uint32_t position = 0;
  while (position < row.variant_names.size() && row.variant_names[position] != nullptr &&
         wanted != row.variant_names[position]) {
    ++position;
  }
  return position;  // one that no kernel is made for: the CPU tier says what is wrong
}

bool pointwise(Call& call) {
  const auto& [row, kernels] = *static_cast<const MappedRow*>(call.kernel.mapping->data);
  const Service& service = call.service();
  if (!service.able() || call.output(0) == nullptr) return false;
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
    const RowAttribute& given = row.attributes[a];
    if (given.position < 0) {
      launch.attributes[a] = {given.number, static_cast<int64_t>(given.number)};
    } else {
      launch.attributes[a] = {call.real(given.position), call.integer(given.position)};
    }
  }
  launch.variant = variant_of(call, row);
  launch.output = call.allocate(0);
  launch.compute = to_core(call.kernel.dtype);
  // Functions of real numbers take whole ones as well, where the result is real.
  if (is_float(launch.output.dtype) && !is_float(launch.compute)) launch.compute = launch.output.dtype;
  return run_pointwise(service, kernels, call.device, launch);
}

struct Rows {
  Rows() {
    for (const PointwiseRow& row : kPointwiseRows) {
      const auto* mapped = new MappedRow{row, pointwise_kernels(row.standard)};
      Registration(row.phi_name, Mapping{row.standard, &pointwise, mapped});
    }
  }
};
const Rows rows;

// The vendor's kernel gets all operands in one dtype and with the output's sizes.
bool run_vendor(const Service& service, Device& device, const hp::PointwiseCall& call, bool has_variants) {
  const Kernel* kernel = service.kernel();
  if (kernel == nullptr) return false;
  const View& wanted = call.output;
  if (wanted.ndim > kMaxDimensions) return false;
  View output = wanted;
  std::optional<Scratch> converted;
  std::array<int64_t, kMaxDimensions> dense;
  if (wanted.dtype != call.compute) {
    int64_t step = 1;
    for (int d = wanted.ndim - 1; d >= 0; --d) dense[d] = step, step *= wanted.sizes[d];
    output.dtype = call.compute;
    output.strides = dense.data();
    converted.emplace(device, output.bytes());
    output.data = converted->get();
  }
  std::array<VendorArgument, 2 + hp::PointwiseCall::kMaxInputs + hp::PointwiseCall::kMaxAttributes> arguments;
  std::array<std::array<int64_t, kMaxDimensions>, hp::PointwiseCall::kMaxInputs> strides;
  VendorArgument* last = arguments.data();
  *last++ = hp::output(output);
  for (int k = 0; k < call.num_inputs; ++k) {
    View expanded = call.inputs[k];
    if (expanded.dtype != call.compute) return false;
    const int missing = wanted.ndim - expanded.ndim;
    for (int d = 0; d < wanted.ndim; ++d) {
      const bool broadcast = d < missing || (expanded.sizes[d - missing] == 1 && wanted.sizes[d] != 1);
      strides[k][d] = broadcast ? 0 : expanded.strides[d - missing];
    }
    expanded.ndim = wanted.ndim;
    expanded.sizes = wanted.sizes;
    expanded.strides = strides[k].data();
    *last++ = hp::input(expanded);
  }
  for (int a = 0; a < call.num_attributes; ++a) {
    *last++ =
        is_float(call.compute) ? hp::attribute(call.attributes[a].real) : hp::attribute(call.attributes[a].integer);
  }
  if (has_variants) *last++ = hp::attribute(static_cast<int64_t>(call.variant));
  if (!call_vendor(service, device, arguments.data(), last)) return false;
  if (converted) copy_views(device, wanted, output);
  return true;
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

bool run_pointwise(const Service& service, PointwiseKernels& kernels, Device& device, const hp::PointwiseCall& call) {
  if (call.output.defined() && call.output.numel() == 0) return true;
  if (run_vendor(service, device, call, kernels.has_variants)) return true;
  return launch_pointwise(service.op, kernels, device, call);
}

}  // namespace hp::paddle_adapter
