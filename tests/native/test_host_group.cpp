// Collectives through the host: the processes of a group are threads here.
#include "core/collectives/host_group.h"

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <thread>

#include "check.h"
#include "core/tensor/half.h"

namespace {

using hp::HostGroup;

struct Ranks {
  std::vector<std::string> messages;  // what each threw
};

// Runs `body` as every rank of a new group; what it throws stands in the result.
Ranks run_ranks(int size, const std::function<void(HostGroup&)>& body, uint32_t timeout_ms = 20000) {
  const hp::RendezvousAddress place = hp::open_rendezvous("127.0.0.1");
  Ranks ranks{std::vector<std::string>(size)};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        HostGroup group(place, rank, size, rank % 2 == 0 ? "127.0.0.1" : "", timeout_ms);
        body(group);
      } catch (const std::exception& error) {
        ranks.messages[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ranks;
}

void check_ranks(int size, const std::function<void(HostGroup&)>& body) {
  for (const std::string& message : run_ranks(size, body).messages) {
    if (!message.empty()) check::fail(__FILE__, __LINE__, message);
  }
}

std::vector<double> values_of(int rank, size_t count, unsigned seed, bool small) {
  std::mt19937 random(seed * 1000 + static_cast<unsigned>(rank));
  std::uniform_int_distribution<int> whole(small ? 1 : -20, small ? 3 : 20);
  std::vector<double> values(count);
  for (double& value : values) value = whole(random);
  return values;
}

// The reduction of every rank's numbers, on one thread, in double.
std::vector<double> expected_of(int size, size_t count, unsigned seed, HpReduction reduction, bool whole, bool small) {
  std::vector<double> result = values_of(0, count, seed, small);
  for (int rank = 1; rank < size; ++rank) {
    const std::vector<double> other = values_of(rank, count, seed, small);
    for (size_t i = 0; i < count; ++i) {
      double& mine = result[i];
      if (reduction == HP_SUM || reduction == HP_MEAN) mine += other[i];
      if (reduction == HP_PRODUCT) mine *= other[i];
      if (reduction == HP_MIN) mine = std::min(mine, other[i]);
      if (reduction == HP_MAX) mine = std::max(mine, other[i]);
    }
  }
  if (reduction == HP_MEAN) {
    for (double& value : result) value = whole ? std::trunc(value / size) : value / size;
  }
  return result;
}

template <class T>
T from_double(double value) {
  return static_cast<T>(value);
}
template <>
hp::Half from_double(double value) {
  return hp::to_half(static_cast<float>(value));
}
template <>
hp::BFloat16 from_double(double value) {
  return hp::to_bfloat16(static_cast<float>(value));
}

template <class T>
void check_reductions(HpElement element) {
  constexpr bool whole = std::is_integral_v<T>;
  for (const HpReduction reduction : {HP_SUM, HP_PRODUCT, HP_MIN, HP_MAX, HP_MEAN}) {
    const bool small = std::is_unsigned_v<T> || reduction == HP_PRODUCT;  // none below zero, no product too large
    for (const size_t count : {size_t{1}, size_t{2}, size_t{1001}}) {
      check_ranks(3, [&](HostGroup& group) {
        const auto seed = static_cast<unsigned>(count + element * 7 + reduction);
        std::vector<T> data(count), want(count), own(count), out(count, from_double<T>(99));
        const auto values = values_of(group.rank, count, seed, small);
        const auto expected = expected_of(group.size, count, seed, reduction, whole, small);
        for (size_t i = 0; i < count; ++i) {
          data[i] = own[i] = from_double<T>(values[i]);
          want[i] = from_double<T>(expected[i]);
        }
        const size_t bytes = count * sizeof(T);
        group.all_reduce(data.data(), data.data(), count, element, reduction);
        CHECK(std::memcmp(data.data(), want.data(), bytes) == 0);
        group.reduce(group.rank == 1 ? out.data() : nullptr, own.data(), count, element, reduction, 1);
        if (group.rank == 1) CHECK(std::memcmp(out.data(), want.data(), bytes) == 0);
        // The same array three times: every process's part is the whole reduction.
        std::vector<T> three;
        for (int i = 0; i < 3; ++i) three.insert(three.end(), own.begin(), own.end());
        group.reduce_scatter(out.data(), three.data(), count, element, reduction);
        CHECK(std::memcmp(out.data(), want.data(), bytes) == 0);
      });
    }
  }
}

}  // namespace

TEST(halves_round_to_the_nearest) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const hp::Half half{static_cast<uint16_t>(bits)};
    const hp::BFloat16 brain{static_cast<uint16_t>(bits)};
    const float wide = hp::widen(half);
    if (wide != wide) {
      CHECK(hp::widen(hp::to_half(wide)) != hp::widen(hp::to_half(wide)));
    } else {
      CHECK(hp::to_half(wide).bits == bits);
    }
    const float brain_wide = hp::widen(brain);
    if (brain_wide == brain_wide) CHECK(hp::to_bfloat16(brain_wide).bits == bits);
    // Half-way to the next one: to the even one.
    if (bits < 0x7bff) {
      const float next = hp::widen(hp::Half{static_cast<uint16_t>(bits + 1)});
      CHECK(hp::to_half((wide + next) / 2).bits == (bits % 2 == 0 ? bits : bits + 1));
      CHECK(hp::to_half(std::nextafter((wide + next) / 2, next)).bits == bits + 1);
    }
  }
  CHECK(hp::to_half(65519.0f).bits == 0x7bff);
  CHECK(hp::to_half(65520.0f).bits == 0x7c00);
  CHECK(hp::to_half(-std::numeric_limits<float>::infinity()).bits == 0xfc00);
}

TEST(reductions_of_integers) {
  check_reductions<uint8_t>(HP_UINT8);
  check_reductions<int8_t>(HP_INT8);
  check_reductions<int16_t>(HP_INT16);
  check_reductions<int32_t>(HP_INT32);
  check_reductions<int64_t>(HP_INT64);
}

TEST(reductions_of_floats) {
  check_reductions<hp::Half>(HP_FLOAT16);
  check_reductions<hp::BFloat16>(HP_BFLOAT16);
  check_reductions<float>(HP_FLOAT32);
  check_reductions<double>(HP_FLOAT64);
}

TEST(sums_of_halves_are_rounded_once) {
  check_ranks(4, [](HostGroup& group) {
    // 2048 + 1 + 1 + 1: a sum in halves would stay at 2048.
    hp::Half value = hp::to_half(group.rank == 0 ? 2048.0f : 1.0f);
    group.all_reduce(&value, &value, 1, HP_FLOAT16, HP_SUM);
    CHECK(hp::widen(value) == 2052.0f);  // 2051 lies half-way between 2050 and 2052
  });
}

TEST(a_nan_stays) {
  check_ranks(2, [](HostGroup& group) {
    for (const HpReduction reduction : {HP_SUM, HP_MIN, HP_MAX}) {
      for (int where = 0; where < 2; ++where) {
        float value = group.rank == where ? NAN : 1.0f;
        group.all_reduce(&value, &value, 1, HP_FLOAT32, reduction);
        CHECK(std::isnan(value));
      }
    }
  });
}

TEST(data_of_many_sizes_moves) {
  for (const int size : {1, 2, 5}) {
    check_ranks(size, [](HostGroup& group) {
      for (const size_t bytes : {size_t{0}, size_t{1}, size_t{70001}, size_t{3000000}}) {
        const int n = group.size;
        std::vector<char> own(bytes, static_cast<char>('a' + group.rank)), all(bytes * n);
        group.all_gather(all.data(), own.data(), bytes);
        for (size_t i = 0; i < all.size(); ++i) CHECK(all[i] == static_cast<char>('a' + i / bytes));
        const int root = n - 1;
        group.broadcast(own.data(), bytes, root);
        for (const char c : own) CHECK(c == 'a' + root);
        // Rank i sends i + j bytes more to rank j.
        std::vector<std::vector<char>> out(n), in(n);
        std::vector<HostGroup::PeerBuffer> sent(n), received(n);
        for (int peer = 0; peer < n; ++peer) {
          const size_t length = bytes == 0 ? 0 : bytes / n + static_cast<size_t>(peer + group.rank);
          out[peer].assign(length, static_cast<char>(group.rank * n + peer));
          in[peer].assign(length, 'x');
          sent[peer] = {out[peer].data(), length};
          received[peer] = {in[peer].data(), length};
        }
        group.all_to_all(sent, received);
        for (int peer = 0; peer < n; ++peer) {
          for (const char c : in[peer]) CHECK(c == static_cast<char>(peer * n + group.rank));
        }
      }
      group.barrier();
    });
  }
}

TEST(large_sums) {
  check_ranks(3, [](HostGroup& group) {
    const size_t count = 1500000;
    std::vector<float> data(count);
    for (size_t i = 0; i < count; ++i) data[i] = static_cast<float>((i + group.rank) % 1000);
    group.all_reduce(data.data(), data.data(), count, HP_FLOAT32, HP_SUM);
    for (size_t i = 0; i < count; i += 997) {
      CHECK(data[i] == static_cast<float>(i % 1000 + (i + 1) % 1000 + (i + 2) % 1000));
    }
  });
}

TEST(sends_do_not_wait_for_receives) {
  check_ranks(2, [](HostGroup& group) {
    const int other = 1 - group.rank;
    const size_t bytes = 8 << 20;  // more than the system keeps
    std::vector<char> first(bytes, static_cast<char>(group.rank)), second(3, 'z'), got(bytes), last(3);
    group.send(first.data(), bytes, other);
    group.send(second.data(), 3, other);
    std::fill(first.begin(), first.end(), 'x');  // it is the caller's again
    group.barrier();
    group.receive(got.data(), bytes, other);
    group.receive(last.data(), 3, other);
    for (const char c : got) CHECK(c == other);
    CHECK(last == second);
    // The last message arrives although its sender leaves at once.
    if (group.rank == 0) group.send(got.data(), bytes, 1);
    if (group.rank == 1) group.receive(first.data(), bytes, 0);
    if (group.rank == 1) CHECK(first == std::vector<char>(bytes, 1));
  });
}

TEST(another_call_is_named) {
  const Ranks ranks = run_ranks(3, [](HostGroup& group) {
    std::vector<float> data(8);
    if (group.rank == 2) group.all_reduce(data.data(), data.data(), 4, HP_FLOAT32, HP_MAX);
    group.all_reduce(data.data(), data.data(), 8, HP_FLOAT32, HP_SUM);
  });
  CHECK(check::contains(ranks.messages[0], "all_reduce (through the host) of rank 0 of 3: rank 2 makes another call"));
  CHECK(check::contains(ranks.messages[0], "all_reduce of 4 float32, max there, all_reduce of 8 float32, sum here"));
  CHECK(check::contains(ranks.messages[1], "rank 2 makes another call"));
  CHECK(check::contains(ranks.messages[2], "rank 0 makes another call"));
}

TEST(parts_and_messages_of_another_size_are_named) {
  const Ranks ranks = run_ranks(2, [](HostGroup& group) {
    char data[16] = {};
    std::vector<HostGroup::PeerBuffer> parts(2);
    parts[1 - group.rank] = {data, group.rank == 0 ? size_t{4} : size_t{5}};
    group.all_to_all(parts, parts);
  });
  for (const std::string& message : ranks.messages) CHECK(check::contains(message, "all_to_all (sends "));
  const Ranks pair = run_ranks(2, [](HostGroup& group) {
    char data[16] = {};
    if (group.rank == 0) group.send(data, 16, 1);
    if (group.rank == 1) group.receive(data, 8, 0);
  });
  CHECK(pair.messages[0].empty());
  CHECK(check::contains(pair.messages[1], "receive (through the host) of rank 1 of 2: rank 0 sends 16 bytes"));
}

TEST(one_that_is_gone_or_late_is_named) {
  const Ranks gone = run_ranks(3, [](HostGroup& group) {
    if (group.rank == 1) return;
    group.barrier();
  });
  // Whoever comes second may find that the first has given up already.
  CHECK(check::contains(gone.messages[0], "rank 1 is gone") || check::contains(gone.messages[2], "rank 1 is gone"));
  CHECK(!gone.messages[0].empty() && !gone.messages[2].empty());

  std::atomic<int> ended{0};
  const auto before = std::chrono::steady_clock::now();
  const Ranks late = run_ranks(
      3,
      [&](HostGroup& group) {
        if (group.rank == 1) {
          while (ended < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          return;
        }
        char byte;
        try {
          group.broadcast(&byte, 1, 0);
        } catch (const hp::Error&) {
          ++ended;
          CHECK_THROWS(hp::Error, "failed earlier", group.barrier());
          throw;
        }
      },
      300);
  CHECK(
      check::contains(late.messages[0], "broadcast (through the host) of rank 0 of 3: rank 1 did not join within 0.3"));
  CHECK(check::contains(late.messages[2], "rank 1 did not join") ||
        check::contains(late.messages[2], "rank 0 is gone"));
  CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(5));
}

TEST(a_rank_that_does_not_come_is_named) {
  const hp::RendezvousAddress place = hp::open_rendezvous("127.0.0.1");
  CHECK_THROWS(hp::Error, "joining a group as rank 0 of 3: ranks 1 and 2 did not connect within 0.2",
               HostGroup(place, 0, 3, "", 200));
  CHECK_THROWS(hp::Error, "rank 0 of a group must be the process", HostGroup(place, 0, 3, "", 200));
  CHECK_THROWS(hp::Error, "rank 0 did not answer at 127.0.0.1", HostGroup(place, 1, 3, "", 200));
  CHECK_THROWS(hp::Error, "has no rank 3", HostGroup(place, 3, 3, "", 200));
}

TEST(strangers_are_refused) {
  const hp::RendezvousAddress place = hp::open_rendezvous("127.0.0.1");
  hp::RendezvousAddress wrong = place;
  wrong.token[3] ^= 1;
  // One that says nothing, one that talks nonsense, one of another group.
  const hp::Deadline soon(2000);
  hp::Socket silent = hp::connect_to(place.address, place.port, soon);
  hp::Socket other = hp::connect_to(place.address, place.port, soon);
  const std::vector<char> nonsense(500, 'x');
  CHECK(other.write(nonsense.data(), nonsense.size()) == 500);
  std::string refused;
  std::thread stranger(
      [&] { refused = check::message_of<hp::Error>([&] { HostGroup(wrong, 1, 2, "127.0.0.1", 3000); }); });
  std::thread member([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    HostGroup(place, 1, 2, "127.0.0.1", 3000).barrier();
  });
  HostGroup(place, 0, 2, "127.0.0.1", 3000).barrier();
  member.join();
  stranger.join();
  CHECK(check::contains(refused, "rank 0 closed the connection"));
}

CHECK_MAIN
