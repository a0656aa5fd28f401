// Rendezvous of a process group: rank 0 listens, the other ranks connect, then every pair of ranks is connected.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/collectives/sockets.h"

namespace hp {

// The address of rank 0. Plain bytes, to be sent to every process.
struct RendezvousAddress {
  char address[256];
  uint16_t port;
  unsigned char token[16];  // random, unique to the group: connections without it are dropped
};

// Starts listening on `address`. The same process must call connect_mesh as rank 0.
RendezvousAddress open_rendezvous(const std::string& address);

// The connections of one process, by rank; its own entry is empty. Collectives and pairwise send/receive have separate
// connections, so that neither blocks the other.
struct Mesh {
  std::vector<Socket> collectives, pairs;
};

// `address` is this host's address as seen by the others; if empty, the one rank 0 sees. Throws HP_TIMEOUT, naming the
// ranks that did not connect in time.
Mesh connect_mesh(const RendezvousAddress& root, int rank, int size, const std::string& address, uint32_t timeout_ms);

// "rank 1", "ranks 1 and 3".
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace hp
