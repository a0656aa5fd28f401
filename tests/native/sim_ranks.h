// Groups of processes for the tests of sim's collectives: each rank is a child (sim_host.h) of its own.
#pragma once

#include <array>
#include <cinttypes>

#include "sim_host.h"

using GroupId = std::array<unsigned char, HP_GROUP_ID_BYTES>;

inline GroupId new_group() {
  GroupId id{};
  OK(sim().collectives->group_id(id.data()));
  return id;
}

inline std::string to_hex(const GroupId& id) {
  std::string text;
  for (unsigned char byte : id) {
    char digits[3];
    snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}
inline GroupId from_hex(const std::string& text) {
  GroupId id{};
  for (size_t i = 0; i < id.size(); ++i)
    id[i] = static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return id;
}

// The group's memory while it has a name.
inline bool has_name(const GroupId& id) {
  uint64_t key[2];
  memcpy(key, id.data() + 8, sizeof key);
  char path[96];
  snprintf(path, sizeof path, "/dev/shm/hardpoint-sim-%016" PRIx64 "%016" PRIx64, key[0], key[1]);
  return access(path, F_OK) == 0;
}

using Settings = std::map<std::string, std::string>;

// Runs the child `name` as every rank of a new group; `settings` may be those of single ranks ("RANK1:NAME").
inline std::vector<Child> run_ranks(const std::string& name, int size, const Settings& settings = {}) {
  const GroupId id = new_group();
  std::vector<Child> ranks(static_cast<size_t>(size));
  in_threads(size, [&](int rank) {
    Settings own = {{"TEST_RANK", std::to_string(rank)}, {"TEST_SIZE", std::to_string(size)}, {"TEST_ID", to_hex(id)}};
    const std::string prefix = "RANK" + std::to_string(rank) + ":";
    for (const auto& [key, value] : settings) {
      if (key.compare(0, 4, "RANK") != 0) own[key] = value;
      if (key.compare(0, prefix.size(), prefix) == 0) own[key.substr(prefix.size())] = value;
    }
    ranks[static_cast<size_t>(rank)] = run_child(name, own);
  });
  CHECK(!has_name(id));
  return ranks;
}
inline void check_ranks(const std::string& name, int size, const Settings& settings = {}) {
  for (const Child& rank : run_ranks(name, size, settings)) expect_success(rank);
}

// In a child: its place, and its communicator once it has joined.
struct Rank {
  explicit Rank(uint32_t timeout_ms = 30000) {
    OK(table.can_join(0, id.data()));
    OK(table.create(0, id.data(), rank, size, timeout_ms, &communicator));
  }
  ~Rank() { table.destroy(communicator); }
  Rank(const Rank&) = delete;

  const HpCollectives& table = *sim().collectives;
  const int rank = atoi(getenv("TEST_RANK"));
  const int size = atoi(getenv("TEST_SIZE"));
  const GroupId id = from_hex(getenv("TEST_ID"));
  HpCommunicator communicator = nullptr;
};
