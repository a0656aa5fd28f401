// The plug-in's tables and its entry point.
#include "hardpoint/plugin.h"

#include <algorithm>

#include "cl.h"
#include "compiler.h"
#include "device.h"
#include "host.h"
#include "memory.h"
#include "stream.h"

namespace ocl {

const HpHost* host = nullptr;

namespace {

HpStatus count(int* number) {
  *number = device_count();
  return HP_OK;
}

const HpStreams streams = {sizeof(HpStreams), create_stream, destroy_stream, synchronize_stream, query_stream, nullptr};

const HpEvents events = {
    sizeof(HpEvents), create_event,      destroy_event, record_event,
    wait_event,       synchronize_event, query_event,   elapsed_between,
};

const HpInfo info = {sizeof(HpInfo), properties, memory_info};

const HpPeer peer = {sizeof(HpPeer), copy_to_peer, nullptr};

// For hosts before 1.2, hp_plugin_init fills in a group_size and local_memory that suit all devices; `properties` has
// each device's own.
HpCompiler compiler = {
    sizeof(HpCompiler),
    "opencl",
    0,
    0,
    fingerprint,
    compile,
    release_binary,
    load,
    unload,
    find,
    launch,
    nullptr,
    nullptr,
    nullptr,
};

HpPlugin plugin = {
    HP_PLUGIN_HEADER,
    .name = "ocl",
    .device_count = count,
    .allocate = allocate,
    .free = release,
    .copy_to_device = copy,
    .copy_to_host = copy,
    .copy_on_device = copy,
    .streams = &streams,
    .events = &events,
    .info = &info,
    .pinned = nullptr,
    .peer = nullptr,
    .interprocess = nullptr,
    .compiler = &compiler,
    .kernels = nullptr,
    .num_kernels = 0,
    .collectives = nullptr,
    .tracing = nullptr,
    .fill_memory = nullptr,
    .context = nullptr,
    .shutdown = nullptr,
    .private_function = nullptr,
    .graphs = nullptr,
};

}  // namespace

}  // namespace ocl

extern "C" HP_EXPORT HpStatus hp_plugin_init(const HpHost* host, const HpPlugin** plugin) try {
  ocl::host = host;
  if (host->abi_major != HP_ABI_MAJOR)
    return host->fail(HP_NOT_SUPPORTED, "ocl was built for plug-in ABI %d, this Hardpoint has %u", HP_ABI_MAJOR,
                      host->abi_major);
  if (HpStatus status = ocl::open_library()) return status;
  if (HpStatus status = ocl::find_devices()) return status;
  ocl::compiler.group_size = ocl::compiler.local_memory = UINT32_MAX;
  for (int i = 0; i < ocl::device_count(); ++i) {
    ocl::Device* device = nullptr;
    if (HpStatus status = ocl::find_device(i, &device)) return status;
    ocl::compiler.group_size = std::min(ocl::compiler.group_size, ocl::group_size(*device));
    ocl::compiler.local_memory = std::min(ocl::compiler.local_memory, ocl::local_memory(*device));
  }
  if (ocl::share_one_context()) ocl::plugin.peer = &ocl::peer;
  *plugin = &ocl::plugin;
  return HP_OK;
} catch (const std::exception& error) {
  return host->fail(HP_ERROR, "ocl: %s", error.what());
}
