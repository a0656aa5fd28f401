// Python bindings for csrc/core.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <cstring>
#include <iterator>
#include <optional>

#include "core/dispatch/launch.h"
#include "core/dispatch/operator.h"
#include "core/dispatch/portable_kernel.h"
#include "core/dispatch/tier_rules.h"
#include "core/memory/allocator.h"
#include "core/memory/guard_zones.h"
#include "core/memory/memory_history.h"
#include "core/runtime/plugin.h"
#include "core/runtime/runtime.h"
#include "core/tracing/source_stack.h"
#include "core/tracing/trace_file.h"
#include "python/grid_launcher.h"
#include "python/python_stack.h"

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

// Bits of HpProperties.native_elements, in their order.
constexpr const char* kElementNames[] = {"uint8",   "int8",     "int16",   "int32",  "int64",
                                         "float16", "bfloat16", "float32", "float64"};

std::string uuid_text(const unsigned char (&uuid)[16]) {
  std::string text;
  bool known = false;
  for (int i = 0; i < 16; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", uuid[i]);
    text += (i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "") + std::string(digits);
    known = known || uuid[i] != 0;
  }
  return known ? text : "";
}

template <size_t size>
std::string text_of(const char (&field)[size]) {
  return std::string(field, strnlen(field, size));
}

py::dict properties_of(const std::string& runtime, int index) {
  const hp::Device& device = runtime_named(runtime).device(index);
  HpProperties found;
  {
    py::gil_scoped_release release;
    found = device.properties();
  }
  py::list native;
  for (size_t i = 0; i < std::size(kElementNames); ++i) {
    if (found.native_elements >> i & 1) native.append(kElementNames[i]);
  }
  py::dict result;
  result["name"] = text_of(found.name);
  result["total_memory"] = found.total_memory;
  result["compute_units"] = found.compute_units;
  result["major"] = found.version_major;
  result["minor"] = found.version_minor;
  result["uuid"] = uuid_text(found.uuid);
  result["pci_id"] = text_of(found.pci_id);
  result["max_allocation"] = found.max_allocation;
  result["native_dtypes"] = native;
  result["L2_cache_size"] = found.cache_bytes;
  result["clock_rate"] = found.clock_khz;
  result["memory_clock_rate"] = found.memory_clock_khz;
  result["memory_bus_width"] = found.memory_bus_bits;
  result["warp_size"] = found.simd_width;
  result["max_threads_per_block"] = found.max_group_size;
  result["shared_memory_per_block"] = found.local_memory != 0 ? found.local_memory : device.local_memory();
  result["shared_memory_per_block_optin"] = found.max_local_memory;
  result["regs_per_multiprocessor"] = found.unit_registers;
  return result;
}

using Triple = std::array<uint32_t, 3>;

std::vector<HpLaunchArg> launch_args(const std::vector<std::pair<bool, std::string>>& values) {
  std::vector<HpLaunchArg> args;
  for (const auto& [is_pointer, value] : values) {
    args.push_back({value.data(), static_cast<uint32_t>(value.size()), is_pointer ? 1u : 0u});
  }
  return args;
}

py::list frames_of(hp::StackId stack) {
  py::list frames;
  for (const hp::SourceFrame& frame : hp::stack_frames(stack)) {
    py::dict entry;
    entry["filename"] = frame.file;
    entry["line"] = frame.line;
    entry["name"] = frame.function;
    frames.append(entry);
  }
  return frames;
}

// Allocator events of one device, in the form of torch.cuda.memory._snapshot.
py::list memory_events_of(const hp::Device& device) {
  py::list events;
  std::map<hp::StackId, py::list> stacks;
  for (const hp::MemoryEvent& event : hp::memory_events(device)) {
    const auto [frames, added] = stacks.try_emplace(event.stack);
    if (added) frames->second = frames_of(event.stack);
    py::dict entry;
    entry["action"] = hp::memory_action_name(event.action);
    entry[event.action == hp::MemoryAction::kOutOfMemory ? "device_free" : "addr"] = event.address;
    entry["size"] = event.bytes;
    entry["stream"] = event.stream;
    entry["time_us"] = event.time_ns / 1000;
    entry["frames"] = frames->second;
    entry["pool_id"] = py::make_tuple(0, 0);
    events.append(entry);
  }
  return events;
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

// The class hardpoint.PluginError; lives as long as the process.
py::handle& plugin_error() {
  static py::handle type;
  return type;
}

void register_plugin_error(py::module_& m) {
  plugin_error() = py::exception<hp::Error>(m, "PluginError", PyExc_RuntimeError).release();
  plugin_error().attr("status") = static_cast<int>(HP_ERROR);
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const hp::Error& error) {
      const py::object instance = plugin_error()(error.what());
      instance.attr("status") = static_cast<int>(error.status);
      PyErr_SetObject(plugin_error().ptr(), instance.ptr());
    }
  });
}

}  // namespace

PYBIND11_MODULE(_core, m) {
  register_plugin_error(m);
  m.attr("ABI") = py::make_tuple(HP_ABI_MAJOR, HP_ABI_MINOR);

  py::class_<hp::Plugin, std::shared_ptr<hp::Plugin>>(m, "Plugin", py::dynamic_attr())
      .def_readonly("name", &hp::Plugin::name)
      .def_readonly("origin", &hp::Plugin::origin)
      .def_readonly("device_count", &hp::Plugin::device_count)
      .def_readonly("abi_minor", &hp::Plugin::abi_minor)
      .def_property_readonly("extensions", &hp::Plugin::extensions)
      .def("has_kernel", [](const hp::Plugin& plugin,
                            const std::string& name) { return plugin.find_kernel(name).function != nullptr; })
      .def("loads", &hp::Plugin::loads)
      .def("private_function", [](const hp::Plugin& plugin, const std::string& name) {
        return reinterpret_cast<uintptr_t>(plugin.private_function(name));
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
  m.def("properties", &properties_of);
  m.def("can_access", [](const std::string& name, int dst, int src) {
    hp::Runtime& runtime = runtime_named(name);
    return runtime.can_access(runtime.device(dst), runtime.device(src));
  });
  m.def("fill_memory", [](const std::string& name, int index, uintptr_t address, uint8_t value, size_t bytes) {
    hp::Device& device = runtime_named(name).device(index);
    py::gil_scoped_release release;
    device.fill(reinterpret_cast<void*>(address), value, bytes, hp::current_stream(device));
  });
  m.def("shut_down", &hp::Runtime::shut_down, py::call_guard<py::gil_scoped_release>());
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

  // Stacks and library folders apply to all records below.
  m.def("set_library_folders", [](std::vector<std::string> folders, std::string working_folder) {
    hp::set_library_folders(std::move(folders), std::move(working_folder));
    hp::capture_python_stacks();
  });
  m.def("start_trace_file", &hp::start_trace_file);
  m.def("stop_trace_file", &hp::stop_trace_file, py::call_guard<py::gil_scoped_release>());
  m.def("start_memory_history", [](size_t max_events, const std::string& stacks, bool native) {
    const auto use = stacks == "all"     ? hp::StackUse::kAll
                     : stacks == "alloc" ? hp::StackUse::kAllocations
                                         : hp::StackUse::kNone;
    hp::start_memory_history(max_events, use, native);
  });
  m.def("stop_memory_history", &hp::stop_memory_history);
  m.def("clear_memory_history", &hp::clear_memory_history);
  m.def("memory_events",
        [](const std::string& runtime, int index) { return memory_events_of(runtime_named(runtime).device(index)); });
  m.def("allocation_frames", [](const std::string& runtime, int index, uint64_t address) {
    return frames_of(hp::allocation_stack(runtime_named(runtime).device(index), address));
  });

  m.def("set_guard_zones", [](bool on) { hp::guard_zones.store(on, std::memory_order_relaxed); });
  m.def("guard_zones", &hp::guard_zones_enabled);
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
  // Flags of the plug-in's own kernel, or None.
  m.def("kernel_flags", [](const std::string& runtime, const std::string& name) -> std::optional<uint64_t> {
    const hp::Plugin::Kernel kernel = runtime_named(runtime).device(0).plugin.find_kernel(name);
    return kernel.function != nullptr ? std::optional(kernel.flags) : std::nullopt;
  });
  m.def("mark_declined", &hp::mark_declined);
  m.attr("KERNEL_STRIDED") = static_cast<uint64_t>(HP_KERNEL_STRIDED);
  m.attr("KERNEL_CHANNELS_LAST") = static_cast<uint64_t>(HP_KERNEL_CHANNELS_LAST);
  m.attr("KERNEL_PYTHON") = hp::kPythonKernel;

  m.def("compiler", [](const std::string& runtime, int index) -> py::object {
    hp::Device& device = runtime_named(runtime).device(index);
    const HpCompiler& compiler = device.plugin.compiler;
    if (compiler.compile == nullptr) return py::none();
    const char* const fingerprint = compiler.fingerprint(index);
    if (fingerprint == nullptr || *fingerprint == '\0') {
      throw hp::Error(HP_ERROR, device.name() + ": HpCompiler.fingerprint returned no text: it must identify the " +
                                    "compiler and the device model, since it is the key of cached kernels");
    }
    return py::make_tuple(std::string(compiler.dialect), hp::valid_utf8(fingerprint), device.group_size());
  });
  m.def("loads", [](const std::string& runtime, const std::string& binary_kind) {
    return runtime_named(runtime).device(0).plugin.loads(binary_kind);
  });
  m.def("local_memory", [](const std::string& runtime, int index) {
    return runtime_named(runtime).device(index).plugin.compiler.local_memory;
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
    const std::vector<HpLaunchArg> args = launch_args(values);
    py::gil_scoped_release release;
    hp::launch_groups(op, {reinterpret_cast<HpFunction>(function), 1}, hp::current_stream(device), groups, args.data(),
                      static_cast<uint32_t>(args.size()));
    op.count(hp::Tier::kPortable);
    return true;
  });

  m.def("launch_with", [](const std::string& runtime, int index, const std::string& op_name, uintptr_t function,
                          const Triple& groups, const Triple& group_size, uint32_t local_bytes, const Triple& cluster,
                          uint32_t flags, const std::vector<std::pair<bool, std::string>>& values) {
    hp::Device& device = runtime_named(runtime).device(index);
    hp::Operator& op = hp::Operator::intern(op_name);
    const std::vector<HpLaunchArg> args = launch_args(values);
    const HpLaunch options = {
        sizeof(HpLaunch), {groups[0], groups[1], groups[2]},    {group_size[0], group_size[1], group_size[2]},
        local_bytes,      {cluster[0], cluster[1], cluster[2]}, flags};
    py::gil_scoped_release release;
    hp::launch_with(op, reinterpret_cast<HpFunction>(function), hp::current_stream(device), options, args.data(),
                    static_cast<uint32_t>(args.size()));
    op.count(hp::Tier::kPortable);
  });
  m.def("function_attributes", [](const std::string& runtime, int index, uintptr_t function) {
    const HpAttributes found =
        hp::function_attributes(runtime_named(runtime).device(index), reinterpret_cast<HpFunction>(function));
    return std::map<std::string, uint32_t>{{"registers", found.registers},
                                           {"spilled_bytes", found.spilled_bytes},
                                           {"local_bytes", found.local_bytes},
                                           {"max_group_size", found.max_group_size}};
  });

  m.def("portable_grid_launcher",
        [](const std::string& runtime, const std::string& op, const std::string& kinds, bool reports, bool addresses,
           std::vector<size_t> guarded, int64_t workspace, int64_t max_groups) {
          return hp::GridLauncher::callable(std::make_unique<hp::PortableGridLauncher>(
              runtime_named(runtime), op, kinds, reports, addresses, std::move(guarded), workspace, max_groups));
        });
  m.def("binary_grid_launcher",
        [](const std::string& runtime, const std::string& op, const std::string& kinds, const Triple& group_size,
           uint32_t local_bytes, const Triple& cluster, uint32_t flags, const std::vector<int64_t>& scratch) {
          const HpLaunch options = {sizeof(HpLaunch),
                                    {},
                                    {group_size[0], group_size[1], group_size[2]},
                                    local_bytes,
                                    {cluster[0], cluster[1], cluster[2]},
                                    flags};
          return hp::GridLauncher::callable(
              std::make_unique<hp::BinaryGridLauncher>(runtime_named(runtime), op, kinds, options, scratch));
        });

  m.def("set_specializer", [](py::function function) {
    // Leaked: destroying it after the interpreter has shut down would crash.
    auto* specializer = new py::function(std::move(function));
    hp::set_specializer([specializer](hp::Device& device, const std::string& op, const std::string& description) {
      py::gil_scoped_acquire gil;
      try {
        const py::object result = (*specializer)(device.runtime.name(), device.index, op, description);
        if (result.is_none()) return hp::SpecializedBinary{};
        const auto [binary, kernel, elements] = result.cast<std::tuple<std::string, std::string, int64_t>>();
        return hp::SpecializedBinary{binary, kernel, elements};
      } catch (py::error_already_set& error) {
        // The plug-in's own message needs no traceback through Hardpoint.
        if (error.matches(plugin_error())) {
          const auto status = static_cast<HpStatus>(error.value().attr("status").cast<int>());
          throw hp::Error(status, py::str(error.value()));
        }
        throw;
      }
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
