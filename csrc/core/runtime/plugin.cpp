#include "core/runtime/plugin.h"

#include <dlfcn.h>
#include <elf.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>
#include <unordered_map>

#include "core/dispatch/launch.h"
#include "core/dispatch/operator.h"
#include "core/memory/allocator.h"
#include "core/memory/scratch.h"
#include "core/runtime/error.h"
#include "core/runtime/process_state.h"
#include "core/runtime/runtime.h"
#include "core/tracing/tracer.h"

namespace hp {
namespace {

std::string format(const char* pattern, va_list arguments) {
  if (pattern == nullptr) return "";
  char text[2048];
  std::vsnprintf(text, sizeof(text), pattern, arguments);
  return text;
}

void host_log(HpLogLevel level, const char* message) {
  static const char* const names[] = {"debug", "info", "warning", "error"};
  const int index = std::min(std::max(static_cast<int>(level), 0), 3);
  std::fprintf(stderr, "[hardpoint %s] %s\n", names[index], message != nullptr ? message : "");
}

HpStatus host_fail(HpStatus status, const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  store_message(format(pattern, arguments));
  va_end(arguments);
  return status;
}

int host_raise(const char* kind, const char* pattern, ...) {
  if (kind == nullptr) kind = "RuntimeError";
  // Declining is common and its error object is discarded: building one costs more than a small kernel.
  if (std::strcmp(kind, "NotImplementedError") == 0 && mark_declined()) return -1;
  va_list arguments;
  va_start(arguments, pattern);
  TVMFFIErrorSetRaisedFromCStr(kind, format(pattern, arguments).c_str());
  va_end(arguments);
  return -1;
}

const char* host_operator_name() {
  const Operator* op = current_operator();
  return op != nullptr ? op->name.c_str() : "(no operator)";
}

HpStream host_current_stream(int device) {
  Stream* const stream = launching_stream(device);
  return stream != nullptr ? stream->handle() : nullptr;
}

// Scratch memory in use, by address: kernels free by address, the allocator by block.
struct PluginScratch {
  std::mutex mutex;
  std::unordered_map<void*, Block*> blocks;
};
PluginScratch& scratch() {
  static auto* table = new PluginScratch;
  return *table;
}

HpStatus host_scratch_allocate(int device, size_t bytes, void** ptr) {
  *ptr = nullptr;
  if (bytes == 0) return HP_OK;
  try {
    Runtime* runtime = launching_runtime();
    if (runtime == nullptr) return host_fail(HP_ERROR, "scratch memory is only available while a kernel runs");
    Device& d = runtime->device(device);
    Block* block = d.allocator().allocate(bytes, current_stream(d));
    *ptr = CachingAllocator::address(block);
    std::lock_guard<std::mutex> lock(scratch().mutex);
    scratch().blocks[*ptr] = block;
    return HP_OK;
  } catch (const Error& e) {
    return host_fail(e.status, "%s", e.what());
  } catch (const std::exception& e) {
    return host_fail(HP_ERROR, "%s", e.what());
  }
}

void host_scratch_free(int, void* ptr) {
  Block* block = nullptr;
  {
    std::lock_guard<std::mutex> lock(scratch().mutex);
    auto found = scratch().blocks.find(ptr);
    if (found == scratch().blocks.end()) return;
    block = found->second;
    scratch().blocks.erase(found);
  }
  CachingAllocator::release(block);
}

// The file that gets the steps of a trial load, so that a crash can be named; -1 outside the probe process.
int probe_file = -1;
void enter_step(const std::string& step) {
  const std::string line = step + '\n';
  if (probe_file >= 0 && write(probe_file, line.data(), line.size()) < 0) probe_file = -1;
}

// Larger than any table will ever be.
constexpr size_t kMaxTableSize = 64 << 10;

// Copies the slots that the plug-in's header version knows; later slots are null.
template <class Table>
Table full_size(const std::string& origin, const char* name, const Table* source) {
  Table copy{};
  if (source == nullptr) return copy;
  enter_step("while " + std::string(name) + " was read (is the pointer to it right?)");
  const size_t size = source->struct_size;
  // Fields are pointers, or pairs of smaller ones. A size that cuts one in half would make a wild pointer of it.
  if (size <= sizeof(size_t) || size % sizeof(void*) != 0 || size > kMaxTableSize) {
    throw Error(HP_INVALID_ARGUMENT, origin + ": " + name + ".struct_size is " + std::to_string(size) +
                                         ", which is the size of no such table: set it to sizeof(" + name + ")");
  }
  std::memcpy(&copy, source, std::min(size, sizeof(Table)));
  return copy;
}

// The machine that an ELF file is for: the class and e_machine; 0 if it is no such file.
unsigned elf_machine(const std::string& path) {
  unsigned char head[EI_NIDENT + 4] = {};
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(head), sizeof(head));
  if (std::memcmp(head, ELFMAG, SELFMAG) != 0) return 0;
  return head[EI_CLASS] << 16 | head[EI_NIDENT + 3] << 8 | head[EI_NIDENT + 2];
}

// What to do about a library that dlopen refuses.
std::string load_advice(const std::string& path, const std::string& reason) {
  const unsigned machine = elf_machine(path);
  if (machine != 0 && machine != elf_machine("/proc/self/exe")) {
    return "; it is built for another kind of processor: install the build for this machine";
  }
  const auto says = [&](const char* part) { return reason.find(part) != std::string::npos; };
  if (says("ELF") || says("too short") || says("cannot read file data") || says("executable")) {
    return "; it is not a complete shared library of this platform: rebuild or reinstall it";
  }
  if (says("cannot open shared object file") && reason.rfind(path, 0) != 0) {
    return "; the plug-in needs that library: install it (often with the driver), or add its folder to LD_LIBRARY_PATH";
  }
  if (says("undefined symbol")) {
    return "; add the source file or the library that defines it to the link";
  }
  return "";
}

// Calls hp_plugin_init and returns its table.
const HpPlugin* initialize(Plugin::InitFunction init, const std::string& origin) {
  const pid_t process = getpid();
  const HpPlugin* table = nullptr;
  enter_step("in hp_plugin_init");
  const HpStatus status = guarded([&] { return init(host(), &table); });
  if (getpid() != process) {
    // Two processes would run the rest of the program.
    std::fprintf(stderr,
                 "[hardpoint error] %s: hp_plugin_init called fork(), and the child returned: it must end "
                 "with _exit()\n",
                 origin.c_str());
    _exit(1);
  }
  check(status, origin + ": hp_plugin_init");
  enter_step("while HpPlugin was read (is the pointer to it right?)");
  return table;
}

void check_compiler(const std::string& origin, const Plugin& plugin) {
  const HpCompiler& compiler = plugin.compiler;
  const std::string dialect = compiler.dialect;
  if (dialect != "opencl" && dialect != "cuda" && dialect != "c") {
    throw Error(HP_INVALID_ARGUMENT, origin + ": HpCompiler.dialect '" + dialect +
                                         "' is unknown: set it to \"opencl\", \"cuda\" or \"c\", or leave the whole " +
                                         "table out");
  }
  // Since 1.2, each device may have its own.
  if (compiler.group_size == 0 && (plugin.abi_minor < 2 || plugin.info.properties == nullptr)) {
    throw Error(HP_INVALID_ARGUMENT, origin + ": HpCompiler.group_size is 0: set it to the work-items of a group, 1 " +
                                         "on a CPU, often 256 on a GPU");
  }
}

void check_kernels(const std::string& origin, const HpPlugin& table) {
  if (table.kernels == nullptr && table.num_kernels != 0) {
    throw Error(HP_INVALID_ARGUMENT, origin + ": HpPlugin.kernels is NULL, but num_kernels is " +
                                         std::to_string(table.num_kernels) + ": set both or neither");
  }
  for (size_t i = 0; i < table.num_kernels; ++i) {
    const HpKernel& kernel = table.kernels[i];
    if (kernel.name != nullptr && kernel.function != nullptr) continue;
    throw Error(HP_INVALID_ARGUMENT, origin + ": HpPlugin.kernels[" + std::to_string(i) + "] has no " +
                                         (kernel.name == nullptr ? "name" : "function") +
                                         ": set both, and num_kernels (" + std::to_string(table.num_kernels) +
                                         ") to the array's length");
  }
}

bool valid_name(const char* name) {
  if (name[0] < 'a' || name[0] > 'z') return false;
  for (const char* c = name; *c != '\0'; ++c) {
    if (!((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || *c == '_')) return false;
  }
  return std::strlen(name) <= 32;
}

// The start of a text, with '?' for control characters.
std::string printable(const char* text) {
  std::string start(text, strnlen(text, 80));
  std::replace_if(start.begin(), start.end(), [](unsigned char c) { return c < ' ' || c == 0x7F; }, '?');
  return start;
}

struct RequiredSlot {
  template <class T>
  RequiredSlot(const char* name, T* slot) : name(name), present(slot != nullptr) {}
  const char* name;
  bool present;
};

void require(const std::string& origin, const char* table, std::initializer_list<RequiredSlot> slots) {
  std::string missing;
  for (const RequiredSlot& slot : slots) {
    if (!slot.present) missing += (missing.empty() ? "" : ", ") + std::string(slot.name);
  }
  if (!missing.empty()) {
    throw Error(HP_INVALID_ARGUMENT, origin + ": " + table + " lacks the required function(s) " + missing +
                                         ": set them, see docs/reference/abi.md" +
                                         (std::strcmp(table, "HpPlugin") == 0 ? "" : ", or leave the whole table out"));
  }
}

}  // namespace

const HpHost* host() {
  static const HpHost table = {
      sizeof(HpHost),     HP_ABI_MAJOR,        HP_ABI_MINOR,          host_log,          host_fail,         host_raise,
      host_operator_name, host_current_stream, host_scratch_allocate, host_scratch_free, launch_correlation};
  return &table;
}

std::shared_ptr<const Plugin> Plugin::load(const std::string& path) {
  // dlopen returns one handle per library, whatever the path: each is initialized once.
  static std::mutex mutex;
  static auto* loaded = new std::unordered_map<void*, std::shared_ptr<const Plugin>>;
  std::lock_guard<std::mutex> lock(mutex);
  const ProcessState restored(path);
  enter_step("while the library was loaded (look at its static constructors, and those of the libraries it needs)");
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string reason = dlerror();
    throw Error(HP_ERROR, path + ": cannot be loaded as a plug-in: " + reason + load_advice(path, reason));
  }
  if (auto found = loaded->find(library); found != loaded->end()) return found->second;
  auto init = reinterpret_cast<InitFunction>(dlsym(library, "hp_plugin_init"));
  if (init == nullptr) {
    dlclose(library);
    throw Error(HP_INVALID_ARGUMENT,
                path + ": does not export hp_plugin_init, so it is not a Hardpoint plug-in: check the function's " +
                    "name, that its source file is built into the library, and that it is declared with HP_EXPORT, " +
                    "in C++ also with extern \"C\"");
  }
  // hp_plugin_init may have started threads: the library stays open even if it is rejected below.
  auto plugin = std::shared_ptr<Plugin>(new Plugin);
  plugin->library_ = library;
  plugin->origin = path;
  plugin->adopt_table(initialize(init, path));
  loaded->emplace(library, plugin);
  return plugin;
}

std::shared_ptr<const Plugin> Plugin::adopt(InitFunction init, const std::string& origin) {
  auto plugin = std::shared_ptr<Plugin>(new Plugin);
  plugin->origin = origin;
  plugin->adopt_table(initialize(init, origin));
  return plugin;
}

void Plugin::adopt_table(const HpPlugin* source) {
  if (source == nullptr) {
    throw Error(HP_INVALID_ARGUMENT, origin + ": hp_plugin_init returned HP_OK but set no plug-in table");
  }
  // Check the version first: another major version may lay out the rest differently.
  constexpr size_t versioned = offsetof(HpPlugin, abi_minor) + sizeof(source->abi_minor);
  constexpr size_t smallest = offsetof(HpPlugin, copy_on_device) + sizeof(source->copy_on_device);
  const bool other_major = source->struct_size >= versioned && source->abi_major != HP_ABI_MAJOR;
  if (!other_major && source->struct_size < smallest) {
    throw Error(HP_INVALID_ARGUMENT, origin + ": struct_size of HpPlugin is " + std::to_string(source->struct_size) +
                                         ", at least " + std::to_string(smallest) +
                                         " is needed: set it to sizeof(HpPlugin)");
  }
  if (other_major) {
    throw Error(HP_NOT_SUPPORTED, origin + ": built for plug-in ABI " + std::to_string(source->abi_major) + "." +
                                      std::to_string(source->abi_minor) + ", this Hardpoint speaks ABI " +
                                      std::to_string(HP_ABI_MAJOR) + ".x: rebuild the plug-in with this version's " +
                                      "header, or install a Hardpoint that speaks ABI " +
                                      std::to_string(source->abi_major) + ".x");
  }
  table = full_size(origin, "HpPlugin", source);
  abi_minor = source->abi_minor;
  if (table.name == nullptr || !valid_name(table.name)) {
    throw Error(HP_INVALID_ARGUMENT, origin + ": device name " +
                                         (table.name ? "'" + printable(table.name) + "'" : "(NULL)") +
                                         " is invalid: use at most 32 of a-z, 0-9 and _, starting with a letter");
  }
  name = table.name;
  require(origin, "HpPlugin",
          {{"device_count", table.device_count},
           {"allocate", table.allocate},
           {"free", table.free},
           {"copy_to_device", table.copy_to_device},
           {"copy_to_host", table.copy_to_host},
           {"copy_on_device", table.copy_on_device}});

  streams = full_size(origin, "HpStreams", table.streams);
  events = full_size(origin, "HpEvents", table.events);
  info = full_size(origin, "HpInfo", table.info);
  pinned = full_size(origin, "HpPinned", table.pinned);
  peer = full_size(origin, "HpPeer", table.peer);
  interprocess = full_size(origin, "HpInterprocess", table.interprocess);
  compiler = full_size(origin, "HpCompiler", table.compiler);
  collectives = full_size(origin, "HpCollectives", table.collectives);
  tracing = full_size(origin, "HpTracing", table.tracing);
  graphs = full_size(origin, "HpGraphs", table.graphs);
  if (table.streams != nullptr) {
    require(origin, "HpStreams",
            {{"create", streams.create}, {"destroy", streams.destroy}, {"synchronize", streams.synchronize}});
  }
  if (table.events != nullptr) {
    require(origin, "HpEvents",
            {{"create", events.create},
             {"destroy", events.destroy},
             {"record", events.record},
             {"wait", events.wait},
             {"synchronize", events.synchronize},
             {"query", events.query}});
  }
  if (table.pinned != nullptr) require(origin, "HpPinned", {{"allocate", pinned.allocate}, {"free", pinned.free}});
  if (table.peer != nullptr) require(origin, "HpPeer", {{"copy", peer.copy}});
  if (table.interprocess != nullptr) {
    require(origin, "HpInterprocess",
            {{"export_memory", interprocess.export_memory},
             {"open_memory", interprocess.open_memory},
             {"close_memory", interprocess.close_memory}});
  }
  if (table.compiler != nullptr) {
    require(origin, "HpCompiler",
            {{"dialect", compiler.dialect},
             {"fingerprint", compiler.fingerprint},
             {"compile", compiler.compile},
             {"release_binary", compiler.release_binary},
             {"load", compiler.load},
             {"unload", compiler.unload},
             {"find", compiler.find},
             {"launch", compiler.launch}});
    check_compiler(origin, *this);
  }
  if (table.collectives != nullptr) {
    require(origin, "HpCollectives",
            {{"group_id", collectives.group_id}, {"create", collectives.create}, {"destroy", collectives.destroy}});
    if ((collectives.group_start == nullptr) != (collectives.group_end == nullptr)) {
      throw Error(HP_INVALID_ARGUMENT,
                  origin + ": HpCollectives has only one of group_start and group_end: set both or neither");
    }
  }
  if (table.tracing != nullptr) require(origin, "HpTracing", {{"start", tracing.start}, {"stop", tracing.stop}});
  if (table.graphs != nullptr) {
    require(origin, "HpGraphs",
            {{"begin_capture", graphs.begin_capture},
             {"end_capture", graphs.end_capture},
             {"launch", graphs.launch},
             {"destroy", graphs.destroy}});
  }
  enter_step("while HpPlugin.kernels was read (is it an array of num_kernels?)");
  check_kernels(origin, table);

  enter_step("in device_count");
  HP_CHECK(table.device_count(&device_count), origin + ": device_count");
  if (device_count <= 0) {
    throw Error(HP_NOT_SUPPORTED, origin + ": plug-in '" + name + "' found no device (device_count gave " +
                                      std::to_string(device_count) +
                                      "): check the driver and the device's permissions");
  }
  if (device_count > kMaxDevices) {
    host_log(HP_LOG_WARNING, (name + " has " + std::to_string(device_count) + " devices; Hardpoint uses the first " +
                              std::to_string(kMaxDevices))
                                 .c_str());
    device_count = kMaxDevices;
  }
}

std::vector<std::string> Plugin::extensions() const {
  std::vector<std::string> present;
  auto add = [&](const char* label, bool yes) {
    if (yes) present.emplace_back(label);
  };
  add("streams", has_streams());
  add("events", has_events());
  add("info", info.properties != nullptr || info.memory != nullptr);
  add("pinned", pinned.allocate != nullptr);
  add("peer", peer.copy != nullptr);
  add("interprocess", interprocess.export_memory != nullptr);
  add("compiler", compiler.compile != nullptr);
  add("collectives", collectives.create != nullptr);
  add("tracing", tracing.start != nullptr);
  add("graphs", graphs.launch != nullptr);
  return present;
}

bool Plugin::loads(const std::string& binary_kind) const {
  if (compiler.binary_kinds == nullptr || binary_kind.empty()) return false;
  return (" " + std::string(compiler.binary_kinds) + " ").find(" " + binary_kind + " ") != std::string::npos;
}

HpPrivateFunction Plugin::private_function(const std::string& function) const {
  return table.private_function != nullptr ? table.private_function(table.context, function.c_str()) : nullptr;
}

Plugin::Kernel Plugin::find_kernel(const std::string& kernel_name) const {
  for (size_t i = 0; i < table.num_kernels; ++i) {
    const HpKernel& kernel = table.kernels[i];
    if (kernel_name == kernel.name) return {kernel.function, kernel.flags};
  }
  if (library_ == nullptr) return {};
  return {reinterpret_cast<HpKernelFunction>(dlsym(library_, ("__tvm_ffi_" + kernel_name).c_str())), 0};
}

}  // namespace hp

// Test-loads a plug-in in a child process (hardpoint/_discovery.py), and writes the steps to the file descriptor
// `steps`. Returns 0, or 1 after writing the reason behind a record separator.
extern "C" HP_EXPORT int hp_probe(const char* path, int steps) {
  hp::probe_file = steps;
  try {
    hp::Plugin::load(path);
    hp::enter_step("\x1e");  // a status alone could be the plug-in's
    return 0;
  } catch (const std::exception& e) {
    hp::enter_step(std::string("\x1e") + e.what());
    return 1;
  }
}
