#include "core/dispatch/portable_kernel.h"

#include "core/recording/graph_capture.h"
#include "core/recording/recorder.h"
#include "core/tracing/host_events.h"
#include "core/tracing/tracer.h"

#include <cstdio>

namespace hp {
namespace {

Specializer& specializer() {
  static auto* function = new Specializer;
  return *function;
}

// Never throws: a failure is logged and returns a null function, so the call falls back to the next tier.
PortableKernel build(Device& device, const std::string& name, const std::string& description) {
  const HpCompiler& compiler = device.plugin.compiler;
  if (compiler.compile == nullptr || !specializer()) return {};
  try {
    const CompilationScope traced(name);
    const SpecializedBinary specialized = specializer()(device, name, description);
    if (specialized.binary.empty()) return {};
    return {load_function(device, specialized.binary, specialized.kernel), specialized.elements_per_group};
  } catch (const Error& error) {
    // A machine without a compiler is common: log it once.
    static std::atomic<bool> logged{false};
    if (error.status != HP_NOT_SUPPORTED || !logged.exchange(true)) {
      std::fprintf(stderr, "[hardpoint] no portable kernel for %s (%s): %s\n", name.c_str(), description.c_str(),
                   error.what());
    }
    return {};
  } catch (const std::exception& error) {
    std::fprintf(stderr, "[hardpoint] no portable kernel for %s (%s): %s\n", name.c_str(), description.c_str(),
                 error.what());
    return {};
  }
}

}  // namespace

void set_specializer(Specializer function) { specializer() = std::move(function); }

const PortableKernel& PortableKernelTable::make(Device& device, const SpecializationKey& key,
                                                const std::string& description) {
  // Two threads may build the same kernel; the duplicate entry is harmless.
  auto* entry = new Entry{&device, key, build(device, name_, description), entries_.load(std::memory_order_relaxed)};
  while (!entries_.compare_exchange_weak(entry->next, entry, std::memory_order_release, std::memory_order_relaxed)) {
  }
  return entry->kernel;
}

std::string compile_portable(Device& device, const std::string& source, const std::string& options) {
  const HpCompiler& compiler = device.plugin.compiler;
  if (compiler.compile == nullptr)
    throw Error(HP_NOT_SUPPORTED, "plug-in '" + device.plugin.name + "' has no compiler");
  void* binary = nullptr;
  size_t bytes = 0;
  HP_CHECK(compiler.compile(device.index, source.c_str(), options.c_str(), &binary, &bytes),
           device.name() + ": compilation");
  if (binary == nullptr || bytes == 0) {
    throw Error(HP_ERROR, device.name() + ": compile of plug-in '" + device.plugin.name +
                              "' returned HP_OK, but the binary is empty: it must return an error instead");
  }
  std::string copy(static_cast<const char*>(binary), bytes);
  compiler.release_binary(binary);
  return copy;
}

HpFunction load_function(Device& device, const std::string& binary, const std::string& name) {
  const HpCompiler& compiler = device.plugin.compiler;
  HpProgram program = nullptr;
  HP_CHECK(compiler.load(device.index, binary.data(), binary.size(), &program), device.name() + ": loading code");
  HpFunction function = nullptr;
  HP_CHECK(compiler.find(device.index, program, name.c_str(), &function), device.name() + ": finding code");
  if (function == nullptr) {
    throw Error(HP_ERROR, device.name() + ": find of plug-in '" + device.plugin.name + "' returned HP_OK for '" + name +
                              "', but the function is NULL: it must return an error instead");
  }
  return function;
}

void launch_groups(Operator& op, const PortableKernel& kernel, Stream& stream, int64_t groups, const HpLaunchArg* args,
                   uint32_t num_args) {
  OperatorScope scope(op);
  stream.note_launch(&op);
  const HpCompiler& compiler = stream.device.plugin.compiler;
  if (groups > INT32_MAX) {
    throw Error(HP_NOT_SUPPORTED, stream.device.name() + ": " + op.name + " needs " + std::to_string(groups) +
                                      " work-groups, a launch can have at most " + std::to_string(INT32_MAX));
  }
  if (GraphCapture* capture = stream.capture();
      capture != nullptr && capture->on_launch(op, kernel, groups, args, num_args)) {
    return;
  }
  const uint32_t count[3] = {static_cast<uint32_t>(groups), 1, 1}, group_size[3] = {stream.device.group_size(), 1, 1};
  TraceScope trace(TraceKind::kKernel, op.name.c_str(), stream, 0, Tier::kPortable);
  HP_CHECK(compiler.launch(stream.device.index, stream.handle(), kernel.function, count, group_size, args, num_args),
           stream.device.name() + ": launch of " + op.name);
  if (Recorder* active = recorder()) active->on_launch(op, kernel, stream, groups, args, num_args);
}

void launch_with(Operator& op, HpFunction function, Stream& stream, HpLaunch options, const HpLaunchArg* args,
                 uint32_t num_args) {
  options.struct_size = sizeof(options);
  OperatorScope scope(op);
  stream.note_launch(&op);
  if (GraphCapture* capture = stream.capture()) capture->on_launch_with_options(op);
  if (Recorder* active = recorder()) active->refuse("it launches " + op.name + " with options");
  const HpCompiler& compiler = stream.device.plugin.compiler;
  TraceScope trace(TraceKind::kKernel, op.name.c_str(), stream, 0, Tier::kPortable);
  if (compiler.launch_with != nullptr) {
    HP_CHECK(compiler.launch_with(stream.device.index, stream.handle(), function, &options, args, num_args),
             stream.device.name() + ": launch of " + op.name);
    return;
  }
  const uint32_t* const cluster = options.cluster;
  if (options.local_bytes != 0 || options.flags != 0 || cluster[0] > 1 || cluster[1] > 1 || cluster[2] > 1) {
    throw Error(HP_NOT_SUPPORTED, stream.device.name() + ": launch of " + op.name + ": the plug-in has no " +
                                      "HpCompiler.launch_with, which dynamic local memory, clusters and flags need");
  }
  HP_CHECK(compiler.launch(stream.device.index, stream.handle(), function, options.groups, options.group_size, args,
                           num_args),
           stream.device.name() + ": launch of " + op.name);
}

HpAttributes function_attributes(Device& device, HpFunction function) {
  HpAttributes attributes{};
  attributes.struct_size = sizeof(attributes);
  if (device.plugin.compiler.attributes != nullptr) {
    HP_CHECK(device.plugin.compiler.attributes(device.index, function, &attributes),
             device.name() + ": attributes of a function");
  }
  return attributes;
}

void launch_portable(Operator& op, const PortableKernel& kernel, Stream& stream, int64_t elements,
                     const HpLaunchArg* args, uint32_t num_args) {
  const int64_t groups = (elements + kernel.elements_per_group - 1) / kernel.elements_per_group;
  launch_groups(op, kernel, stream, groups, args, num_args);
}

}  // namespace hp
