// The current line of the Python program. Include in one file per adapter only: pybind11 is slow to compile.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

namespace hp {

// Suffix for an error message, " (at train.py:12)", or "" if unknown. Takes the GIL.
inline std::string python_location() {
  namespace py = pybind11;
  if (!Py_IsInitialized()) return "";
  py::gil_scoped_acquire gil;
  try {
    return py::str(py::module_::import("hardpoint.debug._calls.location").attr("error_suffix")());
  } catch (py::error_already_set&) {
    return "";
  }
}

}  // namespace hp
