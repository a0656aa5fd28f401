// Device memory and page-locked memory. Paddle's plug-ins want the size back with the pointer, and promise no
// alignment.
#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "bridge.h"

namespace bridge {
namespace {

struct Owned {
  void* base;
  size_t bytes;
};

// What the plug-in gave, by the address that Hardpoint got.
class Book {
 public:
  void enter(void* ptr, Owned owned) {
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_[ptr] = owned;
  }
  bool take(void* ptr, Owned* owned) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(ptr);
    if (found == entries_.end()) return false;
    *owned = found->second;
    entries_.erase(found);
    return true;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, Owned> entries_;
};

// Leaked: memory is freed until the process ends.
Book& device_book() {
  static auto* book = new Book;
  return *book;
}
Book& pinned_book() {
  static auto* book = new Book;
  return *book;
}

// Whether the plug-in was seen to give odd addresses: then room for a shift is asked for at once.
std::atomic<bool> odd{false};

HpStatus full(size_t bytes) {
  return host->fail(HP_OUT_OF_MEMORY, "%s: its callback device_memory_allocate gave no %zu bytes", plugin->path.c_str(),
                    bytes);
}

HpStatus pinned_allocate(size_t bytes, void** ptr) {
  void* base = nullptr;
  const HpStatus status = call(0, "host_memory_allocate",
                               [&](paddle::Device d) { return plugin->table->host_memory_allocate(d, &base, bytes); });
  if (status != HP_OK) return status;
  if (base == nullptr) return host->fail(HP_OUT_OF_MEMORY, "no %zu bytes of page-locked memory", bytes);
  pinned_book().enter(base, {base, bytes});
  *ptr = base;
  return HP_OK;
}

HpStatus pinned_free(void* ptr) {
  Owned owned{};
  if (!pinned_book().take(ptr, &owned)) return host->fail(HP_INVALID_ARGUMENT, "%p is no page-locked memory", ptr);
  return call(0, "host_memory_deallocate",
              [&](paddle::Device d) { return plugin->table->host_memory_deallocate(d, owned.base, owned.bytes); });
}

}  // namespace

HpStatus allocate(int device, size_t bytes, void** ptr) {
  *ptr = nullptr;
  for (;;) {
    const bool shift = odd;
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
    // Plug-ins differ in the status that says so. Where another reason stands behind it, trying once more does no harm.
    if (answer > paddle::kWarning || base == nullptr) return full(bytes);
    const auto address = reinterpret_cast<uintptr_t>(base);
    const uintptr_t aligned = (address + HP_ALIGNMENT - 1) / HP_ALIGNMENT * HP_ALIGNMENT;
    if (aligned != address && !shift) {
      odd = true;
      const HpStatus freed = call(device, "device_memory_deallocate", [&](paddle::Device d) {
        return plugin->table->device_memory_deallocate(d, base, size);
      });
      if (freed != HP_OK) return freed;
      continue;
    }
    *ptr = reinterpret_cast<void*>(aligned);
    device_book().enter(*ptr, {base, size});
    return HP_OK;
  }
}

HpStatus release(int device, void* ptr) {
  Owned owned{};
  if (!device_book().take(ptr, &owned)) {
    return host->fail(HP_INVALID_ARGUMENT, "%p was not allocated on %s", ptr, plugin->name.c_str());
  }
  return call(device, "device_memory_deallocate",
              [&](paddle::Device d) { return plugin->table->device_memory_deallocate(d, owned.base, owned.bytes); });
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
