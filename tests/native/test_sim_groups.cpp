// Groups of sim's collectives: joining, and what becomes of a group when something goes wrong.
#include <signal.h>

#include "sim_ranks.h"

namespace {

using std::chrono::duration;

double seconds_since(Clock::time_point start) { return duration<double>(Clock::now() - start).count(); }

struct Outcome {
  HpStatus status;
  std::string text;
};
Outcome wait_for(HpStream stream = nullptr) {
  const HpStatus status = sim().streams->synchronize(0, stream, 0);
  return {status, status == HP_OK ? "" : message};
}

// An all_reduce of float32 zeros, queued.
HpStatus all_reduce(Rank& self, size_t count, HpStream stream = nullptr) {
  static Memory memory(1 << 20);
  return self.table.all_reduce(self.communicator, memory.ptr, memory.ptr, count, HP_FLOAT32, HP_SUM, stream);
}

// Queued and waited for; a group that has failed by then refuses the call itself.
Outcome run_all_reduce(Rank& self, size_t count) {
  const HpStatus status = all_reduce(self, count);
  return status == HP_OK ? wait_for() : Outcome{status, message};
}

void expect(const Outcome& outcome, HpStatus status, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) CHECK_TEXT(outcome.text, part);
  CHECK(outcome.status == status);
}

// A group that failed says so at once, and the stream goes on.
void expect_failed_for_good(Rank& self, HpStatus status, const std::string& part) {
  const Clock::time_point start = Clock::now();
  message.clear();
  CHECK(all_reduce(self, 4) == status);
  CHECK_TEXT(message, "the group has failed");
  CHECK_TEXT(message, part);
  CHECK(self.table.send(self.communicator, nullptr, 0, 0, nullptr) == status);
  Memory memory(4);
  int value = 7, back = 0;
  memory.write(&value);
  memory.read(&back);
  CHECK(back == 7);
  CHECK(seconds_since(start) < 1);
}

}  // namespace

// --- joining -------------------------------------------------------------------------------------------------------

TEST(the_table_can_be_left_out) { expect_success(run_child("without", {{"HARDPOINT_SIM_COLLECTIVES", "0"}})); }
CHILD(without) { CHECK(sim().collectives == nullptr); }

TEST(ids) {
  GroupId id = new_group();
  const HpCollectives& table = *sim().collectives;
  OK(table.can_join(0, id.data()));
  CHECK(new_group() != id);
  GroupId elsewhere = id;
  elsewhere[44] ^= 1;  // in the machine's boot id
  CHECK(table.can_join(0, elsewhere.data()) == HP_NOT_SUPPORTED);
  CHECK_TEXT(message, "another machine");
  HpCommunicator communicator;
  CHECK(table.can_join(0, GroupId{}.data()) == HP_INVALID_ARGUMENT);
  CHECK(table.create(0, GroupId{}.data(), 0, 1, 100, &communicator) == HP_INVALID_ARGUMENT);
  CHECK(table.create(0, id.data(), 2, 2, 100, &communicator) == HP_INVALID_ARGUMENT);
  CHECK(table.create(0, id.data(), 0, 65, 100, &communicator) == HP_INVALID_ARGUMENT);
  CHECK(table.create(9, id.data(), 0, 1, 100, &communicator) == HP_INVALID_ARGUMENT);
  CHECK(!has_name(id));
}

CHILD(lonely) {
  const GroupId id = from_hex(getenv("TEST_ID"));
  HpCommunicator communicator;
  const Clock::time_point start = Clock::now();
  CHECK(sim().collectives->create(0, id.data(), 1, 3, 600, &communicator) == HP_TIMEOUT);
  CHECK_TEXT(message, "sim:0: rank 1 of 3: joining: rank 1 has waited 600 ms for ranks 0, 2");
  CHECK(seconds_since(start) > 0.5 && seconds_since(start) < 5);
}
TEST(nobody_else_joins) {
  const GroupId id = new_group();
  bool named = false, done = false;
  in_threads(2, [&](int thread) {
    if (thread == 0) {
      const Child child = run_child("lonely", {{"TEST_ID", to_hex(id)}});
      __atomic_store_n(&done, true, __ATOMIC_SEQ_CST);
      expect_success(child);
    } else {
      while (!named && !__atomic_load_n(&done, __ATOMIC_SEQ_CST)) {
        named = has_name(id);
        usleep(1000);
      }
    }
  });
  CHECK(named);  // while it waited; the other checks of has_name can fail
  CHECK(!has_name(id));
}

CHILD(different_sizes) {
  const GroupId id = from_hex(getenv("TEST_ID"));
  const int rank = atoi(getenv("TEST_RANK"));
  HpCommunicator communicator;
  if (rank == 1) usleep(200000);
  CHECK(sim().collectives->create(0, id.data(), rank, 2 + rank, 1000, &communicator) ==
        (rank == 0 ? HP_TIMEOUT : HP_INVALID_ARGUMENT));
  CHECK_TEXT(message, rank == 0 ? "for rank 1" : "disagree on the group size");
}
TEST(ranks_that_do_not_agree_on_the_size) { check_ranks("different_sizes", 2); }

CHILD(twice) {
  Rank self;
  HpCommunicator second;
  const GroupId other = new_group();
  in_threads(2, [&](int rank) {
    CHECK(self.table.create(0, other.data(), rank, 2, 5000, &second) == HP_NOT_SUPPORTED);
    CHECK_TEXT(message, "ranks 0 and 1 are in one process");
  });
  CHECK(!has_name(other));
}
TEST(two_ranks_in_one_process) { check_ranks("twice", 1); }

// --- calls that do not agree ---------------------------------------------------------------------------------------

CHILD(mismatch) {
  Rank self;
  OK(all_reduce(self, 5));
  OK(all_reduce(self, self.rank == 1 ? 8 : 4));
  expect(wait_for(), HP_INVALID_ARGUMENT,
         {"operator 'aten::test' failed on sim:0 stream 0",
          self.size == 2 ? "all_reduce #2: rank 0 calls " : "all_reduce #2: ranks 0, 2, 3 call ",
          "all_reduce of 4 float32 (sum), rank 1 calls all_reduce of 8 float32 (sum)"});
  expect_failed_for_good(self, HP_INVALID_ARGUMENT, "all_reduce of 8 float32");
}
TEST(sizes_that_differ) {
  check_ranks("mismatch", 2);
  check_ranks("mismatch", 4);
}

CHILD(other_call) {
  Rank self;
  Memory memory(64);
  if (self.rank == 0) OK(self.table.broadcast(self.communicator, memory.ptr, 16, 1, nullptr));
  if (self.rank == 1) OK(self.table.all_gather(self.communicator, memory.ptr, memory.ptr, 0, nullptr));
  expect(wait_for(), HP_INVALID_ARGUMENT,
         {"broadcast #1: rank 0 calls broadcast of 16 bytes from rank 1, rank 1 calls all_gather of 0 bytes"});
}
TEST(different_calls) { check_ranks("other_call", 2); }

CHILD(message_sizes) {
  Rank self;
  Memory memory(1 << 20);
  if (self.rank == 0) OK(self.table.send(self.communicator, memory.ptr, 1 << 20, 1, nullptr));
  if (self.rank == 1) OK(self.table.receive(self.communicator, memory.ptr, 12, 0, nullptr));
  expect(wait_for(), HP_INVALID_ARGUMENT,
         {"message #1 from rank 0 to rank 1: rank 0 sends 1048576 bytes, rank 1 receives 12"});
  expect_failed_for_good(self, HP_INVALID_ARGUMENT, "receives 12");
}
TEST(message_sizes_that_differ) { check_ranks("message_sizes", 2); }

CHILD(arguments) {
  Rank self;
  Memory memory(64);
  void* const data = memory.ptr;
  char host_memory[64];
  CHECK(self.table.send(self.communicator, data, 64, 1, nullptr) == HP_INVALID_ARGUMENT);
  CHECK_TEXT(message, "rank 1 does not exist in a group of 1");
  CHECK(self.table.broadcast(self.communicator, data, 64, -1, nullptr) == HP_INVALID_ARGUMENT);
  CHECK(self.table.broadcast(self.communicator, host_memory, 64, 0, nullptr) == HP_INVALID_ARGUMENT);
  CHECK_TEXT(message, "are not in this device's memory");
  CHECK(self.table.all_reduce(self.communicator, data, data, 1, static_cast<HpElement>(40), HP_SUM, nullptr) ==
        HP_NOT_SUPPORTED);
  CHECK(self.table.all_reduce(self.communicator, data, data, 1, HP_INT8, static_cast<HpReduction>(9), nullptr) ==
        HP_NOT_SUPPORTED);
  CHECK(self.table.group_end(self.communicator) == HP_INVALID_ARGUMENT);
  OK(all_reduce(self, 1));  // nothing was queued, and the group is well
  synchronize();
}
TEST(arguments_that_are_wrong) { check_ranks("arguments", 1); }

// --- ranks that do not come ----------------------------------------------------------------------------------------

CHILD(late) {
  Rank self(1500);
  OK(all_reduce(self, 5));
  synchronize();
  if (self.rank == 1) sleep(3);
  if (self.rank == 1) return expect_failed_for_good(self, HP_TIMEOUT, "for rank 1");
  OK(all_reduce(self, 5));
  OK(all_reduce(self, 6));  // does not wait once more
  const Clock::time_point start = Clock::now();
  expect(wait_for(), HP_TIMEOUT, {"all_reduce #2: rank ", "has waited 1500 ms for rank 1"});
  CHECK(seconds_since(start) < 2.7);
  expect_failed_for_good(self, HP_TIMEOUT, "all_reduce #2");
}
TEST(a_rank_that_is_late) { check_ranks("late", 3); }

CHILD(unanswered) {
  Rank self(1500);
  Memory memory(64);
  if (self.rank == 1) return void(sleep(2));
  OK(self.table.send(self.communicator, memory.ptr, 64, 1, nullptr));
  expect(wait_for(), HP_TIMEOUT, {"send #1 to rank 1: rank 0 has waited 1500 ms for rank 1"});
}
TEST(a_send_without_a_receive) { check_ranks("unanswered", 2); }

CHILD(dies) {
  Rank self;
  OK(all_reduce(self, 200000));
  synchronize();
  if (self.rank == 1) {
    // A child has all that the process had open, and outlives it; the process is dead nevertheless.
    if (fork() == 0) {
      close(1), close(2);
      sleep(3);
      _exit(0);
    }
    raise(SIGKILL);
  }
  const Clock::time_point start = Clock::now();
  expect(run_all_reduce(self, 200000), HP_ERROR, {"all_reduce #2: rank ", "waits for rank 1, whose process has ended"});
  CHECK(seconds_since(start) < 2);
  expect_failed_for_good(self, HP_ERROR, "rank 1");
}
TEST(a_rank_that_dies) {
  const std::vector<Child> ranks = run_ranks("dies", 3);
  expect_success(ranks[0]);
  CHECK(WIFSIGNALED(ranks[1].status) && WTERMSIG(ranks[1].status) == SIGKILL);
  expect_success(ranks[2]);
}

CHILD(leaves) {
  Rank self;
  OK(all_reduce(self, 200000));
  synchronize();
  if (self.rank == 1) return;
  OK(all_reduce(self, 5));
  expect(wait_for(), HP_ERROR, {"all_reduce #2: rank 0 waits for rank 1, which has left the group"});
}
TEST(a_rank_that_leaves) { check_ranks("leaves", 2); }

CHILD(aborts) {
  Rank self;
  const Clock::time_point start = Clock::now();
  Memory memory(64);
  if (self.rank == 1) OK(self.table.receive(self.communicator, memory.ptr, 64, 0, nullptr));
  std::thread thread([&] {
    usleep(500000);
    if (self.rank == 1) self.table.abort(self.communicator);
  });
  expect(self.rank == 1 ? wait_for() : run_all_reduce(self, 5), HP_ERROR, {"rank 1 aborted the group"});
  thread.join();
  CHECK(seconds_since(start) < 2);
  expect_failed_for_good(self, HP_ERROR, "rank 1 aborted");
}
TEST(abort_ends_all_waits) { check_ranks("aborts", 3); }

// --- faults --------------------------------------------------------------------------------------------------------

CHILD(struck) {
  Rank self(1500);
  OK(all_reduce(self, 5));
  synchronize();
  const bool hangs = getenv("TEST_HANG") != nullptr;
  const Outcome outcome = run_all_reduce(self, 5);
  if (hangs) return expect(outcome, HP_TIMEOUT, {"all_reduce #2", "has waited 1500 ms for rank 1"});
  if (self.rank == 1) return expect(outcome, HP_ERROR, {"operator 'aten::test' failed", "injected kernel failure"});
  expect(outcome, HP_ERROR, {"all_reduce #2: rank 1 failed before it began"});
}
TEST(injected_faults) {
  check_ranks("struck", 2, {{"RANK1:HARDPOINT_SIM_FAULT", "kernel:after=2"}});
  check_ranks("struck", 2,
              {{"RANK1:HARDPOINT_SIM_FAULT", "hang:after=2"}, {"HARDPOINT_SIM_HANG_SECONDS", "3"}, {"TEST_HANG", "1"}});
}

SIM_MAIN
