// Loaded kernels: a shared library held in memory, and the functions found in it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hardpoint/plugin.h"
#include "pool.h"

namespace sim {

// A kernel of the dialect "c"; plugin.h explains the arguments.
using KernelCode = void (*)(void* const* args, const uint32_t groups[3], uint64_t first, uint64_t last);

class Program;

struct Function {
  Function(Program* program, const char* name, KernelCode code) : program(program), name(name), code(code) {}

  Program* program;
  std::string name;
  KernelCode code;
  std::atomic<GroupCost> cost{GroupCost::low};
};

// Counts its users: the handle that `load` gave out, and every queued launch. The code stays mapped until the last of
// them is done, so that `unload` need not wait for the streams.
class Program {
 public:
  Program(int device, void* library) : device_(device), library_(library) {}
  Program(const Program&) = delete;

  int device() const { return device_; }
  // Null when the library has no such symbol. The function belongs to the program.
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

// Appends a checksum, so that `load_program` recognises a file that was damaged on disk.
void seal(std::string* library);

HpStatus load_program(int device, const void* binary, size_t bytes, HpProgram* program);

}  // namespace sim
