#include "compiler.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "device.h"
#include "host.h"
#include "stream.h"

namespace ocl {
namespace {

// A cl_kernel stores its arguments, so the lock covers setting them and the launch.
struct Function {
  std::mutex mutex;
  cl_kernel kernel = nullptr;
};

struct Program {
  cl_program program = nullptr;
  std::mutex mutex;
  std::vector<Function*> functions;

  ~Program() {
    for (Function* function : functions) {
      cl.release_kernel(function->kernel);
      delete function;
    }
    if (program) cl.release_program(program);
  }
};

HpStatus build(int device, const Device& d, cl_program program, const std::string& options) {
  const cl_int result = cl.build_program(program, 1, &d.id, options.c_str(), nullptr, nullptr);
  if (result == CL_SUCCESS) return HP_OK;
  size_t bytes = 0;
  std::string log;
  if (cl.build_info(program, d.id, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes) == CL_SUCCESS && bytes > 0) {
    log.resize(bytes);
    cl.build_info(program, d.id, CL_PROGRAM_BUILD_LOG, bytes, &log[0], nullptr);
  }
  return host->fail(HP_ERROR, "ocl:%d: %s cannot compile the kernel (%d):\n%s", device, d.name.c_str(), result,
                    log.c_str());
}

// The context may contain more devices; OpenCL returns sizes and binaries for all of them.
HpStatus binary_of(int device, const Device& d, cl_program program, void** binary, size_t* bytes) {
  size_t size_bytes = 0;
  OCL_CHECK(device, cl.program_info(program, CL_PROGRAM_BINARY_SIZES, 0, nullptr, &size_bytes), "reading a binary");
  std::vector<size_t> sizes(size_bytes / sizeof(size_t));
  OCL_CHECK(device, cl.program_info(program, CL_PROGRAM_BINARY_SIZES, size_bytes, sizes.data(), nullptr),
            "reading a binary");
  std::vector<cl_device_id> ids(sizes.size());
  OCL_CHECK(device, cl.program_info(program, CL_PROGRAM_DEVICES, ids.size() * sizeof ids[0], ids.data(), nullptr),
            "reading a binary");
  std::vector<std::vector<unsigned char>> contents;
  std::vector<unsigned char*> pointers;
  for (size_t size : sizes) contents.emplace_back(size);
  for (auto& content : contents) pointers.push_back(content.empty() ? nullptr : content.data());
  OCL_CHECK(
      device,
      cl.program_info(program, CL_PROGRAM_BINARIES, pointers.size() * sizeof pointers[0], pointers.data(), nullptr),
      "reading a binary");
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != d.id || contents[i].empty()) continue;
    *binary = malloc(contents[i].size());
    if (!*binary) return host->fail(HP_ERROR, "ocl:%d is out of host memory for a kernel binary", device);
    memcpy(*binary, contents[i].data(), contents[i].size());
    *bytes = contents[i].size();
    return HP_OK;
  }
  return host->fail(HP_ERROR, "ocl:%d: %s returned no kernel binary", device, d.name.c_str());
}

}  // namespace

const char* fingerprint(int device) {
  Device* d = nullptr;
  return find_device(device, &d) == HP_OK ? d->fingerprint.c_str() : "";
}

HpStatus compile(int device, const char* source, const char* options, void** binary, size_t* bytes) try {
  Device* d = nullptr;
  if (HpStatus status = find_device(device, &d)) return status;
  cl_int result = CL_SUCCESS;
  const cl_program program = cl.program_from_source(d->context, 1, &source, nullptr, &result);
  OCL_CHECK(device, result, "creating a program");
  HpStatus status = build(device, *d, program, options + d->options);
  if (status == HP_OK) status = binary_of(device, *d, program, binary, bytes);
  cl.release_program(program);
  return status;
} catch (const std::exception& error) {
  return host->fail(HP_ERROR, "ocl:%d: compilation: %s", device, error.what());
}

void release_binary(void* binary) { ::free(binary); }

HpStatus load(int device, const void* binary, size_t bytes, HpProgram* program) try {
  Device* d = nullptr;
  if (HpStatus status = find_device(device, &d)) return status;
  const auto* start = static_cast<const unsigned char*>(binary);
  cl_int result = CL_SUCCESS, of_binary = CL_SUCCESS;
  const cl_program made = cl.program_from_binary(d->context, 1, &d->id, &bytes, &start, &of_binary, &result);
  OCL_CHECK(device, result, "loading a program");
  if (HpStatus status = build(device, *d, made, d->options)) {
    cl.release_program(made);
    return status;
  }
  auto* loaded = new Program;
  loaded->program = made;
  *program = reinterpret_cast<HpProgram>(loaded);
  return HP_OK;
} catch (const std::exception& error) {
  return host->fail(HP_ERROR, "ocl:%d: loading a program: %s", device, error.what());
}

HpStatus unload(int, HpProgram program) {
  delete reinterpret_cast<Program*>(program);
  return HP_OK;
}

HpStatus find(int device, HpProgram handle, const char* name, HpFunction* function) try {
  Device* d = nullptr;
  if (HpStatus status = find_device(device, &d)) return status;
  auto& program = *reinterpret_cast<Program*>(handle);
  cl_int result = CL_SUCCESS;
  const cl_kernel kernel = cl.create_kernel(program.program, name, &result);
  OCL_CHECK(device, result, name);
  if (d->unified) {
    // Kernels read pointers from tables in device memory.
    const cl_uint yes = 1;
    cl.kernel_exec_info(kernel, CL_KERNEL_EXEC_INFO_INDIRECT_DEVICE_ACCESS_INTEL, sizeof yes, &yes);
  }
  auto* made = new Function;
  made->kernel = kernel;
  std::lock_guard<std::mutex> lock(program.mutex);
  program.functions.push_back(made);
  *function = reinterpret_cast<HpFunction>(made);
  return HP_OK;
} catch (const std::exception& error) {
  return host->fail(HP_ERROR, "ocl:%d: %s: %s", device, name, error.what());
}

HpStatus launch(int device, HpStream stream, HpFunction handle, const uint32_t* groups, const uint32_t* group_size,
                const HpLaunchArg* args, uint32_t num_args) {
  Device* d = nullptr;
  if (HpStatus status = find_device(device, &d)) return status;
  if (groups[0] == 0 || groups[1] == 0 || groups[2] == 0) return HP_OK;
  const size_t local[3] = {group_size[0], group_size[1], group_size[2]};
  const size_t all[3] = {groups[0] * local[0], groups[1] * local[1], groups[2] * local[2]};
  auto& function = *reinterpret_cast<Function*>(handle);
  std::lock_guard<std::mutex> lock(function.mutex);
  for (uint32_t i = 0; i < num_args; ++i) {
    const auto set_pointer = d->unified ? d->unified.set_pointer : cl.set_svm_pointer;
    OCL_CHECK(device,
              args[i].is_pointer ? set_pointer(function.kernel, i, *static_cast<void* const*>(args[i].value))
                                 : cl.set_argument(function.kernel, i, args[i].bytes, args[i].value),
              "setting a kernel argument");
  }
  return enqueue(device, stream, "launching a kernel", [&](cl_command_queue queue, cl_event* done) {
    return cl.launch(queue, function.kernel, 3, nullptr, all, local, 0, nullptr, done);
  });
}

}  // namespace ocl
