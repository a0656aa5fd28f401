// Copies. Paddle has two callbacks for each direction: a queued one, and one that knows of no stream.
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
    const paddle::Stream handle = raw(device, stream);
    // A stream without a handle is one that finishes its work at once: nothing can be queued on it.
    if (queued != nullptr && handle != nullptr) return queued(d, handle, dst, src, bytes);
    // The order on the stream is kept: what was queued before is done first.
    const paddle::Status status = wait(d, handle);
    return status > paddle::kWarning ? status : plain(d, dst, src, bytes);
  });
}

// For a plug-in that copies to and from the host only.
paddle::Status through_host(paddle::Device device, void* dst, const void* src, size_t bytes) {
  std::vector<char> piece(std::min<size_t>(bytes, 4 << 20));
  for (size_t done = 0; done < bytes; done += piece.size()) {
    const size_t now = std::min(piece.size(), bytes - done);
    paddle::Status status =
        plugin->table->memory_copy_d2h(device, piece.data(), static_cast<const char*>(src) + done, now);
    if (status > paddle::kWarning) return status;
    status = plugin->table->memory_copy_h2d(device, static_cast<char*>(dst) + done, piece.data(), now);
    if (status > paddle::kWarning) return status;
  }
  return paddle::kSuccess;
}

HpStatus peer_copy(int dst_device, void* dst, int src_device, const void* src, size_t bytes, HpStream stream) {
  if (const HpStatus status = enter(dst_device); status != HP_OK) return status;
  return call(src_device, "memory_copy_p2p", [&](paddle::Device d) {
    paddle::Device target = &plugin->devices[dst_device]->number;
    const paddle::Stream handle = raw(src_device, stream);
    const paddle::Interface& table = *plugin->table;
    if (table.async_memory_copy_p2p != nullptr && (handle != nullptr || table.memory_copy_p2p == nullptr)) {
      return table.async_memory_copy_p2p(target, d, handle, dst, src, bytes);
    }
    const paddle::Status status = wait(d, handle);
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
  const Plain plain = table.memory_copy_d2d != nullptr ? table.memory_copy_d2d : through_host;
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
