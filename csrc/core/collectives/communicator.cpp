#include "core/collectives/communicator.h"

#include <vector>

#include "core/collectives/host_reduction.h"
#include "core/recording/graph_capture.h"
#include "core/tracing/tracer.h"

namespace hp {
namespace {

std::string qualified(const Device& device, const char* function) { return device.name() + ": " + function; }

}  // namespace

Communicator::Id Communicator::new_id(const Plugin& plugin) {
  Id id{};
  HP_CHECK(plugin.collectives.group_id(id.data()), plugin.name + ": group_id");
  return id;
}

bool Communicator::can_join(Device& device, const Id& id) {
  auto* const can_join = device.plugin.collectives.can_join;
  if (can_join == nullptr) return true;
  const HpStatus status = guarded([&] { return can_join(device.index, id.data()); });
  if (status == HP_NOT_SUPPORTED) take_message();
  if (status != HP_NOT_SUPPORTED) check(status, qualified(device, "can_join"));
  return status == HP_OK;
}

Communicator::Communicator(Device& device, const Id& id, int rank, int size, uint32_t timeout_ms)
    : device(device), rank(rank), size(size), table_(device.plugin.collectives) {
  HP_CHECK(
      table_.create(device.index, id.data(), rank, size, timeout_ms, &handle_),
      qualified(device, "creating a communicator for rank ") + std::to_string(rank) + " of " + std::to_string(size));
}

Communicator::~Communicator() {
  if (guarded([&] { return table_.destroy(handle_); }) != HP_OK) take_message();
}

std::string Communicator::describe(const char* function) const {
  return qualified(device, function) + " of rank " + std::to_string(rank);
}

bool Communicator::supported(HpStatus status, const char* function) const {
  if (status == HP_NOT_SUPPORTED) {
    take_message();
    return false;
  }
  if (status != HP_OK) check(status, describe(function));
  return true;
}

template <typename Call>
bool Communicator::traced(const char* function, size_t bytes, Stream& stream, Call call) const {
  if (GraphCapture* active = stream.capture()) active->refuse("it is a collective between processes");
  TraceScope trace(TraceKind::kCollective, function, stream, bytes);
  if (supported(guarded(call), function)) return true;
  trace.discard();
  return false;
}

bool Communicator::all_reduce(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction,
                              Stream& stream) {
  return table_.all_reduce != nullptr && traced("all_reduce", count * element_bytes(element), stream, [&] {
           return table_.all_reduce(handle_, dst, src, count, element, reduction, stream.handle());
         });
}

bool Communicator::reduce(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction, int root,
                          Stream& stream) {
  return table_.reduce != nullptr && traced("reduce", count * element_bytes(element), stream, [&] {
           return table_.reduce(handle_, dst, src, count, element, reduction, root, stream.handle());
         });
}

bool Communicator::reduce_scatter(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction,
                                  Stream& stream) {
  return table_.reduce_scatter != nullptr && traced("reduce_scatter", count * element_bytes(element), stream, [&] {
           return table_.reduce_scatter(handle_, dst, src, count, element, reduction, stream.handle());
         });
}

bool Communicator::broadcast(void* data, size_t bytes, int root, Stream& stream) {
  if (table_.broadcast != nullptr) {
    return traced("broadcast", bytes, stream,
                  [&] { return table_.broadcast(handle_, data, bytes, root, stream.handle()); });
  }
  if (!has_pairs()) return false;
  start_group();
  bool done = true;
  if (rank != root) {
    done = receive(data, bytes, root, stream);
  } else {
    for (int peer = 0; peer < size; ++peer) done = (peer == root || send(data, bytes, peer, stream)) && done;
  }
  end_group();
  return done;
}

bool Communicator::all_gather(void* dst, const void* src, size_t bytes, Stream& stream) {
  if (table_.all_gather != nullptr) {
    return traced("all_gather", bytes, stream,
                  [&] { return table_.all_gather(handle_, dst, src, bytes, stream.handle()); });
  }
  std::vector<PeerBuffer> sent(size, {const_cast<void*>(src), bytes}), received(size);
  for (int peer = 0; peer < size; ++peer) received[peer] = {static_cast<char*>(dst) + peer * bytes, bytes};
  return exchange(sent.data(), received.data(), stream);
}

bool Communicator::all_to_all(void* dst, const void* src, size_t bytes, Stream& stream) {
  if (table_.all_to_all != nullptr) {
    return traced("all_to_all", bytes, stream,
                  [&] { return table_.all_to_all(handle_, dst, src, bytes, stream.handle()); });
  }
  std::vector<PeerBuffer> sent(size), received(size);
  for (int peer = 0; peer < size; ++peer) {
    sent[peer] = {const_cast<char*>(static_cast<const char*>(src)) + peer * bytes, bytes};
    received[peer] = {static_cast<char*>(dst) + peer * bytes, bytes};
  }
  return exchange(sent.data(), received.data(), stream);
}

bool Communicator::exchange(const PeerBuffer* sent, const PeerBuffer* received, Stream& stream) {
  if (!has_pairs()) return false;
  // This process's own part is a plain copy.
  if (received[rank].bytes > 0 && received[rank].data != sent[rank].data) {
    device.copy_on_device(received[rank].data, sent[rank].data, received[rank].bytes, stream);
  }
  start_group();
  bool done = true;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    if (sent[peer].bytes > 0) done = send(sent[peer].data, sent[peer].bytes, peer, stream) && done;
    if (received[peer].bytes > 0) done = receive(received[peer].data, received[peer].bytes, peer, stream) && done;
  }
  end_group();
  return done;
}

bool Communicator::gather(void* dst, const void* src, size_t bytes, int root, Stream& stream) {
  std::vector<PeerBuffer> sent(size), received(size);
  sent[root] = {const_cast<void*>(src), bytes};
  for (int peer = 0; rank == root && peer < size; ++peer) {
    received[peer] = {static_cast<char*>(dst) + peer * bytes, bytes};
  }
  return exchange(sent.data(), received.data(), stream);
}

bool Communicator::scatter(void* dst, const void* src, size_t bytes, int root, Stream& stream) {
  std::vector<PeerBuffer> sent(size), received(size);
  received[root] = {dst, bytes};
  for (int peer = 0; rank == root && peer < size; ++peer) {
    sent[peer] = {const_cast<char*>(static_cast<const char*>(src)) + peer * bytes, bytes};
  }
  return exchange(sent.data(), received.data(), stream);
}

bool Communicator::send(const void* src, size_t bytes, int peer, Stream& stream) {
  return table_.send != nullptr &&
         traced("send", bytes, stream, [&] { return table_.send(handle_, src, bytes, peer, stream.handle()); });
}

bool Communicator::receive(void* dst, size_t bytes, int peer, Stream& stream) {
  return table_.receive != nullptr &&
         traced("receive", bytes, stream, [&] { return table_.receive(handle_, dst, bytes, peer, stream.handle()); });
}

void Communicator::start_group() {
  if (table_.group_start != nullptr) HP_CHECK(table_.group_start(handle_), describe("group_start"));
}

void Communicator::end_group() {
  if (table_.group_end != nullptr) HP_CHECK(table_.group_end(handle_), describe("group_end"));
}

void Communicator::abort() noexcept {
  if (table_.abort != nullptr && guarded([&] { return table_.abort(handle_); }) != HP_OK) take_message();
}

}  // namespace hp
