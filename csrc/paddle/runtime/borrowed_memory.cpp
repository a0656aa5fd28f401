#include "runtime/borrowed_memory.h"

#include <pybind11/stl.h>

#include <optional>

namespace py = pybind11;

namespace hp::paddle_adapter {
namespace {

// Holds a reference to the Python object that owns the memory.
class BorrowedAllocation : public phi::Allocation {
 public:
  BorrowedAllocation(void* address, size_t bytes, const phi::Place& place, PyObject* owner)
      : phi::Allocation(address, bytes, place), owner_(owner) {}
  BorrowedAllocation(const BorrowedAllocation&) = delete;
  BorrowedAllocation& operator=(const BorrowedAllocation&) = delete;
  ~BorrowedAllocation() override {
    if (!Py_IsInitialized()) return;  // the process ends: the owner is gone
    py::gil_scoped_acquire acquired;
    Py_DECREF(owner_);
  }

 private:
  PyObject* const owner_;
};

struct Loan {
  uintptr_t address;
  size_t bytes;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  py::object owner;
};

// Python cannot create a tensor on given memory. It calls `full` instead, which returns a tensor on the lent memory
// without filling it. (`empty` cannot be replaced: Paddle has one kernel for all devices.)
thread_local std::optional<Loan> pending_loan;

}  // namespace

bool take_lent_memory(phi::DenseTensor& out, phi::DataType dtype, const phi::Place& place) {
  if (!pending_loan) return false;
  py::gil_scoped_acquire acquired;
  Loan loan = std::move(*pending_loan);
  pending_loan.reset();
  phi::DenseTensorMeta meta(dtype, common::make_ddim(loan.sizes));
  meta.strides = common::make_ddim(loan.strides);
  out.ResetHolder(std::make_shared<BorrowedAllocation>(reinterpret_cast<void*>(loan.address), loan.bytes, place,
                                                       loan.owner.release().ptr()));
  out.set_meta(meta);
  return true;
}

void bind_borrowed_memory(py::module_& module) {
  // The next `full` of this thread must have these sizes, and returns a tensor on this memory.
  module.def("lend_memory", [](uintptr_t address, size_t bytes, std::vector<int64_t> sizes,
                               std::vector<int64_t> strides, py::object owner) {
    pending_loan = Loan{address, bytes, std::move(sizes), std::move(strides), std::move(owner)};
  });
  // Takes back memory that `full` did not use, because the call failed first.
  module.def("end_loan", [] { pending_loan.reset(); });
}

}  // namespace hp::paddle_adapter
