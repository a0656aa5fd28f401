// hardpoint.torch.decompositions is queried once per operator, when the first two tiers have declined a call. A
// decomposition that itself reaches the CPU tier only costs time and is not used again for that dtype: the choice
// follows from the kernels that the device has, not from a list.
#include "dispatch/decomposition.h"

#include <ATen/MemoryOverlap.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "core/dispatch/tier_rules.h"
#include "dispatch/tool_intercept.h"

namespace py = pybind11;

namespace hp::torch_adapter {
namespace {

// An operator's decomposition. Never freed, so the function is never released.
struct Decomposition {
  PyObject* function = nullptr;  // null: no decomposition
  // One bit per dtype: what the first call has shown.
  std::atomic<uint64_t> useless{0};
  std::atomic<uint64_t> useful{0};
};

// Operators that this thread is decomposing, to detect recursion.
thread_local std::vector<const Operator*> active;

bool is_active(const Operator& op) { return std::find(active.begin(), active.end(), &op) != active.end(); }

struct Active {
  explicit Active(const Operator& op) { active.push_back(&op); }
  ~Active() { active.pop_back(); }
};

Decomposition& decomposition_of(Operator& op) {
  if (void* known = op.decomposition.load(std::memory_order_acquire)) return *static_cast<Decomposition*>(known);
  auto* created = new Decomposition;
  if (Py_IsInitialized()) {
    py::gil_scoped_acquire gil;
    try {
      py::object found = py::module_::import("hardpoint.torch.decompositions").attr("find")(op.name);
      if (!found.is_none()) created->function = found.release().ptr();
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("hardpoint.torch.decompositions");
    }
  }
  void* expected = nullptr;
  if (op.decomposition.compare_exchange_strong(expected, created, std::memory_order_acq_rel)) return *created;
  delete created;  // another thread was first
  return *static_cast<Decomposition*>(expected);
}

uint64_t dtype_bit(const torch::jit::Stack& stack, size_t arguments) {
  for (const c10::IValue& value : torch::jit::last(stack, arguments)) {
    if (value.isTensor() && value.toTensor().defined()) {
      return uint64_t{1} << static_cast<int>(value.toTensor().scalar_type());
    }
    if (value.isTensorList() && !value.toTensorList().empty()) {
      return uint64_t{1} << static_cast<int>(value.toTensorList().get(0).scalar_type());
    }
  }
  return 1;
}

// The stack has dtypes, layouts and memory formats as integers.
py::object python_value(const c10::Argument& argument, const c10::IValue& value) {
  c10::TypePtr type = argument.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  const auto borrowed = [](void* object) { return py::reinterpret_borrow<py::object>(static_cast<PyObject*>(object)); };
  if (value.isInt() && type->kind() == c10::TypeKind::ScalarTypeType) {
    return borrowed(torch::getTHPDtype(value.toScalarType()));
  }
  if (value.isInt() && type->kind() == c10::TypeKind::LayoutType)
    return borrowed(torch::getTHPLayout(value.toLayout()));
  if (value.isInt() && type->kind() == c10::TypeKind::MemoryFormatType) {
    return borrowed(torch::utils::getTHPMemoryFormat(value.toMemoryFormat()));
  }
  return torch::jit::toPyObject(value);
}

// Empty if the function declines.
std::optional<std::vector<c10::IValue>> results_of(PyObject* function, const c10::FunctionSchema& schema,
                                                   const torch::jit::Stack& stack) {
  const auto arguments = torch::jit::last(stack, schema.arguments().size());
  py::list positional;
  py::dict named;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    // Omit defaults: the function may lack arguments of this torch's schema.
    if (argument.default_value() && *argument.default_value() == arguments[i]) continue;
    py::object value = python_value(argument, arguments[i]);
    if (argument.kwarg_only() || positional.size() < i) {
      named[py::str(argument.name())] = value;
    } else {
      positional.append(value);
    }
  }
  py::object result = py::reinterpret_borrow<py::object>(function)(*positional, **named);
  if (result.ptr() == Py_NotImplemented) return std::nullopt;
  std::vector<c10::IValue> results;
  const auto& returns = schema.returns();
  if (returns.size() == 1) {
    results.push_back(torch::jit::toIValue(result, returns[0].type()));
  } else if (returns.size() > 1) {
    const auto items = py::cast<py::sequence>(result);
    TORCH_CHECK(items.size() == returns.size(), "the decomposition of ", schema.name(), " returned ", items.size(),
                " results, expected ", returns.size());
    for (size_t i = 0; i < returns.size(); ++i) {
      results.push_back(torch::jit::toIValue(items[i], returns[i].type()));
    }
  }
  return results;
}

// Empty if the function failed: the CPU tier then serves the call or raises torch's own error.
std::optional<std::vector<c10::IValue>> call_python(PyObject* function, const c10::FunctionSchema& schema,
                                                    const torch::jit::Stack& stack, std::string* reason = nullptr) {
  py::gil_scoped_acquire gil;
  try {
    return results_of(function, schema, stack);
  } catch (py::error_already_set& error) {
    if (error.matches(py::module_::import("torch").attr("OutOfMemoryError")))
      C10_THROW_ERROR(OutOfMemoryError, error.what());
    if (reason != nullptr) *reason = py::str(error.value());
    return std::nullopt;
  } catch (const c10::Error&) {
    return std::nullopt;
  } catch (const py::builtin_exception&) {  // results of another type than the schema's
    return std::nullopt;
  }
}

// An out= tensor on another device than the arguments is an error, which the CPU tier raises.
bool outputs_misplaced(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
  if (!schema.is_mutable()) return false;
  const auto arguments = torch::jit::last(stack, schema.arguments().size());
  std::optional<c10::Device> device;
  for (const c10::IValue& value : arguments) {
    if (value.isTensor() && on_device(value.toTensor()) && !device) device = value.toTensor().device();
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!schema.arguments()[i].is_out() || !arguments[i].isTensor() || !arguments[i].toTensor().defined()) continue;
    if (arguments[i].toTensor().device() != device) return true;
  }
  return false;
}

std::vector<at::Tensor> tensors_of(const c10::IValue& value) {
  std::vector<at::Tensor> tensors;
  if (value.isTensor()) tensors.push_back(value.toTensor());
  if (value.isTensorList()) tensors = value.toTensorVector();
  const auto undefined = [](const at::Tensor& tensor) { return !tensor.defined(); };
  tensors.erase(std::remove_if(tensors.begin(), tensors.end(), undefined), tensors.end());
  return tensors;
}

// Whether written memory overlaps itself or another argument. torch's kernels allow a tensor that is exactly the
// output, but none of a list; the CPU tier raises the error of the others.
bool outputs_overlap(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
  if (!schema.is_mutable()) return false;
  const auto arguments = torch::jit::last(stack, schema.arguments().size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
    if (alias == nullptr || !alias->isWrite() || !arguments[i].isTensor() || !arguments[i].toTensor().defined())
      continue;
    const at::Tensor& written = arguments[i].toTensor();
    if (!written.has_storage()) continue;
    if (at::has_internal_overlap(written) == at::MemOverlap::Yes) return true;
    for (size_t k = 0; k < arguments.size(); ++k) {
      if (k == i) continue;
      for (const at::Tensor& other : tensors_of(arguments[k])) {
        if (!other.has_storage()) continue;
        const at::MemOverlapStatus status = at::get_overlap_status(written, other);
        if (status == at::MemOverlapStatus::Partial) return true;
        if (status == at::MemOverlapStatus::Full && arguments[k].isTensorList()) return true;
      }
    }
  }
  return false;
}

// Whether a call writes an argument. Old schemas do not say so of the statistics of batch normalization.
bool is_written(const c10::Argument& argument) {
  if (argument.name() == "running_mean" || argument.name() == "running_var") return true;
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool writes_arguments(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(), is_written);
}

// Tensors that a call writes, with their values before it, so that another tier can take the call after all.
class WrittenArguments {
 public:
  WrittenArguments(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
    const auto arguments = torch::jit::last(stack, schema.arguments().size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (schema.arguments()[i].is_out()) continue;
      for (const at::Tensor& tensor : tensors_of(arguments[i])) {
        if (tensor.has_storage()) read_.push_back(tensor.storage().unsafeGetStorageImpl());
      }
    }
    for (size_t i = 0; i < arguments.size(); ++i) {
      const c10::Argument& argument = schema.arguments()[i];
      if (!is_written(argument)) continue;
      for (const at::Tensor& tensor : tensors_of(arguments[i])) {
        // The other tier writes outputs anyway, but needs inputs that share their memory: torch.mul(x, 2, out=x).
        if (!argument.is_out() || is_read(tensor)) saved_.emplace_back(tensor, tensor.clone());
      }
    }
  }

  // False if a tensor has another shape now.
  bool restore() const {
    for (const auto& [tensor, before] : saved_) {
      if (tensor.sizes() != before.sizes() || tensor.scalar_type() != before.scalar_type()) return false;
    }
    for (const auto& [tensor, before] : saved_) tensor.copy_(before);
    return true;
  }

 private:
  bool is_read(const at::Tensor& tensor) const {
    if (!tensor.has_storage()) return false;
    return std::find(read_.begin(), read_.end(), tensor.storage().unsafeGetStorageImpl()) != read_.end();
  }

  std::vector<const c10::StorageImpl*> read_;  // of arguments that are not outputs
  std::vector<std::pair<at::Tensor, at::Tensor>> saved_;
};

// False if there is no useful decomposition; the stack is then unchanged.
bool decompose(const c10::OperatorHandle& handle, Operator& op, torch::jit::Stack* stack) {
  if (!op.allows(Tier::kDecomposition)) return false;
  Decomposition& decomposition = decomposition_of(op);
  if (decomposition.function == nullptr) return false;
  if (outputs_misplaced(handle.schema(), *stack) || outputs_overlap(handle.schema(), *stack)) return false;
  const size_t arguments = handle.schema().arguments().size();
  const uint64_t dtype = dtype_bit(*stack, arguments);
  if (is_active(op)) {
    // Recursion: fail here, for the outer call to give up before anything is computed twice.
    decomposition.useless.fetch_or(dtype, std::memory_order_relaxed);
    TORCH_CHECK(false, "the decomposition of ", op.name, " calls itself");
  }
  if ((decomposition.useless.load(std::memory_order_relaxed) & dtype) != 0) return false;
  std::optional<WrittenArguments> written;
  if ((decomposition.useful.load(std::memory_order_relaxed) & dtype) == 0) written.emplace(handle.schema(), *stack);
  const uint64_t before = cpu_tier_calls();
  std::optional<std::vector<c10::IValue>> results;
  {
    Active guard(op);
    if (C10_UNLIKELY(observed())) notify({op, Tier::kDecomposition, true, stack});
    results = call_python(decomposition.function, handle.schema(), *stack);
  }
  if (!results) {
    if (written) written->restore();
    return false;
  }
  // Calls that rules send to the CPU say nothing about the device.
  if (cpu_tier_calls() == before) {
    decomposition.useful.fetch_or(dtype, std::memory_order_relaxed);
  } else if (!rules_in_force()) {
    decomposition.useless.fetch_or(dtype, std::memory_order_relaxed);
    // Later calls go to the CPU; this one must give the same results.
    if (written ? written->restore() : !writes_arguments(handle.schema())) return false;
  }
  torch::jit::drop(*stack, arguments);
  for (c10::IValue& value : *results) stack->push_back(std::move(value));
  op.count(Tier::kDecomposition);
  if (C10_UNLIKELY(observed())) notify({op, Tier::kDecomposition, false, stack});
  return true;
}

}  // namespace

bool has_decomposition(Operator& op) { return decomposition_of(op).function != nullptr; }

void decompose_on_cpu(const c10::OperatorHandle& handle, Operator& op, torch::jit::Stack* stack) {
  std::string reason;
  auto results = call_python(decomposition_of(op).function, handle.schema(), *stack, &reason);
  TORCH_CHECK_NOT_IMPLEMENTED(results, op.name, " has neither a kernel for ", runtime().name(),
                              " nor one for the CPU, and its decomposition declined the call",
                              reason.empty() ? "" : ": ", reason);
  torch::jit::drop(*stack, handle.schema().arguments().size());
  for (c10::IValue& value : *results) stack->push_back(std::move(value));
}

void next_tier(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  Operator& op = operator_of(handle);
  if (C10_UNLIKELY(op.intercepted()) && should_intercept(op)) return intercept(handle, stack);
  if (!decompose(handle, op, stack)) cpu_tier(handle, stack);
}

void fallback_after_decline(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  Operator& op = operator_of(handle);
  if (C10_UNLIKELY(op.intercepted()) && should_intercept(op)) return intercept(handle, stack);
  // Kernels that a rule denies have not declined the call.
  if (runtime().plugin->compiler.compile != nullptr && op.allows(Tier::kPortable)) return cpu_tier(handle, stack);
  next_tier(handle, stack);
}

// torch's composite functions of these operators call kernels that exist only for its own devices.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : {"kaiser_window", "kaiser_window.periodic", "kaiser_window.beta"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&next_tier>());
  }
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&next_tier>()); }

}  // namespace hp::torch_adapter
