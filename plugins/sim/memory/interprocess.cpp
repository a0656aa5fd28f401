// Device memory shared between processes: the exporter's memfd, opened through /proc and mapped into the importer's
// alias.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "config.h"
#include "host.h"
#include "memory/device_arena.h"
#include "memory/device_memory.h"

namespace sim {

namespace {

constexpr uint64_t kMagic = 0x31434950'4d495348;  // "HSIMPIC1"

struct Handle {
  uint64_t magic;
  int64_t pid;
  int64_t fd;      // descriptor number in the exporting process
  uint64_t inode;  // of the memfd; detects a reused pid or descriptor
  uint64_t offset, bytes;
};
static_assert(sizeof(Handle) <= HP_IPC_HANDLE_BYTES, "the handle must fit");

}  // namespace

HpStatus export_memory(int device, void* ptr, size_t bytes, unsigned char* handle) {
  if (!valid_device(device)) return no_such_device(device);
  const DeviceArena& memory = arena_of(device);
  const size_t offset = static_cast<size_t>(static_cast<char*>(ptr) - window_of(device));
  if (offset >= config.memory || !memory.own.is_live(offset, bytes, true))
    return host->fail(HP_INVALID_ARGUMENT,
                      "sim:%d: export of %p, which is not an allocation of %zu bytes on this device", device, ptr,
                      bytes);
  struct stat status;
  if (fstat(memory.fd, &status) != 0) return host->fail(HP_ERROR, "sim:%d: fstat: %s", device, strerror(errno));
  const Handle filled = {kMagic, getpid(), memory.fd, status.st_ino, offset, bytes};
  memset(handle, 0, HP_IPC_HANDLE_BYTES);
  memcpy(handle, &filled, sizeof filled);
  return HP_OK;
}

HpStatus open_memory(int device, const unsigned char* handle, void** ptr) {
  if (!valid_device(device)) return no_such_device(device);
  Handle source;
  memcpy(&source, handle, sizeof source);
  if (source.magic != kMagic) return host->fail(HP_INVALID_ARGUMENT, "sim:%d: not a memory handle of sim", device);

  char path[64];
  snprintf(path, sizeof path, "/proc/%lld/fd/%lld", static_cast<long long>(source.pid),
           static_cast<long long>(source.fd));
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0 || status.st_ino != source.inode) {
    const int error = fd < 0 ? errno : ESTALE;
    if (fd >= 0) close(fd);
    return host->fail(HP_ERROR, "sim:%d: the memory of process %lld is gone (%s: %s)", device,
                      static_cast<long long>(source.pid), path, strerror(error));
  }

  RangeAllocator& imported = arena_of(device).imported;
  size_t offset;
  if (!imported.allocate(source.bytes, &offset)) {
    close(fd);
    return host->fail(HP_OUT_OF_MEMORY, "sim:%d has no address space left to open %llu bytes of another process",
                      device, static_cast<unsigned long long>(source.bytes));
  }
  char* const address = window_of(device) + config.memory + offset;
  void* const mapped = mmap(alias_of(address), source.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                            static_cast<off_t>(source.offset));
  const int error = errno;
  close(fd);
  if (mapped == MAP_FAILED) {
    size_t bytes;
    if (imported.release(offset, &bytes)) imported.recycle(offset, bytes);
    return host->fail(HP_ERROR, "sim:%d: mapping the memory of another process: %s", device, strerror(error));
  }
  device_used.store(true, std::memory_order_relaxed);
  *ptr = address;
  return HP_OK;
}

HpStatus close_memory(int device, void* ptr) {
  if (!valid_device(device)) return no_such_device(device);
  RangeAllocator& imported = arena_of(device).imported;
  const size_t offset = static_cast<size_t>(static_cast<char*>(ptr) - window_of(device)) - config.memory;
  size_t bytes;
  if (!imported.release(offset, &bytes))
    return host->fail(HP_INVALID_ARGUMENT, "sim:%d: close of %p, which was not opened on this device", device, ptr);
  mmap(alias_of(ptr), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  imported.recycle(offset, bytes);
  return HP_OK;
}

}  // namespace sim
