// The adapter's Python module.
#include <dlfcn.h>
#include <paddle/phi/backends/device_ext.h>
#include <paddle/phi/backends/device_manager.h>
#include <pybind11/pybind11.h>

#include "call.h"

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
  py::dict said;
  said["registered"] = report.registered;
  said["mapped"] = report.mapped;
  said["skipped"] = report.skipped;
  return said;
}

// Paddle asks a library for one device; further ones are put beside it the way Paddle does it itself.
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

}  // namespace
}  // namespace hp::paddle_adapter

PYBIND11_MODULE(HARDPOINT_PADDLE_MODULE, m) {
  using namespace hp::paddle_adapter;
  m.def("known_interface", &known_interface);
  m.def("fill_interface", [](uintptr_t address, const std::string& name) {
    fill_interface(reinterpret_cast<void*>(address), runtime_named(name));
  });
  m.def("add_device", &add_device);
  m.def("register_kernels", &kernels_for);
}
