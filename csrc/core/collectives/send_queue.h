// Sends messages to other processes without waiting for the receiver; a thread sends what does not go out at once.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "core/collectives/sockets.h"

namespace hp {

class SendQueue {
 public:
  // `sockets`, by rank, must outlive the queue. Other threads may read from them.
  explicit SendQueue(std::vector<Socket>& sockets);
  // Waits up to 10 s for queued messages to be sent.
  ~SendQueue();
  SendQueue(const SendQueue&) = delete;

  // Sends `head` then `data`, after all earlier messages to that rank. Copies what cannot be sent at once, so the
  // caller may reuse its buffers. Returns false if the connection is lost. Thread-safe.
  bool send(int rank, const void* head, size_t head_bytes, const void* data, size_t bytes);

 private:
  struct Peer {
    std::deque<std::vector<char>> queue;
    size_t sent_of_first = 0;
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
  std::thread thread_;  // started by the first message that cannot be sent at once
  const int process_;   // the creating process, to detect a fork
};

}  // namespace hp
