// A process's place in a group that the plug-in's own collectives connect.
#pragma once

#include <array>
#include <mutex>
#include <string>

#include "runtime.h"

namespace hp {

class Communicator {
 public:
  using Id = std::array<unsigned char, HP_GROUP_ID_BYTES>;

  static bool provided(const Plugin& plugin) { return plugin.collectives.create != nullptr; }
  // In one process of the group; the others need the same.
  static Id new_id(const Plugin& plugin);
  // Whether this process reaches the group. If one does not, none may create its communicator.
  static bool can_join(Device& device, const Id& id);

  // Waits for the other processes.
  Communicator(Device& device, const Id& id, int rank, int size, uint32_t timeout_ms);
  ~Communicator();
  Communicator(const Communicator&) = delete;

  Device& device;
  const int rank, size;

  // Each queues its work on `stream`, or returns false: the plug-in cannot do it, nothing was queued, and the other
  // processes learn the same. What the plug-in lacks is made of sends and receives where it has those, except sums.
  bool all_reduce(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction, Stream& stream);
  bool reduce(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction, int root,
              Stream& stream);
  bool reduce_scatter(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction,
                      Stream& stream);
  bool broadcast(void* data, size_t bytes, int root, Stream& stream);
  bool all_gather(void* dst, const void* src, size_t bytes, Stream& stream);
  bool all_to_all(void* dst, const void* src, size_t bytes, Stream& stream);
  // Parts of any size, in the order of ranks; null where a size is 0.
  struct Part {
    void* data = nullptr;
    size_t bytes = 0;
  };
  bool exchange(const Part* sent, const Part* received, Stream& stream);
  bool gather(void* dst, const void* src, size_t bytes, int root, Stream& stream);
  bool scatter(void* dst, const void* src, size_t bytes, int root, Stream& stream);
  bool send(const void* src, size_t bytes, int peer, Stream& stream);
  bool receive(void* dst, size_t bytes, int peer, Stream& stream);

  // The calls of this thread until `end_group` run at the same time. Without the plug-in's groups, one after another.
  void start_group();
  void end_group();

  // Ends what is queued, here and elsewhere, with a failure. From any thread.
  void abort() noexcept;

 private:
  std::string what(const char* function) const;
  bool supported(HpStatus status, const char* function) const;
  bool has_pairs() const { return table_.send && table_.receive && table_.group_start; }

  const HpCollectives& table_;
  HpCommunicator handle_ = nullptr;
};

}  // namespace hp
