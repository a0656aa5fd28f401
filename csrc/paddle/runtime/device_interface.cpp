// Paddle's device callback table (C_DeviceInterface), implemented with core's devices, streams, events and memory.
//
// Memory comes from core's caching allocator even though Paddle has its own cache on top: torch and Paddle then share
// one pool per device, and each can reuse the other's cached memory before running out. Paddle frees memory without
// naming a stream, so a freed block is reused only after the work now queued on all of Paddle's streams.
#include <paddle/phi/backends/device_ext.h>

#include <mutex>
#include <unordered_map>

#include "core/collectives/device_group.h"
#include "core/memory/allocator.h"
#include "core/memory/pinned_allocator.h"
#include "runtime/adapter.h"
#include "runtime/graphs.h"
#include "runtime/profiler.h"
#include "runtime/status.h"
#include "runtime/xccl.h"

namespace hp::paddle_adapter {
namespace {

// State of one plug-in mounted on Paddle. Never destroyed: Paddle frees memory until the process exits.
struct Mounted {
  explicit Mounted(Runtime& runtime)
      : runtime(runtime), pinned(runtime), name(runtime.name()), streams(runtime.device_count()) {}

  Runtime& runtime;
  PinnedAllocator pinned;
  std::string name;
  std::mutex mutex;  // guards the fields below
  std::unordered_map<const void*, Block*> blocks;
  std::vector<std::vector<Stream*>> streams;  // streams handed to Paddle, by device

  std::vector<Stream*> streams_of(int device) {
    std::lock_guard<std::mutex> lock(mutex);
    return streams[device];
  }
};
std::array<Mounted*, kMaxRuntimes> mounted{};

template <int kSlot>
struct Callbacks {
  static Mounted& self() { return *mounted[kSlot]; }
  static Device& at(const C_Device device) { return self().runtime.device(device->id); }
  // Null is the default stream.
  static Stream& stream_at(const C_Device device, C_Stream stream) {
    return stream == nullptr ? at(device).default_stream() : *reinterpret_cast<Stream*>(stream);
  }
  static Event& event_at(C_Event event) { return *reinterpret_cast<Event*>(event); }

  // ---- Devices

  static C_Status do_nothing() { return C_SUCCESS; }
  static C_Status init_device(const C_Device) { return C_SUCCESS; }
  static C_Status set_device(const C_Device device) {
    return run_or_log([&] { set_current_device(self().runtime, device->id); });
  }
  static C_Status get_device(const C_Device device) {
    device->id = current_device(self().runtime);
    return C_SUCCESS;
  }
  static C_Status count(size_t* count) {
    *count = static_cast<size_t>(self().runtime.device_count());
    return C_SUCCESS;
  }
  static C_Status list(size_t* devices) {
    for (int i = 0; i < self().runtime.device_count(); ++i) devices[i] = static_cast<size_t>(i);
    return C_SUCCESS;
  }
  static C_Status synchronize(const C_Device device) {
    return run_or_throw([&] { at(device).synchronize(); });
  }

  // ---- Streams and events

  // Paddle's first stream is the device's default stream, which orders its work with torch's.
  static C_Status create_stream(const C_Device device, C_Stream* stream) {
    return run_or_log([&] {
      Mounted& mounted = self();
      bool first;
      {
        std::lock_guard<std::mutex> lock(mounted.mutex);
        first = mounted.streams[device->id].empty();
        if (first) mounted.streams[device->id].push_back(&at(device).default_stream());
      }
      if (first) {
        *stream = reinterpret_cast<C_Stream>(&at(device).default_stream());
        return;
      }
      Stream& pooled = at(device).pool_stream(0);
      *stream = reinterpret_cast<C_Stream>(&pooled);
      std::lock_guard<std::mutex> lock(mounted.mutex);
      auto& known = mounted.streams[device->id];
      if (std::find(known.begin(), known.end(), &pooled) == known.end()) known.push_back(&pooled);
    });
  }
  static C_Status destroy_stream(const C_Device, C_Stream) { return C_SUCCESS; }  // core never destroys streams
  static C_Status query_stream(const C_Device device, C_Stream stream) {
    bool done = false;
    const C_Status status = run_or_log([&] { done = stream_at(device, stream).query(); });
    return status != C_SUCCESS ? status : done ? C_SUCCESS : C_FAILED;
  }
  static C_Status synchronize_stream(const C_Device device, C_Stream stream) {
    return run_or_throw([&] {
      stream_at(device, stream).synchronize();
      DeviceGroup::check_failures(at(device));
    });
  }
  static C_Status add_callback(const C_Device device, C_Stream stream, C_Callback callback, void* data) {
    struct Call {
      C_Device_st device;
      C_Stream stream;
      C_Callback callback;
      void* data;
    };
    return run_or_log([&] {
      stream_at(device, stream)
          .call_host(
              [](void* given) {
                const std::unique_ptr<Call> call(static_cast<Call*>(given));
                C_Status status = C_SUCCESS;
                call->callback(&call->device, call->stream, call->data, &status);
              },
              new Call{*device, stream, callback, data});
    });
  }
  static C_Status create_event(const C_Device device, C_Event* event) {
    return run_or_log([&] { *event = reinterpret_cast<C_Event>(at(device).acquire_event(false)); });
  }
  static C_Status destroy_event(const C_Device device, C_Event event) {
    at(device).release_event(&event_at(event));
    return C_SUCCESS;
  }
  static C_Status record_event(const C_Device device, C_Stream stream, C_Event event) {
    return run_or_log([&] { event_at(event).record(stream_at(device, stream)); });
  }
  static C_Status query_event(const C_Device, C_Event event) {
    bool done = false;
    const C_Status status = run_or_log([&] { done = event_at(event).query(); });
    return status != C_SUCCESS ? status : done ? C_SUCCESS : C_FAILED;
  }
  static C_Status synchronize_event(const C_Device, C_Event event) {
    return run_or_throw([&] {
      event_at(event).synchronize();
      DeviceGroup::check_failures(event_at(event).device);
    });
  }
  static C_Status wait_event(const C_Device device, C_Stream stream, C_Event event) {
    return run_or_log([&] { event_at(event).block(stream_at(device, stream)); });
  }

  // ---- Memory

  static C_Status allocate(const C_Device device, void** ptr, size_t bytes) {
    return run_or_log([&] {
      Device& target = at(device);
      *ptr = nullptr;
      Block* block = nullptr;
      try {
        block = target.allocator().allocate(std::max<size_t>(bytes, 1), target.default_stream());
      } catch (const OutOfMemory&) {
        return;  // on a null pointer, Paddle empties its cache and retries, or reports the memory use
      }
      *ptr = CachingAllocator::address(block);
      std::lock_guard<std::mutex> lock(self().mutex);
      self().blocks.emplace(*ptr, block);
    });
  }
  static C_Status release(const C_Device device, void* ptr, size_t) {
    return run_or_log([&] {
      Block* block = nullptr;
      {
        std::lock_guard<std::mutex> lock(self().mutex);
        const auto found = self().blocks.find(ptr);
        if (found == self().blocks.end()) {
          throw Error(HP_INVALID_ARGUMENT, "Paddle freed a pointer that Hardpoint did not allocate, or freed it twice");
        }
        block = found->second;
        self().blocks.erase(found);
      }
      Device& owner = at(device);
      for (Stream* stream : self().streams_of(device->id)) {
        if (stream != &owner.default_stream()) owner.allocator().record_stream(block, *stream);
      }
      owner.allocator().free(block);
    });
  }
  static C_Status host_allocate(const C_Device, void** ptr, size_t bytes) {
    return run_or_log([&] { *ptr = self().pinned.allocate(bytes); });
  }
  static C_Status host_release(const C_Device, void* ptr, size_t) {
    self().pinned.free(ptr);
    return C_SUCCESS;
  }
  static C_Status memory_stats(const C_Device device, size_t* total, size_t* free) {
    return run_or_log([&] {
      const auto info = at(device).memory_info();
      *free = info.first, *total = info.second;
    });
  }
  static C_Status set(const C_Device device, void* ptr, unsigned char value, size_t bytes) {
    return run_or_throw([&] {
      Stream& stream = ordered(device);
      at(device).fill(ptr, value, bytes, stream);
      stream.synchronize();
    });
  }

  // ---- Copies

  // The device's default stream, made to wait for all work queued on Paddle's other streams.
  static Stream& ordered(const C_Device device) {
    Stream& stream = at(device).default_stream();
    for (Stream* other : self().streams_of(device->id)) {
      if (other == &stream) continue;
      Event* event = at(device).acquire_event(false);
      event->record(*other);
      event->block(stream);
      at(device).release_event(event);
    }
    return stream;
  }
  // Waits for a copy from or to `host`. Memory of our pinned allocator needs no wait: it is reused only after the copy.
  static void finish_copy(Stream& stream, const void* host) {
    if (!self().pinned.record_stream(host, stream)) stream.synchronize();
  }

  static C_Status h2d(const C_Device device, void* dst, const void* src, size_t bytes) {
    return run_or_throw([&] {
      Stream& stream = ordered(device);
      at(device).copy_to_device(dst, src, bytes, stream);
      stream.synchronize();
    });
  }
  static C_Status d2h(const C_Device device, void* dst, const void* src, size_t bytes) {
    return run_or_throw([&] {
      Stream& stream = ordered(device);
      at(device).copy_to_host(dst, src, bytes, stream);
      stream.synchronize();
      DeviceGroup::check_failures(at(device));
    });
  }
  static C_Status d2d(const C_Device device, void* dst, const void* src, size_t bytes) {
    return run_or_throw([&] {
      Stream& stream = ordered(device);
      at(device).copy_on_device(dst, src, bytes, stream);
      stream.synchronize();
    });
  }
  static C_Status p2p(const C_Device to, const C_Device from, void* dst, const void* src, size_t bytes) {
    return run_or_throw([&] {
      ordered(to).synchronize();
      Stream& stream = ordered(from);
      self().runtime.copy_peer(at(to), dst, at(from), src, bytes, stream);
      stream.synchronize();
    });
  }
  static C_Status async_h2d(const C_Device device, C_Stream handle, void* dst, const void* src, size_t bytes) {
    return run_or_throw([&] {
      Stream& stream = stream_at(device, handle);
      at(device).copy_to_device(dst, src, bytes, stream);
      finish_copy(stream, src);
    });
  }
  static C_Status async_d2h(const C_Device device, C_Stream handle, void* dst, const void* src, size_t bytes) {
    return run_or_throw([&] {
      Stream& stream = stream_at(device, handle);
      at(device).copy_to_host(dst, src, bytes, stream);
      finish_copy(stream, dst);
      DeviceGroup::check_failures(at(device));
    });
  }
  static C_Status async_d2d(const C_Device device, C_Stream stream, void* dst, const void* src, size_t bytes) {
    return run_or_throw([&] { at(device).copy_on_device(dst, src, bytes, stream_at(device, stream)); });
  }
  static C_Status async_p2p(const C_Device to, const C_Device from, C_Stream stream, void* dst, const void* src,
                            size_t bytes) {
    return run_or_throw([&] {
      ordered(to).synchronize();
      self().runtime.copy_peer(at(to), dst, at(from), src, bytes, stream_at(from, stream));
    });
  }

  // ---- Queries

  static C_Status min_chunk(const C_Device, size_t* bytes) {
    *bytes = HP_ALIGNMENT;
    return C_SUCCESS;
  }
  // Paddle's buddy allocator then asks for each block, instead of a share of the device's memory in advance.
  static C_Status no_chunks(const C_Device, size_t* bytes) {
    *bytes = 0;
    return C_SUCCESS;
  }
  // 90 for version 9.0, as Paddle counts on GPUs.
  static C_Status capability(const C_Device device, size_t* capability) {
    return run_or_log([&] {
      const HpProperties found = at(device).properties();
      *capability = static_cast<size_t>(found.version_major * 10 + found.version_minor);
    });
  }

  static C_Status supports_float16(const C_Device, bool* supported) {
    *supported = true;  // if the device has no kernel for a 16-bit float, another tier serves the call
    return C_SUCCESS;
  }
  static C_Status compute_units(const C_Device device, size_t* units) {
    return run_or_log([&] { *units = static_cast<size_t>(at(device).properties().compute_units); });
  }

  static C_Status max_group_size(const C_Device device, size_t* size) {
    return run_or_log([&] { *size = at(device).properties().max_group_size; });
  }

  // ---- Profiling

  static C_Status begin_profiling(C_Profiler, void** data) {
    *data = nullptr;
    return C_SUCCESS;
  }
  static C_Status profile(C_Profiler, void*) { return C_SUCCESS; }
  static C_Status start_tracing(C_Profiler, void*) {
    return run_or_log([&] { start_profiling(); });
  }
  // Synchronizes the devices, so that the traced time includes all work launched.
  static C_Status stop_tracing(C_Profiler, void*) {
    return run_or_log([&] {
      for (int i = 0; i < self().runtime.device_count(); ++i) {
        if (!self().streams_of(i).empty()) self().runtime.device(i).synchronize();
      }
      stop_profiling();
    });
  }
  static C_Status collect_trace(C_Profiler profiler, uint64_t, void*) {
    return run_or_log([&] { collect_trace_events(self().runtime, profiler); });
  }

  // These fields lie behind the prefix that all Paddle versions share, and older headers lack them: set only if the
  // table has exactly the layout this adapter was compiled with.
  template <class Table>
  static auto fill_newer(Table& table, int) -> decltype(table.is_float16_supported, void()) {
    if (table.size != sizeof(Table)) return;
    table.get_multi_process = compute_units;
    table.get_max_threads_per_block = max_group_size;
    table.profiler_initialize = begin_profiling;
    table.profiler_finalize = profile;
    table.profiler_prepare_tracing = profile;
    table.profiler_start_tracing = start_tracing;
    table.profiler_stop_tracing = stop_tracing;
    table.profiler_collect_trace_data = collect_trace;
    table.is_float16_supported = supports_float16;
    table.is_bfloat16_supported = supports_float16;
  }
  template <class Table>
  static void fill_newer(Table&, long) {}

  static void fill(C_DeviceInterface& table) {
    fill_newer(table, 0);
    // The fields of xccl and graphs also follow the shared prefix.
    if (table.size == sizeof(table)) {
      fill_xccl(table, self().runtime, self().pinned);
      fill_graphs(table);
    }
    table.initialize = do_nothing;
    table.finalize = do_nothing;
    table.init_device = init_device;
    table.set_device = set_device;
    table.get_device = get_device;
    table.deinit_device = init_device;
    table.create_stream = create_stream;
    table.destroy_stream = destroy_stream;
    table.query_stream = query_stream;
    table.stream_add_callback = add_callback;
    table.create_event = create_event;
    table.record_event = record_event;
    table.destroy_event = destroy_event;
    table.query_event = query_event;
    table.synchronize_device = synchronize;
    table.synchronize_stream = synchronize_stream;
    table.synchronize_event = synchronize_event;
    table.stream_wait_event = wait_event;
    table.device_memory_allocate = allocate;
    table.device_memory_deallocate = release;
    table.device_memory_set = set;
    table.host_memory_allocate = host_allocate;
    table.host_memory_deallocate = host_release;
    table.memory_copy_h2d = h2d;
    table.memory_copy_d2h = d2h;
    table.memory_copy_d2d = d2d;
    table.memory_copy_p2p = p2p;
    table.async_memory_copy_h2d = async_h2d;
    table.async_memory_copy_d2h = async_d2h;
    table.async_memory_copy_d2d = async_d2d;
    table.async_memory_copy_p2p = async_p2p;
    table.get_device_count = count;
    table.get_device_list = list;
    table.device_memory_stats = memory_stats;
    table.device_min_chunk_size = min_chunk;
    if (self().runtime.plugin->info.memory == nullptr) table.device_max_chunk_size = no_chunks;
    table.get_compute_capability = capability;
  }
};

}  // namespace

bool is_supported_interface(size_t size) {
  // Paddle 3.0, 3.1, 3.2 and 3.3. The version number beside the table is the same in all of them; only the size tells
  // them apart. Except for `fill_newer` and xccl, the fields filled in precede everything that differs between them.
  for (const size_t known : {920, 976, 1032, 1128}) {
    if (size == known) return true;
  }
  return false;
}

void fill_interface(void* address, Runtime& runtime) {
  auto& params = *static_cast<CustomRuntimeParams*>(address);
  if (!is_supported_interface(params.interface->size)) {
    throw Error(HP_NOT_SUPPORTED, "Paddle's C_DeviceInterface has " + std::to_string(params.interface->size) +
                                      " bytes, which matches none of Paddle 3.0 to 3.3: update Hardpoint, or install "
                                      "one of these Paddle versions");
  }
  if (mounted[runtime.slot] == nullptr) mounted[runtime.slot] = new Mounted(runtime);
  fill_callbacks<Callbacks>(runtime.slot, *params.interface);
  static char no_name[] = "";
  params.device_type = mounted[runtime.slot]->name.data();
  params.sub_device_type = no_name;
  params.version = {PADDLE_CUSTOM_RUNTIME_MAJOR_VERSION, PADDLE_CUSTOM_RUNTIME_MINOR_VERSION,
                    PADDLE_CUSTOM_RUNTIME_PATCH_VERSION};
}

}  // namespace hp::paddle_adapter
