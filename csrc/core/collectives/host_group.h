// Collectives on host memory over TCP, for plug-ins without collectives and for agreement between processes.
//
// Every collective starts with a small header from each process to every other, so mismatched calls and lost or late
// processes are detected before data moves, and reported by rank. A failure ends the group: later calls fail at once.
// Thread-safe: collectives run one at a time, sends and receives run concurrently with them.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/collectives/host_reduction.h"
#include "core/collectives/rendezvous.h"

namespace hp {

class SendQueue;

class HostGroup {
 public:
  // Blocks until all processes have joined; see connect_mesh. `timeout_ms` also limits each later call.
  HostGroup(const RendezvousAddress& rendezvous, int rank, int size, const std::string& address, uint32_t timeout_ms);
  ~HostGroup();
  HostGroup(const HostGroup&) = delete;

  const int rank, size;

  // `dst` may be `src`. `count` is in elements; in reduce_scatter, of one process's part.
  void all_reduce(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction);
  // Writes `dst` on rank `root` only.
  void reduce(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction, int root);
  // `dst` may be this process's part of `src`.
  void reduce_scatter(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction);
  void broadcast(void* data, size_t bytes, int root);
  // `src` may be this process's part of `dst`.
  void all_gather(void* dst, const void* src, size_t bytes);
  struct PeerBuffer {
    void* data = nullptr;
    size_t bytes = 0;
  };
  // Buffer i is sent to, or received from, rank i. The sizes that sender and receiver pass must match.
  void all_to_all(const std::vector<PeerBuffer>& sent, const std::vector<PeerBuffer>& received);
  void barrier();

  // Returns without waiting for the receiver; `src` may be reused at once.
  void send(const void* src, size_t bytes, int peer);
  void receive(void* dst, size_t bytes, int peer);

 private:
  enum class Kind : uint8_t {
    kAllReduce,
    kReduce,
    kReduceScatter,
    kBroadcast,
    kAllGather,
    kAllToAll,
    kBarrier,
    kSend,
    kReceive
  };
  struct Header;
  struct Share {
    size_t first, count;
  };

  static const char* name(Kind kind);
  void check_not_failed(const Header& header);
  static std::string text(const Header& header);
  std::string context(const Header& header) const;
  // Exchanges headers and checks that all processes make the same call.
  void begin(Header header, const std::vector<PeerBuffer>* sent = nullptr,
             const std::vector<PeerBuffer>* received = nullptr);
  // The same for a reduction; returns the header.
  Header begin(Kind kind, size_t count, HpElement element, HpReduction reduction, int root = -1);
  void run(const Header& header, std::vector<Transfer>& transfers, std::vector<Socket>& sockets, bool beginning);
  void exchange(const Header& header, const std::vector<PeerBuffer>& sent, const std::vector<PeerBuffer>& received);
  Share share(size_t count, int of) const;
  void reduce_own_share(const Header& header, char* dst, const char* src, const std::vector<Share>& shares);
  [[noreturn]] void fail(HpStatus status, const std::string& message, std::vector<Socket>& sockets);

  const uint32_t timeout_ms_;
  Mesh mesh_;
  std::unique_ptr<SendQueue> send_queue_;
  std::mutex collective_mutex_, failure_mutex_;
  std::string failure_;  // message of the first failure; empty if none
  uint64_t number_ = 0;  // of collectives started
  struct Pair {
    std::mutex send_mutex, receive_mutex;
    uint64_t sends = 0, receives = 0;
  };
  std::vector<Pair> pairs_;  // by rank
};

}  // namespace hp
