#include "python/python_stack.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <pybind11/pybind11.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/tracing/source_stack.h"

namespace hp {
namespace {

constexpr size_t kMaxDepth = 256;

// Holds references to code objects, whose addresses are keys.
struct Location {
  PyCodeObject* code;
  int position;  // instruction or, in Python 3.10, line
  bool operator==(const Location& other) const { return code == other.code && position == other.position; }
};
struct LocationHash {
  size_t operator()(const Location& location) const {
    return reinterpret_cast<size_t>(location.code) * 31 + static_cast<size_t>(location.position);
  }
};

// The GIL guards it.
std::unordered_map<Location, uint32_t, LocationHash>& known_frames() {
  static auto* frames = new std::unordered_map<Location, uint32_t, LocationHash>;
  return *frames;
}

std::string text_of(PyObject* value) {
  const char* text = value != nullptr ? PyUnicode_AsUTF8(value) : nullptr;
  if (text == nullptr) PyErr_Clear();
  return text != nullptr ? text : "?";
}

// Takes over the reference to `code`.
uint32_t frame_number(PyFrameObject* frame, PyCodeObject* code) {
#if PY_VERSION_HEX >= 0x030B0000
  const Location location{code, PyFrame_GetLasti(frame)};
#else
  const Location location{code, PyFrame_GetLineNumber(frame)};
#endif
  const auto found = known_frames().find(location);
  if (found != known_frames().end()) {
    Py_DECREF(code);
    return found->second;
  }
  const uint32_t number =
      intern_frame({text_of(code->co_filename), text_of(code->co_name), PyFrame_GetLineNumber(frame)});
  known_frames().emplace(location, number);
  return number;
}

// Whether Python's threading module started the thread: its outermost frame is Thread._bootstrap.
bool is_bootstrap(PyCodeObject* code) { return PyUnicode_CompareWithASCIIString(code->co_name, "_bootstrap") == 0; }

// Returns whether the stack is that of a thread that Python started.
bool append_frames(PyThreadState* thread, std::vector<uint32_t>& stack) {
  bool of_python = false;
  PyFrameObject* frame = PyThreadState_GetFrame(thread);
  const size_t most = stack.size() + kMaxDepth;
  while (frame != nullptr && stack.size() < most) {
    PyCodeObject* const code = PyFrame_GetCode(frame);
    of_python = is_bootstrap(code);
    stack.push_back(frame_number(frame, code));
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  return of_python;
}

bool shutting_down() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// ---- Frames of C++

struct NativeFrame {
  uint32_t number;
  const void* library;  // where it is loaded
};

// "torch::autograd::Engine::execute(...)", or the offset in the library if the function has no exported name.
std::string function_name(const Dl_info& info, const char* address) {
  if (info.dli_sname != nullptr) {
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status),
                                                      &std::free);
    return status == 0 ? name.get() : info.dli_sname;
  }
  char offset[32];
  std::snprintf(offset, sizeof(offset), "+0x%zx", static_cast<size_t>(address - static_cast<char*>(info.dli_fbase)));
  return offset;
}

const void* library_of(const void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

const NativeFrame& native_frame(void* return_address) {
  static auto* known = new std::unordered_map<void*, NativeFrame>;  // the GIL guards it
  const auto found = known->find(return_address);
  if (found != known->end()) return found->second;
  const char* const call = static_cast<char*>(return_address) - 1;
  Dl_info info{};
  if (dladdr(call, &info) == 0)
    return known->emplace(return_address, NativeFrame{intern_frame({"?", "?", 0}), nullptr}).first->second;
  const uint32_t number = intern_frame({info.dli_fname, function_name(info, call), 0});
  return known->emplace(return_address, NativeFrame{number, info.dli_fbase}).first->second;
}

// From whoever called the core, out to the interpreter or the start of the thread.
void append_native_frames(std::vector<uint32_t>& stack) {
  static const void* const interpreter = library_of(reinterpret_cast<void*>(&Py_IsInitialized));
  static const void* const core = library_of(reinterpret_cast<void*>(&set_stack_function));
  static const void* const here = library_of(reinterpret_cast<void*>(&append_native_frames));
  std::array<void*, kMaxDepth> addresses;
  const int count = backtrace(addresses.data(), static_cast<int>(addresses.size()));
  bool outside = false;
  for (int i = 0; i < count; ++i) {
    const NativeFrame& frame = native_frame(addresses[i]);
    if (frame.library == interpreter) return;
    outside = outside || (frame.library != core && frame.library != here);
    if (outside) stack.push_back(frame.number);
  }
}

// ---- Stacks

// A thread that Python did not start, such as one of autograd, works for the main thread, which waits for it. Its stack
// therefore continues with the main thread's.
StackId capture(bool native) {
  if (!Py_IsInitialized() || shutting_down()) return 0;
  pybind11::gil_scoped_acquire gil;
  static thread_local std::vector<uint32_t> stack;
  stack.clear();
  if (native) append_native_frames(stack);
  PyThreadState* const current = PyThreadState_Get();
  if (!append_frames(current, stack)) {
    static const uint32_t marker = intern_frame({"<another thread>", "for the main thread, which waits", 0});
    PyThreadState* main = PyInterpreterState_ThreadHead(PyThreadState_GetInterpreter(current));
    while (main != nullptr && PyThreadState_Next(main) != nullptr) main = PyThreadState_Next(main);  // the oldest
    if (main != nullptr && main != current) {
      stack.push_back(marker);
      append_frames(main, stack);
    }
  }
  return intern_stack(stack);
}

}  // namespace

void capture_python_stacks() { set_stack_function(&capture); }

}  // namespace hp
