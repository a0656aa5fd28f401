// Loaded programs: a shared library in memory, and its kernels.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hardpoint/plugin.h"
#include "runtime/thread_pool.h"

namespace sim {

// A kernel of the "c" dialect; see HpCompiler in plugin.h.
using KernelCode = void (*)(void* const* args, const uint32_t groups[3], uint64_t first, uint64_t last);

class Program;

struct Function {
  Function(Program* program, const char* name, KernelCode code) : program(program), name(name), code(code) {}

  Program* program;
  std::string name;
  KernelCode code;
  std::atomic<GroupCost> cost{GroupCost::low};
};

// Reference-counted by the handle from `load` and by queued launches. The code stays mapped until the last reference is
// released, so `unload` need not wait for the streams.
class Program {
 public:
  Program(int device, void* library) : device_(device), library_(library) {}
  Program(const Program&) = delete;

  int device() const { return device_; }
  // Null if the library has no such symbol. The program owns the function.
  Function* find(const char* name);

  void acquire() { users_.fetch_add(1, std::memory_order_relaxed); }
  void release();

 private:
  ~Program();

  const int device_;
  void* const library_;
  std::atomic<uint64_t> users_{1};
  std::mutex mutex_;
  std::vector<std::unique_ptr<Function>> functions_;
};

// Appends a checksum that lets `load_program` detect a damaged file.
void append_checksum(std::string* library);

HpStatus load_program(int device, const void* binary, size_t bytes, HpProgram* program);

}  // namespace sim
