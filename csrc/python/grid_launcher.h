// Launches kernels over a three-dimensional grid of programs, with arguments straight from Python: for Triton.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "core/dispatch/operator.h"
#include "core/runtime/runtime.h"

namespace hp {

class GridLauncher {
 public:
  // `kinds` has one character per argument: P for a pointer (a tensor, an address, None), '-' for a constant that the
  // kernel does not take, else the format character of Python's struct module, and 'E' for bfloat16. `reports`: the
  // kernel takes the address of the fault record and the operator's code after the sizes of the grid. `workspace`:
  // bytes of device memory that each group needs, 0 for none; the kernel takes their address as its last argument, and
  // at most `max_groups` groups run all programs.
  GridLauncher(Runtime& runtime, const std::string& op, std::string kinds, bool reports, int64_t workspace,
               int64_t max_groups);

  // Queues the kernel on the device's current stream. The arguments are followed by the sizes of the grid. Returns
  // false if a rule denies it.
  bool launch(int device, uintptr_t function, int64_t x, int64_t y, int64_t z, pybind11::handle arguments) const;

 private:
  Runtime& runtime_;
  Operator& op_;
  const std::string kinds_;
  const bool reports_;
  const int64_t workspace_, max_groups_;
};

}  // namespace hp
