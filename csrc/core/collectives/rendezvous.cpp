#include "core/collectives/rendezvous.h"

#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace hp {
namespace {

enum Purpose : uint32_t { kCollectives = 0, kPairs = 1 };

// The first message on every connection.
struct Hello {
  char magic[8];
  unsigned char token[16];
  int32_t rank, size;
  uint32_t purpose;
  uint16_t port;  // that the sender listens on
  char address[256];
};
constexpr char kMagic[8] = {'h', 'p', 'g', 'r', 'o', 'u', 'p', '1'};

struct TableEntry {
  char address[256];
  uint16_t port;
};

template <size_t kSize>
void copy_text(char (&to)[kSize], const std::string& from) {
  if (from.size() >= kSize) throw Error(HP_INVALID_ARGUMENT, "the host address '" + from + "' is too long");
  std::memset(to, 0, kSize);
  std::memcpy(to, from.data(), from.size());
}

// Listeners of open_rendezvous until connect_mesh takes them, by token.
std::mutex open_mutex;
std::map<std::string, std::unique_ptr<Listener>>& open_listeners() {
  static auto* listeners = new std::map<std::string, std::unique_ptr<Listener>>();
  return *listeners;
}
std::string key(const RendezvousAddress& root) {
  return {reinterpret_cast<const char*>(root.token), sizeof(root.token)};
}

std::unique_ptr<Listener> take_listener(const RendezvousAddress& root) {
  std::lock_guard<std::mutex> lock(open_mutex);
  const auto found = open_listeners().find(key(root));
  if (found == open_listeners().end()) {
    throw Error(HP_INVALID_ARGUMENT, "rank 0 of a group must be the process that created the group's id");
  }
  auto listener = std::move(found->second);
  open_listeners().erase(found);
  return listener;
}

// One connect_mesh call.
class MeshConnector {
 public:
  MeshConnector(const RendezvousAddress& root, int rank, int size, const std::string& address, uint32_t timeout_ms)
      : root_(root), rank_(rank), size_(size), address_(address), timeout_ms_(timeout_ms), deadline_(timeout_ms) {
    mesh_.collectives.resize(size);
    mesh_.pairs.resize(size);
  }

  Mesh connect_mesh() {
    if (size_ == 1) return std::move(mesh_);
    listener_ = rank_ == 0 ? take_listener(root_) : std::make_unique<Listener>(address_);
    std::vector<TableEntry> table(size_);
    if (rank_ == 0) {
      for (int other = 1; other < size_; ++other) wait_for(mesh_.collectives);
      table = addresses();
      for (int other = 1; other < size_; ++other) write_all(other, table.data(), size_ * sizeof(TableEntry));
    } else {
      mesh_.collectives[0] = connect_rank(0, root_.address, root_.port, kCollectives);
      read_all(0, table.data(), size_ * sizeof(TableEntry));
    }
    for (int other = 0; other < rank_; ++other) {
      const std::string address = other == 0 ? root_.address : table[other].address;
      const uint16_t port = other == 0 ? root_.port : table[other].port;
      if (other > 0) mesh_.collectives[other] = connect_rank(other, address, port, kCollectives);
      mesh_.pairs[other] = connect_rank(other, address, port, kPairs);
    }
    for (auto* sockets : {&mesh_.collectives, &mesh_.pairs}) {
      while (!missing(*sockets).empty()) wait_for(*sockets);
    }
    return std::move(mesh_);
  }

 private:
  std::string who() const {
    return "joining a group as rank " + std::to_string(rank_) + " of " + std::to_string(size_) + ": ";
  }
  std::vector<int> missing(const std::vector<Socket>& sockets) const {
    std::vector<int> ranks;
    for (int other = rank_ + 1; other < size_; ++other) {
      if (!sockets[other]) ranks.push_back(other);
    }
    return ranks;
  }
  [[noreturn]] void too_late(const std::vector<int>& ranks) const {
    throw Error(HP_TIMEOUT,
                who() + ranks_text(ranks) + " did not connect within " + std::to_string(timeout_ms_ / 1000.0) + " s");
  }
  void transfer(Transfer transfer) {
    std::vector<Transfer> one{transfer};
    run_transfers(
        one, deadline_,
        [&](int lost) { throw Error(HP_ERROR, who() + "rank " + std::to_string(lost) + " closed the connection"); },
        [&](const std::vector<int>& late) { too_late(late); });
  }
  void write_all(int other, const void* data, size_t bytes) {
    transfer({&mesh_.collectives[other], other, true, static_cast<char*>(const_cast<void*>(data)), bytes});
  }
  void read_all(int other, void* data, size_t bytes) {
    transfer({&mesh_.collectives[other], other, false, static_cast<char*>(data), bytes});
  }

  Socket connect_rank(int other, const std::string& address, uint16_t port, Purpose purpose) {
    Socket socket = connect_to(address, port, deadline_);
    if (!socket) {
      throw Error(HP_TIMEOUT, who() + "rank " + std::to_string(other) + " did not answer at " + address + " port " +
                                  std::to_string(port) + " within " + std::to_string(timeout_ms_ / 1000.0) + " s");
    }
    Hello hello{};
    std::memcpy(hello.magic, kMagic, sizeof(kMagic));
    std::memcpy(hello.token, root_.token, sizeof(hello.token));
    hello.rank = rank_, hello.size = size_, hello.purpose = purpose, hello.port = listener_->port();
    copy_text(hello.address, address_);
    transfer({&socket, other, true, reinterpret_cast<char*>(&hello), sizeof(hello)});
    return socket;
  }

  struct PendingPeer {
    Socket socket;
    Hello hello{};
    size_t read = 0;
  };

  // Stores a connection whose hello is complete, for either purpose. Drops connections from outside the group.
  void admit(PendingPeer& peer) {
    const Hello& hello = peer.hello;
    if (std::memcmp(hello.magic, kMagic, sizeof(kMagic)) != 0 ||
        std::memcmp(hello.token, root_.token, sizeof(hello.token)) != 0) {
      return;
    }
    if (hello.size != size_) {
      throw Error(HP_INVALID_ARGUMENT, who() + "rank " + std::to_string(hello.rank) + " joined with group size " +
                                           std::to_string(hello.size) + ": all ranks must use the same size");
    }
    auto& sockets = hello.purpose == kPairs ? mesh_.pairs : mesh_.collectives;
    if (hello.rank <= rank_ || hello.rank >= size_ || sockets[hello.rank]) {
      throw Error(HP_INVALID_ARGUMENT, who() + "rank " + std::to_string(hello.rank) +
                                           " is out of range or joined twice: ranks must be unique");
    }
    sockets[hello.rank] = std::move(peer.socket);
    if (hello.purpose == kCollectives) hellos_[hello.rank] = hello;
  }

  // Waits until one more of `sockets` is connected. Connections that send no hello do not hold up the others.
  void wait_for(const std::vector<Socket>& sockets) {
    const size_t before = missing(sockets).size();
    while (before > 0 && missing(sockets).size() == before) {
      std::vector<pollfd> polled{{listener_->fd(), POLLIN, 0}};
      for (const PendingPeer& peer : pending_) polled.push_back({peer.socket.fd(), POLLIN, 0});
      poll(polled.data(), polled.size(), deadline_.left_ms());
      for (size_t i = 0; i < pending_.size();) {
        PendingPeer& peer = pending_[i];
        const int64_t got =
            peer.socket.read(reinterpret_cast<char*>(&peer.hello) + peer.read, sizeof(Hello) - peer.read);
        if (got > 0) peer.read += static_cast<size_t>(got);
        const bool complete = peer.read == sizeof(Hello);
        if (complete) admit(peer);
        if (complete || got < 0) {
          pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
        } else {
          ++i;
        }
      }
      while (Socket socket = listener_->accept()) pending_.push_back({std::move(socket)});
      if (deadline_.over() && missing(sockets).size() == before) too_late(missing(sockets));
    }
  }

  std::vector<TableEntry> addresses() {
    std::vector<TableEntry> table(size_);
    for (int other = 1; other < size_; ++other) {
      const Socket& socket = mesh_.collectives[other];
      std::string address = hellos_[other].address;
      if (address.empty()) address = socket.peer_address();
      // On this host, perhaps by loopback: the others reach it at rank 0's address.
      if (hellos_[other].address[0] == 0 && address == socket.local_address()) address = root_.address;
      copy_text(table[other].address, address);
      table[other].port = hellos_[other].port;
    }
    return table;
  }

  const RendezvousAddress root_;
  const int rank_, size_;
  const std::string address_;
  const uint32_t timeout_ms_;
  const Deadline deadline_;
  std::unique_ptr<Listener> listener_;
  std::vector<PendingPeer> pending_;
  std::map<int, Hello> hellos_;
  Mesh mesh_;
};

}  // namespace

RendezvousAddress open_rendezvous(const std::string& address) {
  auto listener = std::make_unique<Listener>(address);
  RendezvousAddress root{};
  copy_text(root.address, address);
  root.port = listener->port();
  if (getrandom(root.token, sizeof(root.token), 0) != static_cast<ssize_t>(sizeof(root.token))) {
    throw Error(HP_ERROR, "cannot create a group's token: getrandom failed");
  }
  std::lock_guard<std::mutex> lock(open_mutex);
  open_listeners().emplace(key(root), std::move(listener));
  return root;
}

Mesh connect_mesh(const RendezvousAddress& root, int rank, int size, const std::string& address, uint32_t timeout_ms) {
  if (rank < 0 || rank >= size) {
    throw Error(HP_INVALID_ARGUMENT,
                "a group of size " + std::to_string(size) + " has no rank " + std::to_string(rank));
  }
  return MeshConnector(root, rank, size, address, timeout_ms).connect_mesh();
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

}  // namespace hp
