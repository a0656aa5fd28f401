#include "memory/device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "config.h"
#include "host.h"
#include "memory/device_arena.h"
#include "runtime/fault_injection.h"

namespace sim {

Reservation reservation;

namespace {

// Never destroyed: tensors may be freed by exit handlers.
DeviceArena* arenas;

void* reserve(size_t bytes) {
  return mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

unsigned long long mib(uint64_t bytes) { return bytes >> 20; }

// Sets what kernels may do with a range: nothing, unless an allocation owns it, so that stray accesses are reported.
bool set_access(char* ptr, size_t bytes, int access) { return mprotect(alias_of(ptr), bytes, access) == 0; }

// Creates the device's memory on first use.
HpStatus open_device(int device) {
  DeviceArena& memory = arenas[device];
  std::lock_guard<std::mutex> lock(memory.mutex);
  if (memory.fd >= 0) return HP_OK;
  const int fd = memfd_create("hardpoint-sim", MFD_CLOEXEC);
  if (fd < 0) return host->fail(HP_ERROR, "sim:%d: memfd_create: %s", device, strerror(errno));
  void* const view = alias_of(window_of(device));
  if (ftruncate(fd, static_cast<off_t>(config.memory)) != 0 ||
      mmap(view, config.memory, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0) == MAP_FAILED) {
    const int error = errno;
    close(fd);
    return host->fail(HP_ERROR, "sim:%d cannot create %llu MiB of memory (HARDPOINT_SIM_MEMORY): %s", device,
                      mib(config.memory), strerror(error));
  }
  memory.fd = fd;
  device_used.store(true, std::memory_order_relaxed);
  return HP_OK;
}

}  // namespace

char* window_of(int device) {
  return reinterpret_cast<char*>(reservation.base) + static_cast<size_t>(device) * reservation.window;
}

DeviceArena& arena_of(int device) { return arenas[device]; }

HpStatus reserve_memory() {
  if (config.devices == 0) return HP_OK;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t window = 2 * config.memory;
  const size_t total = window * static_cast<size_t>(config.devices);
  void* const base = reserve(total);
  void* const alias = reserve(total);
  if (base == MAP_FAILED || alias == MAP_FAILED)
    return host->fail(HP_ERROR, "sim cannot reserve address space for %d devices of %llu MiB: %s", config.devices,
                      mib(config.memory), strerror(errno));
  arenas = new DeviceArena[static_cast<size_t>(config.devices)];
  for (int device = 0; device < config.devices; ++device) {
    arenas[device].own.open(config.memory, page);
    arenas[device].imported.open(config.memory, page);
  }
  reservation.base = reinterpret_cast<uintptr_t>(base);
  reservation.window = window;
  reservation.total = total;
  reservation.alias = static_cast<char*>(alias) - static_cast<char*>(base);
  return HP_OK;
}

bool owns(int device, const void* ptr, size_t bytes) {
  if (!valid_device(device)) return false;
  const size_t offset =
      reinterpret_cast<uintptr_t>(ptr) - reservation.base - static_cast<size_t>(device) * reservation.window;
  if (offset >= reservation.window || bytes > reservation.window - offset) return false;
  if (!config.checked) return true;
  const DeviceArena& memory = arenas[device];
  return offset < config.memory ? memory.own.is_live(offset, bytes, false)
                                : memory.imported.is_live(offset - config.memory, bytes, false);
}

HpStatus no_such_device(int device) {
  return host->fail(HP_INVALID_ARGUMENT, "sim:%d does not exist: there are %d devices (HARDPOINT_SIM_DEVICES)", device,
                    config.devices);
}

HpStatus allocate(int device, size_t bytes, void** ptr) {
  if (!valid_device(device)) return no_such_device(device);
  if (faults_armed() && take_fault(FaultKind::allocate, host->operator_name()))
    return host->fail(HP_OUT_OF_MEMORY, "sim:%d: injected allocation failure (%zu bytes, operator '%s')", device, bytes,
                      host->operator_name());
  if (bytes == 0) return host->fail(HP_INVALID_ARGUMENT, "sim:%d: allocation of 0 bytes", device);
  if (HpStatus status = open_device(device)) return status;
  RangeAllocator& own = arenas[device].own;
  size_t offset;
  if (!own.allocate(bytes, &offset))
    return host->fail(HP_OUT_OF_MEMORY,
                      "sim:%d is out of memory: %zu bytes requested, %zu of %zu free, largest free range %zu", device,
                      bytes, config.memory - own.used(), config.memory, own.largest_free());
  char* const start = window_of(device) + offset;
  if (!set_access(start, bytes, PROT_READ | PROT_WRITE)) {
    const int error = errno;
    size_t whole;
    if (own.release(offset, &whole)) own.recycle(offset, whole);
    return host->fail(HP_OUT_OF_MEMORY, "sim:%d cannot map %zu bytes of its memory: %s", device, bytes,
                      strerror(error));
  }
  *ptr = start;
  return HP_OK;
}

HpStatus release(int device, void* ptr) {
  if (!valid_device(device)) return no_such_device(device);
  DeviceArena& memory = arenas[device];
  const size_t offset = static_cast<size_t>(static_cast<char*>(ptr) - window_of(device));
  size_t bytes;
  if (!memory.own.release(offset, &bytes))
    return host->fail(HP_INVALID_ARGUMENT, "sim:%d: free of %p, which is not a live allocation of this device", device,
                      ptr);
  set_access(static_cast<char*>(ptr), bytes, PROT_NONE);
  fallocate(memory.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
  memory.own.recycle(offset, bytes);
  return HP_OK;
}

HpStatus memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes) {
  if (!valid_device(device)) return no_such_device(device);
  *total_bytes = config.memory;
  *free_bytes = config.memory - arenas[device].own.used();
  return HP_OK;
}

}  // namespace sim
