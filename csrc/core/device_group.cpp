#include "device_group.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "allocator.h"
#include "pinned.h"

namespace hp {
namespace {

// Calls of one thread that are to run at the same time.
struct Calls {
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
      } catch (const std::exception&) {  // the first failure is the one to tell
      }
    }
    *this = Calls();
  }
};
thread_local Calls calls;

// Streams with work of communicators whose outcome nobody has looked at.
std::mutex unseen_mutex;
std::vector<Stream*> unseen;
std::atomic<bool> any_unseen{false};

void add_unseen(Stream& stream) {
  std::lock_guard<std::mutex> lock(unseen_mutex);
  if (std::find(unseen.begin(), unseen.end(), &stream) == unseen.end()) unseen.push_back(&stream);
  any_unseen = true;
}

std::vector<Stream*> take_unseen(const Device& device) {
  std::lock_guard<std::mutex> lock(unseen_mutex);
  const auto others =
      std::partition(unseen.begin(), unseen.end(), [&](const Stream* stream) { return &stream->device != &device; });
  std::vector<Stream*> taken(others, unseen.end());
  unseen.erase(others, unseen.end());
  any_unseen = !unseen.empty();
  return taken;
}

bool host_only() {
  const char* const asked = std::getenv("HARDPOINT_COLLECTIVES");
  if (asked == nullptr || *asked == 0 || std::strcmp(asked, "plugin") == 0) return false;
  if (std::strcmp(asked, "host") == 0) return true;
  throw Error(HP_INVALID_ARGUMENT, "HARDPOINT_COLLECTIVES is '" + std::string(asked) +
                                       "': 'plugin' (where it has them) or 'host' is possible");
}

// Page-locked memory for one call.
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

size_t total(const std::vector<DeviceGroup::Part>& parts) {
  size_t bytes = 0;
  for (const auto& part : parts) bytes += part.bytes;
  return bytes;
}

// The parts one after another in host memory.
std::vector<HostGroup::Part> laid_out(const std::vector<DeviceGroup::Part>& parts, char* at) {
  std::vector<HostGroup::Part> found;
  for (const auto& part : parts) {
    found.push_back({at, part.bytes});
    at += part.bytes;
  }
  return found;
}

}  // namespace

DeviceGroup::Id DeviceGroup::new_id(const Plugin& plugin, const std::string& address) {
  Id id{};
  id.place = open_meeting(address);
  id.native = Communicator::provided(plugin) && !host_only();
  if (id.native) id.native_id = Communicator::new_id(plugin);
  return id;
}

DeviceGroup::DeviceGroup(Device& device, PinnedAllocator& pinned, const Id& id, int rank, int size,
                         const std::string& address, uint32_t timeout_ms)
    : device(device), rank(rank), size(size), pinned_(pinned), host_(id.place, rank, size, address, timeout_ms) {
  // Everybody joins the plug-in's group, or nobody does.
  const auto agreed = [&](bool mine) {
    std::vector<char> all(size);
    const char flag = mine ? 1 : 0;
    host_.all_gather(all.data(), &flag, 1);
    return std::find(all.begin(), all.end(), 0) - all.begin();
  };
  const bool can = id.native && !host_only() && Communicator::provided(device.plugin) &&
                   Communicator::can_join(device, id.native_id);
  if (agreed(can) != size) return;
  std::optional<Error> failure;
  try {
    native_ = std::make_unique<Communicator>(device, id.native_id, rank, size, timeout_ms);
  } catch (const Error& error) {
    failure.emplace(error);
  }
  const auto failed = agreed(native_ != nullptr);
  if (failure) throw *failure;
  if (failed != size) {
    throw Error(HP_ERROR, device.name() + ": rank " + std::to_string(failed) +
                              " could not make its communicator; its own message says why");
  }
}

bool DeviceGroup::settled(std::chrono::seconds limit) {
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
  // What the others never joined would keep the process for as long as the time-out.
  if (native_ && !settled(std::chrono::seconds(5))) {
    native_->abort();
    settled(std::chrono::seconds(5));
  }
}

void DeviceGroup::note(Stream& stream) {
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
      note(stream);
      if (native(*native_)) {
        add_unseen(stream);
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
  if (calls.depth == 0) return;  // a call has failed
  if (--calls.depth > 0) return;
  Calls ended;
  std::swap(ended, calls);
  for (Communicator* communicator : ended.begun) communicator->end_group();
  for (Stream* stream : ended.streams) add_unseen(*stream);  // their work was queued only now
  // Sends wait for nobody, and others may wait for them.
  for (const bool sends : {true, false}) {
    for (const Calls::Staged& call : ended.staged) {
      if (call.is_send == sends) call.run();
    }
  }
}

void DeviceGroup::check_failures(Device& device) {
  if (!any_unseen.load(std::memory_order_relaxed)) return;
  for (Stream* stream : take_unseen(device)) {
    if (stream->query()) {
      stream->synchronize();
    } else {
      add_unseen(*stream);
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

void DeviceGroup::all_to_all(const std::vector<Part>& sent, const std::vector<Part>& received, Stream& stream) {
  const auto native = [&](Communicator& group) { return group.exchange(sent.data(), received.data(), stream); };
  run(stream, native, [=, &stream] {
    Staging out(pinned_, device, stream, total(sent)), in(pinned_, device, stream, total(received));
    const auto host_out = laid_out(sent, out.data()), host_in = laid_out(received, in.data());
    const auto offset = [](const HostGroup::Part& part, const Staging& of) {
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
  // Among other calls it starts with them; alone it goes from a copy, on a stream of its own.
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
  note(*own);
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
  add_unseen(*own);
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
