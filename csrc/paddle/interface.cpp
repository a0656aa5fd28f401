// Paddle's table of callbacks on top of core's devices, streams, events and memory.
//
// Memory comes from core's caching allocator, although Paddle keeps a cache of its own above: so one device has one
// account of its memory for both frameworks, and each gets what the other only caches before it runs out. Paddle frees
// without naming a stream, once its own streams are done with the memory as far as it knows; the block is given back
// after all work that is queued on them now.
#include <paddle/phi/backends/device_ext.h>

#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

#include "../core/allocator.h"
#include "../core/device_group.h"
#include "../core/pinned.h"
#include "adapter.h"
#include "collectives.h"
#include "status.h"

namespace hp::paddle_adapter {
namespace {

// What Paddle holds of one plug-in. Lives for ever: Paddle frees memory until the process ends.
struct Mounted {
  explicit Mounted(Runtime& runtime)
      : runtime(runtime), pinned(runtime), name(runtime.name()), streams(runtime.device_count()) {}

  Runtime& runtime;
  PinnedAllocator pinned;
  std::string name;
  std::mutex mutex;  // of what follows
  std::unordered_map<const void*, Block*> blocks;
  std::vector<std::vector<Stream*>> streams;  // that Paddle uses, by device

  std::vector<Stream*> streams_of(int device) {
    std::lock_guard<std::mutex> lock(mutex);
    return streams[device];
  }
};
std::array<Mounted*, kMaxRuntimes> mounted{};

// A callback has no argument for data of ours: there is one set of functions for each plug-in that can be mounted.
template <int kSlot>
struct Callbacks {
  static Mounted& self() { return *mounted[kSlot]; }
  static Device& at(const C_Device device) { return self().runtime.device(device->id); }
  static Stream& stream_at(const C_Device device, C_Stream stream) {
    return stream == nullptr ? at(device).default_stream() : *reinterpret_cast<Stream*>(stream);
  }
  static Event& event_at(C_Event event) { return *reinterpret_cast<Event*>(event); }

  // ---- Devices

  static C_Status nothing() { return C_SUCCESS; }
  static C_Status init_device(const C_Device) { return C_SUCCESS; }
  static C_Status set_device(const C_Device device) {
    return guarded([&] { set_current_device(self().runtime, device->id); });
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
    return checked([&] { at(device).synchronize(); });
  }

  // ---- Streams and events

  // The first is the device's default stream, so that torch and Paddle see each other's work in order.
  static C_Status create_stream(const C_Device device, C_Stream* stream) {
    return guarded([&] {
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
      Stream& made = at(device).pool_stream(0);
      *stream = reinterpret_cast<C_Stream>(&made);
      std::lock_guard<std::mutex> lock(mounted.mutex);
      auto& known = mounted.streams[device->id];
      if (std::find(known.begin(), known.end(), &made) == known.end()) known.push_back(&made);
    });
  }
  static C_Status destroy_stream(const C_Device, C_Stream) { return C_SUCCESS; }  // core's streams live for ever
  static C_Status query_stream(const C_Device device, C_Stream stream) {
    bool done = false;
    const C_Status status = guarded([&] { done = stream_at(device, stream).query(); });
    return status != C_SUCCESS ? status : done ? C_SUCCESS : C_FAILED;
  }
  static C_Status synchronize_stream(const C_Device device, C_Stream stream) {
    return checked([&] {
      stream_at(device, stream).synchronize();
      DeviceGroup::check_failures(at(device));
    });
  }
  // Plug-ins have no callbacks: the host waits, then calls.
  static C_Status add_callback(const C_Device device, C_Stream stream, C_Callback callback, void* data) {
    return guarded([&] {
      stream_at(device, stream).synchronize();
      C_Status status = C_SUCCESS;
      callback(device, stream, data, &status);
    });
  }
  static C_Status create_event(const C_Device device, C_Event* event) {
    return guarded([&] { *event = reinterpret_cast<C_Event>(at(device).acquire_event(false)); });
  }
  static C_Status destroy_event(const C_Device device, C_Event event) {
    at(device).release_event(&event_at(event));
    return C_SUCCESS;
  }
  static C_Status record_event(const C_Device device, C_Stream stream, C_Event event) {
    return guarded([&] { event_at(event).record(stream_at(device, stream)); });
  }
  static C_Status query_event(const C_Device, C_Event event) {
    bool done = false;
    const C_Status status = guarded([&] { done = event_at(event).query(); });
    return status != C_SUCCESS ? status : done ? C_SUCCESS : C_FAILED;
  }
  static C_Status synchronize_event(const C_Device, C_Event event) {
    return checked([&] {
      event_at(event).synchronize();
      DeviceGroup::check_failures(event_at(event).device);
    });
  }
  static C_Status wait_event(const C_Device device, C_Stream stream, C_Event event) {
    return guarded([&] { event_at(event).block(stream_at(device, stream)); });
  }

  // ---- Memory

  static C_Status allocate(const C_Device device, void** ptr, size_t bytes) {
    return guarded([&] {
      Device& on = at(device);
      *ptr = nullptr;
      Block* block = nullptr;
      try {
        block = on.allocator().allocate(std::max<size_t>(bytes, 1), on.default_stream());
      } catch (const OutOfMemory&) {
        return;  // Paddle frees what it caches and asks again, or says how much there is
      }
      *ptr = CachingAllocator::address(block);
      std::lock_guard<std::mutex> lock(self().mutex);
      self().blocks.emplace(*ptr, block);
    });
  }
  static C_Status release(const C_Device device, void* ptr, size_t) {
    return guarded([&] {
      Block* block = nullptr;
      {
        std::lock_guard<std::mutex> lock(self().mutex);
        const auto found = self().blocks.find(ptr);
        if (found == self().blocks.end()) throw Error(HP_INVALID_ARGUMENT, "Paddle frees memory that is not its own");
        block = found->second;
        self().blocks.erase(found);
      }
      Device& on = at(device);
      for (Stream* stream : self().streams_of(device->id)) {
        if (stream != &on.default_stream()) on.allocator().record_stream(block, *stream);
      }
      on.allocator().free(block);
    });
  }
  static C_Status host_allocate(const C_Device, void** ptr, size_t bytes) {
    return guarded([&] { *ptr = self().pinned.allocate(bytes); });
  }
  static C_Status host_release(const C_Device, void* ptr, size_t) {
    self().pinned.free(ptr);
    return C_SUCCESS;
  }
  static C_Status memory_stats(const C_Device device, size_t* total, size_t* free) {
    return guarded([&] {
      const auto info = at(device).memory_info();
      *free = info.first, *total = info.second;
    });
  }
  static C_Status set(const C_Device device, void* ptr, unsigned char value, size_t bytes) {
    return checked([&] {
      const std::vector<unsigned char> content(bytes, value);
      Stream& stream = ordered(device);
      at(device).copy_to_device(ptr, content.data(), bytes, stream);
      stream.synchronize();
    });
  }

  // ---- Copies

  // The default stream, after everything that Paddle has queued on the device's other streams.
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
  // The host may use its memory when the call returns, unless it is ours and page-locked.
  static void settle(Stream& stream, const void* host) {
    if (!self().pinned.record_stream(host, stream)) stream.synchronize();
  }

  static C_Status h2d(const C_Device device, void* dst, const void* src, size_t bytes) {
    return checked([&] {
      Stream& stream = ordered(device);
      at(device).copy_to_device(dst, src, bytes, stream);
      stream.synchronize();
    });
  }
  static C_Status d2h(const C_Device device, void* dst, const void* src, size_t bytes) {
    return checked([&] {
      Stream& stream = ordered(device);
      at(device).copy_to_host(dst, src, bytes, stream);
      stream.synchronize();
      DeviceGroup::check_failures(at(device));
    });
  }
  static C_Status d2d(const C_Device device, void* dst, const void* src, size_t bytes) {
    return checked([&] {
      Stream& stream = ordered(device);
      at(device).copy_on_device(dst, src, bytes, stream);
      stream.synchronize();
    });
  }
  static C_Status p2p(const C_Device to, const C_Device from, void* dst, const void* src, size_t bytes) {
    return checked([&] {
      ordered(to).synchronize();
      Stream& stream = ordered(from);
      self().runtime.copy_peer(at(to), dst, at(from), src, bytes, stream);
      stream.synchronize();
    });
  }
  static C_Status async_h2d(const C_Device device, C_Stream given, void* dst, const void* src, size_t bytes) {
    return checked([&] {
      Stream& stream = stream_at(device, given);
      at(device).copy_to_device(dst, src, bytes, stream);
      settle(stream, src);
    });
  }
  static C_Status async_d2h(const C_Device device, C_Stream given, void* dst, const void* src, size_t bytes) {
    return checked([&] {
      Stream& stream = stream_at(device, given);
      at(device).copy_to_host(dst, src, bytes, stream);
      settle(stream, dst);
      DeviceGroup::check_failures(at(device));
    });
  }
  static C_Status async_d2d(const C_Device device, C_Stream stream, void* dst, const void* src, size_t bytes) {
    return checked([&] { at(device).copy_on_device(dst, src, bytes, stream_at(device, stream)); });
  }
  static C_Status async_p2p(const C_Device to, const C_Device from, C_Stream stream, void* dst, const void* src,
                            size_t bytes) {
    return checked([&] {
      ordered(to).synchronize();
      self().runtime.copy_peer(at(to), dst, at(from), src, bytes, stream_at(from, stream));
    });
  }

  // ---- What Paddle wants to know

  static C_Status min_chunk(const C_Device, size_t* bytes) {
    *bytes = HP_ALIGNMENT;
    return C_SUCCESS;
  }
  static C_Status capability(const C_Device, size_t* capability) {
    *capability = 0;
    return C_SUCCESS;
  }

  static C_Status yes(const C_Device, bool* supported) {
    *supported = true;  // where the device has no kernel for 16-bit floats, another tier has one
    return C_SUCCESS;
  }
  static C_Status compute_units(const C_Device device, size_t* units) {
    return guarded([&] { *units = static_cast<size_t>(at(device).properties().compute_units); });
  }

  // ---- Profiling

  // Paddle's profiler traces operators on the host by itself. Nothing is added for the device: all that is done for it
  // is to wait at the end, so that what was begun is in the trace's time.
  static C_Status begin_profiling(C_Profiler, void** data) {
    *data = nullptr;
    return C_SUCCESS;
  }
  static C_Status profile(C_Profiler, void*) { return C_SUCCESS; }
  static C_Status stop_tracing(C_Profiler, void*) {
    return guarded([&] {
      for (int i = 0; i < self().runtime.device_count(); ++i) {
        if (!self().streams_of(i).empty()) self().runtime.device(i).synchronize();
      }
    });
  }
  static C_Status collect_trace(C_Profiler, uint64_t, void*) { return C_SUCCESS; }

  // Behind what all versions share: for the table that this adapter was compiled with, if it has these.
  template <class Table>
  static auto fill_newer(Table& table, int) -> decltype(table.is_float16_supported, void()) {
    if (table.size != sizeof(Table)) return;
    table.get_multi_process = compute_units;
    table.profiler_initialize = begin_profiling;
    table.profiler_finalize = profile;
    table.profiler_prepare_tracing = profile;
    table.profiler_start_tracing = profile;
    table.profiler_stop_tracing = stop_tracing;
    table.profiler_collect_trace_data = collect_trace;
    table.is_float16_supported = yes;
    table.is_bfloat16_supported = yes;
  }
  template <class Table>
  static void fill_newer(Table&, long) {}

  static void fill(C_DeviceInterface& table) {
    fill_newer(table, 0);
    // Behind what all versions share, too.
    if (table.size == sizeof(table)) fill_collectives(table, self().runtime, self().pinned);
    table.initialize = nothing;
    table.finalize = nothing;
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
    table.get_compute_capability = capability;
  }
};

template <int... kSlots>
constexpr auto all_fillers(std::integer_sequence<int, kSlots...>) {
  return std::array<void (*)(C_DeviceInterface&), sizeof...(kSlots)>{&Callbacks<kSlots>::fill...};
}

}  // namespace

bool known_interface(size_t size) {
  // Paddle 3.0, 3.1, 3.2, 3.3. What we fill in lies in front of everything that changed between them; the version that
  // Paddle writes beside it never changes.
  for (const size_t known : {920, 976, 1032, 1128}) {
    if (size == known) return true;
  }
  return false;
}

void fill_interface(void* address, Runtime& runtime) {
  auto& params = *static_cast<CustomRuntimeParams*>(address);
  if (!known_interface(params.interface->size)) {
    throw Error(HP_NOT_SUPPORTED, "this Paddle's table of callbacks has " + std::to_string(params.interface->size) +
                                      " bytes, and those of Paddle 3.0 to 3.3 are known: update Hardpoint");
  }
  if (mounted[runtime.slot] == nullptr) mounted[runtime.slot] = new Mounted(runtime);
  static constexpr auto fillers = all_fillers(std::make_integer_sequence<int, kMaxRuntimes>{});
  fillers[runtime.slot](*params.interface);
  static char no_name[] = "";
  params.device_type = mounted[runtime.slot]->name.data();
  params.sub_device_type = no_name;
  params.version = {PADDLE_CUSTOM_RUNTIME_MAJOR_VERSION, PADDLE_CUSTOM_RUNTIME_MINOR_VERSION,
                    PADDLE_CUSTOM_RUNTIME_PATCH_VERSION};
}

}  // namespace hp::paddle_adapter
