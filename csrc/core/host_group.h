// Collectives between processes on host memory, over TCP: for devices whose plug-in has none of its own, and for what
// the others must agree on.
//
// Every collective begins with a small message from each process to each other. So a call that does not match, and a
// process that is gone or late, are found before data moves, and named by rank. A failure ends the group: later calls
// fail at once. Functions may be called from any thread; collectives run one after another, sends and receives beside
// them.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "host_reduction.h"
#include "meeting.h"

namespace hp {

class Outbox;

class HostGroup {
 public:
  // See meeting.h.
  HostGroup(const MeetingPlace& place, int rank, int size, const std::string& address, uint32_t timeout_ms);
  ~HostGroup();
  HostGroup(const HostGroup&) = delete;

  const int rank, size;

  // `dst` may be `src`. `count` is in elements, of one process's part where there are parts.
  void all_reduce(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction);
  // `dst` is written in the process `root` only.
  void reduce(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction, int root);
  // `dst` may be this process's part of `src`.
  void reduce_scatter(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction);
  void broadcast(void* data, size_t bytes, int root);
  // `src` may be this process's part of `dst`.
  void all_gather(void* dst, const void* src, size_t bytes);
  struct Part {
    void* data = nullptr;
    size_t bytes = 0;
  };
  // Part i goes to, and comes from, process i. What a process sends to another must have the size that this expects.
  void all_to_all(const std::vector<Part>& sent, const std::vector<Part>& received);
  void barrier();

  // Does not wait for the receiver.
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
  void check_alive(const Header& header);
  static std::string text(const Header& header);
  std::string what(const Header& header) const;
  // Everybody's call, compared with this process's.
  void begin(Header header, const std::vector<Part>* sent = nullptr, const std::vector<Part>* received = nullptr);
  // The same for a reduction; returns its header.
  Header begin(Kind kind, size_t count, HpElement element, HpReduction reduction, int root = -1);
  void run(const Header& header, std::vector<Transfer>& transfers, std::vector<Socket>& sockets, bool beginning);
  void exchange(const Header& header, const std::vector<Part>& sent, const std::vector<Part>& received);
  Share share(size_t count, int of) const;
  void reduce_own_share(const Header& header, char* dst, const char* src, const std::vector<Share>& shares);
  [[noreturn]] void fail(HpStatus status, const std::string& message, std::vector<Socket>& sockets);

  const uint32_t timeout_ms_;
  Mesh mesh_;
  std::unique_ptr<Outbox> outbox_;
  std::mutex collective_mutex_, failure_mutex_;
  std::string failure_;  // the first
  uint64_t number_ = 0;  // of collectives so far
  struct Pair {
    std::mutex send_mutex, receive_mutex;
    uint64_t sends = 0, receives = 0;
  };
  std::vector<Pair> pairs_;  // by rank
};

}  // namespace hp
