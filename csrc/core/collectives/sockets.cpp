#include "core/collectives/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <thread>

namespace hp {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses resolve(const char* host, uint16_t port, int flags, int type = SOCK_STREAM) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = type;
  hints.ai_flags = flags | AI_NUMERICSERV;
  if (getaddrinfo(host, std::to_string(port).c_str(), &hints, &found) != 0) return nullptr;
  return Addresses(found);
}

Socket open_socket(const addrinfo& address) {
  return Socket(socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
}

// No delay, because collectives start with small messages; keep-alive, to detect a host that vanished.
void configure(const Socket& socket) {
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket.fd(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

std::string text_of(const sockaddr_storage& address, socklen_t length) {
  char host[NI_MAXHOST];
  const auto* base = reinterpret_cast<const sockaddr*>(&address);
  return getnameinfo(base, length, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) == 0 ? host : "";
}

Socket connect_once(const addrinfo& address, const Deadline& deadline) {
  Socket socket = open_socket(address);
  if (!socket) return {};
  if (connect(socket.fd(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return {};
    pollfd wait{socket.fd(), POLLOUT, 0};
    if (poll(&wait, 1, deadline.left_ms()) != 1) return {};
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) return {};
  }
  configure(socket);
  return socket;
}

}  // namespace

int Deadline::left_ms() const {
  if (!limited_) return -1;
  const auto left = std::chrono::duration_cast<Milliseconds>(end_ - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, INT32_MAX));
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

void Socket::close() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

std::string Socket::peer_address() const {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getpeername(fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "";
  return text_of(address, length);
}

std::string Socket::local_address() const {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "";
  return text_of(address, length);
}

int64_t Socket::write(const void* data, size_t bytes) noexcept {
  const ssize_t done = send(fd_, data, bytes, MSG_NOSIGNAL);
  if (done >= 0) return done;
  return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

int64_t Socket::read(void* data, size_t bytes) noexcept {
  const ssize_t done = recv(fd_, data, bytes, 0);
  if (done > 0) return done;
  return done < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

Listener::Listener(const std::string& address) {
  for (const char* host : {address.empty() ? nullptr : address.c_str(), static_cast<const char*>(nullptr)}) {
    const Addresses found = resolve(host, 0, AI_PASSIVE);
    for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
      Socket socket = open_socket(*one);
      if (!socket || bind(socket.fd(), one->ai_addr, one->ai_addrlen) != 0 || listen(socket.fd(), SOMAXCONN) != 0) {
        continue;
      }
      sockaddr_storage bound{};
      socklen_t length = sizeof(bound);
      if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) continue;
      port_ = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                                : reinterpret_cast<sockaddr_in&>(bound).sin_port);
      socket_ = std::move(socket);
      return;
    }
  }
  throw Error(HP_ERROR, "cannot listen for the other processes of a group: " + std::string(std::strerror(errno)));
}

Socket Listener::accept() {
  Socket socket(accept4(socket_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket) configure(socket);
  return socket;
}

Socket connect_to(const std::string& address, uint16_t port, const Deadline& deadline) {
  for (auto pause = std::chrono::milliseconds(5);; pause = std::min(pause * 2, std::chrono::milliseconds(500))) {
    const Addresses found = resolve(address.c_str(), port, 0);
    for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
      if (Socket socket = connect_once(*one, deadline)) return socket;
    }
    if (deadline.over()) return {};
    std::this_thread::sleep_for(pause);
  }
}

std::string local_address_towards(const std::string& other) {
  // Connecting a datagram socket sends nothing but selects the interface.
  if (!other.empty()) {
    const Addresses found = resolve(other.c_str(), 9, 0, SOCK_DGRAM);
    for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
      const Socket socket = open_socket(*one);
      if (socket && connect(socket.fd(), one->ai_addr, one->ai_addrlen) == 0) return socket.local_address();
    }
  }
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) == 0) {
    const Addresses found = resolve(name, 0, 0);
    for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
      sockaddr_storage address{};
      std::memcpy(&address, one->ai_addr, one->ai_addrlen);
      const std::string text = text_of(address, one->ai_addrlen);
      if (!text.empty()) return text;
    }
  }
  return "127.0.0.1";
}

void run_transfers(std::vector<Transfer>& transfers, const Deadline& deadline, const std::function<void(int)>& lost,
                   const std::function<void(const std::vector<int>&)>& late) {
  std::vector<pollfd> polled;
  std::vector<Transfer*> waiting;
  for (;;) {
    polled.clear();
    waiting.clear();
    for (Transfer& transfer : transfers) {
      while (transfer.left > 0) {
        const int64_t done = transfer.sends ? transfer.socket->write(transfer.data, transfer.left)
                                            : transfer.socket->read(transfer.data, transfer.left);
        if (done < 0) lost(transfer.rank);
        if (done <= 0) break;
        transfer.data += done;
        transfer.left -= static_cast<size_t>(done);
      }
      if (transfer.left == 0) continue;
      polled.push_back({transfer.socket->fd(), static_cast<short>(transfer.sends ? POLLOUT : POLLIN), 0});
      waiting.push_back(&transfer);
    }
    if (waiting.empty()) return;
    const int ready = poll(polled.data(), polled.size(), deadline.left_ms());
    if (ready < 0 && errno != EINTR) throw Error(HP_ERROR, "poll failed: " + std::string(std::strerror(errno)));
    if (ready != 0 || !deadline.over()) continue;  // no rank is late while data moves
    std::set<int> ranks;
    for (const Transfer* transfer : waiting) ranks.insert(transfer->rank);
    late({ranks.begin(), ranks.end()});
  }
}

}  // namespace hp
