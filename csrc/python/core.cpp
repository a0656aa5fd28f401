// Python bindings for csrc/core.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>

#include "core/dispatch/launch.h"
#include "core/dispatch/operator.h"
#include "core/dispatch/portable_kernel.h"
#include "core/dispatch/tier_rules.h"
#include "core/memory/allocator.h"
#include "core/memory/guard_zones.h"
#include "core/runtime/plugin.h"
#include "core/runtime/runtime.h"
#include "python/grid_launcher.h"

namespace py = pybind11;

namespace {

hp::Runtime& runtime_named(const std::string& name) {
  for (hp::Runtime* runtime : hp::Runtime::mounted()) {
    if (runtime->name() == name) return *runtime;
  }
  throw hp::Error(HP_INVALID_ARGUMENT, "no plug-in named '" + name + "' is mounted: mount it first");
}

py::list devices_of(const std::string& name) {
  py::list devices;
  hp::Runtime& runtime = runtime_named(name);
  for (int i = 0; i < runtime.device_count(); ++i) {
    hp::Device& device = runtime.device(i);
    const HpProperties properties = device.properties();
    const auto [free_bytes, total_bytes] = device.memory_info();
    py::dict entry;
    entry["plugin"] = name;
    entry["index"] = i;
    entry["name"] = std::string(properties.name);
    entry["compute_units"] = properties.compute_units;
    entry["free_memory"] = free_bytes;
    entry["total_memory"] = total_bytes != 0 ? total_bytes : properties.total_memory;
    devices.append(entry);
  }
  return devices;
}

// A Python observer, called as callback(operator, tier, begin).
struct PythonObserver {
  py::function callback;
  int id = 0;
};

void call_observer(void* context, const hp::CallEvent& event) {
  py::gil_scoped_acquire gil;
  static_cast<PythonObserver*>(context)->callback(event.op.name, hp::tier_name(event.tier), event.begin);
}

}  // namespace

PYBIND11_MODULE(_core, m) {
  py::register_exception<hp::Error>(m, "PluginError", PyExc_RuntimeError);
  m.attr("ABI") = py::make_tuple(HP_ABI_MAJOR, HP_ABI_MINOR);

  py::class_<hp::Plugin, std::shared_ptr<hp::Plugin>>(m, "Plugin", py::dynamic_attr())
      .def_readonly("name", &hp::Plugin::name)
      .def_readonly("origin", &hp::Plugin::origin)
      .def_readonly("device_count", &hp::Plugin::device_count)
      .def_readonly("abi_minor", &hp::Plugin::abi_minor)
      .def_property_readonly("extensions", &hp::Plugin::extensions)
      .def("has_kernel", [](const hp::Plugin& plugin, const std::string& name) {
        return plugin.find_kernel(name).function != nullptr;
      });
  m.def(
      "load", [](const std::string& path) { return std::const_pointer_cast<hp::Plugin>(hp::Plugin::load(path)); },
      "Open and validate a plug-in's shared library.");
  m.def("adopt", [](uintptr_t init, const std::string& origin) {
    return std::const_pointer_cast<hp::Plugin>(
        hp::Plugin::adopt(reinterpret_cast<hp::Plugin::InitFunction>(init), origin));
  });

  m.def("mount", [](std::shared_ptr<hp::Plugin> plugin) { hp::Runtime::mount(std::move(plugin)); });
  m.def("mounted", [] {
    std::vector<std::string> names;
    for (hp::Runtime* runtime : hp::Runtime::mounted()) names.push_back(runtime->name());
    return names;
  });
  m.def("devices", &devices_of);
  m.def("set_timeout_ms", &hp::Runtime::set_timeout_ms);
  m.def("timeout_ms", &hp::Runtime::timeout_ms);

  m.def("counters", &hp::counters);
  m.def("reset_counters", &hp::reset_counters);
  m.def("cpu_costs", &hp::cpu_costs);

  // A rule is a pair: an operator pattern, and the names of the tiers it denies.
  m.def("set_rules", [](const std::vector<std::pair<std::string, std::vector<std::string>>>& entries) {
    std::vector<hp::TierRule> rules;
    for (const auto& [pattern, denied] : entries) {
      hp::TierRule rule{pattern, 0};
      for (int tier = 0; tier < hp::kNumTiers; ++tier) {
        for (const std::string& name : denied) {
          if (name == hp::tier_name(static_cast<hp::Tier>(tier)))
            rule.denied |= hp::denied_bit(static_cast<hp::Tier>(tier));
        }
      }
      rules.push_back(std::move(rule));
    }
    hp::set_rules(rules);
  });
  m.def("set_intercepted", &hp::set_intercepted);

  m.def("set_guard_zones", [](bool on) { hp::guard_zones.store(on, std::memory_order_relaxed); });
  m.def("check_guard_zones", [](const std::optional<std::vector<uint64_t>>& addresses) {
    {
      py::gil_scoped_release release;
      for (hp::Runtime* runtime : hp::Runtime::mounted()) {
        for (int i = 0; i < runtime->device_count(); ++i) {
          runtime->device(i).allocator().check_guard_zones(addresses ? &*addresses : nullptr);
        }
      }
    }
    py::list found;
    for (const hp::GuardDamage& each : hp::take_guard_damage()) {
      found.append(py::make_tuple(each.device, each.op, each.address, each.bytes, each.first, each.last));
    }
    return found;
  });

  m.def("override_kernel", [](const std::string& runtime, const std::string& name, uintptr_t function, uint64_t flags) {
    return hp::KernelRegistry::override_kernel(runtime_named(runtime), name, reinterpret_cast<void*>(function), flags);
  });
  m.def("remove_override", [](const std::string& runtime, int64_t token) {
    hp::KernelRegistry::remove_override(runtime_named(runtime), token);
  });
  m.def("mark_declined", &hp::mark_declined);
  m.attr("KERNEL_STRIDED") = static_cast<uint64_t>(HP_KERNEL_STRIDED);
  m.attr("KERNEL_PYTHON") = hp::kPythonKernel;

  m.def("compiler", [](const std::string& runtime, int index) -> py::object {
    hp::Device& device = runtime_named(runtime).device(index);
    const HpCompiler& compiler = device.plugin.compiler;
    if (compiler.compile == nullptr) return py::none();
    return py::make_tuple(std::string(compiler.dialect), std::string(compiler.fingerprint(index)), compiler.group_size);
  });
  m.def("compile", [](const std::string& runtime, int index, const std::string& source, const std::string& options) {
    hp::Device& device = runtime_named(runtime).device(index);
    std::string binary;
    {
      py::gil_scoped_release release;
      binary = hp::compile_portable(device, source, options);
    }
    return py::bytes(binary);
  });
  // User-written kernels. Each launch argument is (is_pointer, packed bytes).
  m.def("load_kernel", [](const std::string& runtime, int index, const std::string& binary, const std::string& name) {
    hp::Device& device = runtime_named(runtime).device(index);
    py::gil_scoped_release release;
    return reinterpret_cast<uintptr_t>(hp::load_function(device, binary, name));
  });
  m.def("launch_kernel", [](const std::string& runtime, int index, const std::string& op_name, uintptr_t function,
                            int64_t groups, const std::vector<std::pair<bool, std::string>>& values) {
    hp::Device& device = runtime_named(runtime).device(index);
    hp::Operator& op = hp::Operator::intern(op_name);
    if (!op.allows(hp::Tier::kPortable)) return false;
    std::vector<HpLaunchArg> args;
    for (const auto& [is_pointer, value] : values) {
      args.push_back({value.data(), static_cast<uint32_t>(value.size()), is_pointer ? 1u : 0u});
    }
    py::gil_scoped_release release;
    hp::launch_groups(op, {reinterpret_cast<HpFunction>(function), 1}, hp::current_stream(device), groups, args.data(),
                      static_cast<uint32_t>(args.size()));
    op.count(hp::Tier::kPortable);
    return true;
  });

  py::class_<hp::GridLauncher>(m, "GridLauncher")
      .def(py::init([](const std::string& runtime, const std::string& op, const std::string& kinds, bool reports) {
        return new hp::GridLauncher(runtime_named(runtime), op, kinds, reports);
      }))
      .def("launch", &hp::GridLauncher::launch);

  m.def("set_specializer", [](py::function function) {
    // Leaked: destroying it after the interpreter has shut down would crash.
    auto* specializer = new py::function(std::move(function));
    hp::set_specializer([specializer](hp::Device& device, const std::string& op, const std::string& description) {
      py::gil_scoped_acquire gil;
      const py::object result = (*specializer)(device.runtime.name(), device.index, op, description);
      if (result.is_none()) return hp::SpecializedBinary{};
      const auto [binary, kernel, elements] = result.cast<std::tuple<std::string, std::string, int64_t>>();
      return hp::SpecializedBinary{binary, kernel, elements};
    });
  });

  m.def("add_observer", [](py::function callback) {
    // Leaked: another thread may still be inside the callback when it is removed.
    auto* observer = new PythonObserver{std::move(callback)};
    observer->id = hp::add_observer(&call_observer, observer);
    return observer->id;
  });
  m.def("remove_observer", &hp::remove_observer);
}
