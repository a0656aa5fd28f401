#include "dispatch/tool_intercept.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "core/dispatch/tool_scope.h"
#include "core/dispatch/write_watch.h"
#include "dispatch/written_arguments.h"
#include "python/python_location.h"

namespace py = pybind11;

namespace hp::torch_adapter {
namespace {

// Tools compute without autograd, autocast and interception, and hold the GIL.
class ToolCallScope {
 public:
  ToolCallScope() : autocast_(c10::autocast_dispatch_keyset) {}
  ToolCallScope(const ToolCallScope&) = delete;

 private:
  const ToolScope scope_;
  py::gil_scoped_acquire gil_;
  at::AutoDispatchBelowAutograd autograd_;
  c10::impl::ExcludeDispatchKeyGuard autocast_;
};

template <class... Arguments>
py::object call_tool(const char* name, Arguments&&... arguments) {
  try {
    return py::module_::import("hardpoint.debug._tool.base").attr(name)(std::forward<Arguments>(arguments)...);
  } catch (py::error_already_set& error) {
    error.restore();
    python_error raised;
    raised.persist();
    throw python_error(raised);
  }
}

py::list to_python(at::ArrayRef<c10::IValue> values) {
  py::list list;
  for (const c10::IValue& value : values) list.append(torch::jit::toPyObject(value));
  return list;
}

// A tool's record of one call, released under the GIL.
class Record {
 public:
  Record(const Operator& op, at::ArrayRef<c10::IValue> arguments) {
    ToolCallScope tool;
    record_ = call_tool("begin_torch", op.name, to_python(arguments)).release().ptr();
  }
  ~Record() {
    py::gil_scoped_acquire gil;
    Py_XDECREF(record_);
  }
  Record(const Record&) = delete;

  void finish(at::ArrayRef<c10::IValue> results, const char* tier) const {
    ToolCallScope tool;
    call_tool("end", py::reinterpret_borrow<py::object>(record_), to_python(results), tier);
  }
  void fail(const char* message) const {
    ToolCallScope tool;
    call_tool("fail", py::reinterpret_borrow<py::object>(record_), message);
  }

 private:
  PyObject* record_ = nullptr;
};

// The operator whose lazy clones were separated, while its call executes on this thread.
thread_local const Operator* separated = nullptr;

class SeparatedCallScope {
 public:
  explicit SeparatedCallScope(const Operator& op) : previous_(separated) { separated = &op; }
  ~SeparatedCallScope() { separated = previous_; }
  SeparatedCallScope(const SeparatedCallScope&) = delete;

 private:
  const Operator* const previous_;
};

void separate(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || !tensor.is_privateuseone()) return;
  const c10::DeviceGuard guard(tensor.device());  // the copy is made on the current device
  tensor.storage().unsafeGetStorageImpl()->mutable_data();
}

// Gives written arguments that are lazy clones, or were cloned lazily, memory of their own.
void separate_lazy_clones(const Operator& op, const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = arguments[i];
    if (!(value.isTensor() || value.isTensorList()) || !writes_argument(op, schema, i)) continue;
    if (value.isTensor()) {
      separate(value.toTensor());
    } else {
      for (const at::Tensor& tensor : value.toTensorVector()) separate(tensor);
    }
  }
}

}  // namespace

std::string python_location() { return hp::python_location(); }

bool should_intercept(const Operator& op) {
  if (!intercepted_by_tool(op)) return separated != &op;
  return enters_tool(op) && Py_IsInitialized();
}

void intercept(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  const Operator& op = operator_of(handle);
  const c10::FunctionSchema& schema = handle.schema();
  separate_lazy_clones(op, schema, torch::jit::last(*stack, schema.arguments().size()));
  if (!intercepted_by_tool(op)) {
    const SeparatedCallScope scope(op);
    handle.redispatchBoxed(kKeySet, stack);
    return;
  }
  const Record record(op, torch::jit::last(*stack, schema.arguments().size()));
  const char* tier = "";
  try {
    const InterceptedCallScope scope(op);
    handle.redispatchBoxed(kKeySet, stack);
    tier = scope.tier();
  } catch (const std::exception& error) {
    record.fail(error.what());
    throw;
  }
  record.finish(torch::jit::last(*stack, schema.returns().size()), tier);
}

}  // namespace hp::torch_adapter
