// TCP connections between the processes of a group, and concurrent transfers over many of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/runtime/error.h"

namespace hp {

// A point in time, given as a timeout in milliseconds; 0 never expires.
class Deadline {
 public:
  explicit Deadline(uint32_t timeout_ms) : limited_(timeout_ms > 0), end_(Clock::now() + Milliseconds(timeout_ms)) {}
  // The timeout for poll(): -1 if it never expires, 0 once expired.
  int left_ms() const;
  bool over() const { return left_ms() == 0; }

 private:
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::milliseconds;
  bool limited_;
  Clock::time_point end_;
};

// Owns a non-blocking, close-on-exec file descriptor.
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
  // Numeric addresses of the two ends; "" on failure.
  std::string peer_address() const;
  std::string local_address() const;

  // Transfer as much as possible without blocking. Return the byte count, or -1 if the connection is lost.
  int64_t write(const void* data, size_t bytes) noexcept;
  int64_t read(void* data, size_t bytes) noexcept;

 private:
  int fd_ = -1;
};

// Listens on a port chosen by the system. If `address` does not belong to this host, listens on all interfaces.
class Listener {
 public:
  explicit Listener(const std::string& address);
  uint16_t port() const { return port_; }
  int fd() const { return socket_.fd(); }
  // Empty if no connection is pending.
  Socket accept();

 private:
  Socket socket_;
  uint16_t port_ = 0;
};

// Retries until the deadline, because the other process may not listen yet. Empty on failure.
Socket connect_to(const std::string& address, uint16_t port, const Deadline& deadline);

// This host's address on the route to `other`; without `other`, the address of its host name, else loopback.
std::string local_address_towards(const std::string& other);

// One direction of one connection. `left` counts the bytes still to transfer.
struct Transfer {
  Socket* socket;
  int rank;  // of the other process
  bool sends;
  char* data;
  size_t left;
};

// Runs all transfers concurrently. Calls `lost` with a rank whose connection is lost, and `late` with the ranks whose
// transfers stalled past the deadline; both must throw.
void run_transfers(std::vector<Transfer>& transfers, const Deadline& deadline, const std::function<void(int)>& lost,
                   const std::function<void(const std::vector<int>&)>& late);

}  // namespace hp
