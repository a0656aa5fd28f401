#include "compiler.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

#include "device.h"
#include "host.h"
#include "nvrtc.h"

namespace nv {

const char* fingerprint(int device) {
  // Never destroyed: Hardpoint keeps the pointer.
  static const std::string* const texts = [] {
    auto* made = new std::string[kMaxDevices];
    const std::string version = compiler_version();
    for (int i = 0; i < device_count(); ++i) made[i] = "nvrtc-" + version + "-sm_" + std::to_string(capability(i));
    return made;
  }();
  return device >= 0 && device < kMaxDevices ? texts[device].c_str() : "";
}

HpStatus compile(int device, const char* source, const char* options, void** binary, size_t* bytes) try {
  std::string made;
  if (HpStatus status = compile_source(capability(device), source, options, &made)) return status;
  *binary = malloc(made.size());
  if (!*binary) return host->fail(HP_ERROR, "nv:%d is out of host memory for a kernel binary", device);
  memcpy(*binary, made.data(), made.size());
  *bytes = made.size();
  return HP_OK;
} catch (const std::exception& error) {
  return host->fail(HP_ERROR, "nv:%d: compilation: %s", device, error.what());
}

void release_binary(void* binary) { ::free(binary); }

HpStatus load(int device, const void* binary, size_t, HpProgram* program) {
  if (HpStatus status = make_current(device)) return status;
  CUmodule made = nullptr;
  NV_CHECK(device, driver.module_load(&made, binary), "loading a program");
  *program = reinterpret_cast<HpProgram>(made);
  return HP_OK;
}

HpStatus unload(int device, HpProgram program) {
  if (HpStatus status = make_current(device)) return status;
  NV_CHECK(device, driver.module_unload(reinterpret_cast<CUmodule>(program)), "unloading a program");
  return HP_OK;
}

HpStatus find(int device, HpProgram program, const char* name, HpFunction* function) {
  if (HpStatus status = make_current(device)) return status;
  CUfunction found = nullptr;
  NV_CHECK(device, driver.module_find(&found, reinterpret_cast<CUmodule>(program), name), name);
  *function = reinterpret_cast<HpFunction>(found);
  return HP_OK;
}

namespace {

// The driver takes the address of each argument, and copies the arguments before it returns.
class Arguments {
 public:
  HpStatus set(int device, const HpLaunchArg* args, uint32_t count) {
    if (count > kMax)
      return host->fail(HP_NOT_SUPPORTED, "nv:%d: a kernel has %u arguments; at most %u are supported", device, count,
                        kMax);
    for (uint32_t i = 0; i < count; ++i) values_[i] = const_cast<void*>(args[i].value);
    return HP_OK;
  }
  void** values() { return values_; }

 private:
  static constexpr uint32_t kMax = 256;
  void* values_[kMax];
};

// Raises the limit of a function that needs more shared memory than the default. Never lowers it, since another thread
// may be about to launch with more.
HpStatus allow_shared_memory(int device, CUfunction function, uint32_t bytes) {
  if (bytes <= kLocalMemory) return HP_OK;
  static std::mutex mutex;
  static auto* limits = new std::unordered_map<CUfunction, uint32_t>;
  std::lock_guard<std::mutex> lock(mutex);
  uint32_t& limit = (*limits)[function];
  if (limit >= bytes) return HP_OK;
  NV_CHECK(device,
           driver.function_set(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(bytes)),
           "reserving shared memory for a kernel");
  limit = bytes;
  return HP_OK;
}

constexpr uint32_t kPortableClusterSize = 8;

}  // namespace

HpStatus launch_with(int device, HpStream stream, HpFunction handle, const HpLaunch* options, const HpLaunchArg* args,
                     uint32_t num_args) {
  if (HpStatus status = make_current(device)) return status;
  const uint32_t *groups = options->groups, *size = options->group_size, *cluster = options->cluster;
  if (groups[0] == 0 || groups[1] == 0 || groups[2] == 0) return HP_OK;
  const auto function = reinterpret_cast<CUfunction>(handle);
  if (HpStatus status = allow_shared_memory(device, function, options->local_bytes)) return status;
  CUlaunchAttribute attributes[3] = {};
  unsigned count = 0;
  if (cluster[0] > 1 || cluster[1] > 1 || cluster[2] > 1) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[count++].value.cluster = {std::max(cluster[0], 1u), std::max(cluster[1], 1u), std::max(cluster[2], 1u)};
    if (std::max(cluster[0], 1u) * std::max(cluster[1], 1u) * std::max(cluster[2], 1u) > kPortableClusterSize)
      NV_CHECK(device, driver.function_set(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
               "allowing a large cluster");
  }
  const auto add_flag = [&](uint32_t flag, int id) {
    if (!(options->flags & flag)) return;
    attributes[count].id = id;
    attributes[count++].value.flag = 1;
  };
  add_flag(HP_LAUNCH_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  add_flag(HP_LAUNCH_OVERLAP, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  Arguments arguments;
  if (HpStatus status = arguments.set(device, args, num_args)) return status;
  const CUlaunchConfig config = {groups[0],
                                 groups[1],
                                 groups[2],
                                 size[0],
                                 size[1],
                                 size[2],
                                 options->local_bytes,
                                 reinterpret_cast<CUstream>(stream),
                                 attributes,
                                 count};
  NV_CHECK(device, driver.launch_ex(&config, function, arguments.values(), nullptr), "launching a kernel");
  return HP_OK;
}

HpStatus attributes(int device, HpFunction handle, HpAttributes* attributes) {
  if (HpStatus status = make_current(device)) return status;
  HpAttributes filled = {};
  const struct {
    int which;
    uint32_t* to;
  } wanted[] = {{CU_FUNC_ATTRIBUTE_NUM_REGS, &filled.registers},
                {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &filled.spilled_bytes},
                {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &filled.local_bytes},
                {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &filled.max_group_size}};
  for (const auto& each : wanted) {
    int value = 0;
    NV_CHECK(device, driver.function_get(&value, each.which, reinterpret_cast<CUfunction>(handle)),
             "reading the attributes of a kernel");
    *each.to = static_cast<uint32_t>(value);
  }
  filled.struct_size = attributes->struct_size;
  memcpy(attributes, &filled, std::min(filled.struct_size, sizeof filled));
  return HP_OK;
}

HpStatus launch(int device, HpStream stream, HpFunction function, const uint32_t* groups, const uint32_t* group_size,
                const HpLaunchArg* args, uint32_t num_args) {
  if (HpStatus status = make_current(device)) return status;
  if (groups[0] == 0 || groups[1] == 0 || groups[2] == 0) return HP_OK;
  Arguments arguments;
  if (HpStatus status = arguments.set(device, args, num_args)) return status;
  NV_CHECK(
      device,
      driver.launch(reinterpret_cast<CUfunction>(function), groups[0], groups[1], groups[2], group_size[0],
                    group_size[1], group_size[2], 0, reinterpret_cast<CUstream>(stream), arguments.values(), nullptr),
      "launching a kernel");
  return HP_OK;
}

}  // namespace nv
