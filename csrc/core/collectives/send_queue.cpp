#include "core/collectives/send_queue.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace hp {

constexpr auto kLastWait = std::chrono::seconds(10);

SendQueue::SendQueue(std::vector<Socket>& sockets) : sockets_(sockets), peers_(sockets.size()), process_(getpid()) {
  if (pipe2(wake_fds_, O_CLOEXEC | O_NONBLOCK) != 0)
    throw Error(HP_ERROR, "cannot create a group's send queue: no file descriptors are left");
}

SendQueue::~SendQueue() {
  if (getpid() != process_) {
    // In a forked child the thread does not exist, and the messages belong to the parent.
    if (thread_.joinable()) thread_.detach();
  } else if (thread_.joinable()) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      emptied_.wait_for(lock, kLastWait, [&] { return idle(); });
      stopping_ = true;
    }
    wake();
    thread_.join();
  }
  for (const int fd : wake_fds_) close(fd);
}

bool SendQueue::send(int rank, const void* head, size_t head_bytes, const void* data, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  Peer& peer = peers_[rank];
  put(peer, sockets_[rank], head, head_bytes);
  put(peer, sockets_[rank], data, bytes);
  if (peer.lost) return false;
  if (!peer.queue.empty()) {
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    wake();
  }
  return true;
}

void SendQueue::put(Peer& peer, Socket& socket, const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (peer.queue.empty() && bytes > 0 && !peer.lost) {
    const int64_t done = socket.write(next, bytes);
    if (done < 0) peer.lost = true;
    if (done <= 0) break;
    next += done;
    bytes -= static_cast<size_t>(done);
  }
  if (bytes > 0 && !peer.lost) peer.queue.emplace_back(next, next + bytes);
}

void SendQueue::push(Peer& peer, Socket& socket) {
  while (!peer.queue.empty()) {
    std::vector<char>& first = peer.queue.front();
    const int64_t done = socket.write(first.data() + peer.sent_of_first, first.size() - peer.sent_of_first);
    if (done < 0) {
      peer.lost = true;
      peer.queue.clear();
    }
    if (done <= 0) return;
    peer.sent_of_first += static_cast<size_t>(done);
    if (peer.sent_of_first < first.size()) continue;
    peer.queue.pop_front();
    peer.sent_of_first = 0;
  }
}

bool SendQueue::idle() const {
  for (const Peer& peer : peers_) {
    if (!peer.queue.empty()) return false;
  }
  return true;
}

void SendQueue::wake() noexcept {
  const char byte = 0;
  if (write(wake_fds_[1], &byte, 1) < 0) return;  // pipe full: a wake-up is pending
}

void SendQueue::work() {
  std::vector<pollfd> polled;
  for (;;) {
    polled.assign(1, {wake_fds_[0], POLLIN, 0});
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (stopping_) return;
      for (size_t rank = 0; rank < peers_.size(); ++rank) {
        push(peers_[rank], sockets_[rank]);
        if (!peers_[rank].queue.empty()) polled.push_back({sockets_[rank].fd(), POLLOUT, 0});
      }
      if (polled.size() == 1) emptied_.notify_all();
    }
    poll(polled.data(), polled.size(), -1);
    char drained[64];
    while (read(wake_fds_[0], drained, sizeof(drained)) > 0) {
    }
  }
}

}  // namespace hp
