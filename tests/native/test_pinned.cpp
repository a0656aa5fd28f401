// The caching allocator of pinned memory against the fake plug-in.
#include "core/memory/pinned_allocator.h"

#include <unistd.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "check.h"
#include "core/runtime/runtime.h"
#include "fake_plugin.h"

namespace {

int next_device = 0;  // each test has one of its own

struct PinnedBench {
  hp::PinnedAllocator allocator{full_runtime()};
  hp::Device& device = full_runtime().device(next_device++);
  PinnedBench() {
    pinned_under_test = &allocator;
    fake_pinned.allocates = fake_pinned.frees = 0;
  }
  ~PinnedBench() {
    allocator.empty_cache();
    pinned_under_test = nullptr;
  }
};

}  // namespace

TEST(pinned_memory_is_cached_by_size_class) {
  PinnedBench b;
  CHECK(b.allocator.supported());
  char* first = static_cast<char*>(b.allocator.allocate(1000));
  std::memset(first, 1, 1000);
  CHECK(b.allocator.is_pinned(first) && b.allocator.is_pinned(first + 999));
  CHECK(!b.allocator.is_pinned(first - 1) && !b.allocator.is_pinned(&b));
  hp::PinnedStats stats = b.allocator.stats();
  CHECK(stats.allocations == 1 && stats.active_blocks == 1);
  CHECK(stats.active_bytes == 1024 && stats.reserved_bytes == 1024);
  b.allocator.free(first);
  CHECK(!b.allocator.is_pinned(first));
  CHECK(b.allocator.allocate(600) == first);  // of the same class
  CHECK(b.allocator.allocate(1025) != first);
  CHECK(fake_pinned.allocates == 2);
  stats = b.allocator.stats();
  CHECK(stats.active_bytes == 3072 && stats.peak_active_bytes == 3072 && stats.allocations == 3);
  CHECK(b.allocator.allocate(0) == nullptr);
  b.allocator.free(nullptr);
  b.allocator.free(first + 1);  // not the start of a block: says so on stderr
  CHECK(b.allocator.stats().active_blocks == 2);
  b.allocator.free(first);
  b.allocator.free(first);  // twice: says so on stderr
  CHECK(b.allocator.stats().active_blocks == 1);
  b.allocator.empty_cache();
  CHECK(fake_pinned.frees == 1);
  CHECK(b.allocator.stats().reserved_bytes == 2048);
  for (const auto& entry : std::map<void*, size_t>(fake_pinned.live)) b.allocator.free(entry.first);
  b.allocator.empty_cache();
  CHECK(b.allocator.stats().reserved_bytes == 0 && fake_pinned.used == 0);
}

TEST(pinned_memory_waits_for_recorded_streams) {
  PinnedBench b;
  hp::Stream& side = b.device.new_stream(0);
  fake_of(side).stalled = true;
  char* ptr = static_cast<char*>(b.allocator.allocate(4096));
  CHECK(b.allocator.record_stream(ptr + 100, side));  // inside of the block
  int on_the_stack = 0;
  CHECK(!b.allocator.record_stream(&on_the_stack, side));
  b.allocator.free(ptr);
  CHECK(b.allocator.stats().active_blocks == 1);
  CHECK(!b.allocator.record_stream(ptr, side));
  void* other = b.allocator.allocate(4096);
  CHECK(other != ptr);
  fake_of(side).finish();
  CHECK(b.allocator.allocate(4096) == ptr);
  b.allocator.free(other);
  fake_of(side).stalled = true;
  b.allocator.record_stream(ptr, side);
  b.allocator.free(ptr);
  b.allocator.empty_cache();  // waits
  CHECK(b.allocator.stats().reserved_bytes == 0 && b.allocator.stats().active_bytes == 0);
}

TEST(pinned_out_of_memory) {
  PinnedBench b;
  fake_pinned.limit = fake_pinned.used + 8 * MiB;
  void* cached = b.allocator.allocate(4 * MiB);
  b.allocator.free(cached);
  void* all = b.allocator.allocate(8 * MiB);  // the cache makes room
  CHECK(fake_pinned.frees == 1);
  const std::string text = check::message_of<hp::OutOfMemory>([&] { b.allocator.allocate(5000); });
  CHECK(check::contains(text, "fake") && check::contains(text, "5000 bytes") &&
        check::contains(text, "cannot lock pages"));
  CHECK_THROWS(hp::OutOfMemory, "pinned", b.allocator.allocate(SIZE_MAX));
  b.allocator.free(all);
  b.allocator.free(b.allocator.allocate(5000));
  fake_pinned.limit = SIZE_MAX;
  fake_pinned.null_pointer = true;
  CHECK_THROWS(hp::Error, "NULL", b.allocator.allocate(100 * KiB));
  fake_pinned.null_pointer = false;
}

TEST(pinned_without_the_plugins_help_is_plain_memory) {
  hp::PinnedAllocator allocator(bare_runtime());
  CHECK(!allocator.supported());
  char* ptr = static_cast<char*>(allocator.allocate(100));
  CHECK(reinterpret_cast<uintptr_t>(ptr) % HP_ALIGNMENT == 0);
  std::memset(ptr, 7, 100);
  CHECK(allocator.is_pinned(ptr));
  CHECK(allocator.record_stream(ptr, bare_runtime().device(0).default_stream()));
  allocator.free(ptr);
  CHECK(allocator.allocate(100) == ptr);
  allocator.free(ptr);
  allocator.empty_cache();
  CHECK(allocator.stats().reserved_bytes == 0);
}

TEST(pinned_stress_from_four_threads) {
  PinnedBench b;
  hp::Stream* streams[] = {&b.device.default_stream(), &b.device.new_stream(0)};
  std::atomic<bool> broken{false};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      std::vector<std::pair<char*, size_t>> mine;
      for (int step = 0; step < 5000; ++step) {
        if (random() % 200 == 0) b.allocator.empty_cache();
        if (random() % 100 == 0) fake_of(*streams[1]).stalled = random() % 2 == 0;
        if (mine.size() < 20 && random() % 2 == 0) {
          const size_t bytes = 2 + random() % (32 * KiB);
          char* ptr = static_cast<char*>(b.allocator.allocate(bytes));
          ptr[0] = ptr[bytes - 1] = static_cast<char>(seed);
          mine.push_back({ptr, bytes});
        } else if (!mine.empty()) {
          auto entry = mine.back();
          mine.pop_back();
          if (entry.first[0] != static_cast<char>(seed) || entry.first[entry.second - 1] != static_cast<char>(seed)) {
            broken = true;
          }
          if (random() % 4 == 0) b.allocator.record_stream(entry.first + 1, *streams[random() % 2]);
          b.allocator.free(entry.first);
        }
      }
      for (auto& entry : mine) b.allocator.free(entry.first);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(!broken);
  b.allocator.empty_cache();
  const hp::PinnedStats stats = b.allocator.stats();
  CHECK(stats.active_blocks == 0 && stats.active_bytes == 0 && stats.reserved_bytes == 0);
  CHECK(fake_pinned.allocates == fake_pinned.frees);
}

int main(int argc, char** argv) {
  alarm(300);  // a broken locking rule shows as a hang
  return check::run(argc, argv);
}
