// Writes a buffer to a file descriptor.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace sim {

// Retries interrupted and partial writes. Returns false, with errno set, on failure.
inline bool write_all(int fd, const char* data, size_t bytes) {
  for (ssize_t n; bytes > 0; data += n, bytes -= static_cast<size_t>(n)) {
    do n = write(fd, data, bytes);
    while (n < 0 && errno == EINTR);
    if (n <= 0) return false;
  }
  return true;
}

}  // namespace sim
