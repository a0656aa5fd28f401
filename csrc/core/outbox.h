// Messages on their way to other processes: a sender does not wait until the receiver asks.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "sockets.h"

namespace hp {

class Outbox {
 public:
  // `sockets`, by rank, must outlive it. Others may read from them.
  explicit Outbox(std::vector<Socket>& sockets);
  // Waits a while for what is still to go.
  ~Outbox();
  Outbox(const Outbox&) = delete;

  // The bytes of both are sent one after the other, after all earlier ones to that rank; what does not go at once is
  // copied. False: the rank is gone.
  bool send(int rank, const void* head, size_t head_bytes, const void* data, size_t bytes);

 private:
  struct Peer {
    std::deque<std::vector<char>> queue;
    size_t gone_of_first = 0;
    bool lost = false;
  };
  void put(Peer& peer, Socket& socket, const void* data, size_t bytes);
  void push(Peer& peer, Socket& socket);
  bool idle() const;
  void wake() noexcept;
  void work();

  std::vector<Socket>& sockets_;
  std::vector<Peer> peers_;
  std::mutex mutex_;
  std::condition_variable emptied_;
  bool stopping_ = false;
  int wake_fds_[2] = {-1, -1};
  std::thread thread_;  // from the first message that does not go at once
  const int process_;
};

}  // namespace hp
