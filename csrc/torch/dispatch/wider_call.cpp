#include "dispatch/wider_call.h"

#include <ATen/Tensor.h>

#include <unordered_set>
#include <vector>

#include "dispatch/layouts.h"
#include "dispatch/written_arguments.h"

namespace hp::torch_adapter {
namespace {

using at::Tensor;
using c10::IValue;

// Overloads whose CPU kernels lack integers.
bool lacks_integers(const std::string& name) {
  static const std::unordered_set<std::string> table = {
#include "generated/float64_on_cpu.inc"
  };
  return table.count(name) != 0;
}

bool chooses_dtype(const c10::Argument& formal, const IValue& value) {
  static const c10::TypePtr optional = c10::OptionalType::create(c10::ScalarTypeType::get());
  return formal.real_type()->isSubtypeOf(*optional) && !value.isNone();
}

IValue map_tensors(const IValue& value, const std::function<Tensor(const Tensor&)>& convert) {
  if (value.isTensor()) return convert(value.toTensor());
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& tensor : value.toTensorList()) list.push_back(convert(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> list;
    for (const std::optional<Tensor>& tensor : value.toOptionalTensorList()) {
      list.push_back(tensor ? std::make_optional(convert(*tensor)) : std::nullopt);
    }
    return list;
  }
  return value;
}

at::ScalarType wider_dtype(at::ScalarType dtype, bool integers) {
  if (dtype == at::kHalf || dtype == at::kBFloat16) return at::kFloat;
  if (dtype == at::kComplexHalf) return at::kComplexFloat;
  return integers && at::isIntegralType(dtype, /*includeBool=*/false) ? at::kDouble : dtype;
}

struct Widened {
  Tensor original;
  Tensor wide;
  bool written;

  // The dtype of a result of the wider call: the operand's, or its real or complex counterpart.
  at::ScalarType narrow(at::ScalarType result) const {
    const at::ScalarType from = original.scalar_type(), to = wide.scalar_type();
    if (result == to) return from;
    if (at::isFloatingType(from) && result == c10::toComplexType(to)) return c10::toComplexType(from);
    if (at::isComplexType(from) && result == c10::toRealValueType(to)) return c10::toRealValueType(from);
    return result;
  }

  void write_back() const {
    if (original.layout() != c10::kStrided) return assign_composed(original, wide.to(original.scalar_type()));
    if (!original.is_nested() && original.sizes() != wide.sizes()) original.resize_(wide.sizes());
    original.copy_(wide);
  }
};

}  // namespace

bool call_wider(const Operator& op, const c10::OperatorHandle& handle, torch::jit::Stack* stack,
                const std::function<void(torch::jit::Stack*)>& run) {
  const c10::FunctionSchema& schema = handle.schema();
  const bool integers = lacks_integers(op.name);
  std::vector<Widened> all;
  bool promotes = false;  // another argument decides the dtype of results
  torch::jit::Stack wide;
  for (size_t i = 0; i < stack->size(); ++i) {
    if (chooses_dtype(schema.arguments()[i], (*stack)[i])) return false;
    const bool written = writes_argument(op, schema, i);
    wide.push_back(map_tensors((*stack)[i], [&](const Tensor& tensor) {
      if (!tensor.defined()) return tensor;
      const at::ScalarType dtype = wider_dtype(tensor.scalar_type(), integers);
      if (dtype == tensor.scalar_type()) {
        promotes |= tensor.is_complex() || (tensor.is_floating_point() && tensor.dim() > 0);
        return tensor;
      }
      for (Widened& each : all) {
        if (!each.original.is_same(tensor)) continue;
        each.written |= written;
        return each.wide;
      }
      all.push_back({tensor, tensor.to(dtype), written});
      return all.back().wide;
    }));
  }
  if (all.empty()) return false;
  run(&wide);
  for (const Widened& each : all) {
    if (each.written) each.write_back();
  }
  stack->clear();
  for (const IValue& value : wide) {
    stack->push_back(map_tensors(value, [&](const Tensor& result) {
      for (const Widened& each : all) {
        if (each.wide.is_same(result)) return each.original;
      }
      return result.defined() && !promotes ? result.to(all[0].narrow(result.scalar_type())) : result;
    }));
  }
  return true;
}

}  // namespace hp::torch_adapter
