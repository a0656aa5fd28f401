#include "collectives/communicator.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collectives/collective.h"
#include "collectives/group.h"
#include "collectives/reduction.h"
#include "collectives/transfer.h"
#include "host.h"
#include "memory/device_memory.h"
#include "runtime/stream.h"

namespace sim {

namespace {

// A call with its arguments. Numbered when it is queued.
struct Call {
  bool is_transfer = false, sends = false;
  Signature signature = {};  // collectives only
  int peer = 0;
  char* dst = nullptr;
  const char* src = nullptr;
  size_t bytes = 0;  // transfers only
  Stream* stream = nullptr;
};

struct Communicator {
  Communicator(int device, const GroupId& id, int rank, int size, uint32_t timeout_ms)
      : device(device),
        group(id, rank, size, timeout_ms),
        numbers{0, std::vector<uint64_t>(static_cast<size_t>(size)), std::vector<uint64_t>(static_cast<size_t>(size))},
        sends(static_cast<size_t>(size)),
        receives(static_cast<size_t>(size)) {}

  const int device;
  Group group;

  std::mutex mutex;  // calls are numbered in the order they are queued
  struct Numbers {
    uint64_t collectives;
    std::vector<uint64_t> sends, receives;
  } numbers;
  CollectiveProgress progress;
  TransferProgress sends, receives;
};
using Handle = std::shared_ptr<Communicator>;

Handle& handle_of(HpCommunicator communicator) { return *reinterpret_cast<Handle*>(communicator); }

// One task of a stream: collectives in order, and all transfers concurrently.
class CommunicationTask {
 public:
  explicit CommunicationTask(Handle communicator) : communicator_(std::move(communicator)) {}
  CommunicationTask(const CommunicationTask&) = delete;
  ~CommunicationTask() {
    if (started_ || (collectives_.empty() && transfers_.empty())) return;
    const std::string label = collectives_.empty() ? transfers_.front().label() : collectives_.front().label();
    group().fail(HP_ERROR, label + ": rank " + std::to_string(group().rank) + " failed before it began");
  }

  // Requires the communicator's mutex.
  void add(const Call& call) {
    Communicator& c = *communicator_;
    if (call.is_transfer) {
      uint64_t& number = (call.sends ? c.numbers.sends : c.numbers.receives)[static_cast<size_t>(call.peer)];
      char* const data = call.sends ? const_cast<char*>(call.src) : call.dst;
      transfers_.emplace_back(c.group, call.sends ? c.sends : c.receives, call.sends, call.peer, ++number, data,
                              call.bytes);
    } else {
      Signature signature = call.signature;
      signature.number = ++c.numbers.collectives;
      collectives_.emplace_back(c.group, c.progress, signature, call.dst, call.src);
    }
  }

  void run() {
    started_ = true;
    if (group().failed()) group().throw_failure();
    const std::function<void()> poll = [this] { advance_all(transfers_); };
    for (Collective& collective : collectives_) collective.run(poll);
    run_transfers(group(), transfers_);
  }

 private:
  Group& group() { return communicator_->group; }

  Handle communicator_;
  bool started_ = false;
  std::vector<Collective> collectives_;
  std::vector<Transfer> transfers_;
};

// This thread's calls since group_start.
struct CallBatch {
  Communicator* communicator;
  int depth;
  std::vector<Call> calls;
};
thread_local std::vector<CallBatch> open_batches;

CallBatch* find_batch(const Communicator* communicator) {
  for (CallBatch& batch : open_batches)
    if (batch.communicator == communicator) return &batch;
  return nullptr;
}

// All calls belong to `stream`.
void queue(const Handle& communicator, Stream* stream, const std::vector<Call>& calls) {
  std::lock_guard<std::mutex> lock(communicator->mutex);
  auto work = std::make_unique<CommunicationTask>(communicator);
  for (const Call& call : calls) work->add(call);
  stream->submit(TaskKind::communication, false, [work = std::move(work)] { work->run(); });
}

// --- checks ----------------------------------------------------------------------------------------------------------

HpStatus bad_rank(const Communicator& c, const char* function, int rank) {
  return host->fail(HP_INVALID_ARGUMENT, "sim:%d: %s: rank %d does not exist in a group of %d", c.device, function,
                    rank, c.group.size);
}

bool valid_rank(const Communicator& c, int rank) { return rank >= 0 && rank < c.group.size; }

HpStatus check_memory(const Communicator& c, const char* function, const void* ptr, size_t bytes) {
  if (bytes == 0 || owns(c.device, ptr, bytes)) return HP_OK;
  return host->fail(HP_INVALID_ARGUMENT, "sim:%d: %s: %zu bytes at %p are not in this device's memory", c.device,
                    function, bytes, ptr);
}

HpStatus make(HpCommunicator communicator, const char* function, Call call, void* dst, size_t dst_bytes,
              const void* src, size_t src_bytes, HpStream stream) {
  const Handle& handle = handle_of(communicator);
  const Communicator& c = *handle;
  if (c.group.failed()) {
    try {
      c.group.throw_failure();
    } catch (const StatusError& e) {
      return host->fail(e.status, "sim:%d: %s: the group has failed: %s", c.device, function, e.what());
    }
  }
  if (HpStatus status = check_memory(c, function, dst, dst_bytes)) return status;
  if (HpStatus status = check_memory(c, function, src, src_bytes)) return status;
  call.stream = find_stream(c.device, stream);
  if (call.stream == nullptr) return HP_INVALID_ARGUMENT;
  call.dst = dst_bytes > 0 ? static_cast<char*>(alias_of(dst)) : nullptr;
  call.src = src_bytes > 0 ? static_cast<const char*>(alias_of(src)) : nullptr;
  if (CallBatch* const batch = find_batch(&c)) {
    batch->calls.push_back(call);
  } else {
    queue(handle, call.stream, {call});
  }
  return HP_OK;
}

// `dst_parts` and `src_parts`: buffer sizes in multiples of signature.size.
HpStatus submit_collective(HpCommunicator communicator, Signature signature, void* dst, size_t dst_parts,
                           const void* src, size_t src_parts, HpStream stream) {
  const Communicator& c = *handle_of(communicator);
  const size_t unit = signature.reduces() ? element_bytes(signature.element) : 1;
  if (unit == 0 || reduction_name(signature.reduction) == nullptr)
    return host->fail(HP_NOT_SUPPORTED, "sim:%d: %s: unsupported element type %d or reduction %d", c.device,
                      signature.name(), static_cast<int>(signature.element), static_cast<int>(signature.reduction));
  if (!valid_rank(c, signature.root)) return bad_rank(c, signature.name(), signature.root);
  Call call;
  call.signature = signature;
  const size_t bytes = signature.size * unit;
  return make(communicator, signature.name(), call, dst, bytes * dst_parts, src, bytes * src_parts, stream);
}

HpStatus submit_transfer(HpCommunicator communicator, bool sends, void* dst, const void* src, size_t bytes, int peer,
                         HpStream stream) {
  const Communicator& c = *handle_of(communicator);
  const char* const function = sends ? "send" : "receive";
  if (!valid_rank(c, peer)) return bad_rank(c, function, peer);
  Call call;
  call.is_transfer = true;
  call.sends = sends;
  call.peer = peer;
  call.bytes = bytes;
  return make(communicator, function, call, dst, sends ? 0 : bytes, src, sends ? bytes : 0, stream);
}

Signature reduction_signature(CollectiveKind kind, size_t count, HpElement element, HpReduction reduction,
                              int root = 0) {
  return {0, count, kind, element, reduction, root};
}
Signature copy_signature(CollectiveKind kind, size_t bytes, int root = 0) {
  return {0, bytes, kind, HP_UINT8, HP_SUM, root};
}

}  // namespace

// --- contract functions ----------------------------------------------------------------------------------------------

HpStatus group_id(unsigned char* id) {
  GroupId::make(id);
  return HP_OK;
}

HpStatus can_join(int device, const unsigned char* id) {
  if (!valid_device(device)) return no_such_device(device);
  const std::string unreachable_reason = GroupId(id).unreachable_reason();
  return unreachable_reason.empty() ? HP_OK
                                    : host->fail(HP_NOT_SUPPORTED, "sim:%d: %s", device, unreachable_reason.c_str());
}

HpStatus create_communicator(int device, const unsigned char* id, int rank, int size, uint32_t timeout_ms,
                             HpCommunicator* communicator) {
  if (!valid_device(device)) return no_such_device(device);
  if (size < 1 || size > kMaxRanks || rank < 0 || rank >= size)
    return host->fail(HP_INVALID_ARGUMENT, "sim:%d: rank %d of %d; a group has 1 to %d ranks", device, rank, size,
                      kMaxRanks);
  device_used.store(true, std::memory_order_relaxed);
  try {
    auto made = std::make_shared<Communicator>(device, GroupId(id), rank, size, timeout_ms);
    *communicator = reinterpret_cast<HpCommunicator>(new Handle(std::move(made)));
    return HP_OK;
  } catch (const StatusError& e) {
    return host->fail(e.status, "sim:%d: rank %d of %d: %s", device, rank, size, e.what());
  }
}

HpStatus destroy_communicator(HpCommunicator communicator) {
  delete &handle_of(communicator);
  return HP_OK;
}

HpStatus abort_communicator(HpCommunicator communicator) {
  Group& group = handle_of(communicator)->group;
  group.fail(HP_ERROR, "rank " + std::to_string(group.rank) + " aborted the group");
  return HP_OK;
}

HpStatus all_reduce(HpCommunicator communicator, void* dst, const void* src, size_t count, HpElement element,
                    HpReduction reduction, HpStream stream) {
  return submit_collective(communicator, reduction_signature(CollectiveKind::all_reduce, count, element, reduction),
                           dst, 1, src, 1, stream);
}

HpStatus reduce(HpCommunicator communicator, void* dst, const void* src, size_t count, HpElement element,
                HpReduction reduction, int root, HpStream stream) {
  const bool writes = root == handle_of(communicator)->group.rank;
  return submit_collective(communicator, reduction_signature(CollectiveKind::reduce, count, element, reduction, root),
                           dst, writes ? 1 : 0, src, 1, stream);
}

HpStatus reduce_scatter(HpCommunicator communicator, void* dst, const void* src, size_t count, HpElement element,
                        HpReduction reduction, HpStream stream) {
  const size_t parts = static_cast<size_t>(handle_of(communicator)->group.size);
  return submit_collective(communicator, reduction_signature(CollectiveKind::reduce_scatter, count, element, reduction),
                           dst, 1, src, parts, stream);
}

HpStatus broadcast(HpCommunicator communicator, void* data, size_t bytes, int root, HpStream stream) {
  return submit_collective(communicator, copy_signature(CollectiveKind::broadcast, bytes, root), data, 1, data, 1,
                           stream);
}

HpStatus all_gather(HpCommunicator communicator, void* dst, const void* src, size_t bytes, HpStream stream) {
  const size_t parts = static_cast<size_t>(handle_of(communicator)->group.size);
  return submit_collective(communicator, copy_signature(CollectiveKind::all_gather, bytes), dst, parts, src, 1, stream);
}

HpStatus all_to_all(HpCommunicator communicator, void* dst, const void* src, size_t bytes, HpStream stream) {
  const size_t parts = static_cast<size_t>(handle_of(communicator)->group.size);
  return submit_collective(communicator, copy_signature(CollectiveKind::all_to_all, bytes), dst, parts, src, parts,
                           stream);
}

HpStatus send(HpCommunicator communicator, const void* src, size_t bytes, int peer, HpStream stream) {
  return submit_transfer(communicator, true, nullptr, src, bytes, peer, stream);
}

HpStatus receive(HpCommunicator communicator, void* dst, size_t bytes, int peer, HpStream stream) {
  return submit_transfer(communicator, false, dst, nullptr, bytes, peer, stream);
}

HpStatus group_start(HpCommunicator communicator) {
  Communicator* const c = handle_of(communicator).get();
  if (CallBatch* const open = find_batch(c)) {
    ++open->depth;
  } else {
    open_batches.push_back({c, 1, {}});
  }
  return HP_OK;
}

HpStatus group_end(HpCommunicator communicator) {
  const Handle& handle = handle_of(communicator);
  CallBatch* const open = find_batch(handle.get());
  if (open == nullptr) return host->fail(HP_INVALID_ARGUMENT, "sim:%d: group_end without group_start", handle->device);
  if (--open->depth > 0) return HP_OK;
  std::vector<Call> calls = std::move(open->calls);
  *open = std::move(open_batches.back());
  open_batches.pop_back();
  // One task per stream, ordered by the streams' first calls.
  while (!calls.empty()) {
    Stream* const stream = calls.front().stream;
    const auto others =
        std::stable_partition(calls.begin(), calls.end(), [stream](const Call& call) { return call.stream == stream; });
    queue(handle, stream, {calls.begin(), others});
    calls.erase(calls.begin(), others);
  }
  return HP_OK;
}

}  // namespace sim
