// Where the Python program is. For one file of each adapter: what it includes takes long to compile.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

namespace hp {

// For the end of an error message: " (at train.py:12)", or nothing.
inline std::string python_line() {
  namespace py = pybind11;
  if (!Py_IsInitialized()) return "";
  py::gil_scoped_acquire gil;
  try {
    return py::str(py::module_::import("hardpoint.toolbox.places").attr("note")());
  } catch (py::error_already_set&) {
    return "";
  }
}

}  // namespace hp
