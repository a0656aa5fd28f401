// The compiler extension of `sim`: kernels in the dialect "c", compiled, loaded and launched through the contract.
#include <dirent.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "sim_host.h"

namespace {

// --- small tools ---------------------------------------------------------------------------------------------------

#define KERNEL(name) "void " name "(void *const *args, const uint32_t groups[3], uint64_t first, uint64_t last) "
const std::string kPrelude = "#include <stdint.h>\n";

const HpCompiler& compiler() { return *sim().compiler; }

struct Binary {
  explicit Binary(const std::string& source, const char* options = "") {
    OK(compiler().compile(0, (kPrelude + source).c_str(), options, &data, &bytes));
  }
  Binary(const Binary&) = delete;
  ~Binary() { compiler().release_binary(data); }
  std::string text() const { return std::string(static_cast<const char*>(data), bytes); }

  void* data = nullptr;
  size_t bytes = 0;
};

struct Program {
  explicit Program(const Binary& binary, int device = 0) : device(device) {
    OK(compiler().load(device, binary.data, binary.bytes, &handle));
  }
  explicit Program(const std::string& source, const char* options = "") : Program(Binary(source, options)) {}
  Program(const Program&) = delete;
  ~Program() {
    if (handle) compiler().unload(device, handle);
  }
  HpFunction find(const char* name) const {
    HpFunction function;
    OK(compiler().find(device, handle, name, &function));
    return function;
  }

  const int device;
  HpProgram handle = nullptr;
};

HpLaunchArg pointer(void* const& ptr) { return {&ptr, sizeof ptr, 1}; }
HpLaunchArg pointer(const Memory& memory) { return pointer(memory.ptr); }
template <class T>
HpLaunchArg value(const T& x) {
  return {&x, sizeof x, 0};
}

struct Groups {
  uint32_t x, y = 1, z = 1;
};
HpStatus try_launch(HpFunction function, Groups groups, const std::vector<HpLaunchArg>& args, HpStream stream = nullptr,
                    int device = 0) {
  const uint32_t extent[3] = {groups.x, groups.y, groups.z}, ones[3] = {1, 1, 1};
  return compiler().launch(device, stream, function, extent, ones, args.data(), static_cast<uint32_t>(args.size()));
}
void launch(HpFunction function, Groups groups, const std::vector<HpLaunchArg>& args, HpStream stream = nullptr,
            int device = 0) {
  OK(try_launch(function, groups, args, stream, device));
}

template <class T>
std::vector<T> contents(Memory& memory) {
  std::vector<T> values(memory.bytes / sizeof(T));
  memory.read(values.data());
  return values;
}

// out[i] = a * x[i] + y[i], 4096 elements a group.
const char* const kSaxpy = KERNEL("saxpy") R"({
  float *out = *(float **)args[0];
  const float *x = *(float **)args[1], *y = *(float **)args[2];
  const float a = *(float *)args[3];
  const int64_t n = *(int64_t *)args[4];
  for (uint64_t group = first; group < last; ++group) {
    const int64_t begin = group * 4096, end = begin + 4096 < n ? begin + 4096 : n;
    for (int64_t i = begin; i < end; ++i) out[i] = a * x[i] + y[i];
  }
})";

// out[group] = scale * group + its three coordinates, each in digits of its own.
const char* const kNumber = KERNEL("number") R"({
  uint64_t *out = *(uint64_t **)args[0];
  for (uint64_t group = first; group < last; ++group) {
    const uint64_t x = group % groups[0], y = group / groups[0] % groups[1], z = group / groups[0] / groups[1];
    out[group] = group << 32 | x << 20 | y << 10 | z;
  }
})";

// Adds 1 to each of n numbers, many times over, so that it takes a while: one group for each number.
const char* const kBusy = KERNEL("busy") R"({
  volatile uint32_t *out = *(uint32_t **)args[0];
  const uint32_t rounds = *(uint32_t *)args[1];
  for (uint64_t group = first; group < last; ++group)
    for (uint32_t i = 0; i < rounds; ++i) out[group] = out[group] + 1;
})";

const char* const kEmpty = KERNEL("empty") "{}";

int open_descriptors() {
  DIR* const folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder)) ++count;
  closedir(folder);
  return count;
}

// --- the extension -------------------------------------------------------------------------------------------------

TEST(table) {
  CHECK(compiler().struct_size == sizeof(HpCompiler));
  CHECK(compiler().dialect == std::string("c"));
  CHECK(compiler().group_size == 1);
  CHECK(compiler().local_memory == 1 << 18);
  const std::string fingerprint = compiler().fingerprint(0);
#if defined(__x86_64__)
  const char* const expected = __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") ? "c-x86-64-v4"
                               : __builtin_cpu_supports("avx2")                                         ? "c-x86-64-v3"
                                                                                                        : "c-x86-64";
  if (!getenv("HARDPOINT_SIM_ARCH")) CHECK(fingerprint == expected);
#else
  CHECK(fingerprint == "c-aarch64");
#endif
}

TEST(saxpy) {
  const Program program(kSaxpy);
  const HpFunction saxpy = program.find("saxpy");
  CHECK(program.find("saxpy") == saxpy);
  for (const int64_t n : {int64_t{1}, int64_t{4096}, int64_t{1000003}}) {
    std::vector<float> x(static_cast<size_t>(n)), y(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(i % 1000);
      y[i] = static_cast<float>(i % 77);
    }
    Memory out(x.size() * 4), mx(x.size() * 4), my(x.size() * 4);
    mx.write(x.data());
    my.write(y.data());
    launch(saxpy, {static_cast<uint32_t>((n + 4095) / 4096)},
           {pointer(out), pointer(mx), pointer(my), value(2.5f), value(n)});
    const std::vector<float> got = contents<float>(out);
    for (size_t i = 0; i < x.size(); ++i) CHECK(got[i] == 2.5f * x[i] + y[i]);
  }
}

TEST(every_group_runs_once) {
  const Program program(kNumber), counter(kBusy);
  for (const Groups groups : {Groups{1}, Groups{2}, Groups{3, 1, 1}, Groups{7, 5, 3}, Groups{1000, 3, 7},
                              Groups{1, 1, 1000}, Groups{512, 512, 1}}) {
    const uint64_t total = uint64_t{groups.x} * groups.y * groups.z;
    Memory out(total * 8), counts(total * 4);
    counts.write(std::vector<uint32_t>(total).data());
    for (int repeat = 0; repeat < 20; ++repeat) {
      launch(program.find("number"), groups, {pointer(out)});
      launch(counter.find("busy"), groups, {pointer(counts), value(uint32_t{1})});
    }
    const std::vector<uint64_t> got = contents<uint64_t>(out);
    const std::vector<uint32_t> counted = contents<uint32_t>(counts);
    for (uint64_t g = 0; g < total; ++g) {
      const uint64_t x = g % groups.x, y = g / groups.x % groups.y, z = g / groups.x / groups.y;
      CHECK(got[g] == (g << 32 | x << 20 | y << 10 | z));
      CHECK(counted[g] == 20);
    }
  }
  launch(program.find("number"), {5, 0, 5}, {});  // nothing to do
}

TEST(options_are_passed) {
  const Program program(KERNEL("f") "{ *(*(int **)args[0]) = NUMBER + OTHER; }", "  -DNUMBER=40 -DOTHER=2 ");
  Memory out(4);
  launch(program.find("f"), {1}, {pointer(out)});
  CHECK(contents<int>(out)[0] == 42);
}

TEST(arithmetic_is_ieee) {
  // A fused multiply-add would give 2^-24 instead of 0; dropping signed zeros would lose the sign.
  const Program program(KERNEL("f") R"({
    float *out = *(float **)args[0];
    const float x = *(float *)args[1], zero = *(float *)args[2];
    out[0] = x * x - (1 + 0x1p-11f);
    out[1] = zero + 0.0f;
    out[2] = zero - 0.0f;
  })");
  Memory out(12);
  launch(program.find("f"), {1}, {pointer(out), value(1 + 0x1p-12f), value(-0.0f)});
  const std::vector<float> got = contents<float>(out);
  CHECK(got[0] == 0);
  CHECK(!std::signbit(got[1]) && std::signbit(got[2]));
}

// --- arguments -----------------------------------------------------------------------------------------------------

// Sums its `count` arguments after the first two: pointers to doubles, or doubles.
const char* const kSum = KERNEL("sum") R"({
  double *out = *(double **)args[0];
  const int count = *(int *)args[1];
  for (uint64_t group = first; group < last; ++group) {
    double sum = 0;
    for (int i = 0; i < count; ++i) sum += *(double *)args[2 + i];
    out[group] = sum;
  }
})";

TEST(values_are_copied) {
  const Program program(kSum), busy(kBusy);
  const HpFunction sum = program.find("sum");
  for (const int count : {3, 22, 23, 100}) {
    Memory out(16), work(8);
    launch(busy.find("busy"), {2}, {pointer(work), value(uint32_t{20000000})});  // the next one has to wait
    std::vector<double> values(static_cast<size_t>(count));
    std::iota(values.begin(), values.end(), 1);
    void* address = out.ptr;
    std::vector<HpLaunchArg> args = {pointer(address), value(count)};
    for (const double& v : values) args.push_back(value(v));
    launch(sum, {2}, args);
    std::fill(values.begin(), values.end(), -1e9);
    std::fill(args.begin(), args.end(), HpLaunchArg{nullptr, 0, 0});
    address = nullptr;
    const std::vector<double> got = contents<double>(out);
    CHECK(got[0] == count * (count + 1) / 2 && got[1] == got[0]);
  }
}

TEST(large_and_aligned_values) {
  struct Big {
    int32_t numbers[300];
  } big;
  struct alignas(16) Wide {
    double pair[2];
  } wide = {{1.5, 2.5}};
  for (int i = 0; i < 300; ++i) big.numbers[i] = i;
  const Program program(KERNEL("f") R"({
    typedef double Pair __attribute__((vector_size(16)));
    double *out = *(double **)args[0];
    const int *numbers = args[3];
    int sum = 0;
    for (int i = 0; i < *(int *)args[4]; ++i) sum += numbers[i];
    const Pair pair = *(Pair *)args[2];
    *out = sum + pair[0] * pair[1] + *(char *)args[1];
  })");
  for (const int count : {10, 300}) {
    Memory out(8);
    HpLaunchArg numbers = value(big);
    numbers.bytes = static_cast<uint32_t>(count) * 4;
    launch(program.find("f"), {1}, {pointer(out), value('\3'), value(wide), numbers, value(count)});
    CHECK(contents<double>(out)[0] == count * (count - 1) / 2 + 3.75 + 3);
  }
}

TEST(pointers_are_checked) {
  const Program program(KERNEL("f") "{ **(int **)args[0] = *(void **)args[1] == 0; }");
  const HpFunction f = program.find("f");
  Memory out(4), other(4, 1);
  int on_host = 0;
  CHECK(try_launch(f, {1}, {pointer(out), pointer(other)}) == HP_INVALID_ARGUMENT);
  CHECK_TEXT(message, "argument 1 of kernel 'f'");
  CHECK_TEXT(message, "not in the memory of sim:0");
  void* const host_address = &on_host;
  CHECK(try_launch(f, {1}, {pointer(host_address), pointer(out)}) == HP_INVALID_ARGUMENT);
  CHECK_TEXT(message, "argument 0");
  void* const null = nullptr;
  launch(f, {1}, {pointer(out), pointer(null)});
  CHECK(contents<int>(out)[0] == 1);
  CHECK(on_host == 0);
}

TEST(wrong_launches) {
  const Program program(kEmpty);
  const HpFunction empty = program.find("empty");
  const uint32_t many[3] = {64, 1, 1}, one[3] = {1, 1, 1}, huge[3] = {~0u, ~0u, ~0u};
  CHECK(compiler().launch(0, nullptr, empty, one, many, nullptr, 0) == HP_INVALID_ARGUMENT);
  CHECK_TEXT(message, "64 x 1 x 1");
  CHECK(compiler().launch(0, nullptr, empty, huge, one, nullptr, 0) == HP_INVALID_ARGUMENT);
  CHECK_TEXT(message, "too many");
  CHECK(try_launch(empty, {1}, {}, nullptr, 1) == HP_INVALID_ARGUMENT);
  CHECK_TEXT(message, "loaded on sim:0");
  CHECK(try_launch(empty, {1}, {}, new_stream(1)) == HP_INVALID_ARGUMENT);
  CHECK(try_launch(empty, {1}, {}, nullptr, 99) == HP_INVALID_ARGUMENT);
}

// --- compiling and loading -----------------------------------------------------------------------------------------

TEST(bad_source) {
  void* binary = nullptr;
  size_t bytes = 0;
  const int before = open_descriptors();
  CHECK(compiler().compile(0, "int f(void) {\n  return undeclared_thing;\n}\n", "", &binary, &bytes) == HP_ERROR);
  CHECK_TEXT(message, "undeclared_thing");
  CHECK_TEXT(message, "kernel.c:2:");
  CHECK(!contains(message, "/hardpoint-"));
  std::string noise = "#error \"";
  for (int i = 0; i < 4000; ++i) noise += "\u00e9";
  CHECK(compiler().compile(0, (noise + "\"\n").c_str(), "", &binary, &bytes) == HP_ERROR);
  CHECK(message.size() > 1000 && message.size() < 1700);
  CHECK(compiler().compile(0, "int x;", "--no-such-option", &binary, &bytes) == HP_ERROR);
  CHECK_TEXT(message, "no-such-option");
  CHECK(binary == nullptr && open_descriptors() == before);
}

CHILD(no_compiler) {
  void* binary;
  size_t bytes;
  CHECK(compiler().compile(0, "int x;", "", &binary, &bytes) == HP_NOT_SUPPORTED);
  printf("%s\n", message.c_str());
}
TEST(missing_compiler) {
  const Child named = run_child("no_compiler", {{"HARDPOINT_CC", "/nonexistent"}});
  expect_success(named);
  CHECK_TEXT(named.output, "HARDPOINT_CC is '/nonexistent'");
  const Child searched = run_child("no_compiler", {{"HARDPOINT_CC", ""}, {"PATH", "/nonexistent:/"}});
  expect_success(searched);
  CHECK_TEXT(searched.output, "none of cc, gcc and clang");
}

CHILD(saxpy) {
  test_saxpy();
  test_every_group_runs_once();
  printf("%s", compiler().fingerprint(0));
}
TEST(compiler_with_arguments) { expect_success(run_child("saxpy", {{"HARDPOINT_CC", "cc -DUNUSED=1"}})); }

CHILD(stopped_compiler) {
  void* binary;
  size_t bytes;
  CHECK(compiler().compile(0, "int x;", "", &binary, &bytes) == HP_ERROR);
  printf("%s\n", message.c_str());
}
CHILD(patient_compiler) { test_saxpy(); }
// Runs a child with a shell script as its C compiler.
Child run_with_compiler(const char* child, const char* script, const char* seconds) {
  char path[] = "/tmp/hardpoint-test-XXXXXX";
  const int file = mkstemp(path);
  CHECK(file >= 0 && write(file, script, strlen(script)) == static_cast<ssize_t>(strlen(script)) && close(file) == 0);
  Child done =
      run_child(child, {{"HARDPOINT_CC", "/bin/sh " + std::string(path)}, {"HARDPOINT_SIM_COMPILER_SECONDS", seconds}});
  CHECK(unlink(path) == 0);
  return done;
}
TEST(compiler_that_hangs) {
  const Child done = run_with_compiler("stopped_compiler", "sleep 1000\n", "1");
  expect_success(done);
  CHECK_TEXT(done.output, "was stopped after 1 s without any work (HARDPOINT_SIM_COMPILER_SECONDS)");
}
TEST(compiler_that_never_ends) {
  const Child done = run_with_compiler("stopped_compiler", "while :; do :; done\n", "1");
  expect_success(done);
  CHECK_TEXT(done.output, "was stopped after 1 s of CPU time");
}
// As on a machine where the compiler waits for a core most of the time.
TEST(compiler_that_is_slow) {
  const char* const script =
      "for i in 1 2 3 4 5 6 7 8; do\n"
      "  n=0; while [ $n -lt 20000 ]; do n=$((n+1)); done; sleep 0.4\n"
      "done\n"
      "exec cc \"$@\"\n";
  expect_success(run_with_compiler("patient_compiler", script, "2"));
}

CHILD(no_temporary_directory) {
  void* binary;
  size_t bytes;
  CHECK(compiler().compile(0, "int x;", "", &binary, &bytes) == HP_ERROR);
  CHECK_TEXT(message, "'/nonexistent' (TMPDIR)");
}
TEST(missing_temporary_directory) { expect_success(run_child("no_temporary_directory", {{"TMPDIR", "/nonexistent"}})); }

CHILD(leaves_nothing) {
  Program program(kSaxpy);
  void* binary;
  size_t bytes;
  CHECK(compiler().compile(0, "int x = ;", "", &binary, &bytes) == HP_ERROR);
  DIR* const folder = opendir(getenv("TMPDIR"));
  int count = 0;
  while (readdir(folder)) ++count;
  closedir(folder);
  CHECK(count == 2);  // . and ..
}
TEST(temporary_files_are_removed) {
  char folder[] = "/tmp/hardpoint-test-XXXXXX";
  CHECK(mkdtemp(folder) != nullptr);
  expect_success(run_child("leaves_nothing", {{"TMPDIR", folder}}));
  CHECK(rmdir(folder) == 0);
}

CHILD(ignores_children) {
  signal(SIGCHLD, SIG_IGN);  // nobody learns how the compiler ended
  signal(SIGPIPE, SIG_IGN);
  test_saxpy();
  void* binary;
  size_t bytes;
  CHECK(compiler().compile(0, "int x = ;", "", &binary, &bytes) == HP_ERROR);
  CHECK_TEXT(message, "kernel.c:1:");
}
TEST(ignored_signals) { expect_success(run_child("ignores_children")); }

#if defined(__x86_64__)
TEST(chosen_arch) {
  const Child child = run_child("saxpy", {{"HARDPOINT_SIM_ARCH", "x86-64"}});
  expect_success(child);
  CHECK(child.output == "c-x86-64");
}
#endif

CHILD(bad_setting) {
  const HpPlugin* plugin;
  CHECK(init(&plugin) == HP_INVALID_ARGUMENT);
  printf("%s\n", message.c_str());
}
TEST(bad_settings) {
  const Child arch = run_child("bad_setting", {{"HARDPOINT_SIM_ARCH", "x86-64-v99"}});
  expect_success(arch);
  CHECK_TEXT(arch.output, "HARDPOINT_SIM_ARCH is 'x86-64-v99'; expected one of ");
  const Child threads = run_child("bad_setting", {{"HARDPOINT_SIM_THREADS", "0"}});
  expect_success(threads);
  CHECK_TEXT(threads.output, "HARDPOINT_SIM_THREADS is '0'");
}

TEST(corrupt_binaries) {
  const Binary binary(kSaxpy);
  const std::string good = binary.text();
  const int before = open_descriptors();
  const auto refused = [](const std::string& bytes, const char* why) {
    HpProgram program = nullptr;
    CHECK(compiler().load(0, bytes.data(), bytes.size(), &program) == HP_INVALID_ARGUMENT);
    CHECK_TEXT(message, why);
    CHECK(program == nullptr);
  };
  refused("", "too short");
  refused("#!/bin/sh", "too short");
  refused(std::string(5000, 'x'), "not an ELF file");
  const size_t sealed = good.size() - 16;  // without the checksum at the end
  for (size_t bytes = 0; bytes < sealed; bytes += 61) refused(good.substr(0, bytes), "");
  for (size_t at = 0; at < sealed; at += 101) {
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    refused(flipped, "");
  }
  std::string foreign = good;
  foreign[18] = 40;  // e_machine: 32-bit ARM
  refused(foreign, "for this machine");
  Binary unresolved("extern int nowhere(void);" KERNEL("f") "{ **(int **)args[0] = nowhere(); }");
  refused(unresolved.text(), "nowhere");
  // A library without the checksum is taken as it is.
  HpProgram program;
  OK(compiler().load(0, good.data(), sealed, &program));
  OK(compiler().unload(0, program));
  CHECK(open_descriptors() == before);
}

TEST(unknown_kernel) {
  const Program program(kSaxpy);
  HpFunction function;
  CHECK(compiler().find(0, program.handle, "daxpy", &function) == HP_INVALID_ARGUMENT);
  CHECK_TEXT(message, "no kernel 'daxpy'");
}

// Two hundred binaries from one compilation: each has another number written into it.
TEST(many_programs) {
  const Binary binary(
      "const volatile uint64_t number = 0x1122334455667788;" KERNEL("f") "{ **(uint64_t **)args[0] = number; }");
  const std::string good = binary.text().substr(0, binary.bytes - 16);
  const std::string mark = "\x88\x77\x66\x55\x44\x33\x22\x11";
  const size_t at = good.find(mark);
  CHECK(at != std::string::npos && good.find(mark, at + 1) == std::string::npos);
  const int before = open_descriptors();
  std::vector<HpProgram> kept;
  Memory out(8);
  const auto number_of = [&](HpProgram program) {
    HpFunction f;
    OK(compiler().find(0, program, "f", &f));
    launch(f, {1}, {pointer(out)});
    return contents<uint64_t>(out)[0];
  };
  const auto load = [&](uint64_t number) {
    std::string changed = good;
    memcpy(&changed[at], &number, sizeof number);
    HpProgram program;
    OK(compiler().load(0, changed.data(), changed.size(), &program));
    return program;
  };
  for (uint64_t i = 0; i < 200; ++i) {
    const HpProgram passing = load(1000 + i);  // its descriptor and its inode become free again
    CHECK(number_of(passing) == 1000 + i);
    kept.push_back(load(i));
    CHECK(number_of(kept.back()) == i);
    OK(compiler().unload(0, passing));
  }
  for (uint64_t i = 0; i < 200; ++i) CHECK(number_of(kept[i]) == i);
  for (const HpProgram program : kept) OK(compiler().unload(0, program));
  CHECK(open_descriptors() == before);
}

TEST(several_compilations_at_once) {
  const int before = open_descriptors();
  in_threads(4, [](int t) {
    for (int i = 0; i < 3; ++i) {
      const int number = 10 * t + i;
      const Program program(KERNEL("f") "{ **(int **)args[0] = NUMBER; }",
                            ("-DNUMBER=" + std::to_string(number)).c_str());
      Memory out(4);
      launch(program.find("f"), {1}, {pointer(out)});
      CHECK(contents<int>(out)[0] == number);
    }
  });
  CHECK(open_descriptors() == before);
}

// --- streams -------------------------------------------------------------------------------------------------------

TEST(launches_are_asynchronous_and_ordered) {
  const Program busy(kBusy), sum(kSum);
  Memory counts(64 * 4), out(8);
  counts.write(std::vector<uint32_t>(64).data());
  launch(busy.find("busy"), {64}, {pointer(counts), value(uint32_t{2000000})});
  CHECK(sim().streams->query(0, nullptr) == HP_NOT_READY);
  for (int i = 0; i < 10; ++i)  // single groups as well wait for their turn
    launch(busy.find("busy"), {1}, {pointer(counts), value(uint32_t{1})});
  const std::vector<uint32_t> got = contents<uint32_t>(counts);
  CHECK(got[0] == 2000010 && got[1] == 2000000 && got[63] == 2000000);
}

TEST(unload_while_busy) {
  Memory counts(64 * 4);
  counts.write(std::vector<uint32_t>(64).data());
  {
    const Program busy(kBusy);
    launch(busy.find("busy"), {64}, {pointer(counts), value(uint32_t{1000000})});
    launch(busy.find("busy"), {64}, {pointer(counts), value(uint32_t{1000000})});
  }
  CHECK(contents<uint32_t>(counts)[63] == 2000000);
}

TEST(threads_with_their_own_streams) {
  const Program program(kSaxpy), counter(kBusy);
  const HpFunction saxpy = program.find("saxpy"), busy = counter.find("busy");
  in_threads(4, [&](int t) {
    const HpStream stream = new_stream();
    constexpr int64_t kElements = 100000;
    const std::vector<float> ones(kElements, 1);
    Memory out(kElements * 4), x(kElements * 4), counts(100 * 4);
    out.write(std::vector<float>(kElements).data());
    x.write(ones.data());
    counts.write(std::vector<uint32_t>(100).data());
    for (int i = 0; i < 200; ++i) {
      launch(saxpy, {25}, {pointer(out), pointer(x), pointer(out), value(static_cast<float>(t + 1)), value(kElements)},
             stream);
      launch(busy, {i % 3 ? 1u : 100u}, {pointer(counts), value(uint32_t{1})}, stream);
      if (i % 50 == 0) synchronize(0, stream);
    }
    synchronize(0, stream);
    for (const float got : contents<float>(out)) CHECK(got == 200 * (t + 1));
    const std::vector<uint32_t> counted = contents<uint32_t>(counts);
    CHECK(counted[0] == 200 && counted[1] == 67 && counted[99] == 67);
    OK(sim().streams->destroy(0, stream));
  });
}

TEST(kernel_fault) {
  const Program program(kBusy);
  const HpFunction busy = program.find("busy");
  for (const uint32_t groups : {1u, 16u}) {
    Memory counts(16 * 4);
    counts.write(std::vector<uint32_t>(16).data());
    CHECK(set_fault("kernel:after=2:operator=aten::test") == 0);
    for (int i = 0; i < 3; ++i) launch(busy, {groups}, {pointer(counts), value(uint32_t{1})});
    CHECK(sim().streams->synchronize(0, nullptr, 0) == HP_ERROR);
    CHECK_TEXT(message, "operator 'aten::test' failed on sim:0 stream 0: injected kernel failure");
    CHECK(set_fault("") == 0);
    CHECK(contents<uint32_t>(counts)[0] == 2);  // the one in the middle did not run
  }
}

CHILD(deterministic) {
  test_saxpy();
  test_every_group_runs_once();
  test_values_are_copied();
  test_kernel_fault();
  test_threads_with_their_own_streams();
  const Program program(kBusy);
  Memory counts(64 * 4);
  launch(program.find("busy"), {64}, {pointer(counts), value(uint32_t{100000})});
  CHECK(sim().streams->query(0, nullptr) == HP_OK);
}
TEST(deterministic_mode) { expect_success(run_child("deterministic", {{"HARDPOINT_SIM_DETERMINISTIC", "1"}})); }

CHILD(jitter) {
  test_saxpy();
  test_values_are_copied();
  test_kernel_fault();
}
TEST(jitter_mode) { expect_success(run_child("jitter", {{"HARDPOINT_SIM_JITTER", "42"}})); }

CHILD(several_launches) {
  test_saxpy();
  test_every_group_runs_once();
  test_threads_with_their_own_streams();
}
TEST(any_number_of_threads) {
  for (const char* threads : {"1", "2", "3", "13"})
    expect_success(run_child("several_launches", {{"HARDPOINT_SIM_THREADS", threads}}));
}

CHILD(forks_before_use) {
  const Program program(kNumber);  // loading a program is not yet using a device
  CHECK(after_fork([&] {
    Memory out(1000 * 8);
    launch(program.find("number"), {1000}, {pointer(out)});
    return contents<uint64_t>(out)[999] == (uint64_t{999} << 32 | uint64_t{999} << 20);
  }));
}
TEST(forks) {
  const Program program(kNumber);
  const HpFunction number = program.find("number");
  Memory out(1000 * 8);
  launch(number, {1000}, {pointer(out)});
  synchronize();
  CHECK(after_fork([&] {
    return try_launch(number, {1000}, {pointer(out)}) == HP_DEVICE_LOST && contains(message, "fork()") &&
           compiler().unload(0, program.handle) == HP_OK;
  }));
#if !defined(__SANITIZE_THREAD__)  // allows no new threads after fork
  expect_success(run_child("forks_before_use"));
#endif
}

// --- cost ----------------------------------------------------------------------------------------------------------

TEST(launch_cost) {
  const Program program(kEmpty);
  const HpFunction empty = program.find("empty");
  Memory a(4096), b(4096);
  const uint32_t n = 1024, ones[3] = {1, 1, 1};
  const HpLaunchArg args[] = {pointer(a), pointer(b), value(n)};
  const auto best_us = [](int count, const auto& body) {
    double best = 1e9;
    for (int repeat = 0; repeat < 20; ++repeat) {
      synchronize();
      const auto start = Clock::now();
      for (int i = 0; i < count; ++i) body();
      best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - start).count() / count);
    }
    synchronize();
    return best;
  };
  const auto run = [&](uint32_t groups) {
    const uint32_t extent[3] = {groups, 1, 1};
    OK(compiler().launch(0, nullptr, empty, extent, ones, args, 3));
  };
  const double inline_us = best_us(500, [&] { run(1); });
  const double queued_us = best_us(500, [&] { run(64); });
  const double finished_us = best_us(200, [&] {
    run(64);
    synchronize();
  });
  printf("empty launch: inline %.3f us, queued %.3f us, queued and waited for %.3f us\n", inline_us, queued_us,
         finished_us);
  if (!kSanitized) CHECK(inline_us < 5 && queued_us < 20);
}

}  // namespace

SIM_MAIN
