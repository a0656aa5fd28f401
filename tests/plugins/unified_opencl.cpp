// An OpenCL library in front of the installed one, whose devices have Intel's unified shared memory and no other. It is
// made of the real library's shared virtual memory, which the plug-in itself must then leave alone.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "../../plugins/opencl/cl.h"

namespace {

using namespace ocl;

Functions real;
std::atomic<int> allocations{0};

[[noreturn]] void unexpected(const char* function) {
  fprintf(stderr, "the plug-in called %s, although the device has unified shared memory\n", function);
  abort();
}

cl_int device_info(cl_device_id id, cl_uint what, size_t size, void* value, size_t* needed) {
  if (what == CL_DEVICE_SVM_CAPABILITIES) {
    memset(value, 0, size);
    return CL_SUCCESS;
  }
  if (what != CL_DEVICE_EXTENSIONS) return real.device_info(id, what, size, value, needed);
  char own[8192] = "";
  real.device_info(id, what, sizeof own, own, nullptr);
  const std::string all = std::string(own) + " cl_intel_unified_shared_memory";
  if (needed != nullptr) *needed = all.size() + 1;
  if (value != nullptr && size > all.size()) memcpy(value, all.c_str(), all.size() + 1);
  return CL_SUCCESS;
}

void* allocate(cl_context context, cl_device_id, const cl_bitfield*, size_t bytes, cl_uint alignment, cl_int* result) {
  void* const made = real.svm_allocate(context, CL_MEM_READ_WRITE, bytes, alignment);
  *result = made != nullptr ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
  if (++allocations == 1) fprintf(stderr, "unified shared memory is in use\n");
  return made;
}
cl_int release(cl_context context, void* memory) { return real.svm_free(context, memory), CL_SUCCESS; }

void* extension(cl_platform_id, const char* name) {
  const std::string wanted = name;
  if (wanted == "clDeviceMemAllocINTEL") return reinterpret_cast<void*>(&allocate);
  if (wanted == "clMemFreeINTEL") return reinterpret_cast<void*>(&release);
  if (wanted == "clEnqueueMemcpyINTEL") return reinterpret_cast<void*>(real.svm_copy);
  if (wanted == "clSetKernelArgMemPointerINTEL") return reinterpret_cast<void*>(real.set_svm_pointer);
  return nullptr;
}

cl_int exec_info(cl_kernel, cl_uint, size_t, const void*) { return CL_SUCCESS; }

}  // namespace

// Every exported function is a jump to where its pointer leads.
#define OCL_JUMP(here, exported, result, parameters)                                                       \
  extern "C" void* target_##exported;                                                                      \
  void* target_##exported = nullptr;                                                                       \
  __asm__(".globl " #exported "\n.type " #exported ", @function\n" #exported ":\n  movq target_" #exported \
          "@GOTPCREL(%rip), %rax\n  jmp *(%rax)\n");
OCL_FUNCTIONS(OCL_JUMP)

__attribute__((constructor)) static void find_all() {
  void* const library = dlopen(getenv("REAL_OPENCL"), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
#define OCL_TARGET(here, exported, result, parameters) \
  target_##exported = dlsym(library, #exported);       \
  real.here = reinterpret_cast<decltype(real.here)>(target_##exported);
  OCL_FUNCTIONS(OCL_TARGET)
  target_clGetDeviceInfo = reinterpret_cast<void*>(&device_info);
  target_clGetExtensionFunctionAddressForPlatform = reinterpret_cast<void*>(&extension);
  target_clSetKernelExecInfo = reinterpret_cast<void*>(&exec_info);
  target_clSVMAlloc = reinterpret_cast<void*>(+[] { unexpected("clSVMAlloc"); });
  target_clSVMFree = reinterpret_cast<void*>(+[] { unexpected("clSVMFree"); });
  target_clEnqueueSVMMemcpy = reinterpret_cast<void*>(+[] { unexpected("clEnqueueSVMMemcpy"); });
  target_clSetKernelArgSVMPointer = reinterpret_cast<void*>(+[] { unexpected("clSetKernelArgSVMPointer"); });
}
