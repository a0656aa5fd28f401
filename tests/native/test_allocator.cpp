// The caching allocator of device memory against the fake plug-in; test_pinned.cpp has that of pinned memory.
// `test_allocator --benchmark` prints the cost of the fast path.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "check.h"
#include "core/memory/allocator.h"
#include "core/runtime/runtime.h"
#include "fake_plugin.h"

namespace {

// ---- Helpers

std::atomic<int> next_device{0};

// A device that no test used before, with its fake behind it.
struct Bench {
  const int index = next_device++;
  hp::Device& device = full_runtime().device(index);
  FakeDevice& fake = fake_devices[index];
  hp::CachingAllocator& allocator = device.allocator();
  hp::Stream& stream = device.default_stream();

  hp::Block* allocate(size_t bytes) { return allocator.allocate(bytes, stream); }
  char* address(const hp::Block* block) const { return static_cast<char*>(hp::CachingAllocator::address(block)); }
};

const hp::Stat& total(const hp::StatArray& stat) { return stat[hp::kAggregate]; }

template <class Visit>
void for_each_stat(const hp::AllocatorStats& stats, Visit visit) {
  for (const hp::StatArray* field :
       {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split, &stats.allocated_bytes,
        &stats.reserved_bytes, &stats.active_bytes, &stats.inactive_split_bytes, &stats.requested_bytes}) {
    for (const hp::Stat& stat : *field) visit(stat);
  }
}

void check_empty(const hp::AllocatorStats& stats) {
  for_each_stat(stats, [](const hp::Stat& stat) {
    CHECK(stat.current == 0);
    CHECK(stat.allocated == stat.freed);
  });
}

// The snapshot agrees with itself and with the statistics.
void check_snapshot(hp::CachingAllocator& allocator) {
  const std::vector<hp::SegmentInfo> segments = allocator.snapshot();
  const hp::AllocatorStats stats = allocator.stats();
  size_t reserved = 0, allocated = 0, active = 0, inactive_split = 0, inactive_split_bytes = 0, requested = 0;
  uint64_t end = 0;
  std::set<uint64_t> numbers;
  for (const hp::SegmentInfo& segment : segments) {
    CHECK(segment.address >= end);
    end = segment.address + segment.size;
    uint64_t expected = segment.address;
    bool last_free = false;
    for (const hp::BlockInfo& block : segment.blocks) {
      CHECK(block.address == expected);
      CHECK(block.size > 0 && block.size % 512 == 0);
      CHECK(block.requested <= block.size);
      CHECK(block.active || !block.allocated);
      CHECK(!(last_free && !block.active));  // free neighbors are merged
      last_free = !block.active;
      expected += block.size;
      if (block.allocated) {
        allocated += block.size;
        CHECK(block.number > 0 && numbers.insert(block.number).second);
      }
      if (block.active) active += block.size;
      requested += block.requested;
      if (!block.active && segment.blocks.size() > 1) {
        ++inactive_split;
        inactive_split_bytes += block.size;
      }
    }
    CHECK(expected == end);
    reserved += segment.size;
  }
  CHECK(total(stats.segment).current == static_cast<int64_t>(segments.size()));
  CHECK(total(stats.reserved_bytes).current == static_cast<int64_t>(reserved));
  CHECK(total(stats.allocated_bytes).current == static_cast<int64_t>(allocated));
  CHECK(total(stats.active_bytes).current == static_cast<int64_t>(active));
  CHECK(total(stats.requested_bytes).current == static_cast<int64_t>(requested));
  CHECK(total(stats.inactive_split).current == static_cast<int64_t>(inactive_split));
  CHECK(total(stats.inactive_split_bytes).current == static_cast<int64_t>(inactive_split_bytes));
}

}  // namespace

// ---- Caching

TEST(same_stream_reuses_at_once) {
  Bench b;
  for (size_t bytes : {size_t{1}, size_t{512}, size_t{4000}, 64 * KiB, 65 * KiB, MiB, 3 * MiB, 30 * MiB}) {
    hp::Block* block = b.allocate(bytes);
    char* address = b.address(block);
    CHECK(reinterpret_cast<uintptr_t>(address) % HP_ALIGNMENT == 0);
    b.allocator.free(block);
    block = b.allocate(bytes);
    CHECK(b.address(block) == address);
    b.allocator.free(block);
  }
  CHECK(b.fake.allocates == 3);  // one segment each of 2, 20 and 30 MiB
  CHECK(b.fake.frees == 0);
  CHECK(b.fake.records == 0 && b.fake.stream_syncs == 0);
  b.allocator.empty_cache();
}

TEST(other_stream_does_not_reuse) {
  Bench b;
  hp::Stream& side = b.device.new_stream(0);
  for (size_t bytes : {size_t{1000}, 2 * MiB}) {
    hp::Block* block = b.allocate(bytes);
    char* address = b.address(block);
    b.allocator.free(block);
    hp::Block* other = b.allocator.allocate(bytes, side);
    CHECK(b.address(other) != address);
    hp::Block* again = b.allocate(bytes);
    CHECK(b.address(again) == address);
    b.allocator.free(other);
    b.allocator.free(again);
  }
  b.allocator.empty_cache();
  check_empty(b.allocator.stats());
}

TEST(a_pool_keeps_its_memory_to_itself) {
  Bench b;
  hp::Block* before = b.allocate(1000);
  b.allocator.free(before);
  auto pool = std::make_unique<hp::MemoryPool>(b.device);
  b.allocator.begin_pool(*pool, b.stream);
  hp::Block *freed = b.allocate(1000), *kept = b.allocate(3 * MiB), *large = b.allocate(30 * MiB);
  const char* const address = b.address(freed);
  CHECK(address != b.address(before));
  b.allocator.free(freed);
  b.allocator.free(large);
  freed = b.allocate(1000);  // the pool itself reuses its memory
  CHECK(b.address(freed) == address);
  b.allocator.free(freed);
  b.allocator.end_pool(b.stream);

  hp::Block* after = b.allocate(1000);  // from the stream's own memory again
  CHECK(b.address(after) == b.address(before));
  b.allocator.free(after);
  b.allocator.empty_cache();
  CHECK(total(b.allocator.stats().segment).current == 3);  // the pool's, also where they are unused
  check_snapshot(b.allocator);

  pool.reset();
  b.allocator.empty_cache();
  CHECK(total(b.allocator.stats().segment).current == 1);  // that of the block in use
  pool = std::make_unique<hp::MemoryPool>(b.device);
  b.allocator.begin_pool(*pool, b.stream);
  hp::Block* next = b.allocate(3 * MiB);  // from the rest of that segment
  b.allocator.end_pool(b.stream);
  CHECK(total(b.allocator.stats().segment).current == 1);
  CHECK(b.address(next) != b.address(kept));
  b.allocator.free(next);
  b.allocator.free(kept);
  pool.reset();
  b.allocator.empty_cache();
  check_empty(b.allocator.stats());
}

TEST(refuses_misuse) {
  Bench b, other;
  CHECK_THROWS(hp::Error, "0 bytes", b.allocate(0));
  CHECK_THROWS(hp::Error, "another device", b.allocator.allocate(512, other.stream));
  CHECK_THROWS(hp::OutOfMemory, "tried to allocate 18446744073709551615 bytes", b.allocate(SIZE_MAX));
  b.allocator.free(nullptr);
  hp::Block* block = b.allocate(512);
  b.allocator.free(block);
  b.allocator.free(block);  // says so on stderr
  CHECK(total(b.allocator.stats().allocation).current == 0);
  b.allocator.empty_cache();
}

TEST(sizes_are_rounded_as_in_torch) {
  Bench b;
  auto segment_size = [&](size_t bytes) {
    hp::Block* block = b.allocate(bytes);
    const size_t size = b.allocator.segment_of(block).second;
    b.allocator.free(block);
    b.allocator.empty_cache();
    return size;
  };
  CHECK(segment_size(1) == 2 * MiB);
  CHECK(segment_size(MiB) == 2 * MiB);
  CHECK(segment_size(MiB + 1) == 20 * MiB);
  CHECK(segment_size(10 * MiB - 512) == 20 * MiB);
  CHECK(segment_size(10 * MiB) == 10 * MiB);
  CHECK(segment_size(11 * MiB) == 12 * MiB);

  hp::Block* block = b.allocate(513);
  const hp::AllocatorStats stats = b.allocator.stats();
  CHECK(total(stats.allocated_bytes).current == 1024);
  CHECK(total(stats.requested_bytes).current == 513);
  b.allocator.free(block);
  b.allocator.empty_cache();
}

TEST(large_block_with_small_rest_is_not_split) {
  Bench b;
  hp::Block* block = b.allocate(19 * MiB);
  b.allocator.free(block);  // a cached segment of 20 MiB
  block = b.allocate(19 * MiB);
  CHECK(total(b.allocator.stats().allocated_bytes).current == static_cast<int64_t>(20 * MiB));
  CHECK(total(b.allocator.stats().inactive_split).current == 0);
  b.allocator.free(block);
  block = b.allocate(19 * MiB - 512);  // a rest above 1 MiB is split off
  CHECK(total(b.allocator.stats().allocated_bytes).current == static_cast<int64_t>(19 * MiB - 512));
  CHECK(total(b.allocator.stats().inactive_split_bytes).current == static_cast<int64_t>(MiB + 512));
  b.allocator.free(block);
  b.allocator.empty_cache();
  check_empty(b.allocator.stats());
}

TEST(best_fit_takes_the_smallest_hole) {
  Bench b;
  std::vector<hp::Block*> blocks;
  for (size_t size : {300 * KiB, 100 * KiB, 200 * KiB, 100 * KiB, 250 * KiB, 100 * KiB}) {
    blocks.push_back(b.allocate(size));
  }
  char* hole = b.address(blocks[2]);
  for (int i : {0, 2, 4}) b.allocator.free(blocks[i]);
  hp::Block* block = b.allocate(190 * KiB);
  CHECK(b.address(block) == hole);
  CHECK(b.fake.allocates == 1);
  b.allocator.free(block);
  for (int i : {1, 3, 5}) b.allocator.free(blocks[i]);
  b.allocator.empty_cache();
  check_empty(b.allocator.stats());
}

TEST(split_blocks_merge_again) {
  Bench b;
  std::vector<hp::Block*> blocks;
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) blocks.push_back(b.allocate(1 + random() % (100 * KiB)));
  for (int i = 0; i < 20; ++i) blocks.push_back(b.allocate(MiB + 1 + random() % (15 * MiB)));
  check_snapshot(b.allocator);
  std::shuffle(blocks.begin(), blocks.end(), random);
  for (size_t i = 0; i < blocks.size() / 2; ++i) b.allocator.free(blocks[i]);
  check_snapshot(b.allocator);
  for (size_t i = blocks.size() / 2; i < blocks.size(); ++i) b.allocator.free(blocks[i]);
  check_snapshot(b.allocator);
  for (const hp::SegmentInfo& segment : b.allocator.snapshot()) CHECK(segment.blocks.size() == 1);
  const int segments = b.fake.allocates;
  b.allocator.empty_cache();
  CHECK(b.fake.frees == segments);
  CHECK(b.fake.used == 0);
  CHECK(b.allocator.snapshot().empty());
  check_empty(b.allocator.stats());
}

TEST(binned_blocks_serve_other_sizes_before_the_device_is_asked) {
  Bench b;
  std::vector<hp::Block*> blocks;
  for (int i = 0; i < 32; ++i) blocks.push_back(b.allocate(64 * KiB));  // exactly one segment
  CHECK(b.fake.allocates == 1);
  for (hp::Block* block : blocks) b.allocator.free(block);
  hp::Block* block = b.allocate(MiB);
  CHECK(b.fake.allocates == 1);
  b.allocator.free(block);
  b.allocator.empty_cache();
  check_empty(b.allocator.stats());
}

TEST(find_and_segment_of) {
  Bench b;
  hp::Block* first = b.allocate(1000);
  hp::Block* second = b.allocate(5000);
  CHECK(b.allocator.find(b.address(first)) == first);
  CHECK(b.allocator.find(b.address(first) + 999) == first);
  CHECK(b.allocator.find(b.address(second) + 4999) == second);
  CHECK(b.allocator.segment_of(second).first == b.address(first));
  int on_the_host = 0;
  CHECK(b.allocator.find(&on_the_host) == nullptr);
  char* address = b.address(first);
  b.allocator.free(first);
  CHECK(b.allocator.find(address) == nullptr);
  b.allocator.free(second);
  b.allocator.empty_cache();
}

// ---- Other streams

TEST(record_stream_keeps_memory_until_the_event_is_done) {
  Bench b;
  hp::Stream& side = b.device.new_stream(0);
  for (size_t bytes : {size_t{1000}, 2 * MiB}) {
    fake_of(side).stalled = true;
    hp::Block* block = b.allocate(bytes);
    char* address = b.address(block);
    b.allocator.record_stream(block, side);
    b.allocator.record_stream(block, side);
    b.allocator.record_stream(block, b.stream);  // its own: nothing to do
    const int records = b.fake.records;
    b.allocator.free(block);
    CHECK(b.fake.records == records + 1);

    hp::AllocatorStats stats = b.allocator.stats();
    CHECK(total(stats.allocation).current == 0);
    CHECK(total(stats.active).current == 1);
    CHECK(total(stats.requested_bytes).current == static_cast<int64_t>(bytes));
    check_snapshot(b.allocator);

    hp::Block* other = b.allocate(bytes);
    CHECK(b.address(other) != address);
    fake_of(side).finish();
    hp::Block* again = b.allocate(bytes);
    CHECK(b.address(again) == address);
    b.allocator.free(other);
    b.allocator.free(again);
    CHECK(total(b.allocator.stats().active).current == 0);
  }
  b.allocator.empty_cache();
  check_empty(b.allocator.stats());
}

TEST(all_recorded_streams_must_be_done) {
  Bench b;
  hp::Stream& first = b.device.new_stream(0);
  hp::Stream& second = b.device.new_stream(-1);
  fake_of(first).stalled = fake_of(second).stalled = true;
  hp::Block* block = b.allocate(3 * MiB);
  char* address = b.address(block);
  b.allocator.record_stream(block, first);
  b.allocator.record_stream(block, second);
  b.allocator.free(block);
  fake_of(first).finish();
  hp::Block* big = b.allocate(18 * MiB);
  CHECK(total(b.allocator.stats().active).current == 2);
  fake_of(second).finish();
  hp::Block* again = b.allocate(20 * MiB);
  CHECK(b.address(again) == address);  // merged with the rest of its segment
  CHECK(total(b.allocator.stats().active).current == 2);
  b.allocator.free(big);
  b.allocator.free(again);
  b.allocator.empty_cache();
  check_empty(b.allocator.stats());
}

TEST(a_busy_stream_is_asked_once_a_round) {
  Bench b;
  hp::Stream& side = b.device.new_stream(0);
  fake_of(side).stalled = true;
  std::vector<hp::Block*> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(b.allocate(2 * MiB));
  for (hp::Block* block : blocks) {
    b.allocator.record_stream(block, side);
    b.allocator.free(block);
  }
  const int queries = b.fake.queries;
  hp::Block* block = b.allocate(2 * MiB);
  CHECK(b.fake.queries == queries + 1);
  fake_of(side).finish();
  b.allocator.free(block);
  b.allocator.empty_cache();
  check_empty(b.allocator.stats());
}

TEST(empty_cache_waits_for_pending_events_and_for_queued_work) {
  Bench b;
  hp::Stream& side = b.device.new_stream(0);
  fake_of(side).stalled = true;
  hp::Block* block = b.allocate(3 * MiB);
  b.allocator.record_stream(block, side);
  b.allocator.free(block);
  b.allocator.empty_cache();
  CHECK(b.fake.event_syncs == 1);
  CHECK(b.fake.stream_syncs == 1);  // the stream that owned the memory
  CHECK(b.fake.used == 0);
  check_empty(b.allocator.stats());
}

TEST(without_an_event_the_stream_itself_is_asked) {
  Bench b;
  hp::Stream& side = b.device.new_stream(0);
  fake_of(side).stalled = true;
  hp::Block* block = b.allocate(2 * MiB);
  char* address = b.address(block);
  b.allocator.record_stream(block, side);
  b.fake.fault = Fault::kRecordError;
  b.allocator.free(block);  // says so on stderr
  b.fake.fault = Fault::kNone;
  hp::Block* other = b.allocate(2 * MiB);
  CHECK(b.address(other) != address);
  hp::Block* rest = b.allocate(16 * MiB);
  fake_of(side).finish();
  hp::Block* again = b.allocate(2 * MiB);
  CHECK(b.fake.queries == 0);
  for (hp::Block* each : {other, rest, again}) b.allocator.free(each);
  b.allocator.empty_cache();
  check_empty(b.allocator.stats());
}

TEST(failed_work_surfaces_in_empty_cache_and_nothing_is_lost) {
  Bench b;
  b.allocator.free(b.allocate(3 * MiB));
  b.fake.fault = Fault::kSyncError;
  CHECK_THROWS(hp::Error, "kernel crashed", b.allocator.empty_cache());
  CHECK(b.fake.frees == 0);
  CHECK(total(b.allocator.stats().reserved_bytes).current == static_cast<int64_t>(20 * MiB));
  check_snapshot(b.allocator);
  b.fake.fault = Fault::kNone;
  hp::Block* block = b.allocate(3 * MiB);
  CHECK(b.fake.allocates == 1);
  b.allocator.free(block);
  b.allocator.empty_cache();
  check_empty(b.allocator.stats());
}

// ---- Out of memory

TEST(out_of_memory_tells_what_to_know_and_recovers) {
  Bench b;
  b.fake.limit = 64 * MiB;
  hp::Block* held = b.allocate(20 * MiB);
  hp::Block* small = b.allocate(MiB);
  const std::string text = check::message_of<hp::OutOfMemory>([&] { b.allocate(100 * MiB); });
  const std::string parts[] = {b.device.name(),
                               "104857600 bytes",
                               "100.00 MiB",
                               "42.00 MiB free of 64.00 MiB",
                               "21.00 MiB allocated",
                               "1.00 MiB cached",
                               "largest free cached block 1.00 MiB",
                               "fake memory is full",
                               "smaller batch"};
  for (const std::string& part : parts) {
    if (!check::contains(text, part)) check::fail(__FILE__, __LINE__, part + " is missing in: " + text);
  }
  CHECK(!check::contains(text, "fraction"));
  hp::AllocatorStats stats = b.allocator.stats();
  CHECK(stats.num_ooms == 1);
  CHECK(stats.num_alloc_retries == 1);
  CHECK(b.fake.allocates == 4);  // 2 segments, the request and its retry

  hp::Block* block = b.allocate(40 * MiB);
  b.allocator.free(block);
  b.allocator.free(held);
  b.allocator.free(small);
  b.allocator.empty_cache();
  check_empty(b.allocator.stats());
}

TEST(a_full_device_is_retried_after_the_cache_was_freed) {
  Bench b;
  b.fake.limit = 64 * MiB;
  b.allocator.free(b.allocate(40 * MiB));
  hp::Stream& side = b.device.new_stream(0);
  hp::Block* pending = b.allocator.allocate(20 * MiB, side);
  fake_of(b.stream).stalled = true;
  b.allocator.record_stream(pending, b.stream);
  b.allocator.free(pending);
  hp::Block* block = b.allocate(60 * MiB);  // needs both, one of which waits for an event
  CHECK(b.fake.frees == 2);
  hp::AllocatorStats stats = b.allocator.stats();
  CHECK(stats.num_alloc_retries == 1);
  CHECK(stats.num_ooms == 0);
  CHECK(stats.num_sync_all_streams == 1);
  CHECK(stats.num_device_alloc == 3 && stats.num_device_free == 2);
  b.allocator.free(block);
  b.allocator.empty_cache();
  check_empty(b.allocator.stats());
}

TEST(memory_that_another_thread_gives_back_is_waited_for) {
  Bench b;
  b.fake.limit = 40 * MiB;
  hp::Block* first = b.allocate(20 * MiB);
  hp::Block* second = b.allocate(20 * MiB);
  b.allocator.free(first);
  b.allocator.free(second);
  b.fake.free_delay_ms = 20;
  std::thread releasing([&] { b.allocator.empty_cache(); });
  while (b.fake.freeing == 0) std::this_thread::yield();
  hp::Block* block = b.allocate(40 * MiB);
  releasing.join();
  b.fake.free_delay_ms = 0;
  CHECK(b.allocator.stats().num_ooms == 0);
  b.allocator.free(block);
  b.allocator.empty_cache();
  check_empty(b.allocator.stats());
}

TEST(memory_fraction_limits_what_is_reserved) {
  Bench b;
  b.fake.limit = 100 * MiB;
  for (double bad : {0.0, -0.5, 1.5, std::nan("")}) {
    CHECK_THROWS(hp::Error, "must be above 0", b.allocator.set_memory_fraction(bad));
  }
  b.allocator.set_memory_fraction(0.5);
  hp::Block* held = b.allocate(30 * MiB);
  const int allocates = b.fake.allocates;
  const std::string text = check::message_of<hp::OutOfMemory>([&] { b.allocate(30 * MiB); });
  CHECK(check::contains(text, "fraction is set to 0.5"));
  CHECK(check::contains(text, "50.00 MiB"));
  CHECK(b.fake.allocates == allocates);  // the plug-in was not even asked
  hp::Block* fits = b.allocate(20 * MiB);
  b.allocator.free(fits);
  b.allocator.free(held);
  hp::Block* block = b.allocate(50 * MiB);  // the cache makes room
  b.allocator.free(block);
  b.allocator.set_memory_fraction(1.0);
  block = b.allocate(100 * MiB);
  b.allocator.free(block);
  b.allocator.empty_cache();
  check_empty(b.allocator.stats());
}

TEST(a_plugin_without_extensions) {
  hp::Device& device = bare_runtime().device(next_device++);
  hp::CachingAllocator& allocator = device.allocator();
  CHECK_THROWS(hp::Error, "does not report", allocator.set_memory_fraction(0.5));
  fake_devices[device.index].limit = 10 * MiB;
  CHECK_THROWS(hp::OutOfMemory, "does not report", allocator.allocate(100 * MiB, device.default_stream()));
  hp::Block* block = allocator.allocate(100, device.default_stream());
  hp::Stream& side = device.new_stream(0);
  allocator.record_stream(block, side);
  allocator.free(block);
  allocator.empty_cache();
  check_empty(allocator.stats());
}

// ---- Bad plug-ins

TEST(bad_pointers_are_refused) {
  Bench b;
  b.fake.fault = Fault::kNullPointer;
  std::string text = check::message_of<hp::Error>([&] { b.allocate(100); });
  CHECK(check::contains(text, "'fake'") && check::contains(text, "NULL") && check::contains(text, "HP_OUT_OF_MEMORY"));
  CHECK(b.fake.frees == 0);

  b.fake.fault = Fault::kUnaligned;
  text = check::message_of<hp::Error>([&] { b.allocate(100); });
  CHECK(check::contains(text, "'fake'") && check::contains(text, "0x") &&
        check::contains(text, "multiple of HP_ALIGNMENT (64)"));
  CHECK(b.fake.frees == 1);
  CHECK(b.fake.used == 0);

  b.fake.fault = Fault::kNone;
  hp::Block* block = b.allocate(100);
  b.fake.fault = Fault::kDuplicate;
  text = check::message_of<hp::Error>([&] { b.allocate(5 * MiB); });
  CHECK(check::contains(text, "'fake'") && check::contains(text, "overlaps"));

  b.fake.fault = Fault::kAllocateError;
  text = check::message_of<hp::Error>([&] { b.allocate(5 * MiB); });
  CHECK(check::contains(text, b.device.name()) && check::contains(text, "the bus went away"));

  b.fake.fault = Fault::kNone;
  b.allocator.free(b.allocate(5 * MiB));
  b.allocator.free(block);
  b.allocator.empty_cache();
  check_empty(b.allocator.stats());
}

TEST(a_failing_free_is_told) {
  Bench b;
  b.allocator.free(b.allocate(100));
  b.allocator.free(b.allocate(5 * MiB));
  b.fake.fault = Fault::kFreeError;
  const std::string text = check::message_of<hp::Error>([&] { b.allocator.empty_cache(); });
  CHECK(check::contains(text, b.device.name()) && check::contains(text, "page table is stuck"));
  CHECK(b.fake.frees == 2);  // the others are freed nevertheless
  check_empty(b.allocator.stats());
  b.fake.fault = Fault::kNone;
  b.allocator.free(b.allocate(100));
  b.allocator.empty_cache();
}

// ---- Statistics

TEST(statistics_and_their_resets) {
  Bench b;
  hp::Block* small = b.allocate(1000);
  hp::Block* large = b.allocate(5 * MiB);
  hp::AllocatorStats stats = b.allocator.stats();
  CHECK(stats.allocation[hp::kSmallPool].current == 1 && stats.allocation[hp::kLargePool].current == 1);
  CHECK(total(stats.allocation).current == 2 && total(stats.allocation).allocated == 2);
  CHECK(stats.allocated_bytes[hp::kSmallPool].current == 1024);
  CHECK(stats.reserved_bytes[hp::kSmallPool].current == static_cast<int64_t>(2 * MiB));
  CHECK(stats.reserved_bytes[hp::kLargePool].current == static_cast<int64_t>(20 * MiB));
  CHECK(total(stats.segment).current == 2);
  CHECK(stats.inactive_split[hp::kSmallPool].current == 1);
  CHECK(stats.inactive_split_bytes[hp::kSmallPool].current == static_cast<int64_t>(2 * MiB - 1024));
  CHECK(stats.inactive_split_bytes[hp::kLargePool].current == static_cast<int64_t>(15 * MiB));

  b.allocator.free(small);  // to its bin: inactive, in a split segment
  stats = b.allocator.stats();
  CHECK(stats.active[hp::kSmallPool].current == 0);
  CHECK(stats.inactive_split[hp::kSmallPool].current == 2);
  CHECK(stats.inactive_split_bytes[hp::kSmallPool].current == static_cast<int64_t>(2 * MiB));
  CHECK(total(stats.allocated_bytes).peak == static_cast<int64_t>(5 * MiB + 1024));
  CHECK(total(stats.allocation).freed == 1);
  b.allocator.snapshot();  // merges: the segment is whole again
  CHECK(b.allocator.stats().inactive_split[hp::kSmallPool].current == 0);

  b.allocator.reset_peak_stats();
  b.allocator.reset_accumulated_stats();
  stats = b.allocator.stats();
  CHECK(total(stats.allocated_bytes).peak == static_cast<int64_t>(5 * MiB));
  CHECK(stats.allocated_bytes[hp::kSmallPool].peak == 0);
  CHECK(stats.num_device_alloc == 0);
  for_each_stat(stats, [](const hp::Stat& stat) {
    CHECK(stat.peak == stat.current);
    CHECK(stat.allocated == 0 && stat.freed == 0);
  });
  b.allocator.free(large);
  stats = b.allocator.stats();
  CHECK(total(stats.allocation).freed == 1 && total(stats.allocation).allocated == 0);
  CHECK(total(stats.allocated_bytes).freed == static_cast<int64_t>(5 * MiB));
  b.allocator.empty_cache();
}

TEST(aggregate_peak_is_the_peak_of_the_sum) {
  Bench b;
  hp::Block* small = b.allocate(MiB);
  b.allocator.free(small);
  hp::Block* large = b.allocate(2 * MiB);
  b.allocator.free(large);
  const hp::AllocatorStats stats = b.allocator.stats();
  CHECK(stats.allocated_bytes[hp::kSmallPool].peak == static_cast<int64_t>(MiB));
  CHECK(stats.allocated_bytes[hp::kLargePool].peak == static_cast<int64_t>(2 * MiB));
  CHECK(total(stats.allocated_bytes).peak == static_cast<int64_t>(2 * MiB));
  b.allocator.empty_cache();
}

TEST(too_much_in_bins_is_merged) {
  Bench b;
  std::vector<hp::Block*> blocks;
  for (int i = 0; i < 400; ++i) blocks.push_back(b.allocate(64 * KiB));  // 25 MiB
  for (hp::Block* block : blocks) b.allocator.free(block);
  CHECK(total(b.allocator.stats().inactive_split).current < 300);  // 16 MiB and more were merged into whole segments
  b.allocator.empty_cache();
  check_empty(b.allocator.stats());
}

// ---- Threads

namespace {

// The memory that is live now, over all threads: no two ranges may overlap.
class LiveRanges {
 public:
  bool add(const char* begin, size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto after = ranges_.lower_bound(begin);
    if (after != ranges_.end() && after->first < begin + bytes) return false;
    if (after != ranges_.begin() && std::prev(after)->second > begin) return false;
    ranges_[begin] = begin + bytes;
    return true;
  }
  void remove(const char* begin) {
    std::lock_guard<std::mutex> lock(mutex_);
    ranges_.erase(begin);
  }

 private:
  std::mutex mutex_;
  std::map<const char*, const char*> ranges_;
};

size_t random_size(std::mt19937& random) {
  const uint32_t kind = random() % 100;
  if (kind < 50) return 1 + random() % (4 * KiB);
  if (kind < 75) return 1 + random() % (80 * KiB);
  if (kind < 92) return 1 + random() % (2 * MiB);
  return 1 + random() % (16 * MiB);
}

}  // namespace

TEST(stress_from_four_threads_over_three_streams) {
  Bench b;
  b.fake.limit = 256 * MiB;  // small enough for the device to be full at times
  hp::Stream* streams[] = {&b.stream, &b.device.new_stream(0), &b.device.new_stream(-1)};
  LiveRanges live;
  std::atomic<int> allocations{0}, full{0};
  std::atomic<bool> broken{false};

  auto work = [&](unsigned seed) {
    struct Mine {
      hp::Block* block;
      char* address;
      size_t bytes;
      char tag;
    };
    std::mt19937 random(seed);
    std::vector<Mine> mine;
    auto drop = [&](size_t i) {
      const Mine entry = mine[i];
      for (size_t at = 0; at < entry.bytes; at += 4093) {
        if (entry.address[at] != entry.tag) broken = true;
      }
      if (entry.address[entry.bytes - 1] != entry.tag) broken = true;
      live.remove(entry.address);
      if (random() % 8 == 0) b.allocator.record_stream(entry.block, *streams[random() % 3]);
      b.allocator.free(entry.block);
      mine[i] = mine.back();
      mine.pop_back();
    };
    for (int step = 0; step < 8000 && !broken; ++step) {
      const uint32_t action = random() % 1000;
      if (action < 2) {
        b.allocator.empty_cache();
      } else if (action < 4) {
        for (const hp::SegmentInfo& segment : b.allocator.snapshot()) {
          size_t sum = 0;
          for (const hp::BlockInfo& block : segment.blocks) sum += block.size;
          if (sum != segment.size) broken = true;
        }
      } else if (action < 10) {
        FakeStream& stream = fake_of(*streams[random() % 3]);
        stream.stalled = !stream.stalled;
        stream.finish();
      } else if (mine.size() > 40 || (action < 480 && !mine.empty())) {
        drop(random() % mine.size());
      } else {
        const size_t bytes = random_size(random);
        try {
          hp::Block* block = b.allocator.allocate(bytes, *streams[random() % 3]);
          auto* address = b.address(block);
          ++allocations;
          if (!live.add(address, bytes)) broken = true;
          const char tag = static_cast<char>(random());
          for (size_t at = 0; at < bytes; at += 4093) address[at] = tag;
          address[bytes - 1] = tag;
          mine.push_back({block, address, bytes, tag});
        } catch (const hp::OutOfMemory&) {
          ++full;
          while (mine.size() > 10) drop(mine.size() - 1);
        }
      }
    }
    while (!mine.empty()) drop(mine.size() - 1);
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back(work, 17 + i);
  for (std::thread& thread : threads) thread.join();

  CHECK(!broken);
  CHECK(allocations >= 10000);
  CHECK(b.allocator.stats().num_ooms == full);
  check_snapshot(b.allocator);
  b.allocator.empty_cache();
  const hp::AllocatorStats stats = b.allocator.stats();
  check_empty(stats);
  CHECK(total(stats.allocation).allocated == allocations);
  CHECK(stats.num_device_alloc == stats.num_device_free);
  CHECK(b.allocator.snapshot().empty());
  CHECK(b.fake.used == 0);
}

// ---- Benchmark

namespace {

template <class Call>
double ns_per_call(int calls, Call call) {
  double best = 1e30;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call(i);
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    best = std::min(best, spent.count() / calls);
  }
  return best;
}

void benchmark() {
  Bench b;
  const size_t mixed[] = {512, 4096, 100, 65536, 2048, 16384, 700, 30000};
  auto pair_of = [&](size_t bytes) { b.allocator.free(b.allocate(bytes)); };
  const double yardstick = ns_per_call(2000000, [](int) {
    void* volatile ptr = std::malloc(1024);
    std::free(ptr);
  });
  auto print = [&](const char* what, double ns) {
    std::printf("%-44s %7.1f ns  %5.1fx malloc + free\n", what, ns, ns / yardstick);
  };
  print("malloc + free, 1 KiB", yardstick);
  print("allocate + free, 1 KiB", ns_per_call(2000000, [&](int) { pair_of(1024); }));
  print("allocate + free, 8 sizes up to 64 KiB", ns_per_call(2000000, [&](int i) { pair_of(mixed[i % 8]); }));
  print("allocate + free, 256 KiB (best fit)", ns_per_call(500000, [&](int) { pair_of(256 * KiB); }));
  print("allocate + free, 4 MiB (best fit)", ns_per_call(500000, [&](int) { pair_of(4 * MiB); }));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--benchmark") == 0) {
    benchmark();
    return 0;
  }
  alarm(300);  // a broken locking rule shows as a hang
  return check::run(argc, argv);
}
