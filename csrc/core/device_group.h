// Collectives between processes on device memory: the plug-in's own where it has them and every process can join, else
// copies to the host, which the processes exchange over TCP.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "communicator.h"
#include "host_group.h"

namespace hp {

class PinnedAllocator;

class DeviceGroup {
 public:
  // Plain bytes, made in the process that will be rank 0, and carried to the others by whoever makes the group.
  struct Id {
    MeetingPlace place;
    bool native;
    Communicator::Id native_id;
  };
  // `address` is this host's, as the others reach it.
  static Id new_id(const Plugin& plugin, const std::string& address);

  // Waits for the other processes. HARDPOINT_COLLECTIVES=host, in one of them, keeps the plug-in's collectives out.
  DeviceGroup(Device& device, PinnedAllocator& pinned, const Id& id, int rank, int size, const std::string& address,
              uint32_t timeout_ms);
  // Waits a short while for what is queued, then ends it.
  ~DeviceGroup();
  DeviceGroup(const DeviceGroup&) = delete;

  Device& device;
  const int rank, size;
  bool native() const { return native_ != nullptr; }

  // Queued on `stream`, after what is there; `dst` may be `src`. Through the host, the call waits for the others.
  void all_reduce(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction, Stream& stream);
  void reduce(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction, int root,
              Stream& stream);
  void reduce_scatter(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction,
                      Stream& stream);
  void broadcast(void* data, size_t bytes, int root, Stream& stream);
  void all_gather(void* dst, const void* src, size_t bytes, Stream& stream);
  using Part = Communicator::Part;
  void all_to_all(const std::vector<Part>& sent, const std::vector<Part>& received, Stream& stream);
  // Does not keep `stream` until the other receives, so that two may send to each other before they receive.
  void send(const void* src, size_t bytes, int peer, Stream& stream);
  void receive(void* dst, size_t bytes, int peer, Stream& stream);

  // The calls of this thread between the two, on whichever groups, run at the same time. They nest. A call that throws
  // ends the group of calls.
  static void start_calls();
  static void end_calls();

  // A stream that waits for another does not learn of that one's failures. For whoever has waited for the device and
  // now reads results: throws what failed on streams with collectives that are done. Nothing is waited for.
  static void check_failures(Device& device);

 private:
  using Native = std::function<bool(Communicator&)>;
  using Staged = std::function<void()>;
  // By the plug-in if it takes the call, else through the host, now or when the group of calls ends.
  void run(Stream& stream, const Native& native, Staged staged, bool is_send = false);
  bool native_send(const void* src, size_t bytes, int peer, Stream& stream);
  void note(Stream& stream);  // that work of the communicator is queued there
  bool settled(std::chrono::seconds limit);

  PinnedAllocator& pinned_;
  HostGroup host_;
  std::unique_ptr<Communicator> native_;
  std::mutex mutex_;
  std::vector<Stream*> streams_;       // with work of the communicator
  std::vector<Stream*> send_streams_;  // by rank, made when needed
};

}  // namespace hp
