#include "compiler/compiler.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "compiler/c_compiler.h"
#include "compiler/cpu_arch.h"
#include "compiler/program.h"
#include "config.h"
#include "host.h"
#include "memory/access_fault.h"
#include "memory/device_memory.h"
#include "runtime/stream.h"
#include "runtime/thread_pool.h"

namespace sim {

namespace {

// A queued launch: the kernel and its argument values. The values are stored inline; only unusually large sets need the
// heap.
class Launch {
 public:
  Launch(Function* function, const uint32_t* groups, uint64_t total)
      : function_(function), total_(total), groups_{groups[0], groups[1], groups[2]} {
    function->program->acquire();
  }
  Launch(Launch&& other) noexcept
      : function_(std::exchange(other.function_, nullptr)),
        heap_(std::move(other.heap_)),
        total_(other.total_),
        groups_{other.groups_[0], other.groups_[1], other.groups_[2]},
        count_(other.count_),
        used_(other.used_) {
    memcpy(offsets_, other.offsets_, sizeof offsets_);
    memcpy(values_, other.values_, used_);
  }
  ~Launch() {
    if (function_) function_->program->release();
  }

  // HP_OK, or host->fail if a pointer is not in the device's memory.
  HpStatus set_arguments(int device, const HpLaunchArg* args, uint32_t count) {
    count_ = count;
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; ++i) bytes = align_offset(bytes, size_of(args[i])) + size_of(args[i]);
    unsigned char* values = values_;
    if (count > kInlineArguments || bytes > kInlineBytes) {
      const size_t table = (count * sizeof(void*) + kAlignment - 1) / kAlignment * kAlignment;
      heap_.reset(new Aligned[(table + bytes + kAlignment - 1) / kAlignment]);
      values = reinterpret_cast<unsigned char*>(heap_.get()) + table;
    } else {
      used_ = bytes;
    }
    size_t offset = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const size_t size = size_of(args[i]);
      offset = align_offset(offset, size);
      if (heap_) {
        reinterpret_cast<void**>(heap_.get())[i] = values + offset;
      } else {
        offsets_[i] = static_cast<uint16_t>(offset);
      }
      if (!args[i].is_pointer) {
        memcpy(values + offset, args[i].value, size);
      } else if (!translate(device, args[i].value, values + offset)) {
        return not_on_device(device, i, values + offset);
      }
      offset += size;
    }
    return HP_OK;
  }

  void operator()() const {
    if (heap_) return run(reinterpret_cast<void* const*>(heap_.get()));
    void* args[kInlineArguments];
    for (uint32_t i = 0; i < count_; ++i) args[i] = const_cast<unsigned char*>(values_) + offsets_[i];
    run(args);
  }

 private:
  static constexpr size_t kInlineArguments = 32, kInlineBytes = 512;
  static constexpr size_t kAlignment = 16;  // for any value type, as malloc guarantees
  struct alignas(kAlignment) Aligned {
    unsigned char raw[kAlignment];
  };

  static size_t size_of(const HpLaunchArg& arg) { return arg.is_pointer ? sizeof(void*) : arg.bytes; }
  static size_t align_offset(size_t offset, size_t size) {
    const size_t unit = size > 8 ? kAlignment : 8;
    return (offset + unit - 1) / unit * unit;
  }

  // Converts a device pointer to its accessible address. NULL means "no tensor" and stays NULL.
  static bool translate(int device, const void* value, unsigned char* to) {
    char* pointer;
    memcpy(&pointer, value, sizeof pointer);
    const bool known = !pointer || owns(device, pointer, 0);
    if (pointer && known) pointer = alias_of(pointer);
    memcpy(to, &pointer, sizeof pointer);
    return known;
  }

  HpStatus not_on_device(int device, uint32_t index, const unsigned char* value) const {
    void* pointer;
    memcpy(&pointer, value, sizeof pointer);
    return host->fail(HP_INVALID_ARGUMENT, "argument %u of kernel '%s' is %p, which is not in the memory of sim:%d",
                      index, function_->name.c_str(), pointer, device);
  }

  void run(void* const* args) const {
    parallel_for(total_, function_->cost, [&](uint64_t first, uint64_t last) {
      uintptr_t address = 0;
      if (!run_trapped([&] { function_->code(args, groups_, first, last); }, &address)) throw access_error(address);
    });
  }

  StatusError access_error(uintptr_t address) const {
    // Kernels see the alias; programs know the device address.
    const uintptr_t device_address = address - static_cast<uintptr_t>(reservation.alias);
    const bool known = device_address - reservation.base < reservation.total;
    char text[32];
    snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(known ? device_address : address));
    return StatusError(HP_ERROR,
                       "kernel '" + function_->name + "' accessed address " + text +
                           ", outside of the allocated memory of sim:" + std::to_string(function_->program->device()));
  }

  Function* function_;               // its program stays loaded
  std::unique_ptr<Aligned[]> heap_;  // if set: the table of addresses, followed by the values
  uint64_t total_;
  uint32_t groups_[3];
  uint32_t count_ = 0;
  size_t used_ = 0;
  uint16_t offsets_[kInlineArguments];
  alignas(kAlignment) unsigned char values_[kInlineBytes];
};

}  // namespace

const char* fingerprint(int) { return config.arch->fingerprint; }

HpStatus compile(int device, const char* source, const char* options, void** binary, size_t* bytes) {
  if (!valid_device(device)) return no_such_device(device);
  std::string library;
  if (HpStatus status = compile_source(source, options, &library)) return status;
  append_checksum(&library);
  *binary = malloc(library.size());
  if (!*binary) return host->fail(HP_ERROR, "sim:%d is out of host memory for a kernel binary", device);
  memcpy(*binary, library.data(), library.size());
  *bytes = library.size();
  return HP_OK;
}

void release_binary(void* binary) { ::free(binary); }

HpStatus load(int device, const void* binary, size_t bytes, HpProgram* handle) {
  rearm_access_fault_handler();
  return load_program(device, binary, bytes, handle);
}

HpStatus unload(int device, HpProgram handle) {
  if (!valid_device(device)) return no_such_device(device);
  reinterpret_cast<Program*>(handle)->release();
  return HP_OK;
}

HpStatus find(int device, HpProgram handle, const char* name, HpFunction* function) {
  if (!valid_device(device)) return no_such_device(device);
  Function* const found = reinterpret_cast<Program*>(handle)->find(name);
  if (!found) return host->fail(HP_INVALID_ARGUMENT, "the program has no kernel '%s'", name);
  *function = reinterpret_cast<HpFunction>(found);
  return HP_OK;
}

HpStatus launch_with(int device, HpStream stream, HpFunction function, const HpLaunch* options, const HpLaunchArg* args,
                     uint32_t num_args) {
  const uint32_t* const cluster = options->cluster;
  if (options->local_bytes != 0 || cluster[0] > 1 || cluster[1] > 1 || cluster[2] > 1)
    return host->fail(HP_NOT_SUPPORTED, "kernel '%s': sim has neither dynamic local memory nor clusters",
                      reinterpret_cast<Function*>(function)->name.c_str());
  // Groups of one work-item run one after the other on each thread, so they cannot wait for each other.
  if (options->flags & HP_LAUNCH_COOPERATIVE)
    return host->fail(HP_NOT_SUPPORTED, "kernel '%s': sim does not run all groups at the same time",
                      reinterpret_cast<Function*>(function)->name.c_str());
  return launch(device, stream, function, options->groups, options->group_size, args, num_args);
}

HpStatus attributes(int device, HpFunction, HpAttributes* attributes) {
  if (!valid_device(device)) return no_such_device(device);
  HpAttributes filled = {};
  filled.struct_size = attributes->struct_size;
  filled.max_group_size = 1;
  memcpy(attributes, &filled, std::min(filled.struct_size, sizeof filled));
  return HP_OK;
}

HpStatus launch(int device, HpStream stream_handle, HpFunction handle, const uint32_t* groups,
                const uint32_t* group_size, const HpLaunchArg* args, uint32_t num_args) {
  Function* const function = reinterpret_cast<Function*>(handle);
  Stream* const stream = find_stream(device, stream_handle);
  if (!stream) return HP_INVALID_ARGUMENT;
  if (function->program->device() != device)
    return host->fail(HP_INVALID_ARGUMENT, "kernel '%s' was loaded on sim:%d and cannot run on sim:%d",
                      function->name.c_str(), function->program->device(), device);
  if (group_size[0] != 1 || group_size[1] != 1 || group_size[2] != 1)
    return host->fail(HP_INVALID_ARGUMENT, "kernel '%s': a group has 1 x 1 x 1 work-items on sim, not %u x %u x %u",
                      function->name.c_str(), group_size[0], group_size[1], group_size[2]);
  uint64_t total = uint64_t{groups[0]} * groups[1];
  if (__builtin_mul_overflow(total, uint64_t{groups[2]}, &total))
    return host->fail(HP_INVALID_ARGUMENT, "kernel '%s': %u x %u x %u is too many groups", function->name.c_str(),
                      groups[0], groups[1], groups[2]);
  if (total == 0) return HP_OK;
  Launch work(function, groups, total);
  if (HpStatus status = work.set_arguments(device, args, num_args)) return status;
  rearm_access_fault_handler_if_due();
  // The cost of a launch is unknown here, but one group is at most a thread's worth of work: run it inline.
  stream->submit(TaskKind::kernel, total == 1, std::move(work));
  return HP_OK;
}

}  // namespace sim
