#include "memory/copy.h"

#include <cstring>

#include "host.h"
#include "memory/device_memory.h"
#include "runtime/stream.h"

namespace sim {

namespace {

constexpr size_t kTinyCopy = 64 << 10;

HpStatus not_on_device(const char* side, int device, const void* ptr, size_t bytes) {
  if (!is_device_pointer(ptr))
    return host->fail(HP_INVALID_ARGUMENT, "the copy's %s %p is a host pointer; expected memory of sim:%d", side, ptr,
                      device);
  return host->fail(HP_INVALID_ARGUMENT, "the copy's %s, %zu bytes at %p, is not memory of sim:%d", side, bytes, ptr,
                    device);
}

HpStatus not_on_host(const char* side, const void* ptr) {
  return host->fail(HP_INVALID_ARGUMENT, "the copy's %s %p is a device pointer; expected host memory", side, ptr);
}

HpStatus queue_copy(int device, HpStream handle, void* dst, const void* src, size_t bytes, bool pinned) {
  Stream* const stream = find_stream(device, handle);
  if (!stream) return HP_INVALID_ARGUMENT;
  stream->submit(TaskKind::copy, bytes <= kTinyCopy && !pinned, [=] { memcpy(dst, src, bytes); });
  return HP_OK;
}

}  // namespace

HpStatus copy_to_device(int device, void* dst, const void* src, size_t bytes, HpStream stream) {
  if (bytes == 0) return HP_OK;
  if (!owns(device, dst, bytes)) return not_on_device("destination", device, dst, bytes);
  if (is_device_pointer(src)) return not_on_host("source", src);
  return queue_copy(device, stream, alias_of(dst), src, bytes, is_pinned(src));
}

HpStatus copy_to_host(int device, void* dst, const void* src, size_t bytes, HpStream stream) {
  if (bytes == 0) return HP_OK;
  if (!owns(device, src, bytes)) return not_on_device("source", device, src, bytes);
  if (is_device_pointer(dst)) return not_on_host("destination", dst);
  return queue_copy(device, stream, dst, alias_of(src), bytes, is_pinned(dst));
}

HpStatus fill_memory(int device, void* dst, uint8_t value, size_t bytes, HpStream handle) {
  if (bytes == 0) return HP_OK;
  if (!owns(device, dst, bytes)) return not_on_device("destination", device, dst, bytes);
  Stream* const stream = find_stream(device, handle);
  if (!stream) return HP_INVALID_ARGUMENT;
  void* const to = alias_of(dst);
  stream->submit(TaskKind::fill, bytes <= kTinyCopy, [=] { memset(to, value, bytes); });
  return HP_OK;
}

HpStatus copy_on_device(int device, void* dst, const void* src, size_t bytes, HpStream stream) {
  return copy_to_peer(device, dst, device, src, bytes, stream);
}

HpStatus copy_to_peer(int dst_device, void* dst, int src_device, const void* src, size_t bytes, HpStream stream) {
  if (bytes == 0) return HP_OK;
  if (!owns(dst_device, dst, bytes)) return not_on_device("destination", dst_device, dst, bytes);
  if (!owns(src_device, src, bytes)) return not_on_device("source", src_device, src, bytes);
  return queue_copy(src_device, stream, alias_of(dst), alias_of(src), bytes, false);
}

}  // namespace sim
