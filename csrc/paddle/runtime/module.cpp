// The adapter's Python module.
#include <dlfcn.h>
#include <paddle/phi/backends/context_pool.h>
#include <paddle/phi/backends/device_ext.h>
#include <paddle/phi/backends/device_manager.h>
#include <paddle/phi/common/memory_utils.h>
#include <paddle/phi/core/custom_kernel.h>
#include <pybind11/pybind11.h>

#include "dispatch/call_replay.h"
#include "dispatch/composition.h"
#include "dispatch/sparse_gradients.h"
#include "dispatch/tool_intercept.h"
#include "runtime/borrowed_memory.h"
#include "runtime/poisoned_memory.h"
#include "runtime/stream_threads.h"
#include "runtime/tensor_cast.h"

namespace py = pybind11;
namespace hp::paddle_adapter {
namespace {

Runtime& runtime_named(const std::string& name) {
  for (Runtime* runtime : Runtime::mounted()) {
    if (runtime->name() == name) return *runtime;
  }
  throw Error(HP_INVALID_ARGUMENT, "no plug-in named '" + name + "' is mounted");
}

py::dict kernels_for(const std::string& name) {
  const RegistrationReport report = register_kernels(runtime_named(name));
  py::dict counts;
  counts["registered"] = report.registered;
  counts["mapped"] = report.mapped;
  counts["skipped"] = report.skipped;
  return counts;
}

// Paddle takes one device type per library. This registers another one the way Paddle does.
void add_device(const std::string& name, const std::string& library) {
  CustomRuntimeParams params{};
  params.size = sizeof(params);
  auto interface = std::make_unique<C_DeviceInterface>();
  std::memset(static_cast<void*>(interface.get()), 0, sizeof(C_DeviceInterface));
  interface->size = sizeof(C_DeviceInterface);
  params.interface = interface.get();
  fill_interface(&params, runtime_named(name));
  void* handle = dlopen(library.c_str(), RTLD_NOW);
  if (handle == nullptr) throw Error(HP_INVALID_ARGUMENT, library + ": " + dlerror());
  phi::LoadCustomRuntimeLib(params, std::move(interface), library, handle);
}

// Completes a device added after `import paddle`: registers its kernels and creates its device contexts.
void finish_late(const std::string& name) {
  phi::CustomKernelMap::Instance().RegisterCustomKernels();
  std::vector<phi::Place> places;
  for (int i = 0; i < runtime_named(name).device_count(); ++i) places.push_back(phi::CustomPlace(name, i));
  // The pool only exposes its map as const; the map itself is not.
  using Contexts =
      std::remove_const_t<std::remove_reference_t<decltype(phi::DeviceContextPool::Instance().device_contexts())>>;
  auto& contexts = const_cast<Contexts&>(phi::DeviceContextPool::Instance().device_contexts());
  phi::memory_utils::EmplaceDeviceContexts(&contexts, places, false, 0, false);
  try {
    DenseTensor probe;
    probe.Resize({1});
    phi::DeviceContextPool::Instance().Get(places.front())->Alloc(&probe, phi::DataType::INT8);
  } catch (const std::exception&) {
    throw Error(HP_NOT_SUPPORTED, "Paddle created its allocators with its first tensor, before '" + name +
                                      "' was mounted: import " +
                                      "hardpoint before creating tensors, or set HARDPOINT_DEVICE=" + name);
  }
}

}  // namespace
}  // namespace hp::paddle_adapter

PYBIND11_MODULE(HARDPOINT_PADDLE_MODULE, m) {
  using namespace hp::paddle_adapter;
  m.def("known_interface", &is_supported_interface);
  m.def("fill_interface", [](uintptr_t address, const std::string& name) {
    fill_interface(reinterpret_cast<void*>(address), runtime_named(name));
  });
  m.def("add_device", &add_device);
  m.def("register_kernels", &kernels_for);
  m.def("finish_late", &finish_late);
  m.def("extend_tensor_cast", &extend_tensor_cast);
  m.def("share_stream_threads", &share_stream_threads);
  m.def("enter_backward", &enter_backward);
  m.def("leave_backward", &leave_backward);
  bind_tool_intercept(m);
  bind_call_replay(m);
  bind_borrowed_memory(m);
  bind_poisoned_memory(m);
}
