// How the processes of a group find each other: rank 0 listens, the others come, and every pair gets connections.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sockets.h"

namespace hp {

// Where a group meets. Plain bytes, the same in every process.
struct MeetingPlace {
  char address[256];
  uint16_t port;
  unsigned char token[16];  // of this group alone: whoever connects without it is a stranger
};

// Listens on `address`, for `meet` of rank 0 in this process.
MeetingPlace open_meeting(const std::string& address);

// The connections of one process, by the other's rank; that to itself is empty. Collectives and pairs (send, receive)
// have their own, so that none waits for the other.
struct Mesh {
  std::vector<Socket> collectives, pairs;
};

// `address` is this host's, as the others reach it; without it, the one that rank 0 sees. Throws with the ranks that
// did not come in time.
Mesh meet(const MeetingPlace& place, int rank, int size, const std::string& address, uint32_t timeout_ms);

// "rank 1", "ranks 1 and 3".
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace hp
