// Converts Python values to register values of a graph.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

namespace hp::torch_adapter {

// Accepts tensors, numbers, None, strings, and lists of integers or tensors.
inline c10::IValue ivalue_from_python(pybind11::handle object) {
  PyObject* const raw = object.ptr();
  if (THPVariable_Check(raw)) return THPVariable_Unpack(raw);
  if (object.is_none()) return {};
  if (PyBool_Check(raw)) return raw == Py_True;
  if (PyLong_Check(raw)) return object.cast<int64_t>();
  if (PyFloat_Check(raw)) return object.cast<double>();
  if (PyUnicode_Check(raw)) return object.cast<std::string>();
  if (PyList_Check(raw) || PyTuple_Check(raw)) {
    const auto items = object.cast<pybind11::sequence>();
    if (items.size() > 0 && THPVariable_Check(pybind11::object(items[0]).ptr())) {
      return object.cast<std::vector<at::Tensor>>();
    }
    return object.cast<std::vector<int64_t>>();
  }
  throw pybind11::type_error(
      "a graph register holds a tensor, number, string, None, or list of integers or tensors, got " +
      pybind11::repr(object).cast<std::string>());
}

}  // namespace hp::torch_adapter
