// The plug-in `sim`, through the public contract only. test_sim_compiler.cpp has the compiler extension.
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
#include <string>
#include <thread>
#include <vector>

#include "sim_host.h"

namespace {

using Shape = std::vector<int64_t>;

struct Type {
  const char* name;
  DLDataType dtype;
};
const Type kTypes[] = {
    {"float32", {kDLFloat, 32, 1}},   {"float64", {kDLFloat, 64, 1}},     {"float16", {kDLFloat, 16, 1}},
    {"bfloat16", {kDLBfloat, 16, 1}}, {"int8", {kDLInt, 8, 1}},           {"int16", {kDLInt, 16, 1}},
    {"int32", {kDLInt, 32, 1}},       {"int64", {kDLInt, 64, 1}},         {"uint8", {kDLUInt, 8, 1}},
    {"bool", {kDLBool, 8, 1}},        {"complex64", {kDLComplex, 64, 1}}, {"complex128", {kDLComplex, 128, 1}},
};
const DLDataType kFloat = kTypes[0].dtype;
bool is_floating(DLDataType t) { return t.code == kDLFloat || t.code == kDLBfloat; }

// Elements as complex numbers: the reference for every dtype. Written here a second time, on purpose.
using Reference = std::complex<double>;

double round_to(double x, int digits, int lowest_exponent, double largest) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double quantum = std::ldexp(1.0, std::max(std::ilogb(x), lowest_exponent) - digits);
  const double rounded = std::nearbyint(x / quantum) * quantum;  // ties to even
  return std::abs(rounded) > largest ? std::copysign(INFINITY, x) : rounded;
}
double as_half(double x) { return round_to(x, 10, -14, 65504); }
double as_bfloat16(double x) { return round_to(x, 7, -126, 3.3895313892515355e38); }

Reference decode(DLDataType t, const unsigned char* at) {
  const auto as = [at](auto value) {
    memcpy(&value, at, sizeof value);
    return value;
  };
  switch (t.code << 8 | t.bits) {
    case kDLFloat << 8 | 32:
      return as(float{});
    case kDLFloat << 8 | 64:
      return as(double{});
    case kDLFloat << 8 | 16:
      return static_cast<double>(as(_Float16{}));
    case kDLBfloat << 8 | 16: {
      const uint32_t bits = static_cast<uint32_t>(as(uint16_t{})) << 16;
      float value;
      memcpy(&value, &bits, sizeof value);
      return value;
    }
    case kDLInt << 8 | 8:
      return as(int8_t{});
    case kDLInt << 8 | 16:
      return as(int16_t{});
    case kDLInt << 8 | 32:
      return as(int32_t{});
    case kDLInt << 8 | 64:
      return static_cast<double>(as(int64_t{}));
    case kDLUInt << 8 | 8:
      return as(uint8_t{});
    case kDLBool << 8 | 8:
      return as(uint8_t{});
    case kDLComplex << 8 | 64:
      return as(std::complex<float>{});
    default:
      return as(std::complex<double>{});
  }
}
// `value` must be one that the type can hold.
void encode(DLDataType t, Reference value, unsigned char* at) {
  const auto put = [at](auto converted) { memcpy(at, &converted, sizeof converted); };
  const double x = value.real();
  switch (t.code << 8 | t.bits) {
    case kDLFloat << 8 | 32:
      return put(static_cast<float>(x));
    case kDLFloat << 8 | 64:
      return put(x);
    case kDLFloat << 8 | 16:
      return put(static_cast<_Float16>(x));
    case kDLBfloat << 8 | 16: {
      const float narrow = static_cast<float>(x);
      uint32_t bits;
      memcpy(&bits, &narrow, sizeof bits);
      return put(static_cast<uint16_t>(bits >> 16));
    }
    case kDLInt << 8 | 8:
      return put(static_cast<int8_t>(x));
    case kDLInt << 8 | 16:
      return put(static_cast<int16_t>(x));
    case kDLInt << 8 | 32:
      return put(static_cast<int32_t>(x));
    case kDLInt << 8 | 64:
      return put(static_cast<int64_t>(x));
    case kDLUInt << 8 | 8:
      return put(static_cast<uint8_t>(static_cast<int64_t>(x)));
    case kDLBool << 8 | 8:
      return put(static_cast<uint8_t>(value != 0.0));
    case kDLComplex << 8 | 64:
      return put(std::complex<float>(value));
    default:
      return put(value);
  }
}
// What a value becomes in a type: integers wrap, bool is "not zero", real types drop the imaginary part.
Reference cast(DLDataType t, Reference value) {
  unsigned char bytes[16];
  if (t.code == kDLFloat && t.bits == 16) return as_half(value.real());
  if (t.code == kDLBfloat) return as_bfloat16(value.real());
  encode(t, value, bytes);
  return decode(t, bytes);
}

// A strided tensor over its own device storage, with a copy of the storage on the host.
struct Tensor {
  Tensor(DLDataType dtype, Shape shape, Shape strides = {}, int device = 0)
      : dtype(dtype), shape(std::move(shape)), strides(std::move(strides)) {
    if (this->strides.empty()) {
      this->strides.resize(this->shape.size());
      int64_t dense = 1;
      for (size_t d = this->shape.size(); d-- > 0; dense *= this->shape[d]) this->strides[d] = dense;
    }
    int64_t span = 1;
    for (size_t d = 0; d < this->shape.size(); ++d) span += (this->shape[d] - 1) * this->strides[d];
    elements = std::max<int64_t>(span, 1);
    storage.resize(static_cast<size_t>(elements) * item());
    memory = std::make_shared<Memory>(storage.size(), device);
    dl = {memory->ptr,
          {static_cast<DLDeviceType>(HP_DLPACK_DEVICE_TYPE), device},
          static_cast<int32_t>(this->shape.size()),
          dtype,
          this->shape.data(),
          this->strides.data(),
          0};
  }
  Tensor(const Tensor&) = delete;

  size_t item() const { return dtype.bits / 8; }
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t extent : shape) n *= extent;
    return n;
  }
  int64_t offset(int64_t index) const {
    int64_t at = 0;
    for (size_t d = shape.size(); d-- > 0; index /= shape[d]) at += index % shape[d] * strides[d];
    return at;
  }
  Reference get(int64_t index) const { return decode(dtype, &storage[static_cast<size_t>(offset(index)) * item()]); }

  // Small numbers, exact in every type and in their sums and products.
  Tensor& pattern(int seed) {
    const bool no_sign = dtype.code == kDLUInt || dtype.code == kDLBool;
    for (int64_t i = 0; i < elements; ++i) {
      const int value = static_cast<int>((i * 7 + seed) % 11);
      const Reference number(no_sign ? value % (dtype.code == kDLBool ? 2 : 11) : value - 5,
                             dtype.code == kDLComplex ? value % 3 - 1 : 0);
      encode(dtype, number, &storage[static_cast<size_t>(i) * item()]);
    }
    memory->write(storage.data());
    return *this;
  }
  Tensor& fill_host(const std::vector<double>& values) {
    for (size_t i = 0; i < values.size(); ++i) encode(dtype, values[i], &storage[i * item()]);
    memory->write(storage.data());
    return *this;
  }
  void read() { memory->read(storage.data()); }

  DLDataType dtype;
  Shape shape, strides;
  int64_t elements = 0;
  std::vector<unsigned char> storage;
  std::shared_ptr<Memory> memory;
  DLTensor dl{};
};

TVMFFIAny argument(const Tensor& tensor) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIDLTensorPtr;
  any.v_ptr = const_cast<DLTensor*>(&tensor.dl);
  return any;
}
TVMFFIAny argument(int value) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIInt;
  any.v_int64 = value;
  return any;
}
TVMFFIAny argument(double value) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIFloat;
  any.v_float64 = value;
  return any;
}

template <class... Arguments>
int call(const char* kernel, const Arguments&... arguments) {
  const TVMFFIAny packed[] = {argument(arguments)...};
  for (size_t i = 0; i < sim().num_kernels; ++i)
    if (strcmp(sim().kernels[i].name, kernel) == 0)
      return sim().kernels[i].function(nullptr, packed, sizeof...(arguments), nullptr);
  check::fail(__FILE__, __LINE__, std::string("no kernel ") + kernel);
}
#define CALL(...)                                                                                     \
  do {                                                                                                \
    if (call(__VA_ARGS__) != 0) check::fail(__FILE__, __LINE__, "call(" #__VA_ARGS__ "): " + raised); \
  } while (0)

void check_values(Tensor& out, const std::string& what, const std::function<Reference(int64_t)>& expected) {
  synchronize(out.dl.device.device_id);
  out.read();
  for (int64_t i = 0; i < out.numel(); ++i) {
    const Reference want = cast(out.dtype, expected(i)), got = out.get(i);
    if (want != got)
      check::fail(__FILE__, __LINE__,
                  what + ", element " + std::to_string(i) + ": " + std::to_string(got.real()) + " instead of " +
                      std::to_string(want.real()));
  }
}

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
    CHECK_TEXT(message, "sim:0 is out of memory: 1048576 bytes asked for, 1032192 of 1048576 free");
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
  CHECK_TEXT(message, "is a host pointer; memory of sim:0 was expected");
  CHECK(sim().copy_to_device(0, memory.ptr, other.ptr, 100, nullptr) == HP_INVALID_ARGUMENT);
  CHECK_TEXT(message, "is a device pointer; host memory was expected");
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
  check_values(out, "the failed kernel did nothing", [](int64_t) { return 6; });  // synchronises: reported once
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

// --- kernels -------------------------------------------------------------------------------------------------------

struct Layout {
  const char* name;
  Shape shape, out, a, b;  // strides, empty for contiguous
};
const Layout kLayouts[] = {
    {"scalar", {}, {}, {}, {}},
    {"empty", {0, 3}, {}, {}, {}},
    {"2x3", {2, 3}, {}, {}, {}},
    {"long", {20011}, {}, {}, {}},
    {"no merging", {3, 5, 7}, {70, 14, 2}, {100, 17, 2}, {}},
    {"transposed input", {37, 41}, {}, {1, 37}, {}},
    {"transposed output", {37, 41}, {1, 37}, {}, {1, 37}},
    {"rows repeated", {9, 33}, {}, {}, {0, 1}},
    {"columns repeated", {9, 33}, {}, {1, 0}, {}},
    {"all repeated", {9, 33}, {}, {0, 0}, {0, 0}},
    {"channels last", {2, 3, 5, 7}, {105, 1, 21, 3}, {}, {105, 1, 21, 3}},
    {"permuted", {2, 3, 2, 5, 2, 3}, {}, {1, 2, 6, 12, 60, 120}, {180, 60, 1, 6, 30, 2}},
};

void for_all_types(const std::function<void(const Type&, const Layout&, const std::string&)>& body) {
  for (const Type& type : kTypes)
    for (const Layout& layout : kLayouts) body(type, layout, std::string(type.name) + ", " + layout.name);
}

Reference bool_or(DLDataType t, Reference sum) { return t.code == kDLBool ? Reference(sum != 0.0) : sum; }

TEST(add) {
  for_all_types([](const Type& type, const Layout& layout, const std::string& what) {
    Tensor out(type.dtype, layout.shape, layout.out), a(type.dtype, layout.shape, layout.a),
        b(type.dtype, layout.shape, layout.b);
    a.pattern(1);
    b.pattern(4);
    for (int alpha : {1, 2}) {
      CALL("add", out, a, b, alpha);
      check_values(out, what, [&](int64_t i) { return bool_or(type.dtype, a.get(i) + double(alpha) * b.get(i)); });
    }
    CALL("add", out, a, 3, 1);
    check_values(out, what + ", number", [&](int64_t i) { return bool_or(type.dtype, a.get(i) + 3.0); });
    CALL("add", out, 3.0, b, 2);
    check_values(out, what + ", number first", [&](int64_t i) { return bool_or(type.dtype, 3.0 + 2.0 * b.get(i)); });
  });
}

TEST(mul) {
  for_all_types([](const Type& type, const Layout& layout, const std::string& what) {
    Tensor out(type.dtype, layout.shape, layout.out), a(type.dtype, layout.shape, layout.a),
        b(type.dtype, layout.shape, layout.b);
    a.pattern(2);
    b.pattern(3);
    CALL("mul", out, a, b);
    check_values(out, what, [&](int64_t i) { return a.get(i) * b.get(i); });
    CALL("mul", out, 2, b);
    check_values(out, what + ", number", [&](int64_t i) { return 2.0 * b.get(i); });
  });
}

TEST(relu) {
  for_all_types([](const Type& type, const Layout& layout, const std::string& what) {
    Tensor out(type.dtype, layout.shape, layout.out), a(type.dtype, layout.shape, layout.a);
    a.pattern(1);
    if (type.dtype.code == kDLBool || type.dtype.code == kDLComplex) {
      CHECK(call("relu", out, a) != 0);
      CHECK(raised == std::string("NotImplementedError: sim: relu does not take ") + type.name);
      return;
    }
    CALL("relu", out, a);
    check_values(out, what, [&](int64_t i) { return std::max(a.get(i).real(), 0.0); });
  });
  Tensor x(kFloat, {3});
  x.fill_host({-INFINITY, NAN, INFINITY});
  CALL("relu", x, x);
  synchronize();
  x.read();
  CHECK(x.get(0) == 0.0 && std::isnan(x.get(1).real()) && x.get(2) == Reference(INFINITY));
}

TEST(fill) {
  for_all_types([](const Type& type, const Layout& layout, const std::string& what) {
    Tensor out(type.dtype, layout.shape, layout.out);
    for (int value : {0, 1, -3}) {
      CALL("fill", out, value);
      check_values(out, what, [&](int64_t) { return value; });
    }
  });
  Tensor big(kTypes[7].dtype, {2});
  TVMFFIAny arguments[2] = {argument(big), argument(0)};
  arguments[1].v_int64 = INT64_MAX;
  CHECK(symbol<HpKernelFunction>("__tvm_ffi_fill")(nullptr, arguments, 2, nullptr) == 0);
  synchronize();
  big.read();
  int64_t stored;
  memcpy(&stored, big.storage.data(), 8);
  CHECK(stored == INT64_MAX);
}

TEST(copy) {
  for (const Type& to : kTypes) {
    for_all_types([&to](const Type& from, const Layout& layout, const std::string& what) {
      Tensor out(to.dtype, layout.shape, layout.out), in(from.dtype, layout.shape, layout.a);
      in.pattern(5);
      CALL("copy", out, in);
      check_values(out, what + " to " + to.name, [&](int64_t i) { return in.get(i); });
    });
  }
  // Fractions are cut, and are true.
  Tensor real(kFloat, {4}), whole(kTypes[6].dtype, {4}), truth(kTypes[9].dtype, {4});
  real.fill_host({-1.75, 0.5, 0, 1e6});
  CALL("copy", whole, real);
  CALL("copy", truth, real);
  check_values(whole, "cut", [](int64_t i) { return std::vector<double>{-1, 0, 0, 1000000}[static_cast<size_t>(i)]; });
  check_values(truth, "truth", [](int64_t i) { return i != 2; });
}

TEST(rounding_of_16_bit_floats) {
  std::vector<double> values = {
      0,       65504,   65519.99609375,       65520, 1e30, -1e30, 5.9604644775390625e-08, 2.98e-08, 3e-08,
      6.1e-05, 3.39e38, 3.3961775292304601e38};
  uint32_t state = 1;
  while (values.size() < 5000) {  // all exponents, and ties
    state = state * 1664525 + 1013904223;
    uint32_t bits = values.size() % 2 ? state : (state & 0xfffff000u);
    float value;
    memcpy(&value, &bits, sizeof value);
    if (std::isfinite(value)) values.push_back(value);
  }
  const int64_t n = static_cast<int64_t>(values.size());
  Tensor wide(kFloat, {n}), half(kTypes[2].dtype, {n}), bfloat(kTypes[3].dtype, {n});
  wide.fill_host(values);
  CALL("copy", half, wide);
  CALL("copy", bfloat, wide);
  check_values(half, "float16", [&](int64_t i) { return wide.get(i); });
  check_values(bfloat, "bfloat16", [&](int64_t i) { return wide.get(i); });
  // Computed in float, rounded once.
  Tensor sum(kTypes[2].dtype, {n});
  CALL("add", sum, half, 0.1, 1);
  half.read();
  check_values(sum, "float16 + 0.1", [&](int64_t i) { return static_cast<float>(half.get(i).real()) + 0.1f; });
}

TEST(integers_wrap) {
  Tensor a(kTypes[4].dtype, {3});
  a.fill_host({127, -128, 100});
  CALL("add", a, a, 1, 1);
  check_values(a, "int8", [](int64_t i) { return std::vector<double>{-128, -127, 101}[static_cast<size_t>(i)]; });
}

void check_matmul(DLDataType dtype, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool tout) {
  const auto tensor = [&](int64_t rows, int64_t columns, bool transposed) {
    Shape shape = {rows, columns}, strides = transposed ? Shape{1, rows} : Shape{columns, 1};
    if (batch > 0) {
      shape.insert(shape.begin(), batch);
      strides.insert(strides.begin(), rows * columns);
    }
    return std::make_unique<Tensor>(dtype, shape, strides);
  };
  const auto a = tensor(m, k, ta), b = tensor(k, n, tb), out = tensor(m, n, tout);
  a->pattern(1);
  b->pattern(3);
  CALL("matmul", *out, *a, *b);
  char what[128];
  snprintf(what, sizeof what, "matmul code %d bits %d: %lldx %lldx%lldx%lld %d%d%d", dtype.code, dtype.bits,
           (long long)batch, (long long)m, (long long)n, (long long)k, ta, tb, tout);
  check_values(*out, what, [&](int64_t index) {
    const int64_t i = index / n % m, j = index % n, at = index / (m * n);
    double sum = 0;
    for (int64_t p = 0; p < k; ++p) sum += a->get((at * m + i) * k + p).real() * b->get((at * k + p) * n + j).real();
    return sum;
  });
}
TEST(matmul) {
  for (const Type& type : kTypes) {
    if (!is_floating(type.dtype) && !(type.dtype.code == kDLInt && type.dtype.bits >= 32)) {
      Tensor x(type.dtype, {2, 2});
      CHECK(call("matmul", x, x, x) != 0);
      CHECK(raised == std::string("NotImplementedError: sim: matmul does not take ") + type.name);
      continue;
    }
    for (int variant = 0; variant < 8; ++variant) {
      const bool ta = variant & 1, tb = variant & 2, tout = variant & 4;
      check_matmul(type.dtype, 0, 2, 3, 4, ta, tb, tout);
      check_matmul(type.dtype, 0, 65, 47, 33, ta, tb, tout);
      check_matmul(type.dtype, 3, 17, 40, 19, ta, tb, tout);
    }
    check_matmul(type.dtype, 0, 1, 200, 300, false, true, false);
    check_matmul(type.dtype, 0, 4, 4, 0, false, false, false);  // an empty sum is 0
  }
  check_matmul(kFloat, 0, 150, 1100, 270, false, false, false);  // more than one block each way
  Tensor a(kFloat, {2, 3}), wrong(kFloat, {2, 3});
  CHECK(call("matmul", a, a, wrong) != 0);
  CHECK_TEXT(raised, "ValueError: sim: matmul: expected [m, n] = [m, k] x [k, n]");
}

TEST(unsupported_calls_are_handed_on) {
  Tensor a(kFloat, {2, 3}), b(kTypes[1].dtype, {2, 3}), c(kFloat, {3, 2}), odd({kDLUInt, 32, 1}, {2, 3});
  CHECK(call("add", a, a, b, 1) != 0);
  CHECK_TEXT(raised, "NotImplementedError: sim: the operands of add must have one dtype, got float32 and float64");
  CHECK(call("add", odd, odd, odd, 1) != 0);
  CHECK_TEXT(raised, "NotImplementedError: sim: add does not take uint32");
  CHECK(call("copy", a, odd) != 0);
  CHECK_TEXT(raised, "NotImplementedError: sim: copy does not convert uint32 to float32");
  CHECK(call("mul", a, a, c) != 0);
  CHECK_TEXT(raised, "ValueError");
  CHECK(call("mul", a, a) != 0);
  CHECK_TEXT(raised, "TypeError: sim: mul takes 3 arguments, got 2");
  Tensor deep(kFloat, {2, 2, 2, 2, 2, 2, 2, 2, 2}, {3, 7, 17, 37, 79, 163, 331, 673, 1361}), flat(kFloat, deep.shape);
  CHECK(call("relu", flat, deep) != 0);
  CHECK_TEXT(raised, "NotImplementedError: sim: relu takes at most 8 dimensions");
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

SIM_MAIN
