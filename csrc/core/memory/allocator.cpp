#include "core/memory/allocator.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "core/memory/block_heap.h"
#include "core/memory/guard_zones.h"
#include "core/memory/memory_history.h"
#include "core/memory/stream_uses.h"
#include "core/recording/recorder.h"
#include "core/runtime/error.h"
#include "core/runtime/runtime.h"

namespace hp {
namespace {

// Most callers hold it for about ten nanoseconds. Unlocking is a plain store; std::mutex needs a second atomic
// exchange. Waiters yield after a short spin, in case the holder was preempted.
class SpinLock {
 public:
  void lock() {
    while (locked_.exchange(true, std::memory_order_acquire)) {
      for (int spins = 0; locked_.load(std::memory_order_relaxed); ++spins) {
        if (spins >= kSpins) std::this_thread::yield();
      }
    }
  }
  void unlock() { locked_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpins = 64;
  std::atomic<bool> locked_{false};
};

using Guard = std::lock_guard<SpinLock>;

// Above this, rounding up could overflow.
constexpr size_t kMaxRequest = std::numeric_limits<size_t>::max() / 4;

// How long an allocation on a full device waits for memory that other threads are releasing. Bounded: such a thread may
// be in a plug-in written in Python, waiting for the GIL that this thread holds.
constexpr std::chrono::milliseconds kMaxWaitForOthers{100};

std::string describe_pointer(const void* pointer) {
  char text[32];
  std::snprintf(text, sizeof(text), "%p", pointer);
  return text;
}

}  // namespace

// Functions marked "no lock" call the plug-in and must be called without the lock.
struct CachingAllocator::Impl {
  explicit Impl(Device& device) : device(device) {}

  Device& device;
  SpinLock mutex;  // guards everything below
  BlockHeap heap;
  PendingFrees<Block> pending;
  size_t limit = std::numeric_limits<size_t>::max();  // on reserved bytes
  double fraction = 0;                                // 0: not set
  std::map<int64_t, StreamPool*> replaced;            // stream -> its own pool, while a MemoryPool serves it

  // Work in progress without the lock.
  size_t growing_bytes = 0;     // being allocated from the plug-in
  size_t releasing_bytes = 0;   // removed from the heap, not yet freed by the plug-in
  int recording = 0;            // freed blocks whose events are being recorded, not yet pending
  uint64_t released_bytes = 0;  // returned to the plug-in, total ever

  Block* allocate_unbinned(size_t bytes, Stream& stream);
  Block* grow(StreamPool& pool, size_t size, size_t requested, std::string& reason);
  void free_unbinned(Block* block) noexcept;
  void process_pending(bool wait);
  void release_cached();
  void wait_for_others();
  OutOfMemory out_of_memory(size_t bytes, const std::string& reason);
  void note_allocation(const Block* block);
  void note_free(const Block* block);
  void note_segment(MemoryAction action, const Stream& stream, const char* base, size_t bytes);
};

// ---- History. No lock.

void CachingAllocator::Impl::note_allocation(const Block* block) {
  const StackId stack = memory_event_stack(MemoryAction::kAlloc);
  MemoryEvent event{MemoryAction::kAlloc,
                    &device,
                    block->segment->pool->stream->id,
                    reinterpret_cast<uint64_t>(block->address),
                    block->size,
                    0,
                    0,
                    0,
                    stack};
  Guard guard(mutex);
  event.allocated = heap.stats.current(kAllocatedBytes);
  event.reserved = heap.stats.current(kReservedBytes);
  add_memory_event(event);
}

// Before the free, which lets other threads allocate the same address.
void CachingAllocator::Impl::note_free(const Block* block) {
  if (block->state != BlockState::kAllocated) return;  // a double free
  const StackId stack = memory_event_stack(MemoryAction::kFreeRequested);
  MemoryEvent event{MemoryAction::kFreeRequested,
                    &device,
                    block->segment->pool->stream->id,
                    reinterpret_cast<uint64_t>(block->address),
                    block->size,
                    0,
                    0,
                    0,
                    stack};
  Guard guard(mutex);
  event.allocated = heap.stats.current(kAllocatedBytes) - static_cast<int64_t>(block->size);
  event.reserved = heap.stats.current(kReservedBytes);
  add_memory_event(event);
  if (block->uses) return;  // completed once the other streams are done
  event.action = MemoryAction::kFreeCompleted;
  add_memory_event(event);
}

void CachingAllocator::Impl::note_segment(MemoryAction action, const Stream& stream, const char* base, size_t bytes) {
  const StackId stack = memory_event_stack(action);
  MemoryEvent event{action, &device, stream.id, reinterpret_cast<uint64_t>(base), bytes, 0, 0, 0, stack};
  Guard guard(mutex);
  event.allocated = heap.stats.current(kAllocatedBytes);
  event.reserved = heap.stats.current(kReservedBytes);
  if (action == MemoryAction::kSegmentAlloc) event.reserved += static_cast<int64_t>(bytes);  // not in the heap yet
  add_memory_event(event);
}

// ---- Allocation

Block* CachingAllocator::allocate(size_t bytes, Stream& stream) {
  const bool watched = recording() || guard_zones_enabled() || memory_history();
  return __builtin_expect(watched, 0) ? allocate_watched(bytes, stream) : take(bytes, stream);
}

Block* CachingAllocator::allocate_watched(size_t bytes, Stream& stream) {
  if (Recorder* active = recorder()) {
    Block* block = take(bytes, stream);
    active->on_allocate(block, block->address, bytes);
    if (memory_history()) impl_->note_allocation(block);
    return block;
  }
  Block* block =
      guard_zones_enabled() && stream.capture() == nullptr ? take_guarded(bytes, stream) : take(bytes, stream);
  if (memory_history()) impl_->note_allocation(block);
  return block;
}

Block* CachingAllocator::take_guarded(size_t bytes, Stream& stream) {
  if (bytes == 0 || bytes > kMaxRequest) return take(bytes, stream);
  Block* block = take(bytes + 2 * kGuardBytes, stream);
  try {
    GuardZones{impl_->device, block->address, block->size, bytes}.fill(stream);
  } catch (...) {
    free(block);
    throw;
  }
  block->guarded = true;
  return block;
}

inline Block* CachingAllocator::take(size_t bytes, Stream& stream) {
  Impl& impl = *impl_;
  const size_t bin = (bytes - 1) / kMinBlock;  // 0 bytes wraps around to an invalid bin
  if (bin < kNumBins && &stream.device == &impl.device) {
    Guard guard(impl.mutex);
    if (Block* block = impl.heap.take_binned(stream, bin, bytes)) return block;
  }
  return impl.allocate_unbinned(bytes, stream);
}

Block* CachingAllocator::Impl::allocate_unbinned(size_t bytes, Stream& stream) {
  if (bytes == 0) throw Error(HP_INVALID_ARGUMENT, device.name() + ": cannot allocate 0 bytes");
  if (&stream.device != &device) {
    throw Error(HP_INVALID_ARGUMENT, device.name() + ": cannot allocate for stream " + std::to_string(stream.id) +
                                         " of another device, " + stream.device.name());
  }
  if (bytes > kMaxRequest) throw out_of_memory(bytes, "");

  const size_t size = round_up(bytes, kMinBlock);
  // Only after the bins missed: each event query is a plug-in call.
  process_pending(/*wait=*/false);
  StreamPool* pool;
  {
    Guard guard(mutex);
    pool = &heap.pool(stream);
    if (Block* block = heap.take(*pool, size, bytes)) return block;
    if (size <= kSmallRequest) {
      heap.merge_bins(*pool);
      if (Block* block = heap.take(*pool, size, bytes)) return block;
    }
  }

  std::string reason;
  for (bool retry = false;; retry = true) {
    uint64_t released_before;
    {
      Guard guard(mutex);
      released_before = released_bytes;
    }
    if (Block* block = grow(*pool, size, bytes, reason)) return block;
    wait_for_others();
    if (retry) {
      // Give up after one retry, unless another thread released memory meanwhile.
      Guard guard(mutex);
      if (released_bytes == released_before) break;
    }
    release_cached();
    Guard guard(mutex);
    ++heap.stats.num_alloc_retries;
    if (Block* block = heap.take(*pool, size, bytes)) return block;
  }
  {
    Guard guard(mutex);
    ++heap.stats.num_ooms;
  }
  throw out_of_memory(bytes, reason);
}

// No lock. Takes the block from a new segment. Null if the device is full, with the plug-in's message in `reason`.
Block* CachingAllocator::Impl::grow(StreamPool& pool, size_t size, size_t requested, std::string& reason) {
  const size_t bytes = BlockHeap::segment_size(size);
  {
    Guard guard(mutex);
    const size_t held = static_cast<size_t>(heap.stats.current(kReservedBytes)) + growing_bytes + releasing_bytes;
    if (bytes > limit || held > limit - bytes) return nullptr;
    growing_bytes += bytes;
  }
  void* ptr = nullptr;
  const HpStatus status = guarded([&] { return device.plugin.table.allocate(device.index, bytes, &ptr); });
  if (status == HP_OK && memory_history()) {
    note_segment(MemoryAction::kSegmentAlloc, *pool.stream, static_cast<char*>(ptr), bytes);
  }
  std::unique_lock<SpinLock> lock(mutex);
  growing_bytes -= bytes;
  if (status == HP_OK && ptr != nullptr && reinterpret_cast<uintptr_t>(ptr) % HP_ALIGNMENT == 0) {
    auto* base = static_cast<char*>(ptr);
    if (!heap.overlaps(base, bytes)) {
      ++heap.stats.num_device_alloc;
      const StatKind kind = size <= kSmallRequest ? kSmallPool : kLargePool;
      return heap.split_off(heap.add_segment(pool, base, bytes, kind), size, requested);
    }
    lock.unlock();
    throw Error(HP_ERROR, device.name() + ": allocate of plug-in '" + device.plugin.name + "' returned " +
                              describe_pointer(ptr) + " for " + std::to_string(bytes) +
                              " bytes, which overlaps an allocation that was not freed");
  }
  lock.unlock();
  if (status == HP_OUT_OF_MEMORY) {
    reason = take_message();
    return nullptr;
  }
  HP_CHECK(status, device.name() + ": allocate");
  if (ptr != nullptr) guarded([&] { return device.plugin.table.free(device.index, ptr); });
  throw Error(HP_ERROR, device.name() + ": allocate of plug-in '" + device.plugin.name + "' returned HP_OK for " +
                            std::to_string(bytes) + " bytes, but the pointer is " +
                            (ptr == nullptr ? "NULL: it must return HP_OUT_OF_MEMORY when the device is full"
                                            : describe_pointer(ptr) + ": it must be a multiple of HP_ALIGNMENT (" +
                                                  std::to_string(HP_ALIGNMENT) + ")"));
}

void CachingAllocator::Impl::wait_for_others() {
  const auto deadline = std::chrono::steady_clock::now() + kMaxWaitForOthers;
  for (;;) {
    {
      Guard guard(mutex);
      if (releasing_bytes == 0 && recording == 0) return;
    }
    if (std::chrono::steady_clock::now() >= deadline) return;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

OutOfMemory CachingAllocator::Impl::out_of_memory(size_t bytes, const std::string& reason) {
  std::pair<uint64_t, uint64_t> memory{0, 0};
  try {
    memory = device.memory_info();
  } catch (const Error&) {
    // The message then reports the device's memory as unknown.
  }
  int64_t allocated, reserved;
  size_t largest, limit_bytes;
  double share;
  {
    Guard guard(mutex);
    allocated = heap.stats.current(kAllocatedBytes);
    reserved = heap.stats.current(kReservedBytes);
    largest = heap.largest_free_block();
    limit_bytes = limit;
    share = fraction;
  }
  std::string text = device.name() + ": out of memory: tried to allocate " + std::to_string(bytes) + " bytes (" +
                     describe_bytes(bytes) + "). ";
  text += memory.second != 0 ? "The device has " + describe_bytes(memory.first) + " free of " +
                                   describe_bytes(memory.second) + " in total. "
                             : "The plug-in does not report the device's memory (HpInfo.memory). ";
  text += "Hardpoint has " + describe_bytes(allocated) + " allocated and " + describe_bytes(reserved - allocated) +
          " cached (reserved but unallocated), largest free cached block " + describe_bytes(largest) + ". ";
  if (!reason.empty()) text += "The plug-in says: " + reason + ". ";
  text += "Use a smaller batch, or drop tensors that are no longer needed";
  if (share != 0) {
    char percent[32];
    std::snprintf(percent, sizeof(percent), "%.4g", share);
    text += "; the memory fraction is set to " + std::string(percent) + ", a limit of " + describe_bytes(limit_bytes) +
            ": raise it with set_per_process_memory_fraction";
  }
  text += '.';
  if (memory_history()) {
    const StackId stack = memory_event_stack(MemoryAction::kOutOfMemory);
    add_memory_event({MemoryAction::kOutOfMemory, &device, 0, memory.first, bytes, allocated, reserved, 0, stack});
    text += largest_holders(device);
  }
  return OutOfMemory(text);
}

// ---- Freeing

void CachingAllocator::free(Block* block) noexcept {
  if (block == nullptr) return;
  if (Recorder* active = recorder()) active->on_free(block);
  if (block->guarded) check_freed(block);
  if (__builtin_expect(memory_history(), 0)) impl_->note_free(block);
  {
    Guard guard(impl_->mutex);
    if (impl_->heap.free_to_bin(block)) return;
  }
  impl_->free_unbinned(block);
}

void CachingAllocator::check_freed(Block* block) noexcept {
  try {
    const GuardZones zones{impl_->device, block->address, block->size, block->requested - 2 * kGuardBytes};
    if (block->state == BlockState::kAllocated) zones.check(*block->segment->pool->stream);
  } catch (const std::exception&) {
    // A failed device reports its error at the next call of the program.
  }
  block->guarded = false;
}

void CachingAllocator::check_guard_zones(const std::vector<uint64_t>* addresses) {
  struct Live {
    GuardZones zones;
    Stream* stream;
  };
  std::vector<Live> live;
  const auto add = [&](const Block* block) {
    if (block == nullptr || !block->guarded || block->state != BlockState::kAllocated) return;
    live.push_back({{impl_->device, block->address, block->size, block->requested - 2 * kGuardBytes},
                    block->segment->pool->stream});
  };
  {
    Guard guard(impl_->mutex);
    if (addresses == nullptr) {
      impl_->heap.for_each_block(add);
    } else {
      for (const uint64_t address : *addresses) add(impl_->heap.find(reinterpret_cast<const char*>(address)));
    }
  }
  for (const Live& each : live) each.zones.check(*each.stream);
}

void CachingAllocator::Impl::free_unbinned(Block* block) noexcept {
  try {
    std::shared_ptr<StreamUses> uses;
    {
      std::unique_lock<SpinLock> lock(mutex);
      if (block->state != BlockState::kAllocated) {
        lock.unlock();
        std::fprintf(stderr, "[hardpoint] %s: ignored the free of a block that is not allocated (double free?)\n",
                     device.name().c_str());
        return;
      }
      heap.end_allocation(block);
      if (!block->uses) {
        heap.make_available(block);
        return;
      }
      uses = std::move(block->uses);
      ++recording;
    }
    uses->record();
    Guard guard(mutex);
    --recording;
    pending.add(block, std::move(uses));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "[hardpoint] %s: freeing a block failed, its memory is leaked: %s\n", device.name().c_str(),
                 e.what());
  }
}

void CachingAllocator::record_stream(Block* block, Stream& stream) {
  Guard guard(impl_->mutex);
  if (block->segment->pool->stream == &stream) return;
  if (!block->uses) block->uses = std::make_shared<StreamUses>();
  block->uses->add(stream);
}

// No lock. Makes pending blocks available once their other streams are done, or waits for all of them.
void CachingAllocator::Impl::process_pending(bool wait) {
  std::vector<PendingFrees<Block>::Entry> entries;
  {
    Guard guard(mutex);
    if (pending.empty()) return;
    entries = pending.copy();
  }
  PendingFrees<Block>::keep_done(entries, wait);
  Guard guard(mutex);
  pending.retire(entries, [this](Block* block) {
    if (memory_history()) {
      add_memory_event({MemoryAction::kFreeCompleted, &device, block->segment->pool->stream->id,
                        reinterpret_cast<uint64_t>(block->address), block->size, heap.stats.current(kAllocatedBytes),
                        heap.stats.current(kReservedBytes), 0, 0});
    }
    heap.make_available(block);
  });
}

// No lock. Returns the segments with no block in use to the plug-in.
void CachingAllocator::Impl::release_cached() {
  process_pending(/*wait=*/true);
  std::vector<Segment> unused;
  size_t bytes = 0;
  {
    Guard guard(mutex);
    ++heap.stats.num_sync_all_streams;
    unused = heap.remove_unused_segments();
    for (const Segment& segment : unused) bytes += segment.size;
    releasing_bytes += bytes;
  }
  if (unused.empty()) return;

  // Work queued on a segment's own stream may still use it: the cache relies on stream order, but the plug-in's `free`
  // need not be stream-ordered.
  try {
    std::set<Stream*> streams;
    for (const Segment& segment : unused) streams.insert(segment.pool->stream);
    for (Stream* stream : streams) {
      if (stream->capture() == nullptr) stream->wait();  // a capture needs an idle stream, and nothing runs during it
    }
  } catch (...) {
    Guard guard(mutex);
    releasing_bytes -= bytes;
    for (const Segment& segment : unused) heap.add_segment(*segment.pool, segment.base, segment.size, segment.kind);
    throw;
  }

  HpStatus failure = HP_OK;
  std::string message;
  for (const Segment& segment : unused) {
    const HpStatus status = guarded([&] { return device.plugin.table.free(device.index, segment.base); });
    if (memory_history()) note_segment(MemoryAction::kSegmentFree, *segment.pool->stream, segment.base, segment.size);
    if (status == HP_OK || failure != HP_OK) continue;
    failure = status;
    message = take_message();
  }
  {
    Guard guard(mutex);
    releasing_bytes -= bytes;
    released_bytes += bytes;
    heap.stats.num_device_free += static_cast<int64_t>(unused.size());
  }
  if (failure != HP_OK) {
    store_message(std::move(message));
    check(failure, device.name() + ": free");
  }
}

// ---- Private pools

void CachingAllocator::begin_pool(MemoryPool& pool, Stream& stream) {
  Guard guard(impl_->mutex);
  StreamPool* own = nullptr;
  for (StreamPool* each : pool.pools_) {
    if (each->stream == &stream) own = each;
  }
  if (own == nullptr) {
    own = &impl_->heap.private_pool(stream);
    own->retained = true;
    pool.pools_.push_back(own);
  }
  impl_->replaced[stream.id] = impl_->heap.exchange_pool(stream, own);
}

void CachingAllocator::end_pool(Stream& stream) {
  Guard guard(impl_->mutex);
  const auto found = impl_->replaced.find(stream.id);
  if (found == impl_->replaced.end()) return;
  impl_->heap.exchange_pool(stream, found->second);
  impl_->replaced.erase(found);
}

MemoryPool::~MemoryPool() {
  CachingAllocator::Impl& allocator = *device.allocator().impl_;
  Guard guard(allocator.mutex);
  for (StreamPool* each : pools_) each->retained = false;
}

void CachingAllocator::empty_cache() { impl_->release_cached(); }

// ---- Settings and reports

CachingAllocator::CachingAllocator(Device& device) : impl_(new Impl(device)) {}

CachingAllocator::~CachingAllocator() {
  try {
    empty_cache();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "[hardpoint] %s\n", e.what());
  }
}

void CachingAllocator::set_memory_fraction(double fraction) {
  if (!(fraction > 0 && fraction <= 1)) {
    throw Error(
        HP_INVALID_ARGUMENT,
        impl_->device.name() + ": the memory fraction must be above 0 and at most 1, got " + std::to_string(fraction));
  }
  const uint64_t total = impl_->device.memory_info().second;
  if (total == 0) {
    throw Error(HP_NOT_SUPPORTED, impl_->device.name() + ": cannot set a memory fraction: plug-in '" +
                                      impl_->device.plugin.name +
                                      "' does not report the device's total memory (HpInfo.memory)");
  }
  Guard guard(impl_->mutex);
  impl_->fraction = fraction;
  impl_->limit = static_cast<size_t>(std::floor(fraction * static_cast<double>(total)));
}

Device& CachingAllocator::device_of(const Block* block) { return block->segment->pool->stream->device; }

void CachingAllocator::release(Block* block) noexcept { device_of(block).allocator().free(block); }

void* CachingAllocator::address(const Block* block) { return block->address + (block->guarded ? kGuardBytes : 0); }

size_t CachingAllocator::requested_bytes(const Block* block) { return block->requested; }

Block* CachingAllocator::find(const void* ptr) {
  Guard guard(impl_->mutex);
  return impl_->heap.find(static_cast<const char*>(ptr));
}

std::pair<void*, size_t> CachingAllocator::segment_of(const Block* block) {
  return {block->segment->base, block->segment->size};
}

AllocatorStats CachingAllocator::stats() {
  Guard guard(impl_->mutex);
  return impl_->heap.stats.read();
}

void CachingAllocator::reset_peak_stats() {
  Guard guard(impl_->mutex);
  impl_->heap.stats.reset_peak();
}

void CachingAllocator::reset_accumulated_stats() {
  Guard guard(impl_->mutex);
  impl_->heap.stats.reset_accumulated();
}

std::vector<SegmentInfo> CachingAllocator::snapshot() {
  Guard guard(impl_->mutex);
  impl_->heap.merge_all_bins();
  return impl_->heap.snapshot();
}

}  // namespace hp
