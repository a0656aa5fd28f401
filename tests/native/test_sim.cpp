// The plug-in `sim`, through the public contract only. test_sim_kernels.cpp has its kernels, test_sim_compiler.cpp the
// compiler extension.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <complex>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "sim_tensor.h"

namespace {

// A task that takes tens of milliseconds.
struct Slow {
  Tensor a{kFloat, {8, 384, 384}}, b{kFloat, {8, 384, 384}}, out{kFloat, {8, 384, 384}};
  Slow() {
    a.pattern(1);
    b.pattern(2);
  }
  void launch() { CALL("matmul", out, a, b); }
};

// --- contract and configuration ------------------------------------------------------------------------------------

TEST(identity) {
  CHECK(std::string(sim().name) == "sim" && sim().abi_major == HP_ABI_MAJOR && sim().struct_size == sizeof(HpPlugin));
  int count = 0;
  OK(sim().device_count(&count));
  CHECK(count == 2);
  HpProperties properties{};
  properties.struct_size = sizeof properties;
  OK(sim().info->properties(0, &properties));
  CHECK(std::string(properties.name) == "Hardpoint simulated accelerator");
  CHECK(properties.total_memory == uint64_t{16} << 30 && properties.compute_units > 0);
  CHECK(sim().info->properties(2, &properties) == HP_INVALID_ARGUMENT);
  CHECK_TEXT(message, "sim:2 does not exist");
  for (size_t i = 0; i < sim().num_kernels; ++i) {
    CHECK(sim().kernels[i].flags == HP_KERNEL_STRIDED);
    const std::string exported = std::string("__tvm_ffi_") + sim().kernels[i].name;
    CHECK(symbol<HpKernelFunction>(exported.c_str()) == sim().kernels[i].function);
  }
}

CHILD(refuses_configuration) {
  const HpPlugin* plugin = nullptr;
  CHECK(init(&plugin) != HP_OK && plugin == nullptr);
  printf("%s\n", message.c_str());
}
TEST(bad_configuration) {
  const char* const cases[][2] = {
      {"HARDPOINT_SIM_DEVICES", "17"},         {"HARDPOINT_SIM_DEVICES", "two"}, {"HARDPOINT_SIM_DEVICES", "-1"},
      {"HARDPOINT_SIM_MEMORY", "1X"},          {"HARDPOINT_SIM_MEMORY", "0"},    {"HARDPOINT_SIM_JITTER", "x"},
      {"HARDPOINT_SIM_DETERMINISTIC", "true"},
  };
  for (const auto& c : cases) {
    const Child child = run_child("refuses_configuration", {{c[0], c[1]}});
    expect_success(child);
    CHECK_TEXT(child.output, std::string(c[0]) + " is '" + c[1] + "'");
  }
  const Child child = run_child("refuses_configuration", {{"HARDPOINT_SIM_FAULT", "kernl"}});
  expect_success(child);
  CHECK_TEXT(child.output, "'kernl' is not one of allocate, copy, kernel, hang");
}

CHILD(no_devices) {
  int count = -1;
  OK(sim().device_count(&count));
  CHECK(count == 0);
  void* ptr;
  CHECK(sim().allocate(0, 1, &ptr) == HP_INVALID_ARGUMENT);
}
TEST(zero_devices) { expect_success(run_child("no_devices", {{"HARDPOINT_SIM_DEVICES", "0"}})); }

// --- memory --------------------------------------------------------------------------------------------------------

CHILD(small_memory) {
  constexpr uint64_t kTotal = 1 << 20;
  CHECK(free_memory(0) == kTotal);
  {
    Memory one(1), whole_page(4096), more(4097);
    for (const Memory* m : {&one, &whole_page, &more}) CHECK(reinterpret_cast<uintptr_t>(m->ptr) % HP_ALIGNMENT == 0);
    CHECK(free_memory(0) == kTotal - 4 * 4096 && free_memory(1) == kTotal);
    void* ptr;
    CHECK(sim().allocate(0, kTotal, &ptr) == HP_OUT_OF_MEMORY);
    CHECK_TEXT(message, "sim:0 is out of memory: 1048576 bytes requested, 1032192 of 1048576 free");
    CHECK(sim().allocate(0, SIZE_MAX, &ptr) == HP_OUT_OF_MEMORY);
    CHECK(sim().allocate(0, 0, &ptr) == HP_INVALID_ARGUMENT);
  }
  CHECK(free_memory(0) == kTotal);
  // Freed in any order, the pieces become one range again.
  std::vector<void*> pieces(256);
  for (void*& piece : pieces) OK(sim().allocate(0, 4096, &piece));
  CHECK(free_memory(0) == 0);
  for (size_t i = 0; i < pieces.size(); ++i) OK(sim().free(0, pieces[i * 37 % pieces.size()]));
  Memory everything(kTotal);
  CHECK(free_memory(0) == 0);
  const std::vector<char> zeros(kTotal), ones(kTotal, 1);
  everything.write(ones.data());
  std::vector<char> back(kTotal);
  everything.read(back.data());
  CHECK(back == ones);
}
TEST(memory_accounting) { expect_success(run_child("small_memory", {{"HARDPOINT_SIM_MEMORY", "1M"}})); }

TEST(freed_memory_is_given_back) {
  std::vector<char> ones(1 << 20, 1), back(ones.size());
  void* first;
  {
    Memory memory(ones.size());
    first = memory.ptr;
    memory.write(ones.data());
  }
  Memory again(ones.size());
  CHECK(again.ptr == first);
  again.read(back.data());
  CHECK(back == std::vector<char>(ones.size(), 0));
}

TEST(wrong_pointers) {
  Memory memory(100), other(100, 1);
  char on_host[100] = {};
  CHECK(sim().free(0, on_host) == HP_INVALID_ARGUMENT);
  char text[32];
  snprintf(text, sizeof text, "free of %p", static_cast<void*>(on_host));
  CHECK_TEXT(message, text);
  CHECK(sim().free(1, memory.ptr) == HP_INVALID_ARGUMENT);
  CHECK(sim().free(0, static_cast<char*>(memory.ptr) + 4096) == HP_INVALID_ARGUMENT);
  CHECK(sim().copy_to_device(0, on_host, on_host, 100, nullptr) == HP_INVALID_ARGUMENT);
  CHECK_TEXT(message, "is a host pointer; expected memory of sim:0");
  CHECK(sim().copy_to_device(0, memory.ptr, other.ptr, 100, nullptr) == HP_INVALID_ARGUMENT);
  CHECK_TEXT(message, "is a device pointer; expected host memory");
  CHECK(sim().copy_to_host(0, memory.ptr, memory.ptr, 100, nullptr) == HP_INVALID_ARGUMENT);
  CHECK(sim().copy_to_host(0, on_host, other.ptr, 100, nullptr) == HP_INVALID_ARGUMENT);
  CHECK_TEXT(message, "is not memory of sim:0");
  CHECK(sim().copy_on_device(0, memory.ptr, other.ptr, 100, nullptr) == HP_INVALID_ARGUMENT);
  Tensor out(kFloat, {4}), in(kFloat, {4});
  in.dl.data = on_host;
  CHECK(call("relu", out, in) != 0);
  CHECK_TEXT(raised, "RuntimeError: sim: relu was given a tensor at");
}

CHILD(checked) {
  Memory memory(4096);
  char on_host[8192];
  CHECK(sim().copy_to_host(0, on_host, memory.ptr, 4097, nullptr) == HP_INVALID_ARGUMENT);
  OK(sim().copy_to_host(0, on_host, memory.ptr, 4096, nullptr));
  Tensor out(kFloat, {4}), freed(kFloat, {4});
  freed.memory.reset();
  CHECK(call("relu", out, freed) != 0);
}
TEST(checked_mode_knows_live_allocations) { expect_success(run_child("checked", {{"HARDPOINT_SIM_CHECKED", "1"}})); }

TEST(copies) {
  for (size_t bytes : {1, 100, 64 << 10, 3 << 20}) {
    std::vector<unsigned char> from(bytes), to(bytes);
    for (size_t i = 0; i < bytes; ++i) from[i] = static_cast<unsigned char>(i * 31 + bytes);
    Memory a(bytes), b(bytes), c(bytes, 1);
    OK(sim().copy_to_device(0, a.ptr, from.data(), bytes, nullptr));
    OK(sim().copy_on_device(0, b.ptr, a.ptr, bytes, nullptr));
    OK(sim().peer->copy(1, c.ptr, 0, b.ptr, bytes, nullptr));
    synchronize();
    c.read(to.data());
    CHECK(from == to);
  }
}

TEST(pinned_memory) {
  constexpr size_t kBytes = 10000;
  void* ptr;
  OK(sim().pinned->allocate(kBytes, &ptr));
  CHECK(reinterpret_cast<uintptr_t>(ptr) % HP_ALIGNMENT == 0);
  memset(ptr, 5, kBytes);
  Memory memory(kBytes);
  OK(sim().copy_to_device(0, memory.ptr, ptr, kBytes, nullptr));
  synchronize();
  memset(ptr, 0, kBytes);
  OK(sim().copy_to_host(0, ptr, memory.ptr, kBytes, nullptr));
  synchronize();
  for (size_t i = 0; i < kBytes; ++i) CHECK(static_cast<char*>(ptr)[i] == 5);
  OK(sim().pinned->free(ptr));
  CHECK(sim().pinned->free(ptr) == HP_INVALID_ARGUMENT);
}

std::string hexadecimal(const unsigned char* bytes, size_t count) {
  std::string text;
  char digits[3];
  for (size_t i = 0; i < count; ++i) {
    snprintf(digits, sizeof digits, "%02x", bytes[i]);
    text += digits;
  }
  return text;
}
CHILD(opens_memory) {
  unsigned char handle[HP_IPC_HANDLE_BYTES];
  const char* const text = getenv("HP_SIM_HANDLE");
  for (size_t i = 0; i < sizeof handle; ++i)
    handle[i] = static_cast<unsigned char>(std::stoi(std::string(text + 2 * i, 2), nullptr, 16));
  const uint64_t before = free_memory(1);
  void* ptr;
  OK(sim().interprocess->open_memory(1, handle, &ptr));
  CHECK(free_memory(1) == before);
  std::vector<float> values(5000);
  OK(sim().copy_to_host(1, values.data(), ptr, 20000, nullptr));
  synchronize(1);
  for (size_t i = 0; i < values.size(); ++i) CHECK(values[i] == static_cast<float>(i));
  Tensor view(kFloat, {5000}, {}, 1);
  view.dl.data = ptr;
  CALL("mul", view, view, 2);
  synchronize(1);
  OK(sim().interprocess->close_memory(1, ptr));
  CHECK(sim().interprocess->close_memory(1, ptr) == HP_INVALID_ARGUMENT);
  handle[0] ^= 1;
  CHECK(sim().interprocess->open_memory(1, handle, &ptr) == HP_INVALID_ARGUMENT);
}
TEST(interprocess) {
  Memory first(4096), memory(20000);  // not at offset 0
  std::vector<float> values(5000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  memory.write(values.data());
  unsigned char handle[HP_IPC_HANDLE_BYTES];
  CHECK(sim().interprocess->export_memory(0, static_cast<char*>(memory.ptr) + 64, 64, handle) == HP_INVALID_ARGUMENT);
  OK(sim().interprocess->export_memory(0, memory.ptr, 20000, handle));
  expect_success(run_child("opens_memory", {{"HP_SIM_HANDLE", hexadecimal(handle, sizeof handle)}}));
  memory.read(values.data());
  for (size_t i = 0; i < values.size(); ++i) CHECK(values[i] == 2 * static_cast<float>(i));
}

// --- host access to device memory, fork, exit ----------------------------------------------------------------------

CHILD(touches_memory) {
  Memory memory(4096, 1);
  printf("%d", *static_cast<volatile int*>(memory.ptr));
}
CHILD(touches_memory_handled) {
  struct sigaction action{};
  action.sa_handler = [](int) { _exit(42); };
  sigaction(SIGSEGV, &action, nullptr);
  child_touches_memory();
}
CHILD(touches_null) {
  sim();
  volatile int* null = nullptr;
  printf("%d", *null);
}
TEST(host_access_faults) {
  if (kSanitized) {
    printf("skip host_access_faults: the sanitizer handles SIGSEGV itself\n");
    return;
  }
  Child child = run_child("touches_memory");
  CHECK(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGSEGV);
  CHECK_TEXT(child.output, "hardpoint sim: host code touched device memory at 0x");
  CHECK_TEXT(child.output,
             "(sim:1). Device memory is not readable from the host: copy the tensor first, e.g. tensor.cpu()");
  child = run_child("touches_memory_handled");
  CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 42);
  CHECK_TEXT(child.output, "host code touched device memory");
  child = run_child("touches_null");
  CHECK(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGSEGV);
  CHECK(!contains(child.output, "hardpoint sim"));
}

TEST(fork_after_use_is_refused) {
  Tensor a(kFloat, {100000}), out(kFloat, {100000});
  a.pattern(1);
  CALL("relu", out, a);  // the worker exists now
  synchronize();
  CHECK(after_fork([&] {
    void* ptr;
    return sim().allocate(0, 4096, &ptr) == HP_DEVICE_LOST && contains(message, "fork()") &&
           sim().streams->synchronize(0, nullptr, 0) == HP_DEVICE_LOST && call("relu", out, a) != 0 &&
           contains(raised, "fork()") && sim().free(0, a.memory->ptr) == HP_OK;
  }));
  a.read();
  CHECK(a.get(3) == Reference((3 * 7 + 1) % 11 - 5));
}
CHILD(forks_before_use) {
  sim();
  CHECK(after_fork([] {
    Slow slow;
    slow.launch();
    synchronize();
    return true;
  }));
}
TEST(fork_before_use_is_fine) {
#if defined(__SANITIZE_THREAD__)
  printf("skip fork_before_use_is_fine: ThreadSanitizer has its own thread, and allows no new ones after fork\n");
#else
  expect_success(run_child("forks_before_use"));
#endif
}

CHILD(exits_while_busy) {
  static Tensor* const out = new Tensor(kFloat, {4});
  CHECK(set_fault("hang:count=0") == 0);
  CALL("fill", *out, 1);
  HpStream stream = new_stream(1);
  HpEvent event = new_event();
  OK(sim().events->record(0, event, nullptr));
  OK(sim().events->wait(1, event, stream));
  OK(sim().events->destroy(0, event));  // the queued record and wait keep what they need
}
TEST(exit_does_not_wait) {
  const auto start = Clock::now();
  expect_success(run_child("exits_while_busy"));
  CHECK(Clock::now() - start < std::chrono::seconds(20));
}

// --- streams and events --------------------------------------------------------------------------------------------

TEST(large_work_is_asynchronous) {
  Slow slow;
  HpEvent start = new_event(0, 1), end = new_event(0, 1), plain = new_event();
  double ms = -1;
  CHECK(sim().events->query(0, end) == HP_OK);  // never recorded
  CHECK(sim().events->elapsed(0, start, end, &ms) == HP_INVALID_ARGUMENT);
  const auto begin = Clock::now();
  OK(sim().events->record(0, start, nullptr));
  slow.launch();
  OK(sim().events->record(0, end, nullptr));
  CHECK(sim().streams->query(0, nullptr) == HP_NOT_READY);
  CHECK(sim().events->query(0, end) == HP_NOT_READY);
  OK(sim().events->synchronize(0, end, 0));
  const double wall = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  CHECK(sim().events->query(0, end) == HP_OK);
  synchronize();
  CHECK(sim().streams->query(0, nullptr) == HP_OK);
  OK(sim().events->elapsed(0, start, end, &ms));
  CHECK(ms > 0.5 && ms <= wall);
  OK(sim().events->record(0, plain, nullptr));
  CHECK(sim().events->elapsed(0, start, plain, &ms) == HP_INVALID_ARGUMENT);
  CHECK_TEXT(message, "without timing");
  for (HpEvent event : {start, end, plain}) OK(sim().events->destroy(0, event));
}

TEST(order_within_a_stream) {
  // Tiny tasks behind large ones must not overtake them; more tasks than the queue has room for.
  Tensor small(kFloat, {8}), large(kFloat, {20000});
  small.pattern(0);
  CALL("fill", small, 0);
  CALL("fill", large, 0);
  for (int i = 0; i < 1500; ++i) {
    CALL("add", small, small, 1, 1);
    CALL("add", large, large, 1, 1);
    CALL("mul", small, small, -1);
  }
  check_values(large, "large", [](int64_t) { return 1500; });
  check_values(small, "small", [](int64_t) { return 0; });  // -(0+1), -(-1+1), ...
}

TEST(stream_handles) {
  HpStream stream = new_stream(1);
  CHECK(sim().streams->synchronize(0, stream, 0) == HP_INVALID_ARGUMENT);
  CHECK_TEXT(message, "belongs to sim:1, not to sim:0");
  CHECK(sim().streams->destroy(1, nullptr) == HP_INVALID_ARGUMENT);
  OK(sim().streams->destroy(1, stream));
  CHECK(sim().streams->query(1, stream) == HP_INVALID_ARGUMENT);
  CHECK_TEXT(message, "was destroyed");
  CHECK(new_stream(1) == stream);  // recycled
  OK(sim().streams->destroy(1, stream));
}

TEST(events_between_streams_and_devices) {
  HpStream producer = new_stream(0), consumer = new_stream(1);
  HpEvent event = new_event(0);
  Tensor source(kFloat, {4}), target(kFloat, {4}, {}, 1);
  source.fill_host({1, 1, 1, 1});
  CALL("fill", target, 0);
  synchronize(1);
  CHECK(set_fault("hang:operator=slow") == 0);
  operator_name = "test::slow";
  current_streams[0] = producer;
  CALL("fill", source, 7);
  operator_name = "aten::test";
  OK(sim().events->record(0, event, producer));
  OK(sim().events->wait(1, event, consumer));
  // Recording again must not release the wait for the first record.
  OK(sim().events->record(0, event, nullptr));
  OK(sim().events->synchronize(0, event, 0));
  current_streams[1] = consumer;
  CALL("add", target, target, 1, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(sim().streams->query(1, consumer) == HP_NOT_READY);
  OK(sim().events->record(0, event, producer));
  CHECK(sim().events->synchronize(0, event, 10) == HP_TIMEOUT);
  CHECK(set_fault("") == 0);
  synchronize(1, consumer);
  current_streams.clear();
  OK(sim().peer->copy(1, target.memory->ptr, 0, source.memory->ptr, 16, nullptr));
  synchronize(0);
  check_values(target, "target", [](int64_t) { return 7; });
  OK(sim().events->destroy(0, event));
  OK(sim().streams->destroy(0, producer));
  OK(sim().streams->destroy(1, consumer));
}

TEST(timeout_names_the_operator) {
  Tensor out(kFloat, {4});
  CHECK(set_fault("hang") == 0);
  operator_name = "aten::add.Tensor";
  CALL("fill", out, 1);
  operator_name = "aten::test";
  CALL("fill", out, 2);
  CALL("fill", out, 3);
  CHECK(sim().streams->synchronize(0, nullptr, 30) == HP_TIMEOUT);
  CHECK_TEXT(message, "operator 'aten::add.Tensor' has been running for ");
  CHECK_TEXT(message, " ms on sim:0 stream 0; 2 more tasks wait behind it");
  CHECK(set_fault("") == 0);
  check_values(out, "after the hang", [](int64_t) { return 3; });
}

// --- faults --------------------------------------------------------------------------------------------------------

TEST(fault_specifications) {
  for (const char* bad : {"kernl", "kernel:after=x", "kernel:after=0", "kernel:often=1", "kernel,", "copy:count="}) {
    CHECK(set_fault(bad) == -1);
    CHECK_TEXT(message, "fault specification");
  }
  CHECK(set_fault("kernel:after=2:count=3:operator=aten::add,copy,hang,allocate:count=0") == 0);
  CHECK(set_fault("") == 0);
}

TEST(allocation_fault) {
  void* ptr;
  CHECK(set_fault("allocate:after=2:count=2") == 0);
  for (HpStatus expected : {HP_OK, HP_OUT_OF_MEMORY, HP_OUT_OF_MEMORY, HP_OK}) {
    const HpStatus status = sim().allocate(0, 4096, &ptr);
    CHECK(status == expected);
    if (status == HP_OK) OK(sim().free(0, ptr));
  }
  CHECK_TEXT(message, "injected allocation failure");
}

TEST(kernel_fault) {
  Tensor out(kFloat, {4});
  CALL("fill", out, 1);
  CHECK(set_fault("kernel:operator=add") == 0);
  operator_name = "aten::mul.Tensor";
  CALL("mul", out, out, 2);
  operator_name = "aten::add.Tensor";
  CALL("add", out, out, 5, 1);  // fails
  operator_name = "aten::test";
  CALL("mul", out, out, 3);
  CHECK(sim().streams->synchronize(0, nullptr, 0) == HP_ERROR);
  CHECK_TEXT(message, "operator 'aten::add.Tensor' failed on sim:0 stream 0: injected kernel failure");
  check_values(out, "the failed kernel did nothing", [](int64_t) { return 6; });  // synchronizes: reported once
}

TEST(copy_fault) {
  Tensor a(kFloat, {4});
  a.fill_host({1, 2, 3, 4});
  float values[4] = {};
  CHECK(set_fault("copy:count=0") == 0);
  for (int i = 0; i < 3; ++i) {
    OK(sim().copy_to_host(0, values, a.memory->ptr, 16, nullptr));
    CHECK(sim().streams->synchronize(0, nullptr, 0) == HP_ERROR);
    CHECK_TEXT(message, "injected copy failure");
  }
  CHECK(set_fault("") == 0);
  CHECK(values[3] == 0);
  OK(sim().copy_to_host(0, values, a.memory->ptr, 16, nullptr));
  synchronize();
  CHECK(values[3] == 4);
}

CHILD(hangs_briefly) {
  Tensor out(kFloat, {4});
  const auto start = Clock::now();
  CALL("fill", out, 1);
  check_values(out, "after the hang", [](int64_t) { return 1; });
  CHECK(Clock::now() - start >= std::chrono::seconds(1));
}
TEST(hang_ends_by_itself) {
  expect_success(run_child("hangs_briefly", {{"HARDPOINT_SIM_FAULT", "hang"}, {"HARDPOINT_SIM_HANG_SECONDS", "1"}}));
}

// --- several threads, other modes ----------------------------------------------------------------------------------

TEST(threads_with_their_own_streams) {
  in_threads(4, [](int t) {
    const int device = t % 2;
    for (int round = 0; round < 10; ++round) {
      HpStream stream = new_stream(device);
      current_streams[device] = stream;
      HpEvent event = new_event(device);
      Tensor small(kFloat, {16}, {}, device), large(kFloat, {5000}, {}, device);
      CALL("fill", small, 0);
      CALL("fill", large, 0);
      for (int i = 0; i < 50; ++i) {
        CALL("add", small, small, 1, 1);
        CALL("add", large, large, 1, 1);
        if (i % 10 == 0) OK(sim().events->record(device, event, stream));
        if (i % 10 == 5) OK(sim().events->wait(device, event, stream));
      }
      synchronize(device, stream);
      check_values(small, "small", [](int64_t) { return 50; });
      check_values(large, "large", [](int64_t) { return 50; });
      OK(sim().events->destroy(device, event));
      OK(sim().streams->destroy(device, stream));
    }
  });
}

TEST(threads_on_one_stream) {
  // Unordered additions would lose some: the inline rule must keep tasks of all threads one after the other.
  Tensor small(kFloat, {16}), large(kFloat, {5000});
  CALL("fill", small, 0);
  CALL("fill", large, 0);
  in_threads(4, [&](int) {
    for (int i = 0; i < 1000; ++i) {
      CALL("add", small, small, 1, 1);
      if (i % 16 == 0) CALL("add", large, large, 1, 1);
      if (i % 64 == 0) synchronize();
    }
  });
  check_values(small, "small", [](int64_t) { return 4000; });
  check_values(large, "large", [](int64_t) { return 4 * 63; });
}

CHILD(deterministic) {
  Slow slow;
  slow.launch();
  CHECK(sim().streams->query(0, nullptr) == HP_OK);
  HpEvent event = new_event();
  HpStream stream = new_stream(1);
  OK(sim().events->record(0, event, nullptr));
  CHECK(sim().events->query(0, event) == HP_OK);
  OK(sim().events->wait(1, event, stream));
  CHECK(sim().streams->query(1, stream) == HP_OK);
  OK(sim().events->destroy(0, event));
  CHECK(set_fault("kernel") == 0);
  CALL("fill", slow.out, 1);
  CHECK(sim().streams->synchronize(0, nullptr, 0) == HP_ERROR);
  CHECK_TEXT(message, "operator 'aten::test' failed on sim:0 stream 0");
  test_threads_on_one_stream();
  test_order_within_a_stream();
}
TEST(deterministic_mode) { expect_success(run_child("deterministic", {{"HARDPOINT_SIM_DETERMINISTIC", "1"}})); }

CHILD(jitter) {
  Tensor out(kFloat, {4});
  int pending = 0;
  for (int i = 0; i < 50; ++i) {
    CALL("fill", out, i);
    pending += sim().streams->query(0, nullptr) == HP_NOT_READY;
    synchronize();
  }
  CHECK(pending > 25);  // tiny tasks are not run at once in this mode
  test_events_between_streams_and_devices();
  test_copies();
}
TEST(jitter_mode) { expect_success(run_child("jitter", {{"HARDPOINT_SIM_JITTER", "42"}})); }

}  // namespace

// --- contract 1.2 --------------------------------------------------------------------------------------------------

TEST(fill_and_host_functions_are_ordered_on_the_stream) {
  const HpStream stream = new_stream();
  Memory memory(1 << 20);
  std::vector<unsigned char> read(memory.bytes);
  std::atomic<int> called{0};
  for (int value = 1; value <= 3; ++value) {
    OK(sim().fill_memory(0, memory.ptr, static_cast<uint8_t>(value), memory.bytes, stream));
    OK(sim().streams->call_host(0, stream, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &called));
    OK(sim().copy_to_host(0, read.data(), memory.ptr, memory.bytes, stream));
    synchronize(0, stream);
    CHECK(called == value);
    CHECK(read.front() == value && read.back() == value);
  }
  CHECK(sim().fill_memory(0, read.data(), 0, 16, stream) == HP_INVALID_ARGUMENT);
  CHECK_TEXT(message, "host pointer");
  OK(sim().streams->destroy(0, stream));
}

TEST(tracing_tells_each_task_once) {
  struct Trace {
    std::mutex mutex;
    std::vector<HpTraceRecord> records;
  } trace;
  const auto take = [](void* context, const HpTraceRecord* record) {
    auto& to = *static_cast<Trace*>(context);
    std::lock_guard<std::mutex> lock(to.mutex);
    to.records.push_back(*record);
  };
  const HpStream streams[] = {nullptr, new_stream()};
  const auto work = [&](uint64_t first) {  // large and small: on the worker, and on this thread
    in_threads(2, [&](int t) {
      Memory memory(1 << 18);
      std::vector<char> host(memory.bytes);
      for (uint64_t i = 0; i < 50; ++i) {
        correlation = first == 0 ? 0 : first + static_cast<uint64_t>(t) * 100 + i;
        OK(sim().copy_to_device(0, memory.ptr, host.data(), i % 2 ? memory.bytes : 64, streams[t]));
      }
      correlation = 0;
      synchronize(0, streams[t]);
    });
  };
  work(1000);  // no trace runs
  OK(sim().tracing->start(take, &trace));
  work(2000);
  work(0);  // of no launch
  OK(sim().tracing->stop());
  work(3000);
  CHECK(trace.records.size() == 100);
  std::set<uint64_t> numbers;
  for (const HpTraceRecord& each : trace.records) {
    numbers.insert(each.correlation);
    CHECK(each.kind == HP_TRACE_COPY && each.device == 0 && each.end_ns >= each.start_ns);
    CHECK(each.correlation >= 2000 && each.correlation < 2200);
    CHECK(each.stream == streams[each.correlation >= 2100]);
  }
  CHECK(numbers.size() == 100);
  OK(sim().streams->destroy(0, streams[1]));
}

SIM_MAIN
