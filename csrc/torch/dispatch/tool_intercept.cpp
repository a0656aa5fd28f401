#include "dispatch/tool_intercept.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "core/dispatch/tool_scope.h"
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

}  // namespace

std::string python_location() { return hp::python_location(); }

bool should_intercept(const Operator& op) { return enters_tool(op) && Py_IsInitialized(); }

void intercept(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  const Operator& op = operator_of(handle);
  const c10::FunctionSchema& schema = handle.schema();
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
