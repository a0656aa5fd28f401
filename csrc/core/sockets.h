// TCP between the processes of a group: connections, and transfers of many at the same time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "error.h"

namespace hp {

// Until when to wait; made from milliseconds, of which 0 waits for ever.
class Deadline {
 public:
  explicit Deadline(uint32_t timeout_ms) : limited_(timeout_ms > 0), end_(Clock::now() + Milliseconds(timeout_ms)) {}
  // For poll(): -1 for ever, 0 when it is over.
  int left_ms() const;
  bool over() const { return left_ms() == 0; }

 private:
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::milliseconds;
  bool limited_;
  Clock::time_point end_;
};

// Owns a descriptor that does not block and that programs started later do not inherit.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close() noexcept;
  // The other end's address, or this one's.
  std::string peer_address() const;
  std::string own_address() const;

  // As much as goes without waiting. `write` and `read` return the bytes, or -1 when the other end is gone.
  int64_t write(const void* data, size_t bytes) noexcept;
  int64_t read(void* data, size_t bytes) noexcept;

 private:
  int fd_ = -1;
};

// Listens on a port that the system chooses. If `address` is none of this host's, on all of them.
class Listener {
 public:
  explicit Listener(const std::string& address);
  uint16_t port() const { return port_; }
  int fd() const { return socket_.fd(); }
  // An empty one when nobody waits.
  Socket accept();

 private:
  Socket socket_;
  uint16_t port_ = 0;
};

// Tries again until the time is over: the other process may not listen yet. Empty if nobody answered.
Socket connect_to(const std::string& address, uint16_t port, const Deadline& deadline);

// This host's address on the way to `other`; its name's address when there is no other; else the loopback's.
std::string address_towards(const std::string& other);

// One direction of one connection. `left` is what has not gone yet.
struct Transfer {
  Socket* socket;
  int rank;  // at the other end
  bool sends;
  char* data;
  size_t left;
};

// Runs all of them at the same time. `lost` is called with the rank that is gone, `late` with the ranks that have not
// done their part in time; both must throw.
void run_transfers(std::vector<Transfer>& transfers, const Deadline& deadline, const std::function<void(int)>& lost,
                   const std::function<void(const std::vector<int>&)>& late);

}  // namespace hp
