// Python bindings of the adapter. Internal: hardpoint.torch wraps them in the public API.
#include <ATen/Context.h>
#include <ATen/DLConvertor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/utils/device_lazy_init.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include <chrono>

#include "runtime/adapter.h"
#include "runtime/generator.h"
#include "runtime/metadata.h"
#include "runtime/module.h"
#include "runtime/usage_sample.h"

namespace py = pybind11;

namespace hp::torch_adapter {
namespace {

py::list snapshot(Device& device) {
  py::list segments;
  for (const SegmentInfo& segment : device.allocator().snapshot()) {
    py::list blocks;
    int64_t allocated = 0, active = 0;
    for (const BlockInfo& block : segment.blocks) {
      py::dict entry;
      entry["address"] = block.address;
      entry["size"] = block.size;
      entry["requested_size"] = block.requested;
      entry["number"] = block.number;
      entry["state"] = block.allocated ? "active_allocated" : block.active ? "active_pending_free" : "inactive";
      if (block.allocated) allocated += static_cast<int64_t>(block.size);
      if (block.active) active += static_cast<int64_t>(block.size);
      blocks.append(entry);
    }
    py::dict entry;
    entry["device"] = device.index;
    entry["address"] = segment.address;
    entry["total_size"] = segment.size;
    entry["allocated_size"] = allocated;
    entry["active_size"] = active;
    entry["stream"] = segment.stream_id;
    entry["segment_type"] = segment.is_large ? "large" : "small";
    entry["blocks"] = blocks;
    segments.append(entry);
  }
  return segments;
}

// ---- Sharing memory between processes: a handle of the plug-in's allocation, and the storage's offset in it.

py::tuple export_storage(const at::Tensor& tensor) {
  Device& device = device_holding(tensor);
  TORCH_CHECK(device.plugin.interprocess.export_memory != nullptr, "plug-in '", runtime().name(),
              "' cannot share memory between processes (HpInterprocess is not provided)");
  const c10::DataPtr& ptr = tensor.storage().data_ptr();
  Block* block = device.allocator().find(ptr.get());
  TORCH_CHECK(block != nullptr, "cannot share a storage that this process did not allocate: clone the tensor first");
  auto [base, bytes] = device.allocator().segment_of(block);
  unsigned char handle[HP_IPC_HANDLE_BYTES] = {};
  device.synchronize();
  HP_CHECK(device.plugin.interprocess.export_memory(device.index, base, bytes, handle),
           device.name() + ": exporting memory to another process");
  return py::make_tuple(py::bytes(reinterpret_cast<const char*>(handle), sizeof(handle)),
                        static_cast<const char*>(ptr.get()) - static_cast<const char*>(base),
                        tensor.storage().nbytes());
}

at::Tensor open_storage(int index, const std::string& handle, int64_t offset, int64_t bytes) {
  Device& device = device_at(static_cast<c10::DeviceIndex>(index));
  TORCH_CHECK(device.plugin.interprocess.open_memory != nullptr && handle.size() == HP_IPC_HANDLE_BYTES,
              "cannot open shared memory of ", runtime().name(), ": needs HpInterprocess.open_memory and a handle of ",
              HP_IPC_HANDLE_BYTES, " bytes, got ", handle.size());
  void* base = nullptr;
  HP_CHECK(device.plugin.interprocess.open_memory(device.index, reinterpret_cast<const unsigned char*>(handle.data()),
                                                  &base),
           device.name() + ": opening memory of another process");
  struct Opened {
    Device& device;
    void* base;
  };
  c10::DataPtr ptr(
      static_cast<char*>(base) + offset, new Opened{device, base},
      [](void* context) {
        auto* opened = static_cast<Opened*>(context);
        try {
          opened->device.synchronize();
          HP_CHECK(opened->device.plugin.interprocess.close_memory(opened->device.index, opened->base),
                   opened->device.name() + ": close_memory");
        } catch (const std::exception& error) {
          TORCH_WARN(opened->device.name(), ": closing shared memory failed: ", error.what());
        }
        delete opened;
      },
      c10::Device(kDeviceType, static_cast<c10::DeviceIndex>(index)));
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, std::move(ptr), nullptr, false);
  return empty({0}, at::kByte, index).set_(std::move(storage), 0, {bytes}, {1});
}

// ---- Timing loops in C++, for benchmarks/dispatch.py

template <class Body>
double best_ns(int64_t calls, Body&& body) {
  double best = 1e30;
  for (int repeat = 0; repeat < 7; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < calls; ++i) body();
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    best = std::min(best, spent.count() / static_cast<double>(calls));
  }
  return best;
}

double time_add(const at::Tensor& a, const at::Tensor& b, int64_t calls, bool inference) {
  py::gil_scoped_release release;
  std::optional<c10::InferenceMode> mode;
  if (inference) mode.emplace(true);
  return best_ns(calls, [&] { at::add(a, b); });
}

double time_add_out(const at::Tensor& a, const at::Tensor& b, at::Tensor out, int64_t calls) {
  py::gil_scoped_release release;
  return best_ns(calls, [&] { at::add_out(out, a, b); });
}

double time_empty(const at::Tensor& like, int64_t calls) {
  py::gil_scoped_release release;
  const auto dtype = c10::optTypeMetaToScalarType(like.options().dtype_opt());
  const std::optional<c10::Layout> layout = like.layout();
  const std::optional<c10::Device> device = like.device();
  return best_ns(calls, [&] { at::empty({2, 3}, dtype, layout, device, std::nullopt, std::nullopt); });
}

}  // namespace
}  // namespace hp::torch_adapter

PYBIND11_MODULE(HARDPOINT_TORCH_MODULE, m) {
  using namespace hp;
  using namespace hp::torch_adapter;

  m.attr("torch_version") = TORCH_VERSION;
  m.def("attach", [](const std::string& name) {
    for (Runtime* candidate : Runtime::mounted()) {
      if (candidate->name() == name) return attach(*candidate);
    }
    TORCH_CHECK(false, "no plug-in named '", name, "' is mounted");
  });

  m.def("init", [] {
    torch::utils::register_fork_handler_for_device_init(at::kPrivateUse1);
    at::globalContext().lazyInitDevice(kDeviceType);
  });
  m.def("in_bad_fork", [] { return torch::utils::is_device_in_bad_fork(at::kPrivateUse1); });

  m.def(
      "stop_autograd", [] { torch::autograd::Engine::get_default_engine().stop(); },
      py::call_guard<py::gil_scoped_release>());

  m.def("device_count", [] { return runtime().device_count(); });
  m.def("current_device", [] { return current_device(runtime()); });
  m.def("set_device", [](int index) { set_current_device(runtime(), runtime().device(index).index); });
  m.def(
      "synchronize", [](int index) { device_at(static_cast<c10::DeviceIndex>(index)).synchronize(); },
      py::call_guard<py::gil_scoped_release>());
  m.def("extensions", [] { return runtime().plugin->extensions(); });

  m.def("memory_info", [](int index) { return device_at(static_cast<c10::DeviceIndex>(index)).memory_info(); });
  m.def("snapshot", [](int index) { return snapshot(device_at(static_cast<c10::DeviceIndex>(index))); });
  m.def(
      "empty_cache", [](int index) { device_at(static_cast<c10::DeviceIndex>(index)).allocator().empty_cache(); },
      py::call_guard<py::gil_scoped_release>());
  m.def("set_memory_fraction", [](double fraction, int index) {
    device_at(static_cast<c10::DeviceIndex>(index)).allocator().set_memory_fraction(fraction);
  });

  m.def("default_generator", [](int index) {
    return py::reinterpret_steal<py::object>(
        THPGenerator_initDefaultGenerator(default_generator(static_cast<c10::DeviceIndex>(index))));
  });

  m.def("enable_metadata", &enable_metadata);
  m.def("set_metadata", &set_metadata);
  m.def("get_metadata", &get_metadata);

  m.def("start_usage_sample", &start_usage_sample);
  m.def("operator_use", [] {
    const OperatorUse use = operator_use();
    return py::make_tuple(use.device, use.cpu);
  });

  m.def("export_storage", &export_storage);
  m.def("open_storage", &open_storage);

  bind_graph(m);
  bind_device_graphs(m);
  bind_graphed_calls(m);
  bind_distributed(m);

  m.def("time_add", &time_add);
  m.def("time_add_out", &time_add_out);
  m.def("time_empty", &time_empty);
  m.def("report_memory", &report_memory_to_profilers);
}
