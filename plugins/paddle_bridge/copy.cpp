// Copies. Paddle has two callbacks per direction: one queued on a stream, one synchronous without a stream.
#include <algorithm>
#include <vector>

#include "bridge.h"

namespace bridge {
namespace {

using Queued = paddle::Status (*)(paddle::Device, paddle::Stream, void*, const void*, size_t);
using Plain = paddle::Status (*)(paddle::Device, void*, const void*, size_t);

HpStatus copy(int device, const char* callback, Queued queued, Plain plain, void* dst, const void* src, size_t bytes,
              HpStream stream) {
  return call(device, callback, [&](paddle::Device d) {
    const paddle::Stream handle = native_stream(device, stream);
    // A null handle is a synchronous stream: nothing can be queued on it.
    if (queued != nullptr && handle != nullptr) return queued(d, handle, dst, src, bytes);
    // Preserve stream order: finish earlier work first.
    const paddle::Status status = synchronize(d, handle);
    return status > paddle::kWarning ? status : plain(d, dst, src, bytes);
  });
}

// For a plug-in without copies on the device.
paddle::Status copy_through_host(paddle::Device device, void* dst, const void* src, size_t bytes) {
  std::vector<char> buffer(std::min<size_t>(bytes, 4 << 20));
  for (size_t done = 0; done < bytes; done += buffer.size()) {
    const size_t now = std::min(buffer.size(), bytes - done);
    paddle::Status status =
        plugin->table->memory_copy_d2h(device, buffer.data(), static_cast<const char*>(src) + done, now);
    if (status > paddle::kWarning) return status;
    status = plugin->table->memory_copy_h2d(device, static_cast<char*>(dst) + done, buffer.data(), now);
    if (status > paddle::kWarning) return status;
  }
  return paddle::kSuccess;
}

HpStatus peer_copy(int dst_device, void* dst, int src_device, const void* src, size_t bytes, HpStream stream) {
  if (const HpStatus status = make_current(dst_device); status != HP_OK) return status;
  return call(src_device, "memory_copy_p2p", [&](paddle::Device d) {
    paddle::Device target = &plugin->devices[dst_device]->number;
    const paddle::Stream handle = native_stream(src_device, stream);
    const paddle::Interface& table = *plugin->table;
    if (table.async_memory_copy_p2p != nullptr && (handle != nullptr || table.memory_copy_p2p == nullptr)) {
      return table.async_memory_copy_p2p(target, d, handle, dst, src, bytes);
    }
    const paddle::Status status = synchronize(d, handle);
    return status > paddle::kWarning ? status : table.memory_copy_p2p(target, d, dst, src, bytes);
  });
}

}  // namespace

HpStatus copy_to_device(int device, void* dst, const void* src, size_t bytes, HpStream stream) {
  const paddle::Interface& table = *plugin->table;
  return copy(device, "memory_copy_h2d", table.async_memory_copy_h2d, table.memory_copy_h2d, dst, src, bytes, stream);
}

HpStatus copy_to_host(int device, void* dst, const void* src, size_t bytes, HpStream stream) {
  const paddle::Interface& table = *plugin->table;
  return copy(device, "memory_copy_d2h", table.async_memory_copy_d2h, table.memory_copy_d2h, dst, src, bytes, stream);
}

HpStatus copy_on_device(int device, void* dst, const void* src, size_t bytes, HpStream stream) {
  const paddle::Interface& table = *plugin->table;
  const Plain plain = table.memory_copy_d2d != nullptr ? table.memory_copy_d2d : copy_through_host;
  return copy(device, "memory_copy_d2d", table.async_memory_copy_d2d, plain, dst, src, bytes, stream);
}

const HpPeer* peer_table() {
  if (plugin->table->memory_copy_p2p == nullptr && plugin->table->async_memory_copy_p2p == nullptr) return nullptr;
  static HpPeer table{};
  table.struct_size = sizeof(table);
  table.copy = peer_copy;
  return &table;
}

}  // namespace bridge
