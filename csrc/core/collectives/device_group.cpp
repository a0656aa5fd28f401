#include "core/collectives/device_group.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "core/memory/allocator.h"
#include "core/memory/pinned_allocator.h"

namespace hp {
namespace {

// The calls of one thread between start_calls and end_calls.
struct CallBatch {
  struct Staged {
    std::function<void()> run;
    bool is_send;
  };
  int depth = 0;
  std::vector<Communicator*> begun;
  std::vector<Stream*> streams;
  std::vector<Staged> staged;

  void reset() noexcept {
    for (Communicator* communicator : begun) {
      try {
        communicator->end_group();
      } catch (const std::exception&) {  // report only the first failure
      }
    }
    *this = CallBatch();
  }
};
thread_local CallBatch calls;

// Streams with collectives whose outcome has not been checked.
std::mutex unchecked_mutex;
std::vector<Stream*> unchecked;
std::atomic<bool> any_unchecked{false};

void add_unchecked(Stream& stream) {
  std::lock_guard<std::mutex> lock(unchecked_mutex);
  if (std::find(unchecked.begin(), unchecked.end(), &stream) == unchecked.end()) unchecked.push_back(&stream);
  any_unchecked = true;
}

std::vector<Stream*> take_unchecked(const Device& device) {
  std::lock_guard<std::mutex> lock(unchecked_mutex);
  const auto others = std::partition(unchecked.begin(), unchecked.end(),
                                     [&](const Stream* stream) { return &stream->device != &device; });
  std::vector<Stream*> taken(others, unchecked.end());
  unchecked.erase(others, unchecked.end());
  any_unchecked = !unchecked.empty();
  return taken;
}

bool host_only() {
  const char* const value = std::getenv("HARDPOINT_COLLECTIVES");
  if (value == nullptr || *value == 0 || std::strcmp(value, "plugin") == 0) return false;
  if (std::strcmp(value, "host") == 0) return true;
  throw Error(HP_INVALID_ARGUMENT,
              "HARDPOINT_COLLECTIVES is '" + std::string(value) + "': set it to 'plugin' (the default) or 'host'");
}

// Pinned host memory for one call.
class Staging {
 public:
  Staging(PinnedAllocator& pinned, Device& device, Stream& stream, size_t bytes)
      : pinned_(pinned),
        device_(device),
        stream_(stream),
        data_(static_cast<char*>(pinned.allocate(std::max<size_t>(bytes, 1)))) {}
  ~Staging() { pinned_.free(data_); }
  Staging(const Staging&) = delete;

  char* data() const { return data_; }
  void fetch(const void* src, size_t bytes, size_t offset = 0) {
    if (bytes > 0) device_.copy_to_host(data_ + offset, src, bytes, stream_);
  }
  void put(void* dst, size_t bytes, size_t offset = 0) {
    if (bytes == 0) return;
    device_.copy_to_device(dst, data_ + offset, bytes, stream_);
    if (!pinned_.record_stream(data_, stream_)) stream_.synchronize();
  }

 private:
  PinnedAllocator& pinned_;
  Device& device_;
  Stream& stream_;
  char* const data_;
};

size_t total(const std::vector<DeviceGroup::PeerBuffer>& parts) {
  size_t bytes = 0;
  for (const auto& part : parts) bytes += part.bytes;
  return bytes;
}

// Host buffers of the same sizes, packed one after another from `next`.
std::vector<HostGroup::PeerBuffer> packed(const std::vector<DeviceGroup::PeerBuffer>& parts, char* next) {
  std::vector<HostGroup::PeerBuffer> buffers;
  for (const auto& part : parts) {
    buffers.push_back({next, part.bytes});
    next += part.bytes;
  }
  return buffers;
}

}  // namespace

DeviceGroup::Id DeviceGroup::new_id(const Plugin& plugin, const std::string& address) {
  Id id{};
  id.rendezvous = open_rendezvous(address);
  id.native = Communicator::provided(plugin) && !host_only();
  if (id.native) id.native_id = Communicator::new_id(plugin);
  return id;
}

DeviceGroup::DeviceGroup(Device& device, PinnedAllocator& pinned, const Id& id, int rank, int size,
                         const std::string& address, uint32_t timeout_ms)
    : device(device), rank(rank), size(size), pinned_(pinned), host_(id.rendezvous, rank, size, address, timeout_ms) {
  // All processes use the plug-in's collectives, or none does. Returns the first rank that is not ready, or `size`.
  const auto first_not_ready = [&](bool mine) {
    std::vector<char> all(size);
    const char flag = mine ? 1 : 0;
    host_.all_gather(all.data(), &flag, 1);
    return std::find(all.begin(), all.end(), 0) - all.begin();
  };
  const bool can = id.native && !host_only() && Communicator::provided(device.plugin) &&
                   Communicator::can_join(device, id.native_id);
  if (first_not_ready(can) != size) return;
  std::optional<Error> failure;
  try {
    native_ = std::make_unique<Communicator>(device, id.native_id, rank, size, timeout_ms);
  } catch (const Error& error) {
    failure.emplace(error);
  }
  const auto failed = first_not_ready(native_ != nullptr);
  if (failure) throw *failure;
  if (failed != size) {
    throw Error(HP_ERROR, device.name() + ": rank " + std::to_string(failed) +
                              " could not create its communicator; see the error of that process");
  }
}

bool DeviceGroup::wait_idle(std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  try {
    for (Stream* stream : streams_) {
      while (!stream->query()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

DeviceGroup::~DeviceGroup() {
  // A collective that the others never joined would block this process until the timeout.
  if (native_ && !wait_idle(std::chrono::seconds(5))) {
    native_->abort();
    wait_idle(std::chrono::seconds(5));
  }
}

void DeviceGroup::add_stream(Stream& stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (std::find(streams_.begin(), streams_.end(), &stream) == streams_.end()) streams_.push_back(&stream);
}

void DeviceGroup::run(Stream& stream, const Native& native, Staged staged, bool is_send) {
  try {
    if (native_) {
      if (calls.depth > 0 && std::find(calls.begun.begin(), calls.begun.end(), native_.get()) == calls.begun.end()) {
        native_->start_group();
        calls.begun.push_back(native_.get());
      }
      add_stream(stream);
      if (native(*native_)) {
        add_unchecked(stream);
        if (calls.depth > 0) calls.streams.push_back(&stream);
        return;
      }
    }
    if (calls.depth > 0) {
      calls.staged.push_back({std::move(staged), is_send});
    } else {
      staged();
    }
  } catch (...) {
    calls.reset();
    throw;
  }
}

void DeviceGroup::start_calls() { ++calls.depth; }

void DeviceGroup::end_calls() {
  if (calls.depth == 0) return;  // a call failed and ended the batch
  if (--calls.depth > 0) return;
  CallBatch ended;
  std::swap(ended, calls);
  for (Communicator* communicator : ended.begun) communicator->end_group();
  for (Stream* stream : ended.streams) add_unchecked(*stream);  // end_group queued their work
  // Sends first: they do not block, and other ranks may wait for them.
  for (const bool sends : {true, false}) {
    for (const CallBatch::Staged& call : ended.staged) {
      if (call.is_send == sends) call.run();
    }
  }
}

void DeviceGroup::check_failures(Device& device) {
  if (!any_unchecked.load(std::memory_order_relaxed)) return;
  for (Stream* stream : take_unchecked(device)) {
    if (stream->query()) {
      stream->synchronize();
    } else {
      add_unchecked(*stream);
    }
  }
}

void DeviceGroup::all_reduce(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction,
                             Stream& stream) {
  const auto native = [&](Communicator& group) {
    return group.all_reduce(dst, src, count, element, reduction, stream);
  };
  run(stream, native, [=, &stream] {
    const size_t bytes = count * element_bytes(element);
    Staging staging(pinned_, device, stream, bytes);
    staging.fetch(src, bytes);
    stream.synchronize();
    host_.all_reduce(staging.data(), staging.data(), count, element, reduction);
    staging.put(dst, bytes);
  });
}

void DeviceGroup::reduce(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction, int root,
                         Stream& stream) {
  const auto native = [&](Communicator& group) {
    return group.reduce(dst, src, count, element, reduction, root, stream);
  };
  run(stream, native, [=, &stream] {
    const size_t bytes = count * element_bytes(element);
    Staging staging(pinned_, device, stream, bytes);
    staging.fetch(src, bytes);
    stream.synchronize();
    host_.reduce(staging.data(), staging.data(), count, element, reduction, root);
    if (rank == root) staging.put(dst, bytes);
  });
}

void DeviceGroup::reduce_scatter(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction,
                                 Stream& stream) {
  const auto native = [&](Communicator& group) {
    return group.reduce_scatter(dst, src, count, element, reduction, stream);
  };
  run(stream, native, [=, &stream] {
    const size_t bytes = count * element_bytes(element), own = static_cast<size_t>(rank) * bytes;
    Staging staging(pinned_, device, stream, bytes * static_cast<size_t>(size));
    staging.fetch(src, bytes * static_cast<size_t>(size));
    stream.synchronize();
    host_.reduce_scatter(staging.data() + own, staging.data(), count, element, reduction);
    staging.put(dst, bytes, own);
  });
}

void DeviceGroup::broadcast(void* data, size_t bytes, int root, Stream& stream) {
  const auto native = [&](Communicator& group) { return group.broadcast(data, bytes, root, stream); };
  run(stream, native, [=, &stream] {
    Staging staging(pinned_, device, stream, bytes);
    if (rank == root) {
      staging.fetch(data, bytes);
      stream.synchronize();
    }
    host_.broadcast(staging.data(), bytes, root);
    if (rank != root) staging.put(data, bytes);
  });
}

void DeviceGroup::all_gather(void* dst, const void* src, size_t bytes, Stream& stream) {
  const auto native = [&](Communicator& group) { return group.all_gather(dst, src, bytes, stream); };
  run(stream, native, [=, &stream] {
    const size_t own = static_cast<size_t>(rank) * bytes, all = static_cast<size_t>(size) * bytes;
    Staging staging(pinned_, device, stream, all);
    staging.fetch(src, bytes, own);
    stream.synchronize();
    host_.all_gather(staging.data(), staging.data() + own, bytes);
    staging.put(dst, all);
  });
}

void DeviceGroup::all_to_all(const std::vector<PeerBuffer>& sent, const std::vector<PeerBuffer>& received,
                             Stream& stream) {
  const auto native = [&](Communicator& group) { return group.exchange(sent.data(), received.data(), stream); };
  run(stream, native, [=, &stream] {
    Staging out(pinned_, device, stream, total(sent)), in(pinned_, device, stream, total(received));
    const auto host_out = packed(sent, out.data()), host_in = packed(received, in.data());
    const auto offset = [](const HostGroup::PeerBuffer& part, const Staging& of) {
      return static_cast<size_t>(static_cast<char*>(part.data) - of.data());
    };
    for (int peer = 0; peer < size; ++peer) out.fetch(sent[peer].data, sent[peer].bytes, offset(host_out[peer], out));
    stream.synchronize();
    host_.all_to_all(host_out, host_in);
    for (int peer = 0; peer < size; ++peer) {
      in.put(received[peer].data, received[peer].bytes, offset(host_in[peer], in));
    }
  });
}

bool DeviceGroup::native_send(const void* src, size_t bytes, int peer, Stream& stream) {
  // In a batch, send with the other calls. Otherwise send a copy of the data on a separate stream.
  if (calls.depth > 0 || bytes == 0 || peer < 0 || peer >= size) return native_->send(src, bytes, peer, stream);
  Stream* own;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    send_streams_.resize(size);
    own = send_streams_[peer];
  }
  if (own == nullptr) {
    own = &device.new_stream(0);
    std::lock_guard<std::mutex> lock(mutex_);
    send_streams_[peer] = own;
  }
  add_stream(*own);
  CachingAllocator& allocator = device.allocator();
  const std::unique_ptr<Block, std::function<void(Block*)>> copy(allocator.allocate(bytes, stream),
                                                                 [&](Block* block) { allocator.free(block); });
  device.copy_on_device(CachingAllocator::address(copy.get()), src, bytes, stream);
  const std::unique_ptr<Event, std::function<void(Event*)>> copied(device.acquire_event(false),
                                                                   [&](Event* event) { device.release_event(event); });
  copied->record(stream);
  copied->block(*own);
  allocator.record_stream(copy.get(), *own);
  if (!native_->send(CachingAllocator::address(copy.get()), bytes, peer, *own)) return false;
  add_unchecked(*own);
  return true;
}

void DeviceGroup::send(const void* src, size_t bytes, int peer, Stream& stream) {
  const auto native = [&](Communicator&) { return native_send(src, bytes, peer, stream); };
  const auto staged = [=, &stream] {
    Staging staging(pinned_, device, stream, bytes);
    staging.fetch(src, bytes);
    stream.synchronize();
    host_.send(staging.data(), bytes, peer);
  };
  run(stream, native, staged, true);
}

void DeviceGroup::receive(void* dst, size_t bytes, int peer, Stream& stream) {
  const auto native = [&](Communicator& group) { return group.receive(dst, bytes, peer, stream); };
  run(stream, native, [=, &stream] {
    Staging staging(pinned_, device, stream, bytes);
    host_.receive(staging.data(), bytes, peer);
    staging.put(dst, bytes);
  });
}

}  // namespace hp
