// Python binding of the c10d backend.
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "distributed/process_group.h"
#include "runtime/module.h"

namespace hp::torch_adapter {

void bind_distributed(pybind11::module_& module) {
  module.def(
      "process_group",
      [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, int64_t timeout_ms,
         const c10::intrusive_ptr<c10d::Backend>& gloo, bool staged) -> c10::intrusive_ptr<c10d::Backend> {
        return c10::make_intrusive<ProcessGroup>(store, rank, size, std::chrono::milliseconds(timeout_ms), gloo,
                                                 staged);
      },
      pybind11::call_guard<pybind11::gil_scoped_release>());
}

}  // namespace hp::torch_adapter
