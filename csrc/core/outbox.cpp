#include "outbox.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace hp {

constexpr auto kLastWait = std::chrono::seconds(10);

Outbox::Outbox(std::vector<Socket>& sockets) : sockets_(sockets), peers_(sockets.size()), process_(getpid()) {
  if (pipe2(wake_fds_, O_CLOEXEC | O_NONBLOCK) != 0) throw Error(HP_ERROR, "no descriptors are left for a group");
}

Outbox::~Outbox() {
  if (getpid() != process_) {
    // A child that was forked has no such thread, and the messages are its parent's.
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

bool Outbox::send(int rank, const void* head, size_t head_bytes, const void* data, size_t bytes) {
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

void Outbox::put(Peer& peer, Socket& socket, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (peer.queue.empty() && bytes > 0 && !peer.lost) {
    const int64_t done = socket.write(at, bytes);
    if (done < 0) peer.lost = true;
    if (done <= 0) break;
    at += done;
    bytes -= static_cast<size_t>(done);
  }
  if (bytes > 0 && !peer.lost) peer.queue.emplace_back(at, at + bytes);
}

void Outbox::push(Peer& peer, Socket& socket) {
  while (!peer.queue.empty()) {
    std::vector<char>& first = peer.queue.front();
    const int64_t done = socket.write(first.data() + peer.gone_of_first, first.size() - peer.gone_of_first);
    if (done < 0) {
      peer.lost = true;
      peer.queue.clear();
    }
    if (done <= 0) return;
    peer.gone_of_first += static_cast<size_t>(done);
    if (peer.gone_of_first < first.size()) continue;
    peer.queue.pop_front();
    peer.gone_of_first = 0;
  }
}

bool Outbox::idle() const {
  for (const Peer& peer : peers_) {
    if (!peer.queue.empty()) return false;
  }
  return true;
}

void Outbox::wake() noexcept {
  const char byte = 0;
  if (write(wake_fds_[1], &byte, 1) < 0) return;  // full: it is awake
}

void Outbox::work() {
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
