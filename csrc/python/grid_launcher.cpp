#include "python/grid_launcher.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/dispatch/portable_kernel.h"
#include "core/memory/allocator.h"
#include "core/memory/block_heap.h"
#include "core/memory/guard_zones.h"
#include "core/memory/scratch.h"
#include "core/recording/recorder.h"
#include "core/tensor/half.h"

namespace py = pybind11;

namespace hp {
namespace {

// A number as device memory holds it, in the low bytes of a word; sets `bytes` to its size.
uint64_t pack_number(char kind, PyObject* value, uint32_t* bytes) {
  if (std::strchr("edfE", kind) != nullptr) {
    const double number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred()) throw py::error_already_set();
    const auto single = static_cast<float>(number);
    uint64_t word = 0;
    *bytes = kind == 'd' ? 8 : kind == 'f' ? 4 : 2;
    if (kind == 'd') std::memcpy(&word, &number, 8);
    if (kind == 'f') std::memcpy(&word, &single, 4);
    if (kind == 'e') word = to_half(single).bits;
    if (kind == 'E') word = to_bfloat16(single).bits;
    return word;
  }
  *bytes = std::strchr("bB", kind) ? 1 : std::strchr("hH", kind) ? 2 : std::strchr("iI", kind) ? 4 : 8;
  const uint64_t word = PyLong_AsUnsignedLongLongMask(value);
  if (word == static_cast<uint64_t>(-1) && PyErr_Occurred()) throw py::error_already_set();
  return word;
}

uint64_t pack_pointer(PyObject* value) {
  if (value == Py_None) return 0;
  if (PyLong_Check(value)) return PyLong_AsUnsignedLongLongMask(value);
  static PyObject* const method = PyUnicode_InternFromString("data_ptr");
  const auto address = py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(value, method));
  if (!address) throw py::error_already_set();
  return PyLong_AsUnsignedLongLongMask(address.ptr());
}

}  // namespace

void GridLauncher::Arguments::add(uint64_t word, uint32_t bytes, bool is_pointer) {
  words[count] = word;
  args[count] = {&words[count], bytes, is_pointer ? 1u : 0u};
  ++count;
}

GridLauncher::GridLauncher(Runtime& runtime, const std::string& op, std::string kinds, size_t added)
    : runtime_(runtime), op_(Operator::intern(op)), kinds_(std::move(kinds)) {
  const auto taken = kinds_.size() - static_cast<size_t>(std::count(kinds_.begin(), kinds_.end(), '-'));
  if (taken + added > kMaxArguments)
    throw Error(HP_INVALID_ARGUMENT, op_.name + " has " + std::to_string(taken) + " arguments; a kernel can have " +
                                         std::to_string(kMaxArguments - added));
}

void GridLauncher::launch(uintptr_t function, const Grid& grid, PyObject* const* values, size_t count) const {
  if (!op_.allows(Tier::kPortable)) {
    PyErr_Format(PyExc_NotImplementedError, "a rule denies %s its device kernel; a Triton kernel has no other",
                 op_.name.c_str());
    throw py::error_already_set();
  }
  if (count != kinds_.size())
    throw Error(HP_INVALID_ARGUMENT,
                op_.name + " takes " + std::to_string(kinds_.size()) + " arguments, got " + std::to_string(count));
  Arguments arguments;
  for (size_t i = 0; i < count; ++i) {
    uint32_t bytes = 8;
    if (kinds_[i] == 'P') {
      arguments.add(pack_pointer(values[i]), 8, true);
    } else if (kinds_[i] != '-') {
      const uint64_t word = pack_number(kinds_[i], values[i], &bytes);
      arguments.add(word, bytes, false);
    }
  }
  py::gil_scoped_release release;
  queue(current_stream(runtime_.device(current_device(runtime_))), reinterpret_cast<HpFunction>(function), grid,
        arguments);
  op_.count(Tier::kPortable);
}

// ---- The function that Triton calls

namespace {

constexpr const char* kCapsule = "hardpoint.GridLauncher";
constexpr Py_ssize_t kBeforeArguments = 9;

void call_hook(PyObject* hook, PyObject* launch_metadata) {
  if (hook == Py_None) return;
  const auto result = py::reinterpret_steal<py::object>(PyObject_CallOneArg(hook, launch_metadata));
  if (!result) throw py::error_already_set();
}

PyObject* call(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  try {
    const auto* launcher = static_cast<const GridLauncher*>(PyCapsule_GetPointer(self, kCapsule));
    if (launcher == nullptr) return nullptr;
    if (count < kBeforeArguments) throw py::type_error("a launcher takes at least 9 arguments");
    GridLauncher::Grid grid;
    for (int i = 0; i < 3; ++i) {
      grid[i] = PyLong_AsLongLong(given[i]);
      if (grid[i] == -1 && PyErr_Occurred()) return nullptr;
    }
    const auto function = static_cast<uintptr_t>(PyLong_AsUnsignedLongLongMask(given[4]));
    PyObject *const launch_metadata = given[6], *const enter = given[7], *const leave = given[8];
    call_hook(enter, launch_metadata);
    if (*std::min_element(grid.begin(), grid.end()) > 0)
      launcher->launch(function, grid, given + kBeforeArguments, static_cast<size_t>(count - kBeforeArguments));
    call_hook(leave, launch_metadata);
    Py_RETURN_NONE;
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (...) {
    py::detail::try_translate_exceptions();
  }
  return nullptr;
}

// METH_FASTCALL: no tuple of the arguments is made.
PyMethodDef method = {"launch", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call)), METH_FASTCALL,
                      nullptr};

}  // namespace

py::object GridLauncher::callable(std::unique_ptr<const GridLauncher> launcher) {
  const auto capsule = py::reinterpret_steal<py::object>(PyCapsule_New(
      const_cast<GridLauncher*>(launcher.get()), kCapsule,
      [](PyObject* self) { delete static_cast<const GridLauncher*>(PyCapsule_GetPointer(self, kCapsule)); }));
  if (!capsule) throw py::error_already_set();
  launcher.release();  // NOLINT(bugprone-unused-return-value): the capsule owns it now
  auto function = py::reinterpret_steal<py::object>(PyCFunction_New(&method, capsule.ptr()));
  if (!function) throw py::error_already_set();
  return function;
}

// ---- Kernels in a dialect of the portable kernels

// Beside `guarded`: grid, fault record, code, the address in two forms, workspace.
PortableGridLauncher::PortableGridLauncher(Runtime& runtime, const std::string& op, std::string kinds, bool reports,
                                           bool addresses, std::vector<size_t> guarded, int64_t workspace,
                                           int64_t max_groups)
    : GridLauncher(runtime, op, std::move(kinds), 8 + 2 * guarded.size()),
      reports_(reports),
      addresses_(addresses),
      guarded_(std::move(guarded)),
      workspace_(workspace),
      max_groups_(max_groups) {}

void PortableGridLauncher::queue(Stream& stream, HpFunction function, const Grid& grid, Arguments& arguments) const {
  for (const int64_t size : grid) arguments.add(static_cast<uint64_t>(size), 8, false);
  if (reports_) {
    arguments.add(reinterpret_cast<uintptr_t>(stream.fault_record()), 8, true);
    arguments.add(reinterpret_cast<uintptr_t>(&op_), 8, false);
  }
  if (addresses_) {
    // A recording replaces addresses, but not numbers.
    if (Recorder* active = recorder()) active->refuse("it computes addresses");
    const auto anchor = reinterpret_cast<uintptr_t>(stream.fault_record());
    arguments.add(anchor, 8, true);
    arguments.add(anchor, 8, false);
  }
  for (const size_t argument : guarded_) {
    uint64_t start = arguments.words[argument], bytes = ~uint64_t{0};
    if (const Block* block = stream.device.allocator().find(reinterpret_cast<const void*>(start))) {
      start = reinterpret_cast<uintptr_t>(CachingAllocator::address(block));
      bytes = block->requested - (block->guarded ? 2 * kGuardBytes : 0);
    }
    arguments.add(start, 8, true);
    arguments.add(bytes, 8, false);
  }
  int64_t groups = grid[0] * grid[1] * grid[2];
  std::optional<Scratch> workspace;
  if (workspace_ > 0) {
    groups = std::min(groups, max_groups_);
    workspace.emplace(stream.device, groups * workspace_);
    arguments.add(reinterpret_cast<uintptr_t>(workspace->get()), 8, true);
  }
  launch_groups(op_, {function, 1}, stream, groups, arguments.args, arguments.count);
}

// ---- Kernels of another compiler

BinaryGridLauncher::BinaryGridLauncher(Runtime& runtime, const std::string& op, std::string kinds,
                                       const HpLaunch& options, std::vector<int64_t> scratch)
    : GridLauncher(runtime, op, std::move(kinds), scratch.size()), options_(options), scratch_(std::move(scratch)) {}

void BinaryGridLauncher::queue(Stream& stream, HpFunction function, const Grid& grid, Arguments& arguments) const {
  HpLaunch options = options_;
  int64_t programs = 1;
  for (int i = 0; i < 3; ++i) {
    const int64_t groups = grid[i] * std::max(options.cluster[i], 1u);
    if (groups > INT32_MAX)
      throw Error(HP_NOT_SUPPORTED, stream.device.name() + ": " + op_.name + " needs " + std::to_string(groups) +
                                        " work-groups, a launch can have at most " + std::to_string(INT32_MAX));
    options.groups[i] = static_cast<uint32_t>(groups);
    programs *= grid[i];
  }
  // Freed after the launch: the memory stays with the stream.
  std::vector<std::unique_ptr<Scratch>> memory;
  for (const int64_t bytes : scratch_) {
    if (bytes != 0) memory.push_back(std::make_unique<Scratch>(stream.device, bytes * programs));
    arguments.add(bytes != 0 ? reinterpret_cast<uintptr_t>(memory.back()->get()) : 0, 8, true);
  }
  launch_with(op_, function, stream, options, arguments.args, arguments.count);
}

}  // namespace hp
