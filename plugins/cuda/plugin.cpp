// The plug-in's tables and its entry point.
#include "hardpoint/plugin.h"

#include <cstdlib>
#include <cstring>
#include <iterator>

#include "attention.h"
#include "compiler.h"
#include "device.h"
#include "driver.h"
#include "graph.h"
#include "host.h"
#include "kernels.h"
#include "memory.h"
#include "stream.h"

namespace nv {

const HpHost* host = nullptr;
std::atomic<bool> allow_tf32{false};

namespace {

HpStatus count(int* number) {
  *number = device_count();
  return HP_OK;
}

const HpStreams streams = {sizeof(HpStreams),  create_stream, destroy_stream,
                           synchronize_stream, query_stream,  call_host};

const HpEvents events = {
    sizeof(HpEvents), create_event,      destroy_event, record_event,
    wait_event,       synchronize_event, query_event,   elapsed_between,
};

const HpInfo info = {sizeof(HpInfo), properties, memory_info};

const HpPinned pinned = {sizeof(HpPinned), allocate_pinned, release_pinned};

const HpPeer peer = {sizeof(HpPeer), copy_to_peer, can_access};

const HpCompiler compiler = {
    sizeof(HpCompiler), "cuda",     kGroupSize, kLocalMemory, fingerprint, compile,
    release_binary,     load,       unload,     find,         launch,      "cubin ptx",
    launch_with,        attributes,
};

// Allows or forbids TF32 for float32 matmuls and convolutions; returns the previous setting.
int set_tf32(int allowed) { return allow_tf32.exchange(allowed != 0); }

// Allows or forbids flash attention; returns the previous setting.
int set_flash(int allowed) { return allow_flash.exchange(allowed != 0); }

HpPrivateFunction private_function(void*, const char* name) {
  if (strcmp(name, "allow_tf32") == 0) return reinterpret_cast<HpPrivateFunction>(&set_tf32);
  if (strcmp(name, "allow_flash") == 0) return reinterpret_cast<HpPrivateFunction>(&set_flash);
  return nullptr;
}

const HpGraphs graphs = {sizeof(HpGraphs), begin_capture, end_capture, launch_graph, destroy_graph};

// The other exported kernels take contiguous tensors.
const HpKernel kernels[] = {
    {"convolution", __tvm_ffi_convolution, HP_KERNEL_CHANNELS_LAST},
    {"convolution_backward_input", __tvm_ffi_convolution_backward_input, HP_KERNEL_CHANNELS_LAST},
    {"convolution_backward_weight", __tvm_ffi_convolution_backward_weight, HP_KERNEL_CHANNELS_LAST},
    {"matmul", __tvm_ffi_matmul, HP_KERNEL_STRIDED},
    {"addmm", __tvm_ffi_addmm, HP_KERNEL_STRIDED},
    {"attention", __tvm_ffi_attention, HP_KERNEL_STRIDED},
    {"attention_backward", __tvm_ffi_attention_backward, HP_KERNEL_STRIDED},
};

const HpPlugin plugin = {
    HP_PLUGIN_HEADER,
    .name = "nv",
    .device_count = count,
    .allocate = allocate,
    .free = release,
    .copy_to_device = copy_to_device,
    .copy_to_host = copy_to_host,
    .copy_on_device = copy_on_device,
    .streams = &streams,
    .events = &events,
    .info = &info,
    .pinned = &pinned,
    .peer = &peer,
    .interprocess = nullptr,
    .compiler = &compiler,
    .kernels = kernels,
    .num_kernels = std::size(kernels),
    .collectives = nullptr,
    .tracing = nullptr,
    .fill_memory = fill_memory,
    .context = nullptr,
    .shutdown = nullptr,
    .private_function = private_function,
    .graphs = &graphs,
};

bool is_set(const char* variable, const char* value) {
  const char* const text = getenv(variable);
  return text && strcmp(text, value) == 0;
}

}  // namespace

}  // namespace nv

extern "C" HP_EXPORT HpStatus hp_plugin_init(const HpHost* host, const HpPlugin** plugin) {
  nv::host = host;
  if (host->abi_major != HP_ABI_MAJOR)
    return host->fail(HP_NOT_SUPPORTED, "nv was built for plug-in ABI %d, this Hardpoint has %u", HP_ABI_MAJOR,
                      host->abi_major);
  if (HpStatus status = nv::open_driver()) return status;
  if (HpStatus status = nv::count_devices()) return status;
  nv::allow_tf32 = nv::is_set("HARDPOINT_TF32", "1");
  nv::allow_flash = !nv::is_set("HARDPOINT_FLASH", "0");
  *plugin = &nv::plugin;
  return HP_OK;
}
