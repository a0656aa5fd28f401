// The plug-in's tables and its entry point.
#include "hardpoint/plugin.h"

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

const HpStreams streams = {sizeof(HpStreams), create_stream, destroy_stream, synchronize_stream, query_stream};

const HpEvents events = {
    sizeof(HpEvents), create_event,      destroy_event, record_event,
    wait_event,       synchronize_event, query_event,   elapsed_between,
};

const HpInfo info = {sizeof(HpInfo), properties, memory_info};

const HpPeer peer = {sizeof(HpPeer), copy_to_peer};

// hp_plugin_init fills in group_size and local_memory from the devices found.
HpCompiler compiler = {
    sizeof(HpCompiler), "opencl", 0, 0, fingerprint, compile, release_binary, load, unload, find, launch,
};

HpPlugin plugin = {
    HP_PLUGIN_HEADER,    .name = "ocl",           .device_count = count, .allocate = allocate,
    .free = release,     .copy_to_device = copy,  .copy_to_host = copy,  .copy_on_device = copy,
    .streams = &streams, .events = &events,       .info = &info,         .pinned = nullptr,
    .peer = nullptr,     .interprocess = nullptr, .compiler = &compiler, .kernels = nullptr,
    .num_kernels = 0,    .collectives = nullptr,
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
  ocl::compiler.group_size = ocl::group_size();
  ocl::compiler.local_memory = ocl::local_memory();
  if (ocl::share_one_context()) ocl::plugin.peer = &ocl::peer;
  *plugin = &ocl::plugin;
  return HP_OK;
} catch (const std::exception& error) {
  return host->fail(HP_ERROR, "ocl: %s", error.what());
}
