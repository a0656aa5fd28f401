#include "runtime/python_warning.h"

#include <torch/csrc/Exceptions.h>

namespace hp::torch_adapter {

// TORCH_WARN appends the C++ source location, except in some of torch's entry points.
void warn_in_python(const std::string& message) {
  if (!Py_IsInitialized()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool raised = PyErr_WarnEx(PyExc_UserWarning, message.c_str(), 1) < 0;
  python_error error;
  if (raised) error.persist();
  PyGILState_Release(state);
  if (raised) throw python_error(error);
}

}  // namespace hp::torch_adapter
