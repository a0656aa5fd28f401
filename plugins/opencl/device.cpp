#include "device.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <vector>

#include "host.h"

namespace ocl {
namespace {

Device devices[kMaxDevices];
int count = 0;

template <class T>
T number(cl_device_id id, cl_uint what) {
  T value = 0;
  return cl.device_info(id, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : T{0};
}

std::string text(cl_device_id id, cl_uint what) {
  size_t bytes = 0;
  if (cl.device_info(id, what, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return "";
  std::string value(bytes, '\0');
  if (cl.device_info(id, what, bytes, &value[0], nullptr) != CL_SUCCESS) return "";
  return value.c_str();
}

std::string text(cl_platform_id id, cl_uint what) {
  char value[256] = "";
  return cl.platform_info(id, what, sizeof value - 1, value, nullptr) == CL_SUCCESS ? value : "";
}

std::string lower(std::string pattern) {
  for (char& c : pattern) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return pattern;
}

// Matches one pattern of HARDPOINT_OPENCL_DEVICE: "cpu", "gpu", the index of the device, or part of its name.
bool matches(const Device& d, int index, const std::string& pattern) {
  const cl_bitfield type = number<cl_bitfield>(d.id, CL_DEVICE_TYPE);
  if (pattern == "cpu") return type & CL_DEVICE_TYPE_CPU;
  if (pattern == "gpu") return type & CL_DEVICE_TYPE_GPU;
  if (std::all_of(pattern.begin(), pattern.end(), [](unsigned char c) { return std::isdigit(c); }))
    return pattern == std::to_string(index);
  return lower(d.name).find(pattern) != std::string::npos;
}

struct Candidate {
  cl_platform_id platform;
  cl_device_id id;
};

std::vector<Candidate> all_devices() {
  cl_uint number_of = 0;
  cl.get_platforms(0, nullptr, &number_of);
  std::vector<cl_platform_id> platforms(number_of);
  cl.get_platforms(number_of, platforms.data(), nullptr);
  std::vector<Candidate> found;
  for (cl_platform_id platform : platforms) {
    if (cl.get_devices(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &number_of) != CL_SUCCESS) continue;
    std::vector<cl_device_id> ids(number_of);
    cl.get_devices(platform, CL_DEVICE_TYPE_ALL, number_of, ids.data(), nullptr);
    for (cl_device_id id : ids) found.push_back({platform, id});
  }
  return found;
}

void find_unified_memory(Device& d) {
  if (text(d.id, CL_DEVICE_EXTENSIONS).find("cl_intel_unified_shared_memory") == std::string::npos) return;
  const auto find = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(cl.extension(d.platform, name));
  };
  find("clDeviceMemAllocINTEL", &d.unified.allocate);
  find("clMemFreeINTEL", &d.unified.free);
  find("clEnqueueMemcpyINTEL", &d.unified.copy);
  find("clSetKernelArgMemPointerINTEL", &d.unified.set_pointer);
}

// Why a device cannot be used, or null.
const char* missing_feature(const Device& d) {
  if (!number<cl_uint>(d.id, CL_DEVICE_COMPILER_AVAILABLE)) return "has no compiler";
  const bool svm = number<cl_bitfield>(d.id, CL_DEVICE_SVM_CAPABILITIES) & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER;
  return svm || d.unified ? nullptr : "has neither shared virtual memory nor unified shared memory";
}

void describe(Device& d) {
  const std::string driver = text(d.id, CL_DRIVER_VERSION), version = text(d.id, CL_DEVICE_VERSION);
  d.name = text(d.platform, CL_PLATFORM_NAME) + ": " + text(d.id, CL_DEVICE_NAME);
  d.is_cpu = number<cl_bitfield>(d.id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU;
  d.total_memory = number<cl_ulong>(d.id, CL_DEVICE_GLOBAL_MEM_SIZE);
  if (number<cl_bitfield>(d.id, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT)
    d.options += " -cl-fp32-correctly-rounded-divide-sqrt";
  // Used as a folder name.
  d.fingerprint = "opencl-" + d.name + "-" + version + "-" + driver + d.options;
  for (char& c : d.fingerprint)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_') c = '-';
}

HpStatus make_context(int index) {
  Device& d = devices[index];
  for (int i = 0; i < index; ++i)
    if (devices[i].platform == d.platform) return d.context = devices[i].context, HP_OK;
  std::vector<cl_device_id> ids;
  for (int i = index; i < count; ++i)
    if (devices[i].platform == d.platform) ids.push_back(devices[i].id);
  const intptr_t settings[] = {CL_CONTEXT_PLATFORM, reinterpret_cast<intptr_t>(d.platform), 0};
  cl_int result = CL_SUCCESS;
  d.context = cl.create_context(settings, static_cast<cl_uint>(ids.size()), ids.data(), nullptr, nullptr, &result);
  OCL_CHECK(index, result, "creating a context");
  return HP_OK;
}

}  // namespace

HpStatus find_devices() {
  const char* const chosen = getenv("HARDPOINT_OPENCL_DEVICE");
  std::vector<std::string> patterns;
  std::istringstream list(chosen ? chosen : "");
  for (std::string pattern; std::getline(list, pattern, ',');) {
    pattern.erase(0, pattern.find_first_not_of(' '));
    pattern.erase(pattern.find_last_not_of(' ') + 1);
    if (!pattern.empty()) patterns.push_back(lower(pattern));
  }
  std::string listing;
  int index = 0;
  for (const Candidate& candidate : all_devices()) {
    if (count == kMaxDevices) break;
    Device& d = devices[count];
    d.platform = candidate.platform;
    d.id = candidate.id;
    d.options = " -w";
    describe(d);
    d.unified = {};
    find_unified_memory(d);
    const bool wanted =
        patterns.empty() || std::any_of(patterns.begin(), patterns.end(),
                                        [&](const std::string& pattern) { return matches(d, index, pattern); });
    const char* const missing = missing_feature(d);
    listing += "\n  " + std::to_string(index) + ": " + d.name + (missing ? std::string(", which ") + missing : "");
    ++index;
    if (wanted && !missing) ++count;
  }
  if (count == 0)
    return host->fail(HP_NOT_SUPPORTED, "OpenCL has no usable device%s%s. Devices found:%s",
                      patterns.empty() ? "" : " named by HARDPOINT_OPENCL_DEVICE=", patterns.empty() ? "" : chosen,
                      listing.empty() ? " none" : listing.c_str());
  for (int i = 0; i < count; ++i)
    if (HpStatus status = make_context(i)) return status;
  return HP_OK;
}

int device_count() { return count; }

bool share_one_context() {
  return std::all_of(devices, devices + count, [](const Device& d) { return d.context == devices[0].context; });
}

HpStatus find_device(int device, Device** found) {
  if (device < 0 || device >= count) {
    host->fail(HP_INVALID_ARGUMENT, "ocl:%d does not exist: there are %d devices", device, count);
    return HP_INVALID_ARGUMENT;  // explicit, so the compiler knows that `found` is set on HP_OK
  }
  *found = &devices[device];
  return HP_OK;
}

uint32_t group_size(const Device& d) {
  // A CPU runs a group's work-items in a loop that its compiler vectorizes.
  const size_t size = std::min<size_t>(d.is_cpu ? 64 : 256, number<size_t>(d.id, CL_DEVICE_MAX_WORK_GROUP_SIZE));
  size_t power = 1;
  while (power * 2 <= size) power *= 2;
  return static_cast<uint32_t>(power);
}

uint32_t local_memory(const Device& d) {
  return static_cast<uint32_t>(std::min<uint64_t>(UINT32_MAX, number<cl_ulong>(d.id, CL_DEVICE_LOCAL_MEM_SIZE)));
}

HpStatus properties(int device, HpProperties* properties) {
  Device* d = nullptr;
  if (HpStatus status = find_device(device, &d)) return status;
  HpProperties filled = {};
  snprintf(filled.name, sizeof filled.name, "%s", d->name.c_str());
  filled.total_memory = d->total_memory;
  filled.compute_units = static_cast<int32_t>(number<cl_uint>(d->id, CL_DEVICE_MAX_COMPUTE_UNITS));
  int major = 0, minor = 0;
  sscanf(text(d->id, CL_DEVICE_VERSION).c_str(), "OpenCL %d.%d", &major, &minor);
  filled.version_major = major;
  filled.version_minor = minor;
  filled.max_allocation = number<cl_ulong>(d->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  filled.native_elements =
      1u << HP_UINT8 | 1u << HP_INT8 | 1u << HP_INT16 | 1u << HP_INT32 | 1u << HP_INT64 | 1u << HP_FLOAT32;
  if (number<cl_bitfield>(d->id, CL_DEVICE_DOUBLE_FP_CONFIG)) filled.native_elements |= 1u << HP_FLOAT64;
  if (number<cl_bitfield>(d->id, CL_DEVICE_HALF_FP_CONFIG)) filled.native_elements |= 1u << HP_FLOAT16;
  filled.cache_bytes = number<cl_ulong>(d->id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
  filled.clock_khz = number<cl_uint>(d->id, CL_DEVICE_MAX_CLOCK_FREQUENCY) * 1000;
  filled.max_group_size = static_cast<uint32_t>(number<size_t>(d->id, CL_DEVICE_MAX_WORK_GROUP_SIZE));
  filled.group_size = group_size(*d);
  filled.local_memory = filled.max_local_memory = local_memory(*d);
  filled.struct_size = properties->struct_size;
  memcpy(properties, &filled, std::min(filled.struct_size, sizeof filled));
  return HP_OK;
}

HpStatus memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes) {
  // OpenCL cannot report memory used by other processes.
  Device* d = nullptr;
  if (HpStatus status = find_device(device, &d)) return status;
  const uint64_t used = d->used_memory.load(std::memory_order_relaxed);
  *total_bytes = d->total_memory;
  *free_bytes = used < d->total_memory ? d->total_memory - used : 0;
  return HP_OK;
}

}  // namespace ocl
