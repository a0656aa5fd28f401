// Paddle tensors on memory that another library owns.
#pragma once

#include <paddle/phi/core/dense_tensor.h>
#include <pybind11/pybind11.h>

namespace hp::paddle_adapter {

// If this thread lends memory to its next `full`, makes `out` a tensor on it and returns true.
bool take_lent_memory(phi::DenseTensor& out, phi::DataType dtype, const phi::Place& place);

// Binds the Python function `lend_memory`.
void bind_borrowed_memory(pybind11::module_& module);

}  // namespace hp::paddle_adapter
