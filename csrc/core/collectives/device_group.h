// Collectives on device memory, for Paddle's xccl. Uses the plug-in's collectives if every process can join them,
// otherwise copies to the host and a HostGroup. PyTorch stages through gloo instead (csrc/torch/distributed/staging.h).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/collectives/communicator.h"
#include "core/collectives/host_group.h"

namespace hp {

class PinnedAllocator;

class DeviceGroup {
 public:
  // Plain bytes. Created by the process that becomes rank 0; the caller distributes them to the others.
  struct Id {
    RendezvousAddress rendezvous;
    bool native;
    Communicator::Id native_id;
  };
  // `address` is this host's address as seen by the others.
  static Id new_id(const Plugin& plugin, const std::string& address);

  // Blocks until all processes have joined. HARDPOINT_COLLECTIVES=host in any process disables the plug-in's
  // collectives.
  DeviceGroup(Device& device, PinnedAllocator& pinned, const Id& id, int rank, int size, const std::string& address,
              uint32_t timeout_ms);
  // Waits a few seconds for queued work, then aborts it.
  ~DeviceGroup();
  DeviceGroup(const DeviceGroup&) = delete;

  Device& device;
  const int rank, size;
  bool native() const { return native_ != nullptr; }

  // Ordered on `stream`; `dst` may be `src`. Calls that go through the host block until the other processes join.
  void all_reduce(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction, Stream& stream);
  void reduce(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction, int root,
              Stream& stream);
  void reduce_scatter(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction,
                      Stream& stream);
  void broadcast(void* data, size_t bytes, int root, Stream& stream);
  void all_gather(void* dst, const void* src, size_t bytes, Stream& stream);
  using PeerBuffer = Communicator::PeerBuffer;
  void all_to_all(const std::vector<PeerBuffer>& sent, const std::vector<PeerBuffer>& received, Stream& stream);
  // Does not block `stream` until the peer receives: two ranks may both send before they receive.
  void send(const void* src, size_t bytes, int peer, Stream& stream);
  void receive(void* dst, size_t bytes, int peer, Stream& stream);

  // Calls of this thread between the two, on any groups, run concurrently. Nestable. If a call throws, the batch ends.
  static void start_calls();
  static void end_calls();

  // Throws the failure of a finished collective on any of the device's streams, without waiting. Call it after waiting
  // for the device and before reading results: a stream that waits for another does not report that one's failures.
  static void check_failures(Device& device);

 private:
  using Native = std::function<bool(Communicator&)>;
  using Staged = std::function<void()>;
  // Runs `native` if the plug-in supports the call, else `staged`: now, or in end_calls.
  void run(Stream& stream, const Native& native, Staged staged, bool is_send = false);
  bool native_send(const void* src, size_t bytes, int peer, Stream& stream);
  void add_stream(Stream& stream);             // to streams_
  bool wait_idle(std::chrono::seconds limit);  // for streams_; false on timeout or failure

  PinnedAllocator& pinned_;
  HostGroup host_;
  std::unique_ptr<Communicator> native_;
  std::mutex mutex_;
  std::vector<Stream*> streams_;       // with work of native_
  std::vector<Stream*> send_streams_;  // by rank, created on first use
};

}  // namespace hp
