#include "runtime/xccl.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/collectives/device_group.h"
#include "runtime/adapter.h"
#include "runtime/status.h"

namespace hp::paddle_adapter {
namespace {

struct PluginState {
  Runtime* runtime = nullptr;
  PinnedAllocator* pinned = nullptr;
};
std::array<PluginState, kMaxRuntimes> plugins;

// The host of "host:port" or "[host]:port"; of a comma-separated list, the first entry's. Empty for a null pointer.
std::string host_of(const char* endpoints) {
  std::string first = endpoints == nullptr ? "" : endpoints;
  first = first.substr(0, first.find(','));
  const std::string host = first.substr(0, first.rfind(':'));
  return host.size() > 2 && host.front() == '[' ? host.substr(1, host.size() - 2) : host;
}

// The address at which other ranks reach this host: as set by Paddle's launcher, else that of the local interface
// towards the master (or the first trainer).
std::string own_address() {
  for (const char* name : {"PADDLE_CURRENT_ENDPOINT", "POD_IP"}) {
    const std::string host = host_of(std::getenv(name));
    if (!host.empty()) return host;
  }
  const char* const master = std::getenv("PADDLE_MASTER");
  return local_address_towards(host_of(master != nullptr ? master : std::getenv("PADDLE_TRAINER_ENDPOINTS")));
}

// In milliseconds. Shorter than the stream timeout, whose message cannot name the missing rank.
uint32_t group_timeout_ms() {
  const uint32_t limit = Runtime::timeout_ms();
  return limit - std::min<uint32_t>(limit / 8, 1000);
}

size_t bytes_of(C_DataType type) {
  switch (type) {
    case BOOL:
    case UINT8:
    case INT8:
      return 1;
    case UINT16:
    case INT16:
    case FLOAT16:
    case BFLOAT16:
      return 2;
    case UINT32:
    case INT32:
    case FLOAT32:
      return 4;
    case UINT64:
    case INT64:
    case FLOAT64:
    case COMPLEX64:
      return 8;
    case COMPLEX128:
      return 16;
    default:
      throw Error(HP_NOT_SUPPORTED,
                  "collectives do not support Paddle's C_DataType " + std::to_string(type) + ": cast the tensor first");
  }
}

// A Paddle reduction in terms of the plug-in contract.
struct Reduction {
  HpElement element;
  HpReduction operation;
  size_t count;
};

Reduction reduction_of(C_DataType type, C_CCLReduceOp op, size_t count) {
  // Indexed by C_CCLReduceOp.
  static constexpr HpReduction operations[] = {HP_SUM, HP_MEAN, HP_MAX, HP_MIN, HP_PRODUCT};
  if (static_cast<size_t>(op) >= std::size(operations)) {
    throw Error(HP_NOT_SUPPORTED,
                "Paddle's C_CCLReduceOp " + std::to_string(op) + " is not one of sum, mean, max, min and product");
  }
  const HpReduction operation = operations[op];
  const bool adds = operation == HP_SUM || operation == HP_MEAN, wraps = operation == HP_SUM || operation == HP_PRODUCT;
  switch (type) {
    case UINT8:
      return {HP_UINT8, operation, count};
    case INT8:
      return {HP_INT8, operation, count};
    case INT16:
      return {HP_INT16, operation, count};
    case INT32:
      return {HP_INT32, operation, count};
    case INT64:
      return {HP_INT64, operation, count};
    case FLOAT16:
      return {HP_FLOAT16, operation, count};
    case BFLOAT16:
      return {HP_BFLOAT16, operation, count};
    case FLOAT32:
      return {HP_FLOAT32, operation, count};
    case FLOAT64:
      return {HP_FLOAT64, operation, count};
    case BOOL:  // sum is "or", product is "and"
      if (operation == HP_MEAN) break;
      return {HP_UINT8, operation == HP_SUM ? HP_MAX : operation == HP_PRODUCT ? HP_MIN : operation, count};
    case UINT16:  // sums and products wrap around: signed and unsigned give the same bits
      if (!wraps) break;
      return {HP_INT16, operation, count};
    case UINT32:
      if (!wraps) break;
      return {HP_INT32, operation, count};
    case UINT64:
      if (!wraps) break;
      return {HP_INT64, operation, count};
    case COMPLEX64:
      if (!adds) break;
      return {HP_FLOAT32, operation, 2 * count};
    case COMPLEX128:
      if (!adds) break;
      return {HP_FLOAT64, operation, 2 * count};
    default:
      break;
  }
  throw Error(HP_NOT_SUPPORTED, std::string("the reduction '") + reduction_name(operation) +
                                    "' does not support Paddle's C_DataType " + std::to_string(type) +
                                    ": cast the tensor first");
}

DeviceGroup& group_at(C_CCLComm comm) { return *reinterpret_cast<DeviceGroup*>(comm); }
Stream& stream_at(C_CCLComm comm, C_Stream stream) {
  return stream == nullptr ? group_at(comm).device.default_stream() : *reinterpret_cast<Stream*>(stream);
}

// ---- Callbacks shared by all plug-ins

// `name` is Paddle's buffer of 128 bytes.
C_Status comm_name(C_CCLComm comm, char* name) {
  const DeviceGroup& group = group_at(comm);
  std::snprintf(name, 128, "hardpoint %s, rank %d of %d, %s", group.device.name().c_str(), group.rank, group.size,
                group.native() ? "by the plug-in" : "through the host");
  return C_SUCCESS;
}

C_Status id_size(size_t* bytes) {
  *bytes = sizeof(DeviceGroup::Id);
  return C_SUCCESS;
}

// Paddle also calls this at process exit: it must not throw.
C_Status destroy(C_CCLComm comm) {
  return run_or_log([&] { delete &group_at(comm); });
}

C_Status all_reduce(void* src, void* dst, size_t count, C_DataType type, C_CCLReduceOp op, C_CCLComm comm,
                    C_Stream stream) {
  return run_or_throw([&] {
    const Reduction reduction = reduction_of(type, op, count);
    group_at(comm).all_reduce(dst, src, reduction.count, reduction.element, reduction.operation,
                              stream_at(comm, stream));
  });
}

C_Status broadcast(void* data, size_t count, C_DataType type, size_t root, C_CCLComm comm, C_Stream stream) {
  return run_or_throw(
      [&] { group_at(comm).broadcast(data, count * bytes_of(type), static_cast<int>(root), stream_at(comm, stream)); });
}

C_Status reduce(void* src, void* dst, size_t count, C_DataType type, C_CCLReduceOp op, size_t root, C_CCLComm comm,
                C_Stream stream) {
  return run_or_throw([&] {
    const Reduction reduction = reduction_of(type, op, count);
    group_at(comm).reduce(dst, src, reduction.count, reduction.element, reduction.operation, static_cast<int>(root),
                          stream_at(comm, stream));
  });
}

C_Status all_gather(void* src, void* dst, size_t count, C_DataType type, C_CCLComm comm, C_Stream stream) {
  return run_or_throw([&] { group_at(comm).all_gather(dst, src, count * bytes_of(type), stream_at(comm, stream)); });
}

C_Status reduce_scatter(void* src, void* dst, size_t count, C_DataType type, C_CCLReduceOp op, C_CCLComm comm,
                        C_Stream stream) {
  return run_or_throw([&] {
    const Reduction reduction = reduction_of(type, op, count);
    group_at(comm).reduce_scatter(dst, src, reduction.count, reduction.element, reduction.operation,
                                  stream_at(comm, stream));
  });
}

C_Status group_start() {
  DeviceGroup::start_calls();
  return C_SUCCESS;
}

C_Status group_end() {
  return run_or_throw([] { DeviceGroup::end_calls(); });
}

C_Status send(void* src, size_t count, C_DataType type, size_t peer, C_CCLComm comm, C_Stream stream) {
  return run_or_throw(
      [&] { group_at(comm).send(src, count * bytes_of(type), static_cast<int>(peer), stream_at(comm, stream)); });
}

C_Status receive(void* dst, size_t count, C_DataType type, size_t peer, C_CCLComm comm, C_Stream stream) {
  return run_or_throw(
      [&] { group_at(comm).receive(dst, count * bytes_of(type), static_cast<int>(peer), stream_at(comm, stream)); });
}

C_Status all_to_all(const void** src, const size_t* src_counts, const C_DataType* src_types, void** dst,
                    const size_t* dst_counts, const C_DataType* dst_types, size_t, size_t size, C_CCLComm comm,
                    C_Stream stream) {
  return run_or_throw([&] {
    std::vector<DeviceGroup::PeerBuffer> sent(size), received(size);
    for (size_t peer = 0; peer < size; ++peer) {
      sent[peer] = {const_cast<void*>(src[peer]), src_counts[peer] * bytes_of(src_types[peer])};
      received[peer] = {dst[peer], dst_counts[peer] * bytes_of(dst_types[peer])};
    }
    group_at(comm).all_to_all(sent, received, stream_at(comm, stream));
  });
}

// ---- Callbacks per plug-in

template <int kSlot>
struct Groups {
  static C_Status new_id(C_CCLRootId* id) {
    return run_or_throw([&] {
      const auto group_id = DeviceGroup::new_id(*plugins[kSlot].runtime->plugin, own_address());
      std::memcpy(id->data, &group_id, sizeof(group_id));
    });
  }
  // The group is on this thread's current device. Paddle owns the handle and frees it with xccl_destroy_comm.
  static C_Status create(size_t size, C_CCLRootId* root_id, size_t rank, C_CCLComm* comm) {
    return run_or_throw([&] {
      DeviceGroup::Id id;
      if (root_id->sz != sizeof(id)) {
        throw Error(HP_INVALID_ARGUMENT, "expected a group id of " + std::to_string(sizeof(id)) + " bytes, got " +
                                             std::to_string(root_id->sz) + ": create it on a Hardpoint device");
      }
      std::memcpy(&id, root_id->data, sizeof(id));
      const PluginState& plugin = plugins[kSlot];
      Device& device = plugin.runtime->device(current_device(*plugin.runtime));
      auto* group = new DeviceGroup(device, *plugin.pinned, id, static_cast<int>(rank), static_cast<int>(size),
                                    own_address(), group_timeout_ms());
      *comm = reinterpret_cast<C_CCLComm>(group);
    });
  }
  static void fill(C_DeviceInterface& table) {
    table.xccl_get_unique_id = new_id;
    table.xccl_comm_init_rank = create;
  }
};

}  // namespace

void fill_xccl(C_DeviceInterface& table, Runtime& runtime, PinnedAllocator& pinned) {
  plugins[runtime.slot] = {&runtime, &pinned};
  fill_callbacks<Groups>(runtime.slot, table);
  table.xccl_get_comm_name = comm_name;
  table.xccl_get_unique_id_size = id_size;
  table.xccl_destroy_comm = destroy;
  table.xccl_all_reduce = all_reduce;
  table.xccl_broadcast = broadcast;
  table.xccl_reduce = reduce;
  table.xccl_all_gather = all_gather;
  table.xccl_reduce_scatter = reduce_scatter;
  table.xccl_group_start = group_start;
  table.xccl_group_end = group_end;
  table.xccl_send = send;
  table.xccl_recv = receive;
  table.xccl_all_to_all = all_to_all;
}

}  // namespace hp::paddle_adapter
