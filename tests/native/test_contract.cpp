// Slots of contract 1.2, and their defaults for plug-ins without them.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "core/dispatch/portable_kernel.h"
#include "core/runtime/runtime.h"
#include "fake_plugin.h"

namespace {

HpStatus real_copy(int, void* dst, const void* src, size_t bytes, HpStream) {
  std::memcpy(dst, src, bytes);
  return HP_OK;
}

// ---- A plug-in with every new slot

int fills = 0, host_calls = 0, state = 0;
HpLaunch seen_launch;

HpStatus fill_memory(int, void* dst, uint8_t value, size_t bytes, HpStream) {
  ++fills;
  std::memset(dst, value, bytes);
  return HP_OK;
}
HpStatus call_host(int, HpStream, void (*function)(void*), void* data) {
  ++host_calls;
  function(data);
  return HP_OK;
}
HpStatus can_access(int dst, int src, int* yes) {
  *yes = dst > src;
  return HP_OK;
}
HpStatus properties(int device, HpProperties* to) {
  to->group_size = device == 1 ? 128 : 0;
  to->local_memory = device == 1 ? 4096 : 0;
  std::memset(to->uuid, 0xAB, 4);  // where a struct of 1.1 has padding
  return HP_OK;
}
void shutdown(void* context) { ++*static_cast<int*>(context); }
int answer() { return 42; }
HpPrivateFunction private_function(void* context, const char* name) {
  if (context != &state || std::string(name) != "answer") return nullptr;
  return reinterpret_cast<HpPrivateFunction>(&answer);
}

const char* fingerprint(int) { return "test"; }
HpStatus compile(int, const char*, const char*, void**, size_t*) { return HP_NOT_SUPPORTED; }
void release_binary(void*) {}
HpStatus load(int, const void*, size_t, HpProgram*) { return HP_OK; }
HpStatus unload(int, HpProgram) { return HP_OK; }
HpStatus find(int, HpProgram, const char*, HpFunction*) { return HP_OK; }
HpStatus launch(int, HpStream, HpFunction, const uint32_t* groups, const uint32_t* size, const HpLaunchArg*, uint32_t) {
  seen_launch = {};
  std::memcpy(seen_launch.groups, groups, sizeof(seen_launch.groups));
  std::memcpy(seen_launch.group_size, size, sizeof(seen_launch.group_size));
  return HP_OK;
}
HpStatus launch_with(int, HpStream, HpFunction, const HpLaunch* options, const HpLaunchArg*, uint32_t) {
  seen_launch = *options;
  return HP_OK;
}
HpStatus attributes(int, HpFunction, HpAttributes* to) {
  to->registers = 40;
  return HP_OK;
}

HpCompiler make_compiler() {
  return {sizeof(HpCompiler), "c",       64,     1024, fingerprint, compile,
          release_binary,     load,      unload, find, launch,      "cubin ptx",
          launch_with,        attributes};
}

HpStatus init_new(const HpHost* host, const HpPlugin** plugin) {
  fake_host = host;
  static const HpStreams streams = {sizeof(HpStreams),       fake_stream_create, fake_stream_destroy,
                                    fake_stream_synchronize, fake_stream_query,  call_host};
  static const HpInfo info = {sizeof(HpInfo), properties, nullptr};
  static const HpPeer peer = {sizeof(HpPeer), [](int, void*, int, const void*, size_t, HpStream) { return HP_OK; },
                              can_access};
  static const HpCompiler compiler = make_compiler();
  static HpPlugin table = required_part("new");
  table.copy_to_device = table.copy_to_host = table.copy_on_device = real_copy;
  table.streams = &streams;
  table.info = &info;
  table.peer = &peer;
  table.compiler = &compiler;
  table.fill_memory = fill_memory;
  table.context = &state;
  table.shutdown = shutdown;
  table.private_function = private_function;
  *plugin = &table;
  return HP_OK;
}

// The same functions in tables of 1.1: what follows them is garbage, and must not be read.
HpStatus init_old(const HpHost* host, const HpPlugin** plugin) {
  const HpPlugin* made = nullptr;
  init_new(host, &made);
  static HpPlugin table = *made;
  static HpStreams streams = *made->streams;
  static HpPeer peer = *made->peer;
  static HpCompiler compiler = *made->compiler;
  const auto garbage = [](auto& whole, size_t from) {
    std::memset(reinterpret_cast<char*>(&whole) + from, 0xAB, sizeof(whole) - from);
    whole.struct_size = from;
  };
  garbage(streams, offsetof(HpStreams, call_host));
  garbage(peer, offsetof(HpPeer, can_access));
  garbage(compiler, offsetof(HpCompiler, binary_kinds));
  garbage(table, offsetof(HpPlugin, tracing));
  table.name = "old";
  table.abi_minor = 1;
  table.streams = &streams;
  table.peer = &peer;
  table.compiler = &compiler;
  *plugin = &table;
  return HP_OK;
}

hp::Runtime& new_runtime() {
  static hp::Runtime& runtime = hp::Runtime::mount(hp::Plugin::adopt(init_new, "new"));
  return runtime;
}
hp::Runtime& old_runtime() {
  static hp::Runtime& runtime = hp::Runtime::mount(hp::Plugin::adopt(init_old, "old"));
  return runtime;
}

hp::Operator& test_op() { return hp::Operator::intern("test::launch"); }

HpLaunch options(uint32_t local_bytes = 0, uint32_t cluster = 0, uint32_t flags = 0) {
  return {0, {2, 3, 4}, {32, 2, 1}, local_bytes, {cluster, 1, 1}, flags};
}

}  // namespace

TEST(fill_uses_the_plugin_or_copies) {
  for (hp::Runtime* runtime : {&new_runtime(), &old_runtime()}) {
    hp::Device& device = runtime->device(0);
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{65536}, size_t{65537}, size_t{1'000'003}}) {
      std::vector<unsigned char> memory(bytes + 1, 7);
      device.fill(memory.data(), 0xC3, bytes, device.default_stream());
      CHECK(memory[bytes] == 7);
      for (size_t i = 0; i < bytes; ++i) CHECK(memory[i] == 0xC3);
    }
  }
  CHECK(fills == 4);  // none for 0 bytes, none of the old plug-in
}

TEST(host_functions_are_called_after_the_work) {
  int called = 0;
  const auto count = [](void* data) { ++*static_cast<int*>(data); };
  new_runtime().device(0).default_stream().call_host(count, &called);
  CHECK(called == 1 && host_calls == 1);
  hp::Stream& stream = old_runtime().device(2).default_stream();
  const int waited = fake_devices[2].stream_syncs;
  stream.call_host(count, &called);
  CHECK(called == 2 && host_calls == 1 && fake_devices[2].stream_syncs == waited + 1);
  fake_devices[2].fault = Fault::kSyncError;
  CHECK_THROWS(hp::Error, "kernel crashed", stream.call_host(count, &called));
  fake_devices[2].fault = Fault::kNone;
  CHECK(called == 3);
}

TEST(links_between_devices) {
  hp::Runtime &with = new_runtime(), &without = old_runtime(), &bare = bare_runtime();
  CHECK(with.can_access(with.device(1), with.device(0)) && !with.can_access(with.device(0), with.device(1)));
  CHECK(without.can_access(without.device(0), without.device(1)));
  CHECK(!bare.can_access(bare.device(0), bare.device(1)) && bare.can_access(bare.device(3), bare.device(3)));
}

TEST(sizes_per_device) {
  CHECK(new_runtime().device(1).group_size() == 128 && new_runtime().device(1).local_memory() == 4096);
  CHECK(new_runtime().device(0).group_size() == 64 && new_runtime().device(0).local_memory() == 1024);
  CHECK(old_runtime().device(1).group_size() == 64 && old_runtime().device(1).local_memory() == 1024);
  CHECK(bare_runtime().device(1).group_size() == 0);
}

TEST(properties_of_older_plugins_have_no_new_fields) {
  CHECK(new_runtime().device(1).properties().uuid[3] == 0xAB);
  const HpProperties old = old_runtime().device(1).properties();
  CHECK(old.uuid[0] == 0 && old.uuid[3] == 0 && old.group_size == 0 && old.local_memory == 0);
}

TEST(launches_with_options) {
  hp::Stream& stream = new_runtime().device(0).default_stream();
  hp::launch_with(test_op(), nullptr, stream, options(1 << 16, 2, HP_LAUNCH_OVERLAP), nullptr, 0);
  CHECK(seen_launch.struct_size == sizeof(HpLaunch) && seen_launch.local_bytes == 1 << 16);
  CHECK(seen_launch.cluster[0] == 2 && seen_launch.flags == HP_LAUNCH_OVERLAP && seen_launch.groups[2] == 4);
  CHECK(hp::function_attributes(new_runtime().device(0), nullptr).registers == 40);
  CHECK(new_runtime().plugin->loads("cubin") && new_runtime().plugin->loads("ptx"));
  CHECK(!new_runtime().plugin->loads("cub") && !new_runtime().plugin->loads("") && !new_runtime().plugin->loads("x"));
}

TEST(launches_with_options_that_the_plugin_lacks) {
  hp::Stream& stream = old_runtime().device(0).default_stream();
  hp::launch_with(test_op(), nullptr, stream, options(0, 1), nullptr, 0);
  CHECK(seen_launch.groups[1] == 3 && seen_launch.group_size[0] == 32 && seen_launch.local_bytes == 0);
  for (const HpLaunch& wanted : {options(1), options(0, 2), options(0, 0, HP_LAUNCH_COOPERATIVE)}) {
    CHECK_THROWS(hp::Error, "launch_with", hp::launch_with(test_op(), nullptr, stream, wanted, nullptr, 0));
  }
  CHECK(hp::function_attributes(old_runtime().device(0), nullptr).registers == 0);
  CHECK(!old_runtime().plugin->loads("cubin"));
}

TEST(private_functions) {
  const HpPrivateFunction found = new_runtime().plugin->private_function("answer");
  CHECK(found != nullptr && reinterpret_cast<int (*)()>(found)() == 42);
  CHECK(new_runtime().plugin->private_function("question") == nullptr);
  CHECK(old_runtime().plugin->private_function("answer") == nullptr);
}

// The last one: the runtimes are shut down afterwards.
TEST(shutdown_is_called_once_and_not_in_a_child) {
  new_runtime();
  old_runtime();
  const pid_t child = fork();
  if (child == 0) {
    hp::Runtime::shut_down();
    _exit(state == 0 ? 0 : 1);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  hp::Runtime::shut_down();
  hp::Runtime::shut_down();
  CHECK(state == 1);
}

CHECK_MAIN
