// One rank of a process group that uses the plug-in's own collectives (HpCollectives).
#pragma once

#include <array>
#include <mutex>
#include <string>

#include "core/runtime/runtime.h"

namespace hp {

class Communicator {
 public:
  using Id = std::array<unsigned char, HP_GROUP_ID_BYTES>;

  static bool provided(const Plugin& plugin) { return plugin.collectives.create != nullptr; }
  // Called in one process; every process of the group passes the same id.
  static Id new_id(const Plugin& plugin);
  // Whether this process can join the group. Create communicators only if all processes can.
  static bool can_join(Device& device, const Id& id);

  // Blocks until all processes have joined.
  Communicator(Device& device, const Id& id, int rank, int size, uint32_t timeout_ms);
  ~Communicator();
  Communicator(const Communicator&) = delete;

  Device& device;
  const int rank, size;

  // Each call queues its work on `stream`. It returns false, in every process and with nothing queued, if the plug-in
  // does not support it. Missing collectives, except reductions, are composed of sends and receives if possible.
  bool all_reduce(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction, Stream& stream);
  bool reduce(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction, int root,
              Stream& stream);
  bool reduce_scatter(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction,
                      Stream& stream);
  bool broadcast(void* data, size_t bytes, int root, Stream& stream);
  bool all_gather(void* dst, const void* src, size_t bytes, Stream& stream);
  bool all_to_all(void* dst, const void* src, size_t bytes, Stream& stream);
  // Buffers by rank, of any size; `data` may be null if `bytes` is 0.
  struct PeerBuffer {
    void* data = nullptr;
    size_t bytes = 0;
  };
  bool exchange(const PeerBuffer* sent, const PeerBuffer* received, Stream& stream);
  bool gather(void* dst, const void* src, size_t bytes, int root, Stream& stream);
  bool scatter(void* dst, const void* src, size_t bytes, int root, Stream& stream);
  bool send(const void* src, size_t bytes, int peer, Stream& stream);
  bool receive(void* dst, size_t bytes, int peer, Stream& stream);

  // Calls of this thread until end_group run concurrently, or one after another if the plug-in has no group_start.
  void start_group();
  void end_group();

  // Makes queued work fail, in this and the other processes. Callable from any thread.
  void abort() noexcept;

 private:
  std::string describe(const char* function) const;
  bool supported(HpStatus status, const char* function) const;
  template <typename Call>
  bool traced(const char* function, size_t bytes, Stream& stream, Call call) const;
  bool has_pairs() const { return table_.send && table_.receive && table_.group_start; }

  const HpCollectives& table_;
  HpCommunicator handle_ = nullptr;
};

}  // namespace hp
