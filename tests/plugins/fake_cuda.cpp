// NVIDIA's driver and NVRTC for a machine that has neither: memory is the host's, every call is synchronous, and
// kernels are compiled by the host's C++ compiler to be run by cuda_on_host.h. FAKE_CUDA_HEADER names that file. As
// libcuda.so.1 and as libnvrtc.so.13, it lets the plug-in's own code run from end to end.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) int

namespace {

constexpr size_t kTotal = size_t{2} << 30;
constexpr int kInvalidValue = 1, kOutOfMemory = 2, kNotFound = 500, kInvalidImage = 200;
constexpr int kMostSharedBytes = 8, kLargeClusters = 14;  // attributes of functions
constexpr int kCaptureUnsupported = 900;
std::mutex mutex;
std::map<uint64_t, size_t> blocks;
std::map<void*, unsigned> most_shared;  // bytes that functions may have
std::set<void*> large_clusters;         // functions that may have clusters of more than 8 blocks
int launch_attributes = 0;
size_t used = 0;
thread_local void* current = nullptr;
int contexts[2];

struct Event {
  std::chrono::steady_clock::time_point at;
};
using Run = void (*)(const unsigned*, unsigned, unsigned, void**);

// A captured graph: what to call at each launch.
using Graph = std::vector<std::function<void()>>;
std::map<void*, Graph> capturing;        // streams
std::map<void*, const unsigned*> sizes;  // of a function's arguments in bytes, ended by 0

// Stores the work if the stream captures; runs it otherwise. The caller holds the mutex.
int queue(void* stream, std::function<void()> work) {
  const auto found = capturing.find(stream);
  if (found == capturing.end()) return work(), 0;
  return found->second.push_back(std::move(work)), 0;
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

struct Program {
  std::string source, log, binary;
};

// A function for each kernel that takes the addresses of its arguments.
std::string launchers(const std::string& text) {
  std::string made;
  for (size_t at = 0; (at = text.find("extern \"C\"", at)) != std::string::npos; ++at) {
    const size_t open = text.find('(', at), close = text.find(')', open);
    size_t end = open;
    while (isspace(text[end - 1])) --end;
    size_t begin = end;
    while (isalnum(text[begin - 1]) || text[begin - 1] == '_') --begin;
    const std::string name = text.substr(begin, end - begin);
    std::string given, bytes, rest = text.substr(open + 1, close - open - 1) + ",";
    int count = 0;
    for (size_t comma; (comma = rest.find(',')) != std::string::npos; rest.erase(0, comma + 1)) {
      std::string type = rest.substr(0, comma);
      while (isspace(type.back())) type.pop_back();
      while (isalnum(type.back()) || type.back() == '_') type.pop_back();
      bytes += "sizeof(Plain<" + type + ">::Type), ";
      given += (count ? ", " : "") + ("*(Plain<" + type + ">::Type*)p[" + std::to_string(count) + "]");
      ++count;
    }
    made += "extern \"C\" { extern const unsigned sizes_" + name + "[] = {" + bytes + "0}; }\n";
    made += "extern \"C\" void launch_" + name + "(const unsigned* g, unsigned threads, unsigned bytes, void** p) {\n" +
            "  fibers::launch(Index{g[0], g[1], g[2]}, threads, 7, [&] { " + name + "(" + given + "); }, bytes);\n}\n";
  }
  return made;
}

}  // namespace

// ---- The driver

API cuInit(unsigned) { return 0; }
API cuGetErrorName(int, const char** text) { return *text = "FAKE", 0; }
API cuGetErrorString(int, const char** text) { return *text = "an error of the fake driver", 0; }
API cuDeviceGetCount(int* count) { return *count = 2, 0; }
API cuDeviceGet(int* device, int index) { return *device = index, 0; }
API cuDeviceGetName(char* name, int size, int) { return strncpy(name, "Fake NVIDIA device", size), 0; }
API cuDeviceGetAttribute(int* value, int attribute, int) {
  // Of an H100, apart from its two processors.
  static const std::map<int, int> values = {{1, 1024}, {8, 48 << 10}, {10, 32},       {13, 1980000},
                                            {16, 2},   {36, 2619000}, {37, 5120},     {38, 50 << 20},
                                            {75, 9},   {82, 1 << 16}, {97, 227 << 10}};
  const auto found = values.find(attribute);
  return *value = found == values.end() ? 0 : found->second, 0;
}
API cuDeviceGetUuid_v2(char* uuid, int device) {
  for (int i = 0; i < 16; ++i) uuid[i] = static_cast<char>(device * 16 + i);
  return 0;
}
API cuDeviceGetPCIBusId(char* text, int size, int device) {
  return snprintf(text, static_cast<size_t>(size), "0000:%02X:00.0", 0x3b + device), 0;
}
API cuDeviceCanAccessPeer(int* yes, int device, int peer) { return *yes = device < peer, 0; }
API cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = kTotal, 0; }
API cuDevicePrimaryCtxRetain(void** context, int device) { return *context = &contexts[device], 0; }
API cuCtxGetCurrent(void** context) { return *context = current, 0; }
API cuCtxSetCurrent(void* context) { return current = context, 0; }
API cuMemGetInfo_v2(size_t* free, size_t* total) { return *free = kTotal - used, *total = kTotal, 0; }
API cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  if (used + bytes > kTotal) return kOutOfMemory;
  *address = reinterpret_cast<uint64_t>(aligned_alloc(512, (bytes + 511) / 512 * 512));
  blocks[*address] = bytes;
  used += bytes;
  return 0;
}
API cuMemFree_v2(uint64_t address) {
  std::lock_guard<std::mutex> lock(mutex);
  used -= blocks.at(address);
  blocks.erase(address);
  free(reinterpret_cast<void*>(address));
  return 0;
}
API cuMemHostAlloc(void** address, size_t bytes, unsigned) { return (*address = malloc(bytes)) ? 0 : kOutOfMemory; }
API cuMemFreeHost(void* address) { return free(address), 0; }
API cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t bytes, void*) { return memcpy(to, from, bytes), 0; }
API cuMemcpyDtoHAsync_v2(void* to, const void* from, size_t bytes, void*) { return memcpy(to, from, bytes), 0; }
API cuMemcpyDtoDAsync_v2(void* to, const void* from, size_t bytes, void* stream) {
  std::lock_guard<std::mutex> lock(mutex);
  return queue(stream, [=] { memmove(to, from, bytes); });
}
API cuMemcpyPeerAsync(void* to, void*, const void* from, void*, size_t bytes, void*) {
  return memcpy(to, from, bytes), 0;
}
API cuStreamCreateWithPriority(void** stream, unsigned, int) { return *stream = new int, 0; }
API cuStreamDestroy_v2(void* stream) { return delete static_cast<int*>(stream), 0; }
API cuStreamQuery(void*) { return 0; }
API cuStreamSynchronize(void* stream) { return capturing.count(stream) ? kCaptureUnsupported : 0; }
API cuStreamBeginCapture_v2(void* stream, int mode) {
  std::lock_guard<std::mutex> lock(mutex);
  constexpr int kRelaxed = 2;
  if (!stream || mode != kRelaxed || capturing.count(stream)) return kInvalidValue;
  return capturing[stream], 0;
}
API cuStreamEndCapture(void* stream, Graph** graph) {
  std::lock_guard<std::mutex> lock(mutex);
  *graph = new Graph(std::move(capturing.at(stream)));
  return capturing.erase(stream), 0;
}
API cuGraphInstantiateWithFlags(Graph** made, Graph* graph, unsigned long long) { return *made = new Graph(*graph), 0; }
API cuGraphDestroy(Graph* graph) { return delete graph, 0; }
API cuGraphExecDestroy(Graph* graph) { return delete graph, 0; }
API cuGraphLaunch(Graph* graph, void* stream) {
  std::lock_guard<std::mutex> lock(mutex);
  if (capturing.count(stream)) return kInvalidValue;
  for (const auto& work : *graph) work();
  if (const char* log = getenv("FAKE_CUDA_GRAPH_LOG")) std::ofstream(log, std::ios::app) << graph->size() << "\n";
  return 0;
}
API cuStreamWaitEvent(void*, Event*, unsigned) { return 0; }
API cuEventCreate(Event** event, unsigned) { return *event = new Event{}, 0; }
API cuEventDestroy_v2(Event* event) { return delete event, 0; }
API cuEventRecord(Event* event, void*) { return event->at = std::chrono::steady_clock::now(), 0; }
API cuEventQuery(Event*) { return 0; }
API cuEventSynchronize(Event*) { return 0; }
API cuEventElapsedTime(float* ms, Event* start, Event* end) {
  return *ms = std::chrono::duration<float, std::milli>(end->at - start->at).count(), 0;
}
API cuModuleLoadData(void** module, const void* image) {
  uint64_t bytes;
  memcpy(&bytes, image, sizeof bytes);
  const int file = memfd_create("kernel", 0);
  if (::write(file, static_cast<const char*>(image) + sizeof bytes, bytes) != static_cast<ssize_t>(bytes))
    return kInvalidImage;
  *module = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  return *module ? 0 : kInvalidImage;  // the file stays open: its name would be used again
}
API cuMemsetD8Async(void* to, unsigned char value, size_t bytes, void*) { return memset(to, value, bytes), 0; }
API cuLaunchHostFunc(void*, void (*function)(void*), void* data) { return function(data), 0; }
API cuModuleUnload(void*) { return 0; }
API cuModuleGetFunction(void** function, void* module, const char* name) {
  if (!(*function = dlsym(module, (std::string("launch_") + name).c_str()))) return kNotFound;
  std::lock_guard<std::mutex> lock(mutex);
  sizes[*function] = static_cast<const unsigned*>(dlsym(module, (std::string("sizes_") + name).c_str()));
  return 0;
}
API cuFuncSetAttribute(void* function, int attribute, int value) {
  std::lock_guard<std::mutex> lock(mutex);
  if (attribute == kLargeClusters) return value == 1 ? (large_clusters.insert(function), 0) : kInvalidValue;
  if (attribute != kMostSharedBytes || value > 227 << 10) return kInvalidValue;
  return most_shared[function] = static_cast<unsigned>(value), 0;
}
API cuFuncGetAttribute(int* value, int attribute, void*) {
  static const std::map<int, int> values = {{0, 512}, {1, 1536}, {3, 24}, {4, 40}};
  const auto found = values.find(attribute);
  return found == values.end() ? kInvalidValue : (*value = found->second, 0);
}
API cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned, unsigned,
                   unsigned shared, void* stream, void** arguments, void**) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto allowed = most_shared.find(function);
  if (shared > (allowed == most_shared.end() ? 48u << 10 : allowed->second)) return kInvalidValue;
  if (!capturing.count(stream)) {
    const unsigned groups[] = {x, y, z};
    return reinterpret_cast<Run>(function)(groups, threads, shared, arguments), 0;
  }
  std::vector<std::vector<char>> values;
  for (const unsigned* bytes = sizes.at(function); *bytes; ++bytes) {
    const char* from = static_cast<const char*>(arguments[values.size()]);
    values.emplace_back(from, from + *bytes);
  }
  return queue(stream, [=]() mutable {
    const unsigned groups[] = {x, y, z};
    std::vector<void*> addresses;
    for (auto& value : values) addresses.push_back(value.data());
    reinterpret_cast<Run>(function)(groups, threads, shared, addresses.data());
  });
}

// As laid out by NVIDIA's cuda.h.
struct LaunchAttribute {
  int id;
  char padding[4];
  unsigned value[16];
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  void* stream;
  LaunchAttribute* attributes;
  unsigned count;
};
API cuLaunchKernelEx(const LaunchConfig* config, void* function, void** arguments, void** extra) {
  for (unsigned i = 0; i < config->count; ++i) {
    const LaunchAttribute& each = config->attributes[i];
    const unsigned* const v = each.value;
    if (each.id == 4) {  // a cluster: divides the grid, and has at most 8 blocks unless more were allowed
      for (int d = 0; d < 3; ++d)
        if (v[d] == 0 || config->grid[d] % v[d] != 0) return kInvalidValue;
      if (v[0] * v[1] * v[2] > (large_clusters.count(function) ? 16u : 8u)) return kInvalidValue;
    } else if ((each.id != 2 && each.id != 6) || v[0] != 1) {
      return kInvalidValue;
    }
    launch_attributes |= 1 << each.id;
  }
  return cuLaunchKernel(function, config->grid[0], config->grid[1], config->grid[2], config->block[0], config->block[1],
                        config->block[2], config->shared, config->stream, arguments, extra);
}
// For tests: the attributes that launches had so far, one bit each.
API fakeLaunchAttributes() { return launch_attributes; }

// ---- NVRTC

API nvrtcVersion(int* major, int* minor) { return *major = 0, *minor = 1, 0; }
API nvrtcGetNumSupportedArchs(int* count) { return *count = 1, 0; }
API nvrtcGetSupportedArchs(int* archs) { return *archs = 90, 0; }
API nvrtcCreateProgram(Program** program, const char* source, const char*, int, const char* const*,
                       const char* const*) {
  return *program = new Program{source, "", ""}, 0;
}
API nvrtcCompileProgram(Program* program, int count, const char* const* options) {
  std::string folder = std::filesystem::temp_directory_path() / "fake-cuda-XXXXXX";
  if (!mkdtemp(folder.data())) return 1;
  const std::string base = folder + "/kernel", log = base + ".log";
  std::string flags = " -std=c++17 -O1 -w -mf16c -ffp-contract=off -fPIC -x c++";
  for (int i = 0; i < count; ++i) {
    if (strncmp(options[i], "-D", 2) == 0) flags += " " + std::string(options[i]);
  }
  write(base + ".cpp", std::string("#include \"") + getenv("FAKE_CUDA_HEADER") + "\"\n" + program->source);
  const auto run = [&](const std::string& rest) { return system(("g++" + flags + rest + " 2> " + log).c_str()) == 0; };
  bool works = run(" -E -P " + base + ".cpp -o " + base + ".ii");
  if (works) {
    const std::string text = read(base + ".ii");
    const size_t own = text.find("FAKE_CUDA_KERNELS");
    write(base + ".ii", text + launchers(text.substr(own == std::string::npos ? 0 : own)));
    works = run(" -shared " + base + ".ii -o " + base + ".so");
  }
  program->log = read(log);
  if (works) {
    const std::string binary = read(base + ".so");
    const uint64_t bytes = binary.size();
    program->binary = std::string(reinterpret_cast<const char*>(&bytes), sizeof bytes) + binary;
  }
  for (const char* end : {".cpp", ".ii", ".so", ".log"}) unlink((base + end).c_str());
  rmdir(folder.c_str());
  return works ? 0 : 6;
}
API nvrtcGetProgramLogSize(Program* program, size_t* size) { return *size = program->log.size() + 1, 0; }
API nvrtcGetProgramLog(Program* program, char* log) { return strcpy(log, program->log.c_str()), 0; }
API nvrtcGetCUBINSize(Program* program, size_t* size) { return *size = program->binary.size(), 0; }
API nvrtcGetCUBIN(Program* program, char* to) { return memcpy(to, program->binary.data(), program->binary.size()), 0; }
API nvrtcGetPTXSize(Program* program, size_t* size) { return nvrtcGetCUBINSize(program, size); }
API nvrtcGetPTX(Program* program, char* to) { return nvrtcGetCUBIN(program, to); }
API nvrtcDestroyProgram(Program** program) { return delete *program, 0; }
extern "C" __attribute__((visibility("default"))) const char* nvrtcGetErrorString(int) { return "it does not compile"; }
