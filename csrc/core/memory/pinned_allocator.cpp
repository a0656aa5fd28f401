#include "core/memory/pinned_allocator.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/memory/stream_uses.h"
#include "core/runtime/error.h"
#include "core/runtime/runtime.h"

namespace hp {
namespace {

// Sizes are powers of two so that freed blocks fit most later requests: locking pages costs more than the memory that
// rounding wastes.
constexpr size_t kMinBytes = 512;
constexpr size_t kMaxBytes = std::numeric_limits<size_t>::max() / 4;
constexpr int kNumClasses = 64;

int class_of(size_t bytes) {
  int index = 0;
  while ((kMinBytes << index) < bytes) ++index;
  return index;
}

struct PinnedBlock {
  char* address;
  size_t size;
  int size_class;
  bool allocated;
  std::shared_ptr<StreamUses> uses;
};

}  // namespace

// Functions marked "no lock" call the plug-in and must be called without the lock.
struct PinnedAllocator::Impl {
  explicit Impl(Runtime& runtime) : plugin(*runtime.plugin) {}

  const Plugin& plugin;
  mutable std::mutex mutex;  // guards everything below
  std::map<const char*, PinnedBlock> blocks;
  std::array<std::vector<PinnedBlock*>, kNumClasses> cached;
  PendingFrees<PinnedBlock> pending;
  PinnedStats stats;

  bool supported() const { return plugin.pinned.allocate != nullptr && plugin.pinned.free != nullptr; }
  // The allocated block that contains `ptr`, or null.
  PinnedBlock* find(const void* ptr);
  PinnedBlock* take(int size_class);
  HpStatus raw_allocate(size_t bytes, void** ptr) const;
  HpStatus raw_free(void* ptr) const;
  void make_available(PinnedBlock* block);
  void process_pending(bool wait);
  void release_cached();
};

HpStatus PinnedAllocator::Impl::raw_allocate(size_t bytes, void** ptr) const {
  if (supported()) return guarded([&] { return plugin.pinned.allocate(bytes, ptr); });
  *ptr = std::aligned_alloc(HP_ALIGNMENT, bytes);
  return *ptr != nullptr ? HP_OK : HP_OUT_OF_MEMORY;
}

HpStatus PinnedAllocator::Impl::raw_free(void* ptr) const {
  if (supported()) return guarded([&] { return plugin.pinned.free(ptr); });
  std::free(ptr);
  return HP_OK;
}

PinnedBlock* PinnedAllocator::Impl::find(const void* ptr) {
  const char* address = static_cast<const char*>(ptr);
  auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return nullptr;
  PinnedBlock& block = std::prev(after)->second;
  return block.allocated && address < block.address + block.size ? &block : nullptr;
}

PinnedBlock* PinnedAllocator::Impl::take(int size_class) {
  std::vector<PinnedBlock*>& list = cached[size_class];
  if (list.empty()) return nullptr;
  PinnedBlock* block = list.back();
  list.pop_back();
  return block;
}

void PinnedAllocator::Impl::make_available(PinnedBlock* block) {
  stats.active_blocks -= 1;
  stats.active_bytes -= static_cast<int64_t>(block->size);
  cached[block->size_class].push_back(block);
}

// No lock.
void PinnedAllocator::Impl::process_pending(bool wait) {
  std::vector<PendingFrees<PinnedBlock>::Entry> entries;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (pending.empty()) return;
    entries = pending.copy();
  }
  PendingFrees<PinnedBlock>::keep_done(entries, wait);
  std::lock_guard<std::mutex> lock(mutex);
  pending.retire(entries, [this](PinnedBlock* block) { make_available(block); });
}

// No lock.
void PinnedAllocator::Impl::release_cached() {
  process_pending(/*wait=*/true);
  std::vector<char*> unused;
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (auto& list : cached) {
      for (PinnedBlock* block : list) {
        unused.push_back(block->address);
        stats.reserved_bytes -= static_cast<int64_t>(block->size);
        blocks.erase(block->address);
      }
      list.clear();
    }
  }
  HpStatus failure = HP_OK;
  std::string message;
  for (char* address : unused) {
    const HpStatus status = raw_free(address);
    if (status == HP_OK || failure != HP_OK) continue;
    failure = status;
    message = take_message();
  }
  if (failure != HP_OK) {
    store_message(std::move(message));
    check(failure, plugin.name + ": free of pinned memory");
  }
}

PinnedAllocator::PinnedAllocator(Runtime& runtime) : impl_(new Impl(runtime)) {}

PinnedAllocator::~PinnedAllocator() {
  try {
    empty_cache();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "[hardpoint] %s\n", e.what());
  }
}

bool PinnedAllocator::supported() const { return impl_->supported(); }

void* PinnedAllocator::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  Impl& impl = *impl_;
  if (bytes > kMaxBytes) {
    throw OutOfMemory(impl.plugin.name + ": out of pinned host memory: tried to allocate " + std::to_string(bytes) +
                      " bytes");
  }
  const int size_class = class_of(bytes);
  const size_t size = kMinBytes << size_class;

  auto hand_out = [&](PinnedBlock& block) -> void* {
    block.allocated = true;
    PinnedStats& stats = impl.stats;
    stats.allocations += 1;
    stats.active_blocks += 1;
    stats.active_bytes += static_cast<int64_t>(size);
    stats.peak_active_bytes = std::max(stats.peak_active_bytes, stats.active_bytes);
    return block.address;
  };
  auto from_cache = [&]() -> void* {
    std::lock_guard<std::mutex> lock(impl.mutex);
    PinnedBlock* block = impl.take(size_class);
    return block != nullptr ? hand_out(*block) : nullptr;
  };

  if (void* ptr = from_cache()) return ptr;
  impl.process_pending(/*wait=*/false);
  if (void* ptr = from_cache()) return ptr;

  void* ptr = nullptr;
  HpStatus status = impl.raw_allocate(size, &ptr);
  if (status == HP_OUT_OF_MEMORY) {
    take_message();
    impl.release_cached();
    status = impl.raw_allocate(size, &ptr);
  }
  if (status == HP_OUT_OF_MEMORY) {
    const std::string reason = take_message();
    const PinnedStats stats = this->stats();
    throw OutOfMemory(impl.plugin.name + ": out of pinned host memory: tried to allocate " + std::to_string(bytes) +
                      " bytes, rounded to " + std::to_string(size) + "; " + std::to_string(stats.active_bytes) +
                      " bytes are in use" + (reason.empty() ? "" : "; the plug-in says: " + reason) +
                      ". Pin fewer or smaller tensors.");
  }
  HP_CHECK(status, impl.plugin.name + ": allocate of pinned memory");
  if (ptr == nullptr) {
    throw Error(HP_ERROR, impl.plugin.name + ": HpPinned.allocate returned HP_OK and NULL for " + std::to_string(size) +
                              " bytes: it must return HP_OUT_OF_MEMORY when there is no memory");
  }
  std::lock_guard<std::mutex> lock(impl.mutex);
  auto* address = static_cast<char*>(ptr);
  PinnedBlock& block = impl.blocks[address];
  block = {address, size, size_class, false, nullptr};
  impl.stats.reserved_bytes += static_cast<int64_t>(size);
  return hand_out(block);
}

void PinnedAllocator::free(void* ptr) noexcept {
  if (ptr == nullptr) return;
  Impl& impl = *impl_;
  try {
    std::shared_ptr<StreamUses> uses;
    PinnedBlock* block;
    {
      std::unique_lock<std::mutex> lock(impl.mutex);
      block = impl.find(ptr);
      if (block == nullptr || block->address != ptr) {
        lock.unlock();
        std::fprintf(stderr, "[hardpoint] %s: ignored the free of %p, which is not an allocated pinned block\n",
                     impl.plugin.name.c_str(), ptr);
        return;
      }
      block->allocated = false;
      if (!block->uses) {
        impl.make_available(block);
        return;
      }
      uses = std::move(block->uses);
    }
    uses->record();
    std::lock_guard<std::mutex> lock(impl.mutex);
    impl.pending.add(block, std::move(uses));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "[hardpoint] %s: freeing pinned memory failed, it is leaked: %s\n", impl.plugin.name.c_str(),
                 e.what());
  }
}

bool PinnedAllocator::record_stream(const void* ptr, Stream& stream) {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  PinnedBlock* block = impl_->find(ptr);
  if (block == nullptr) return false;
  if (!block->uses) block->uses = std::make_shared<StreamUses>();
  block->uses->add(stream);
  return true;
}

bool PinnedAllocator::is_pinned(const void* ptr) const {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->find(ptr) != nullptr;
}

void PinnedAllocator::empty_cache() { impl_->release_cached(); }

void PinnedAllocator::reset_peak_stats() {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->stats.peak_active_bytes = impl_->stats.active_bytes;
}

void PinnedAllocator::reset_accumulated_stats() {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->stats.allocations = 0;
}

PinnedStats PinnedAllocator::stats() const {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->stats;
}

}  // namespace hp
