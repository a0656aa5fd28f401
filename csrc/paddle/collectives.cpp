#include "collectives.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "../core/device_group.h"
#include "status.h"

namespace hp::paddle_adapter {
namespace {

struct Place {
  Runtime* runtime = nullptr;
  PinnedAllocator* pinned = nullptr;
};
std::array<Place, kMaxRuntimes> places;

// "host" of "host:port", "[host]:port" or a list of such.
std::string host_of(const char* endpoints) {
  std::string first = endpoints == nullptr ? "" : endpoints;
  first = first.substr(0, first.find(','));
  const std::string host = first.substr(0, first.rfind(':'));
  return host.size() > 2 && host.front() == '[' ? host.substr(1, host.size() - 2) : host;
}

// The launcher says where the others reach this host; else it is the way to the process that they all know.
std::string own_address() {
  for (const char* name : {"PADDLE_CURRENT_ENDPOINT", "POD_IP"}) {
    const std::string given = host_of(std::getenv(name));
    if (!given.empty()) return given;
  }
  const char* const master = std::getenv("PADDLE_MASTER");
  return address_towards(host_of(master != nullptr ? master : std::getenv("PADDLE_TRAINER_ENDPOINTS")));
}

// Before waits for the stream end, whose message cannot name the rank that is missing.
uint32_t time_limit() {
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
      throw Error(HP_NOT_SUPPORTED, "collectives of Paddle's data type " + std::to_string(type) + " are not known");
  }
}

// What a reduction of Paddle's is among those of the contract.
struct Reduction {
  HpElement element;
  HpReduction operation;
  size_t count;
};

Reduction reduction_of(C_DataType type, C_CCLReduceOp op, size_t count) {
  static constexpr HpReduction operations[] = {HP_SUM, HP_MEAN, HP_MAX, HP_MIN, HP_PRODUCT};  // in Paddle's order
  if (static_cast<size_t>(op) >= std::size(operations)) {
    throw Error(HP_NOT_SUPPORTED, "Paddle's reduction " + std::to_string(op) + " is not known");
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
    case BOOL:  // a sum of truths is "or", a product "and"
      if (operation == HP_MEAN) break;
      return {HP_UINT8, operation == HP_SUM ? HP_MAX : operation == HP_PRODUCT ? HP_MIN : operation, count};
    case UINT16:  // what wraps around has the same bits with a sign as without
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
                                    "' of Paddle's data type " + std::to_string(type) + " is not possible");
}

DeviceGroup& group_at(C_CCLComm comm) { return *reinterpret_cast<DeviceGroup*>(comm); }
Stream& stream_at(C_CCLComm comm, C_Stream stream) {
  return stream == nullptr ? group_at(comm).device.default_stream() : *reinterpret_cast<Stream*>(stream);
}

// ---- What does not depend on the plug-in

// Paddle's buffer has 128 bytes.
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

// Paddle calls it when the process ends, too: nothing may be thrown.
C_Status destroy(C_CCLComm comm) {
  return guarded([&] { delete &group_at(comm); });
}

C_Status all_reduce(void* src, void* dst, size_t count, C_DataType type, C_CCLReduceOp op, C_CCLComm comm,
                    C_Stream stream) {
  return checked([&] {
    const Reduction of = reduction_of(type, op, count);
    group_at(comm).all_reduce(dst, src, of.count, of.element, of.operation, stream_at(comm, stream));
  });
}

C_Status broadcast(void* data, size_t count, C_DataType type, size_t root, C_CCLComm comm, C_Stream stream) {
  return checked(
      [&] { group_at(comm).broadcast(data, count * bytes_of(type), static_cast<int>(root), stream_at(comm, stream)); });
}

C_Status reduce(void* src, void* dst, size_t count, C_DataType type, C_CCLReduceOp op, size_t root, C_CCLComm comm,
                C_Stream stream) {
  return checked([&] {
    const Reduction of = reduction_of(type, op, count);
    group_at(comm).reduce(dst, src, of.count, of.element, of.operation, static_cast<int>(root),
                          stream_at(comm, stream));
  });
}

C_Status all_gather(void* src, void* dst, size_t count, C_DataType type, C_CCLComm comm, C_Stream stream) {
  return checked([&] { group_at(comm).all_gather(dst, src, count * bytes_of(type), stream_at(comm, stream)); });
}

C_Status reduce_scatter(void* src, void* dst, size_t count, C_DataType type, C_CCLReduceOp op, C_CCLComm comm,
                        C_Stream stream) {
  return checked([&] {
    const Reduction of = reduction_of(type, op, count);
    group_at(comm).reduce_scatter(dst, src, of.count, of.element, of.operation, stream_at(comm, stream));
  });
}

C_Status group_start() {
  DeviceGroup::start_calls();
  return C_SUCCESS;
}

C_Status group_end() {
  return checked([] { DeviceGroup::end_calls(); });
}

C_Status send(void* src, size_t count, C_DataType type, size_t peer, C_CCLComm comm, C_Stream stream) {
  return checked(
      [&] { group_at(comm).send(src, count * bytes_of(type), static_cast<int>(peer), stream_at(comm, stream)); });
}

C_Status receive(void* dst, size_t count, C_DataType type, size_t peer, C_CCLComm comm, C_Stream stream) {
  return checked(
      [&] { group_at(comm).receive(dst, count * bytes_of(type), static_cast<int>(peer), stream_at(comm, stream)); });
}

C_Status all_to_all(const void** src, const size_t* src_counts, const C_DataType* src_types, void** dst,
                    const size_t* dst_counts, const C_DataType* dst_types, size_t, size_t size, C_CCLComm comm,
                    C_Stream stream) {
  return checked([&] {
    std::vector<DeviceGroup::Part> sent(size), received(size);
    for (size_t peer = 0; peer < size; ++peer) {
      sent[peer] = {const_cast<void*>(src[peer]), src_counts[peer] * bytes_of(src_types[peer])};
      received[peer] = {dst[peer], dst_counts[peer] * bytes_of(dst_types[peer])};
    }
    group_at(comm).all_to_all(sent, received, stream_at(comm, stream));
  });
}

// ---- What does: these have no argument for data of ours, so there is one set for each plug-in

template <int kSlot>
struct Groups {
  static C_Status new_id(C_CCLRootId* id) {
    return checked([&] {
      const auto made = DeviceGroup::new_id(*places[kSlot].runtime->plugin, own_address());
      std::memcpy(id->data, &made, sizeof(made));
    });
  }
  // On this thread's current device.
  static C_Status create(size_t size, C_CCLRootId* given, size_t rank, C_CCLComm* comm) {
    return checked([&] {
      DeviceGroup::Id id;
      if (given->sz != sizeof(id)) throw Error(HP_INVALID_ARGUMENT, "the id of a group is not one of Hardpoint's");
      std::memcpy(&id, given->data, sizeof(id));
      const Place& place = places[kSlot];
      Device& device = place.runtime->device(current_device(*place.runtime));
      auto* group = new DeviceGroup(device, *place.pinned, id, static_cast<int>(rank), static_cast<int>(size),
                                    own_address(), time_limit());
      *comm = reinterpret_cast<C_CCLComm>(group);
    });
  }
  static void fill(C_DeviceInterface& table) {
    table.xccl_get_unique_id = new_id;
    table.xccl_comm_init_rank = create;
  }
};

template <int... kSlots>
constexpr auto all_fillers(std::integer_sequence<int, kSlots...>) {
  return std::array<void (*)(C_DeviceInterface&), sizeof...(kSlots)>{&Groups<kSlots>::fill...};
}

}  // namespace

void fill_collectives(C_DeviceInterface& table, Runtime& runtime, PinnedAllocator& pinned) {
  places[runtime.slot] = {&runtime, &pinned};
  static constexpr auto fillers = all_fillers(std::make_integer_sequence<int, kMaxRuntimes>{});
  fillers[runtime.slot](table);
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
