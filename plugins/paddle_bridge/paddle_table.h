// The part of Paddle's callback table that is common to all releases, so the bridge builds without Paddle. Layout and
// names follow paddle/phi/backends/device_ext.h in Paddle 2.6 to 3.3. Fields after get_compute_capability differ
// between releases and are not used. tests/paddle/test_classic.py checks every offset against the installed header.
#pragma once

#include <cstddef>

namespace paddle {

enum Status : int { kSuccess = 0, kWarning, kFailed, kError, kInternalError };

struct DeviceNumber {
  int id;
};
using Device = DeviceNumber*;
using Stream = struct StreamHandle*;
using Event = struct EventHandle*;

struct Interface {
  std::size_t size;  // of the host's table; plug-ins reject a size other than their own

  Status (*initialize)();
  Status (*finalize)();
  Status (*init_device)(Device);  // may replace the logical device number with a physical one
  Status (*set_device)(Device);
  Status (*get_device)(Device);
  Status (*deinit_device)(Device);
  Status (*create_stream)(Device, Stream*);
  Status (*destroy_stream)(Device, Stream);
  Status (*query_stream)(Device, Stream);
  Status (*stream_add_callback)(Device, Stream, void* callback, void* user_data);
  Status (*create_event)(Device, Event*);
  Status (*record_event)(Device, Stream, Event);
  Status (*destroy_event)(Device, Event);
  Status (*query_event)(Device, Event);
  Status (*synchronize_device)(Device);
  Status (*synchronize_stream)(Device, Stream);
  Status (*synchronize_event)(Device, Event);
  Status (*stream_wait_event)(Device, Stream, Event);
  void* reserved_dev_api[8];

  Status (*device_memory_allocate)(Device, void** ptr, std::size_t size);
  Status (*device_memory_deallocate)(Device, void* ptr, std::size_t size);
  Status (*device_memory_set)(Device, void* ptr, unsigned char value, std::size_t size);
  Status (*host_memory_allocate)(Device, void** ptr, std::size_t size);
  Status (*host_memory_deallocate)(Device, void* ptr, std::size_t size);
  Status (*unified_memory_allocate)(Device, void** ptr, std::size_t size);
  Status (*unified_memory_deallocate)(Device, void* ptr, std::size_t size);
  Status (*memory_copy_h2d)(Device, void* dst, const void* src, std::size_t size);
  Status (*memory_copy_d2h)(Device, void* dst, const void* src, std::size_t size);
  Status (*memory_copy_d2d)(Device, void* dst, const void* src, std::size_t size);
  Status (*memory_copy_p2p)(Device dst_device, Device src_device, void* dst, const void* src, std::size_t size);
  Status (*async_memory_copy_h2d)(Device, Stream, void* dst, const void* src, std::size_t size);
  Status (*async_memory_copy_d2h)(Device, Stream, void* dst, const void* src, std::size_t size);
  Status (*async_memory_copy_d2d)(Device, Stream, void* dst, const void* src, std::size_t size);
  Status (*async_memory_copy_p2p)(Device dst_device, Device src_device, Stream, void* dst, const void* src,
                                  std::size_t size);
  void* reserved_mem_api[8];

  Status (*get_device_count)(std::size_t* count);
  Status (*get_device_list)(std::size_t* devices);
  Status (*device_memory_stats)(Device, std::size_t* total, std::size_t* free);
  Status (*device_min_chunk_size)(Device, std::size_t* size);
  Status (*device_max_chunk_size)(Device, std::size_t* size);
  Status (*device_max_alloc_size)(Device, std::size_t* size);
  Status (*device_extra_padding_size)(Device, std::size_t* size);
  Status (*device_init_alloc_size)(Device, std::size_t* size);
  Status (*device_realloc_size)(Device, std::size_t* size);
  Status (*get_compute_capability)(Device, std::size_t* capability);
};

// Argument of InitPlugin. The plug-in fills in all fields except the two sizes.
struct Params {
  std::size_t size;
  Interface* interface;
  std::size_t version[3];
  char* device_type;
  char* sub_device_type;
};

using InitPlugin = void (*)(Params*);

}  // namespace paddle
