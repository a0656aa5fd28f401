// The caching allocator and pinned memory as c10 allocators.
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/COW.h>

#include <atomic>

#include "core/dispatch/write_watch.h"
#include "runtime/adapter.h"
#include "runtime/lazy_memory.h"

namespace hp::torch_adapter {
namespace {

// Tells torch.profiler that memory was allocated or, with negative bytes, freed.
void report_memory(Device& device, void* address, int64_t bytes) {
  const AllocatorStats stats = device.allocator().stats();
  c10::reportMemoryUsageToProfiler(address, bytes, static_cast<size_t>(stats.allocated_bytes[kAggregate].current),
                                   static_cast<size_t>(stats.reserved_bytes[kAggregate].current),
                                   c10::Device(kDeviceType, static_cast<c10::DeviceIndex>(device.index)));
}

// Set when the first profiler starts: until then, a load replaces two calls into torch.
std::atomic<bool> profiler_started{false};

// Whether a profiler wants to know of this thread's memory.
inline bool reports_memory() {
  return __builtin_expect(profiler_started.load(std::memory_order_relaxed), 0) && c10::memoryProfilingEnabled();
}

void release_block(void* context) {
  auto* const block = static_cast<Block*>(context);
  if (!reports_memory()) return CachingAllocator::release(block);
  Device& device = CachingAllocator::device_of(block);
  void* const address = CachingAllocator::address(block);
  const auto bytes = static_cast<int64_t>(CachingAllocator::requested_bytes(block));
  CachingAllocator::release(block);
  report_memory(device, address, -bytes);
}

Block* block_at(const void* address) {
  for (int i = 0; i < runtime().device_count(); ++i) {
    if (Block* block = runtime().device(i).allocator().find(address)) return block;
  }
  return nullptr;
}

void release_by_address(void* address) {
  release_block(block_at(address));
  end_write_watch();
}

c10::CachingAllocator::StatArray stats_to_torch(const StatArray& from) {
  c10::CachingAllocator::StatArray to;
  for (int i = 0; i < kNumStatKinds; ++i) {
    to[i].current = from[i].current;
    to[i].peak = from[i].peak;
    to[i].allocated = from[i].allocated;
    to[i].freed = from[i].freed;
  }
  return to;
}

class DeviceMemory final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    Device& device = device_at(-1);
    const c10::Device where(kDeviceType, static_cast<c10::DeviceIndex>(device.index));
    if (bytes == 0) return {nullptr, where};
    try {
      Block* block = device.allocator().allocate(bytes, current_stream(device));
      if (reports_memory()) {
        report_memory(device, CachingAllocator::address(block), static_cast<int64_t>(bytes));
      }
      return {CachingAllocator::address(block), block, &release_block, where};
    } catch (const OutOfMemory& error) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
    }
  }

  // A DataPtr's context is its block, not its address, so the raw interface is not supported.
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

  void copy_data(void* dst, const void* src, size_t bytes) const override {
    Device& device = device_at(-1);
    device.copy_on_device(dst, src, bytes, current_stream(device));
  }

  bool initialized() override { return mounted != nullptr; }

  void emptyCache(c10::MempoolId_t) override {
    for (int i = 0; i < runtime().device_count(); ++i) runtime().device(i).allocator().empty_cache();
  }

  void recordStream(const c10::DataPtr& ptr, c10::Stream stream) override {
    if (ptr.get() == nullptr) return;
    const bool lazy = ptr.get_deleter() == &release_by_address || c10::impl::cow::is_cow_data_ptr(ptr);
    if (!lazy && ptr.get_deleter() != &release_block) return;  // not allocated here
    Block* const block = lazy ? block_at(ptr.get()) : static_cast<Block*>(ptr.get_context());
    device_at(ptr.device().index()).allocator().record_stream(block, from_torch(stream));
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const AllocatorStats from = device_at(index).allocator().stats();
    c10::CachingDeviceAllocator::DeviceStats to;
    to.allocation = stats_to_torch(from.allocation);
    to.segment = stats_to_torch(from.segment);
    to.active = stats_to_torch(from.active);
    to.inactive_split = stats_to_torch(from.inactive_split);
    to.allocated_bytes = stats_to_torch(from.allocated_bytes);
    to.reserved_bytes = stats_to_torch(from.reserved_bytes);
    to.active_bytes = stats_to_torch(from.active_bytes);
    to.inactive_split_bytes = stats_to_torch(from.inactive_split_bytes);
    to.requested_bytes = stats_to_torch(from.requested_bytes);
    to.num_alloc_retries = from.num_alloc_retries;
    to.num_ooms = from.num_ooms;
    to.num_sync_all_streams = from.num_sync_all_streams;
    to.num_device_alloc = from.num_device_alloc;
    to.num_device_free = from.num_device_free;
    return to;
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override {
    device_at(index).allocator().reset_accumulated_stats();
  }
  void resetPeakStats(c10::DeviceIndex index) override { device_at(index).allocator().reset_peak_stats(); }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    auto [free_bytes, total_bytes] = device_at(index).memory_info();
    TORCH_CHECK_NOT_IMPLEMENTED(total_bytes != 0, "plug-in '", runtime().name(),
                                "' cannot report free and total memory: it does not provide HpInfo.memory");
    return {free_bytes, total_bytes};
  }
};

void release_pinned(void* ptr) { pinned_allocator().free(ptr); }

class PinnedMemory final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* ptr = bytes != 0 ? pinned_allocator().allocate(bytes) : nullptr;
    return {ptr, ptr, &release_pinned, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release_pinned; }
  void copy_data(void* dst, const void* src, size_t bytes) const override { default_copy_data(dst, src, bytes); }
  bool record_event(void* ptr, void*, c10::Stream stream) override {
    return pinned_allocator().record_stream(ptr, from_torch(stream));
  }
  void empty_cache() override { pinned_allocator().empty_cache(); }
  at::HostStats get_stats() override {
    const PinnedStats from = pinned_allocator().stats();
    at::HostStats to;
    to.active_requests.current = from.active_blocks;
    to.active_bytes.current = from.active_bytes;
    to.active_bytes.peak = from.peak_active_bytes;
    to.allocations.allocated = from.allocations;
    to.allocated_bytes.current = from.reserved_bytes;
    return to;
  }
  void reset_accumulated_stats() override { pinned_allocator().reset_accumulated_stats(); }
  void reset_peak_stats() override { pinned_allocator().reset_peak_stats(); }
};

// Never deleted: storages are freed until the process ends.
DeviceMemory* const device_memory = [] {
  auto* allocator = new DeviceMemory;
  c10::SetAllocator(kDeviceType, allocator);
  return allocator;
}();
PinnedMemory* const pinned_memory = new PinnedMemory;

}  // namespace

void report_memory_to_profilers() { profiler_started.store(true, std::memory_order_relaxed); }

bool prepare_lazy_clone(c10::StorageImpl& storage) {
  if (c10::impl::cow::has_simple_data_ptr(storage) || c10::impl::cow::is_cow_data_ptr(storage.data_ptr())) return true;
  if (storage.data_ptr().get_deleter() != &release_block) return false;
  void* const address = const_cast<void*>(storage.data());
  c10::DataPtr before = storage.set_data_ptr({address, address, &release_by_address, storage.device()});
  before.release_context();  // now owned by its address
  begin_write_watch();
  return true;
}

REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, pinned_memory)

}  // namespace hp::torch_adapter
