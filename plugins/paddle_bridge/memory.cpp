// Device memory and page-locked memory. Paddle plug-ins need the size to free memory, and guarantee no alignment.
#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "bridge.h"

namespace bridge {
namespace {

struct Allocation {
  void* base;
  size_t bytes;
};

// Maps addresses given to Hardpoint to the plug-in's allocations.
class AllocationTable {
 public:
  void add(void* ptr, Allocation allocation) {
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_[ptr] = allocation;
  }
  bool remove(void* ptr, Allocation* allocation) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(ptr);
    if (found == entries_.end()) return false;
    *allocation = found->second;
    entries_.erase(found);
    return true;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, Allocation> entries_;
};

// Never destroyed: memory may be freed during process exit.
AllocationTable& device_allocations() {
  static auto* table = new AllocationTable;
  return *table;
}
AllocationTable& pinned_allocations() {
  static auto* table = new AllocationTable;
  return *table;
}

// Set once the plug-in returns a misaligned address; later allocations then include room to align it.
std::atomic<bool> misaligned{false};

HpStatus out_of_memory(size_t bytes) {
  return host->fail(HP_OUT_OF_MEMORY, "%s: callback device_memory_allocate could not allocate %zu bytes",
                    plugin->path.c_str(), bytes);
}

HpStatus pinned_allocate(size_t bytes, void** ptr) {
  void* base = nullptr;
  const HpStatus status = call(0, "host_memory_allocate",
                               [&](paddle::Device d) { return plugin->table->host_memory_allocate(d, &base, bytes); });
  if (status != HP_OK) return status;
  if (base == nullptr) return host->fail(HP_OUT_OF_MEMORY, "out of page-locked memory: %zu bytes requested", bytes);
  pinned_allocations().add(base, {base, bytes});
  *ptr = base;
  return HP_OK;
}

HpStatus pinned_free(void* ptr) {
  Allocation allocation{};
  if (!pinned_allocations().remove(ptr, &allocation))
    return host->fail(HP_INVALID_ARGUMENT, "free of %p, which is not page-locked memory", ptr);
  return call(0, "host_memory_deallocate", [&](paddle::Device d) {
    return plugin->table->host_memory_deallocate(d, allocation.base, allocation.bytes);
  });
}

}  // namespace

HpStatus allocate(int device, size_t bytes, void** ptr) {
  *ptr = nullptr;
  for (;;) {
    const bool shift = misaligned;
    void* base = nullptr;
    size_t size = 0;
    paddle::Status answer = paddle::kSuccess;
    const HpStatus status = call(device, "device_memory_allocate", [&](paddle::Device d) {
      const DeviceState& state = *plugin->devices[device];
      const size_t extra = state.padding + (shift ? HP_ALIGNMENT : 0) + state.chunk;
      if (bytes > SIZE_MAX - extra) {
        answer = paddle::kFailed;
        return paddle::kSuccess;
      }
      size = (bytes + extra - 1) / state.chunk * state.chunk;
      answer = plugin->table->device_memory_allocate(d, &base, size);
      return paddle::kSuccess;
    });
    if (status != HP_OK) return status;
    // Plug-ins report this with different statuses. If the cause is another one, Hardpoint's retry does no harm.
    if (answer > paddle::kWarning || base == nullptr) return out_of_memory(bytes);
    const auto address = reinterpret_cast<uintptr_t>(base);
    const uintptr_t aligned = (address + HP_ALIGNMENT - 1) / HP_ALIGNMENT * HP_ALIGNMENT;
    if (aligned != address && !shift) {
      misaligned = true;
      const HpStatus freed = call(device, "device_memory_deallocate", [&](paddle::Device d) {
        return plugin->table->device_memory_deallocate(d, base, size);
      });
      if (freed != HP_OK) return freed;
      continue;
    }
    *ptr = reinterpret_cast<void*>(aligned);
    device_allocations().add(*ptr, {base, size});
    return HP_OK;
  }
}

HpStatus release(int device, void* ptr) {
  Allocation allocation{};
  if (!device_allocations().remove(ptr, &allocation)) {
    return host->fail(HP_INVALID_ARGUMENT, "free of %p, which is not memory of %s", ptr, plugin->name.c_str());
  }
  return call(device, "device_memory_deallocate", [&](paddle::Device d) {
    return plugin->table->device_memory_deallocate(d, allocation.base, allocation.bytes);
  });
}

const HpPinned* pinned_table() {
  if (plugin->table->host_memory_allocate == nullptr || plugin->table->host_memory_deallocate == nullptr) {
    return nullptr;
  }
  static HpPinned table{};
  table.struct_size = sizeof(table);
  table.allocate = pinned_allocate;
  table.free = pinned_free;
  return &table;
}

}  // namespace bridge
