// Callbacks in the table that plugin.cpp fills.
//
// Paddle passes a device as a pointer to its index. Each callback returns C_SUCCESS, C_FAILED if a resource is
// exhausted, or C_ERROR for an invalid argument.
#pragma once

#include "paddle/phi/backends/device_ext.h"

namespace custom_cpu {

// device.cpp
C_Status get_device_count(size_t* count);
C_Status get_device_list(size_t* devices);
C_Status set_device(const C_Device device);
C_Status get_device(const C_Device device);

// memory.cpp
C_Status allocate(const C_Device device, void** ptr, size_t size);
C_Status deallocate(const C_Device device, void* ptr, size_t size);
C_Status copy(const C_Device device, void* dst, const void* src, size_t size);
C_Status copy_between(const C_Device dst_device, const C_Device src_device, void* dst, const void* src, size_t size);
C_Status memory_stats(const C_Device device, size_t* total, size_t* free);
C_Status min_chunk_size(const C_Device device, size_t* size);

// stream.cpp
C_Status create_stream(const C_Device device, C_Stream* stream);
C_Status create_event(const C_Device device, C_Event* event);
C_Status record_event(const C_Device device, C_Stream stream, C_Event event);
C_Status stream_wait_event(const C_Device device, C_Stream stream, C_Event event);
C_Status stream_is_done(const C_Device device, C_Stream stream);
C_Status event_is_done(const C_Device device, C_Event event);
C_Status device_is_done(const C_Device device);

}  // namespace custom_cpu
