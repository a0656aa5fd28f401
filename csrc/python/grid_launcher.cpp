#include "python/grid_launcher.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/dispatch/portable_kernel.h"
#include "core/memory/scratch.h"
#include "core/tensor/half.h"

namespace py = pybind11;

namespace hp {
namespace {

constexpr size_t kMaxArguments = 224;  // see HpCompiler::launch
constexpr size_t kAddedArguments = 6;  // grid, fault record, code, workspace

// Bytes of a number in device memory, in the low bytes of a word; sets `bytes`.
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

GridLauncher::GridLauncher(Runtime& runtime, const std::string& op, std::string kinds, bool reports, int64_t workspace,
                           int64_t max_groups)
    : runtime_(runtime),
      op_(Operator::intern(op)),
      kinds_(std::move(kinds)),
      reports_(reports),
      workspace_(workspace),
      max_groups_(max_groups) {
  const auto taken = kinds_.size() - static_cast<size_t>(std::count(kinds_.begin(), kinds_.end(), '-'));
  if (taken + kAddedArguments > kMaxArguments)
    throw Error(HP_INVALID_ARGUMENT, op_.name + " has " + std::to_string(taken) + " arguments; a kernel can have " +
                                         std::to_string(kMaxArguments - kAddedArguments));
}

bool GridLauncher::launch(int device, uintptr_t function, int64_t x, int64_t y, int64_t z, py::handle arguments) const {
  if (!op_.allows(Tier::kPortable)) return false;
  const auto given = py::reinterpret_borrow<py::tuple>(arguments);
  if (given.size() != kinds_.size())
    throw Error(HP_INVALID_ARGUMENT, op_.name + " takes " + std::to_string(kinds_.size()) + " arguments, got " +
                                         std::to_string(given.size()));
  uint64_t words[kMaxArguments];
  HpLaunchArg args[kMaxArguments];
  uint32_t count = 0;
  const auto add = [&](uint64_t word, uint32_t bytes, bool is_pointer) {
    words[count] = word;
    args[count] = {&words[count], bytes, is_pointer ? 1u : 0u};
    ++count;
  };
  for (size_t i = 0; i < kinds_.size(); ++i) {
    PyObject* const value = PyTuple_GET_ITEM(given.ptr(), static_cast<Py_ssize_t>(i));
    uint32_t bytes = 8;
    if (kinds_[i] == 'P') {
      add(pack_pointer(value), 8, true);
    } else if (kinds_[i] != '-') {
      const uint64_t word = pack_number(kinds_[i], value, &bytes);
      add(word, bytes, false);
    }
  }
  for (const int64_t size : {x, y, z}) add(static_cast<uint64_t>(size), 8, false);
  py::gil_scoped_release release;
  Stream& stream = current_stream(runtime_.device(device));
  if (reports_) {
    add(reinterpret_cast<uintptr_t>(stream.fault_record()), 8, true);
    add(reinterpret_cast<uintptr_t>(&op_), 8, false);
  }
  int64_t groups = x * y * z;
  std::optional<Scratch> workspace;
  if (workspace_ > 0) {
    groups = std::min(groups, max_groups_);
    workspace.emplace(stream.device, groups * workspace_);
    add(reinterpret_cast<uintptr_t>(workspace->get()), 8, true);
  }
  launch_groups(op_, {reinterpret_cast<HpFunction>(function), 1}, stream, groups, args, count);
  op_.count(Tier::kPortable);
  return true;
}

}  // namespace hp
