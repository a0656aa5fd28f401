#include "core/collectives/host_group.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/collectives/send_queue.h"

namespace hp {

// Exchanged by all pairs before a collective, and sent before the data of a send.
struct HostGroup::Header {
  uint64_t number = 0;
  Kind kind{};
  uint8_t element = 0, reduction = 0;
  int32_t root = -1;
  uint64_t count = 0;                 // elements for reductions, else bytes
  uint64_t to_you = 0, from_you = 0;  // bytes sent to and expected from the receiver, for all_to_all

  HpElement type() const { return static_cast<HpElement>(element); }
  HpReduction operation() const { return static_cast<HpReduction>(reduction); }
  bool reduces() const { return kind <= Kind::kReduceScatter; }
};

namespace {

constexpr size_t kReductionChunk = 1 << 20;   // bytes per process and step of a reduction
constexpr size_t kDirectBroadcast = 1 << 16;  // larger broadcasts scatter, then all-gather

std::string seconds(uint32_t milliseconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g s", milliseconds / 1000.0);
  return text;
}

}  // namespace

HostGroup::HostGroup(const RendezvousAddress& rendezvous, int rank, int size, const std::string& address,
                     uint32_t timeout_ms)
    : rank(rank),
      size(size),
      timeout_ms_(timeout_ms),
      mesh_(connect_mesh(rendezvous, rank, size, address, timeout_ms)),
      send_queue_(std::make_unique<SendQueue>(mesh_.pairs)),
      pairs_(size) {}

HostGroup::~HostGroup() = default;

const char* HostGroup::name(Kind kind) {
  static const char* const names[] = {"all_reduce", "reduce",  "reduce_scatter", "broadcast", "all_gather",
                                      "all_to_all", "barrier", "send",           "receive"};
  return static_cast<size_t>(kind) < std::size(names) ? names[static_cast<size_t>(kind)] : "an unknown call";
}

std::string HostGroup::text(const Header& header) {
  std::string text = name(header.kind);
  if (header.kind == Kind::kBarrier) return text;
  if (header.kind == Kind::kAllToAll) {
    return text + " (sends " + std::to_string(header.to_you) + " bytes, expects " + std::to_string(header.from_you) +
           ")";
  }
  text += " of " + std::to_string(header.count);
  text += header.reduces() ? std::string(" ") + element_name(header.type()) + ", " + reduction_name(header.operation())
                           : std::string(" bytes");
  if (header.root >= 0) text += ", root " + std::to_string(header.root);
  return text;
}

std::string HostGroup::context(const Header& header) const {
  return std::string(name(header.kind)) + " (through the host) of rank " + std::to_string(rank) + " of " +
         std::to_string(size) + ": ";
}

void HostGroup::fail(HpStatus status, const std::string& message, std::vector<Socket>& sockets) {
  {
    std::lock_guard<std::mutex> lock(failure_mutex_);
    if (failure_.empty()) failure_ = message;
  }
  // Closing the sockets tells the others that this process failed. Pairs stay open: messages may be in flight.
  if (&sockets == &mesh_.collectives) {
    for (Socket& socket : sockets) socket.close();
  }
  throw Error(status, message);
}

void HostGroup::run(const Header& header, std::vector<Transfer>& transfers, std::vector<Socket>& sockets,
                    bool beginning) {
  run_transfers(
      transfers, Deadline(timeout_ms_),
      [&](int lost) {
        fail(HP_ERROR,
             context(header) + "rank " + std::to_string(lost) +
                 " is gone: its process ended, or it left the group after an error (see its log)",
             sockets);
      },
      [&](const std::vector<int>& late) {
        fail(HP_TIMEOUT,
             context(header) + ranks_text(late) + (beginning ? " did not join within " : " made no progress for ") +
                 seconds(timeout_ms_) + " (HARDPOINT_TIMEOUT)",
             sockets);
      });
}

void HostGroup::check_not_failed(const Header& header) {
  std::lock_guard<std::mutex> lock(failure_mutex_);
  if (!failure_.empty()) throw Error(HP_ERROR, context(header) + "the group failed earlier: " + failure_);
}

void HostGroup::begin(Header header, const std::vector<PeerBuffer>* sent, const std::vector<PeerBuffer>* received) {
  check_not_failed(header);
  if (header.root >= size || (header.root < 0 && (header.kind == Kind::kBroadcast || header.kind == Kind::kReduce))) {
    throw Error(HP_INVALID_ARGUMENT,
                context(header) + "root " + std::to_string(header.root) + " is not a rank of the group");
  }
  header.number = number_++;
  std::vector<Header> mine(size, header), theirs(size);
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    if (sent != nullptr) mine[peer].to_you = (*sent)[peer].bytes, mine[peer].from_you = (*received)[peer].bytes;
    Socket* socket = &mesh_.collectives[peer];
    transfers.push_back({socket, peer, true, reinterpret_cast<char*>(&mine[peer]), sizeof(Header)});
    transfers.push_back({socket, peer, false, reinterpret_cast<char*>(&theirs[peer]), sizeof(Header)});
  }
  run(header, transfers, mesh_.collectives, true);
  for (int peer = 0; peer < size; ++peer) {
    const Header &ours = mine[peer], &other = theirs[peer];
    if (peer == rank) continue;
    if (other.number == ours.number && other.kind == ours.kind && other.element == ours.element &&
        other.reduction == ours.reduction && other.root == ours.root && other.count == ours.count &&
        other.to_you == ours.from_you && other.from_you == ours.to_you) {
      continue;
    }
    fail(HP_INVALID_ARGUMENT,
         context(header) + "rank " + std::to_string(peer) + " makes another call: " + text(other) + " there, " +
             text(ours) + " here",
         mesh_.collectives);
  }
}

void HostGroup::exchange(const Header& header, const std::vector<PeerBuffer>& sent,
                         const std::vector<PeerBuffer>& received) {
  std::vector<Transfer> transfers;
  for (int step = 1; step < size; ++step) {
    // Every rank starts with a different peer.
    const int to = (rank + step) % size, from = (rank + size - step) % size;
    if (sent[to].bytes > 0) {
      transfers.push_back({&mesh_.collectives[to], to, true, static_cast<char*>(sent[to].data), sent[to].bytes});
    }
    if (received[from].bytes > 0) {
      transfers.push_back(
          {&mesh_.collectives[from], from, false, static_cast<char*>(received[from].data), received[from].bytes});
    }
  }
  run(header, transfers, mesh_.collectives, false);
}

HostGroup::Share HostGroup::share(size_t count, int of) const {
  const auto start = [&](size_t index) { return count / size * index + std::min<size_t>(index, count % size); };
  const size_t first = start(static_cast<size_t>(of));
  return {first, start(static_cast<size_t>(of) + 1) - first};
}

// Each process receives all ranks' elements of its share and reduces them once, in rank order. This moves as many bytes
// as a ring, but rounds 16-bit floats once, gives every process the same bits, and has no dependent steps. Writes this
// process's share to `dst`.
void HostGroup::reduce_own_share(const Header& header, char* dst, const char* src, const std::vector<Share>& shares) {
  const size_t bytes = element_bytes(header.type()), chunk = kReductionChunk / bytes;
  size_t longest = 0;
  for (const Share& share : shares) longest = std::max(longest, share.count);
  std::vector<char> scratch(static_cast<size_t>(size) * std::min(chunk, shares[rank].count) * bytes);
  std::vector<PeerBuffer> sent(size), received(size);
  std::vector<const void*> operands(size);
  for (size_t done = 0; done < longest; done += chunk) {
    const auto part_of = [&](int peer) {
      return shares[peer].count > done ? std::min(chunk, shares[peer].count - done) : 0;
    };
    const size_t own = part_of(rank);
    for (int peer = 0; peer < size; ++peer) {
      sent[peer] = {const_cast<char*>(src) + (shares[peer].first + done) * bytes, part_of(peer) * bytes};
      received[peer] = {scratch.data() + static_cast<size_t>(peer) * own * bytes, own * bytes};
      operands[peer] = peer == rank ? sent[peer].data : received[peer].data;
    }
    exchange(header, sent, received);
    if (own > 0) reduce_arrays(dst + done * bytes, operands, own, header.type(), header.operation());
  }
}

HostGroup::Header HostGroup::begin(Kind kind, size_t count, HpElement element, HpReduction reduction, int root) {
  Header header;
  header.kind = kind, header.count = count, header.root = root;
  header.element = static_cast<uint8_t>(element), header.reduction = static_cast<uint8_t>(reduction);
  begin(header);
  return header;
}

void HostGroup::all_reduce(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction) {
  std::lock_guard<std::mutex> lock(collective_mutex_);
  const Header header = begin(Kind::kAllReduce, count, element, reduction);
  const size_t bytes = element_bytes(element);
  std::vector<Share> shares(size);
  std::vector<PeerBuffer> sent(size), received(size);
  char* const out = static_cast<char*>(dst);
  for (int peer = 0; peer < size; ++peer) {
    shares[peer] = share(count, peer);
    received[peer] = {out + shares[peer].first * bytes, shares[peer].count * bytes};
  }
  reduce_own_share(header, static_cast<char*>(received[rank].data), static_cast<const char*>(src), shares);
  std::fill(sent.begin(), sent.end(), received[rank]);
  exchange(header, sent, received);
}

void HostGroup::reduce(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction, int root) {
  std::lock_guard<std::mutex> lock(collective_mutex_);
  const Header header = begin(Kind::kReduce, count, element, reduction, root);
  const size_t bytes = element_bytes(element);
  std::vector<Share> shares(size);
  for (int peer = 0; peer < size; ++peer) shares[peer] = share(count, peer);
  std::vector<char> scratch(rank == root ? 0 : shares[rank].count * bytes);
  std::vector<PeerBuffer> sent(size), received(size);
  char* own = scratch.data();
  if (rank == root) {
    for (int peer = 0; peer < size; ++peer) {
      received[peer] = {static_cast<char*>(dst) + shares[peer].first * bytes, shares[peer].count * bytes};
    }
    own = static_cast<char*>(received[rank].data);
  } else {
    sent[root] = {own, shares[rank].count * bytes};
  }
  reduce_own_share(header, own, static_cast<const char*>(src), shares);
  exchange(header, sent, received);
}

void HostGroup::reduce_scatter(void* dst, const void* src, size_t count, HpElement element, HpReduction reduction) {
  std::lock_guard<std::mutex> lock(collective_mutex_);
  const Header header = begin(Kind::kReduceScatter, count, element, reduction);
  std::vector<Share> shares(size);
  for (int peer = 0; peer < size; ++peer) shares[peer] = {static_cast<size_t>(peer) * count, count};
  reduce_own_share(header, static_cast<char*>(dst), static_cast<const char*>(src), shares);
}

void HostGroup::broadcast(void* data, size_t bytes, int root) {
  std::lock_guard<std::mutex> lock(collective_mutex_);
  Header header;
  header.kind = Kind::kBroadcast, header.count = bytes, header.root = root;
  begin(header);
  const auto share_of = [&](int peer) {
    const Share found = share(bytes, peer);
    return PeerBuffer{static_cast<char*>(data) + found.first, found.count};
  };
  std::vector<PeerBuffer> sent(size), received(size);
  if (size == 2 || bytes <= kDirectBroadcast) {
    if (rank == root) {
      std::fill(sent.begin(), sent.end(), PeerBuffer{data, bytes});
    } else {
      received[root] = {data, bytes};
    }
    return exchange(header, sent, received);
  }
  // Scatter shares from the root, then all-gather them: the root sends the data little more than once.
  if (rank == root) {
    for (int peer = 0; peer < size; ++peer) sent[peer] = share_of(peer);
  } else {
    received[root] = share_of(rank);
  }
  exchange(header, sent, received);
  for (int peer = 0; peer < size; ++peer) {
    sent[peer] = peer == root ? PeerBuffer{} : share_of(rank);
    received[peer] = rank == root ? PeerBuffer{} : share_of(peer);
  }
  exchange(header, sent, received);
}

void HostGroup::all_gather(void* dst, const void* src, size_t bytes) {
  std::lock_guard<std::mutex> lock(collective_mutex_);
  Header header;
  header.kind = Kind::kAllGather, header.count = bytes;
  begin(header);
  std::vector<PeerBuffer> sent(size, PeerBuffer{const_cast<void*>(src), bytes}), received(size);
  for (int peer = 0; peer < size; ++peer) {
    received[peer] = {static_cast<char*>(dst) + static_cast<size_t>(peer) * bytes, bytes};
  }
  if (bytes > 0 && received[rank].data != src) std::memcpy(received[rank].data, src, bytes);
  exchange(header, sent, received);
}

void HostGroup::all_to_all(const std::vector<PeerBuffer>& sent, const std::vector<PeerBuffer>& received) {
  std::lock_guard<std::mutex> lock(collective_mutex_);
  Header header;
  header.kind = Kind::kAllToAll;
  if (sent[rank].bytes != received[rank].bytes) {
    throw Error(HP_INVALID_ARGUMENT, context(header) + "sends " + std::to_string(sent[rank].bytes) +
                                         " bytes to itself and expects " + std::to_string(received[rank].bytes));
  }
  begin(header, &sent, &received);
  if (sent[rank].bytes > 0) std::memcpy(received[rank].data, sent[rank].data, sent[rank].bytes);
  exchange(header, sent, received);
}

void HostGroup::barrier() {
  std::lock_guard<std::mutex> lock(collective_mutex_);
  Header header;
  header.kind = Kind::kBarrier;
  begin(header);
}

void HostGroup::send(const void* src, size_t bytes, int peer) {
  Header header;
  header.kind = Kind::kSend, header.count = bytes;
  if (peer < 0 || peer >= size || peer == rank) {
    throw Error(HP_INVALID_ARGUMENT, context(header) + "cannot send to rank " + std::to_string(peer) +
                                         ": expected another rank of the group");
  }
  check_not_failed(header);
  std::lock_guard<std::mutex> lock(pairs_[peer].send_mutex);
  header.number = pairs_[peer].sends++;
  if (!send_queue_->send(peer, &header, sizeof(header), src, bytes)) {
    fail(HP_ERROR, context(header) + "rank " + std::to_string(peer) + " is gone: its process ended", mesh_.pairs);
  }
}

void HostGroup::receive(void* dst, size_t bytes, int peer) {
  Header expected, header;
  expected.kind = Kind::kReceive, expected.count = bytes;
  if (peer < 0 || peer >= size || peer == rank) {
    throw Error(HP_INVALID_ARGUMENT, context(expected) + "cannot receive from rank " + std::to_string(peer) +
                                         ": expected another rank of the group");
  }
  check_not_failed(expected);
  std::lock_guard<std::mutex> lock(pairs_[peer].receive_mutex);
  std::vector<Transfer> transfers{{&mesh_.pairs[peer], peer, false, reinterpret_cast<char*>(&header), sizeof(header)}};
  run(expected, transfers, mesh_.pairs, true);
  if (header.kind != Kind::kSend || header.number != pairs_[peer].receives++ || header.count != bytes) {
    fail(HP_INVALID_ARGUMENT,
         context(expected) + "rank " + std::to_string(peer) + " sends " + std::to_string(header.count) +
             " bytes, this rank expects " + std::to_string(bytes),
         mesh_.pairs);
  }
  transfers = {{&mesh_.pairs[peer], peer, false, static_cast<char*>(dst), bytes}};
  run(expected, transfers, mesh_.pairs, false);
}

}  // namespace hp
