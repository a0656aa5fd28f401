// The plug-in's tables and its entry point.
#include "hardpoint/plugin.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "collectives/communicator.h"
#include "compiler/c_compiler.h"
#include "compiler/compiler.h"
#include "config.h"
#include "host.h"
#include "kernels/kernels.h"
#include "memory/access_fault.h"
#include "memory/copy.h"
#include "memory/device_memory.h"
#include "runtime/event.h"
#include "runtime/fault_injection.h"
#include "runtime/graph.h"
#include "runtime/stream.h"
#include "runtime/thread_pool.h"
#include "runtime/trace.h"

namespace sim {

namespace {

HpStatus device_count(int* count) {
  *count = config.devices;
  return HP_OK;
}

HpStatus properties(int device, HpProperties* properties) {
  if (!valid_device(device)) return no_such_device(device);
  HpProperties filled = {};
  snprintf(filled.name, sizeof filled.name, "Hardpoint simulated accelerator");
  filled.total_memory = config.memory;
  filled.compute_units = static_cast<int32_t>(sysconf(_SC_NPROCESSORS_ONLN));
  filled.version_major = 1;
  // Equal in all processes of the machine, different for each device.
  snprintf(reinterpret_cast<char*>(filled.uuid), sizeof filled.uuid, "hardpoint-sim%02d", device % 100);
  filled.max_allocation = config.memory;
  filled.native_elements = 1u << HP_UINT8 | 1u << HP_INT8 | 1u << HP_INT16 | 1u << HP_INT32 | 1u << HP_INT64 |
                           1u << HP_FLOAT32 | 1u << HP_FLOAT64;
  filled.cache_bytes = static_cast<uint64_t>(std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), 0l));
  filled.simd_width = filled.group_size = filled.max_group_size = 1;
  filled.local_memory = filled.max_local_memory = kLocalMemory;
  filled.struct_size = properties->struct_size;
  memcpy(properties, &filled, std::min(filled.struct_size, sizeof filled));
  return HP_OK;
}

const HpStreams streams = {
    sizeof(HpStreams),           guarded<create_stream>, guarded_release<destroy_stream>,
    guarded<synchronize_stream>, guarded<query_stream>,  guarded<call_host>,
};

const HpEvents events = {
    sizeof(HpEvents),    guarded<create_event>,      guarded_release<destroy_event>, guarded<record_event>,
    guarded<wait_event>, guarded<synchronize_event>, guarded<query_event>,           guarded<elapsed_between>,
};

const HpInfo info = {sizeof(HpInfo), guarded<properties>, guarded<memory_info>};

const HpPinned pinned = {sizeof(HpPinned), guarded<allocate_pinned>, guarded_release<release_pinned>};

HpStatus can_access(int dst_device, int src_device, int* yes) {
  if (!valid_device(dst_device)) return no_such_device(dst_device);
  if (!valid_device(src_device)) return no_such_device(src_device);
  *yes = 1;
  return HP_OK;
}

const HpPeer peer = {sizeof(HpPeer), guarded<copy_to_peer>, guarded<can_access>};

const HpInterprocess interprocess = {sizeof(HpInterprocess), guarded<export_memory>, guarded<open_memory>,
                                     guarded_release<close_memory>};

const HpCompiler compiler = {
    sizeof(HpCompiler),
    "c",
    1,
    kLocalMemory,
    fingerprint,
    guarded<compile>,
    release_binary,
    guarded<load>,
    guarded_release<unload>,
    guarded<find>,
    guarded<launch>,
    nullptr,
    guarded<launch_with>,
    guarded<attributes>,
};

const HpCollectives collectives = {
    sizeof(HpCollectives),
    guarded<group_id>,
    guarded<can_join>,
    guarded<create_communicator>,
    guarded_release<destroy_communicator>,
    guarded_release<abort_communicator>,
    guarded<all_reduce>,
    guarded<broadcast>,
    guarded<reduce>,
    guarded<all_gather>,
    guarded<reduce_scatter>,
    guarded<all_to_all>,
    guarded<send>,
    guarded<receive>,
    guarded<group_start>,
    guarded<group_end>,
};

// Send and receive only: Hardpoint builds the other collectives on them, except reductions.
const HpCollectives pairs = [] {
  HpCollectives table = collectives;
  table.all_reduce = nullptr;
  table.broadcast = nullptr;
  table.reduce = nullptr;
  table.all_gather = nullptr;
  table.reduce_scatter = nullptr;
  table.all_to_all = nullptr;
  return table;
}();

const HpTracing tracing_table = {sizeof(HpTracing), guarded<start_tracing>, guarded_release<stop_tracing>};

// For tests: replaces the injected faults at run time. Returns 0, or -1 with the reason in host->fail.
int set_fault(const char* specification) { return guarded<set_faults>(specification) == HP_OK ? 0 : -1; }

HpPrivateFunction private_function(void*, const char* name) {
  return strcmp(name, "set_fault") == 0 ? reinterpret_cast<HpPrivateFunction>(&set_fault) : nullptr;
}

const HpGraphs graphs = {
    sizeof(HpGraphs),      guarded<begin_capture>,         guarded<end_capture>,
    guarded<launch_graph>, guarded_release<destroy_graph>,
};

const HpKernel kernels[] = {
    {"add", __tvm_ffi_add, HP_KERNEL_STRIDED},   {"mul", __tvm_ffi_mul, HP_KERNEL_STRIDED},
    {"relu", __tvm_ffi_relu, HP_KERNEL_STRIDED}, {"fill", __tvm_ffi_fill, HP_KERNEL_STRIDED},
    {"copy", __tvm_ffi_copy, HP_KERNEL_STRIDED}, {"matmul", __tvm_ffi_matmul, HP_KERNEL_STRIDED},
};

HpPlugin plugin = {
    HP_PLUGIN_HEADER,
    .name = "sim",
    .device_count = device_count,
    .allocate = guarded<allocate>,
    .free = guarded_release<release>,
    .copy_to_device = guarded<copy_to_device>,
    .copy_to_host = guarded<copy_to_host>,
    .copy_on_device = guarded<copy_on_device>,
    .streams = &streams,
    .events = &events,
    .info = &info,
    .pinned = &pinned,
    .peer = &peer,
    .interprocess = &interprocess,
    .compiler = &compiler,
    .kernels = kernels,
    .num_kernels = std::size(kernels),
    .collectives = &collectives,
    .tracing = &tracing_table,
    .fill_memory = guarded<fill_memory>,
    .context = nullptr,
    .shutdown = nullptr,
    .private_function = private_function,
    .graphs = &graphs,
};

HpStatus open() {
  if (HpStatus status = read_config()) return status;
  if (HpStatus status = set_faults(getenv("HARDPOINT_SIM_FAULT"))) return status;
  if (HpStatus status = reserve_memory()) return status;
  if (config.collectives == Collectives::none) plugin.collectives = nullptr;
  if (config.collectives == Collectives::pairs) plugin.collectives = &pairs;
  if (!config.tracing) plugin.tracing = nullptr;
  if (!config.graphs) plugin.graphs = nullptr;
  find_c_compiler();
  create_thread_pool();
  create_default_streams();
  install_fork_handler();
  install_access_fault_handler();
  return HP_OK;
}

}  // namespace

}  // namespace sim

extern "C" HP_EXPORT HpStatus hp_plugin_init(const HpHost* host, const HpPlugin** plugin) {
  sim::host = host;
  if (host->abi_major != HP_ABI_MAJOR)
    return host->fail(HP_NOT_SUPPORTED, "sim was built for plug-in ABI %d, this Hardpoint has %u", HP_ABI_MAJOR,
                      host->abi_major);
  if (HpStatus status = sim::guarded<sim::open>()) return status;
  *plugin = &sim::plugin;
  return HP_OK;
}
