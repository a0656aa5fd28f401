// Entry point: Paddle opens every library in the folder paddle_custom_device and calls InitPlugin once.
#include "callbacks.h"

// Paddle declares the names as char*, although it never writes to them.
static char device_type[] = "custom_cpu";
static char sub_device_type[] = "tutorial";

void InitPlugin(CustomRuntimeParams* params) {
  // The table grows with every minor release of Paddle, and PADDLE_CUSTOM_RUNTIME_CHECK_VERSION fails only if both
  // sizes differ. A different size means a different layout: return without registering a device rather than write past
  // the end of the table.
  if (params->size != sizeof(CustomRuntimeParams) || params->interface->size != sizeof(C_DeviceInterface)) return;
  params->version.major = PADDLE_CUSTOM_RUNTIME_MAJOR_VERSION;
  params->version.minor = PADDLE_CUSTOM_RUNTIME_MINOR_VERSION;
  params->version.patch = PADDLE_CUSTOM_RUNTIME_PATCH_VERSION;
  params->device_type = device_type;
  params->sub_device_type = sub_device_type;

  C_DeviceInterface* table = params->interface;
  using namespace custom_cpu;

  // Devices. Required, except for synchronize_device.
  table->get_device_count = get_device_count;
  table->get_device_list = get_device_list;
  table->set_device = set_device;
  table->get_device = get_device;
  table->synchronize_device = device_is_done;

  // Memory. Allocation is required, and so are copies to and from the host, which Paddle does not check: without them
  // it reads garbage.
  table->device_memory_allocate = allocate;
  table->device_memory_deallocate = deallocate;
  table->memory_copy_h2d = copy;
  table->memory_copy_d2h = copy;
  table->memory_copy_d2d = copy;
  table->memory_copy_p2p = copy_between;
  table->device_memory_stats = memory_stats;
  table->device_min_chunk_size = min_chunk_size;

  // Streams are optional, events are required.
  table->create_stream = create_stream;
  table->destroy_stream = stream_is_done;
  table->query_stream = stream_is_done;
  table->synchronize_stream = stream_is_done;
  table->stream_wait_event = stream_wait_event;
  table->create_event = create_event;
  table->record_event = record_event;
  table->destroy_event = event_is_done;
  table->query_event = event_is_done;
  table->synchronize_event = event_is_done;
}
