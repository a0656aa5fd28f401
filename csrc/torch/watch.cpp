#include "watch.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "../core/watched.h"
#include "../python/line.h"

namespace py = pybind11;

namespace hp::torch_adapter {
namespace {

// What a tool computes is plain: not recorded by autograd, not cast, not seen by tools.
class InTool {
 public:
  InTool() : autocast_(c10::autocast_dispatch_keyset) {}
  InTool(const InTool&) = delete;

 private:
  const ToolScope scope_;
  py::gil_scoped_acquire gil_;
  at::AutoDispatchBelowAutograd autograd_;
  c10::impl::ExcludeDispatchKeyGuard autocast_;
};

template <class... Arguments>
py::object call_tool(const char* name, Arguments&&... arguments) {
  try {
    return py::module_::import("hardpoint.toolbox.watching").attr(name)(std::forward<Arguments>(arguments)...);
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

// What the tool keeps of a call between its two ends. Released under the interpreter's lock.
class Record {
 public:
  Record(const Operator& op, at::ArrayRef<c10::IValue> arguments) {
    InTool tool;
    record_ = call_tool("begin", op.name, to_python(arguments)).release().ptr();
  }
  ~Record() {
    py::gil_scoped_acquire gil;
    Py_XDECREF(record_);
  }
  Record(const Record&) = delete;

  void finish(at::ArrayRef<c10::IValue> results, const char* tier) const {
    InTool tool;
    call_tool("end", py::reinterpret_borrow<py::object>(record_), to_python(results), tier);
  }
  void fail(const char* message) const {
    InTool tool;
    call_tool("fail", py::reinterpret_borrow<py::object>(record_), message);
  }

 private:
  PyObject* record_ = nullptr;
};

}  // namespace

std::string python_line() { return hp::python_line(); }

bool to_watch(const Operator& op) { return enters_tool(op) && Py_IsInitialized(); }

void watch(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  const Operator& op = operator_of(handle);
  const c10::FunctionSchema& schema = handle.schema();
  const Record record(op, torch::jit::last(*stack, schema.arguments().size()));
  const char* tier = "";
  try {
    const WatchedScope scope(op);
    handle.redispatchBoxed(kKeySet, stack);
    tier = scope.tier();
  } catch (const std::exception& error) {
    record.fail(error.what());
    throw;
  }
  record.finish(torch::jit::last(*stack, schema.returns().size()), tier);
}

}  // namespace hp::torch_adapter
