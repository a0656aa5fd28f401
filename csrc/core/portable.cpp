#include "portable.h"

#include "recorder.h"

#include <cstdio>

namespace hp {
namespace {

Specialiser& specialiser() {
  static auto* function = new Specialiser;
  return *function;
}

// Never throws for want of a kernel: a failure is told once and means "not on this device".
PortableKernel build(Device& device, const std::string& name, const std::string& description) {
  const HpCompiler& compiler = device.plugin.compiler;
  if (compiler.compile == nullptr || !specialiser()) return {};
  try {
    const Specialised made = specialiser()(device, name, description);
    if (made.binary.empty()) return {};
    return {load_function(device, made.binary, made.kernel), made.elements_per_group};
  } catch (const Error& error) {
    // No compiler on this machine is an ordinary state, told once.
    static std::atomic<bool> said{false};
    if (error.status != HP_NOT_SUPPORTED || !said.exchange(true)) {
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

void set_specialiser(Specialiser function) { specialiser() = std::move(function); }

const PortableKernel& PortableKernels::make(Device& device, const SpecialisationKey& key,
                                            const std::string& description) {
  // Two threads may both build the same kernel; the second entry is never found, and harmless.
  auto* entry = new Entry{&device, key, build(device, name_, description), entries_.load(std::memory_order_relaxed)};
  while (!entries_.compare_exchange_weak(entry->next, entry, std::memory_order_release, std::memory_order_relaxed)) {
  }
  return entry->kernel;
}

std::string compile_portable(Device& device, const std::string& source, const std::string& options) {
  const HpCompiler& compiler = device.plugin.compiler;
  if (compiler.compile == nullptr) throw Error(HP_NOT_SUPPORTED, device.plugin.name + " has no compiler");
  void* binary = nullptr;
  size_t bytes = 0;
  check(compiler.compile(device.index, source.c_str(), options.c_str(), &binary, &bytes),
        device.name() + ": compilation");
  std::string copy(static_cast<const char*>(binary), bytes);
  compiler.release_binary(binary);
  return copy;
}

HpFunction load_function(Device& device, const std::string& binary, const std::string& name) {
  const HpCompiler& compiler = device.plugin.compiler;
  HpProgram program = nullptr;
  check(compiler.load(device.index, binary.data(), binary.size(), &program), device.name() + ": loading code");
  HpFunction function = nullptr;
  check(compiler.find(device.index, program, name.c_str(), &function), device.name() + ": finding code");
  return function;
}

void launch_groups(Operator& op, const PortableKernel& kernel, Stream& stream, int64_t groups, const HpLaunchArg* args,
                   uint32_t num_args) {
  OperatorScope scope(op);
  stream.note_launch(&op);
  const HpCompiler& compiler = stream.device.plugin.compiler;
  if (groups > INT32_MAX) {
    throw Error(HP_NOT_SUPPORTED, stream.device.name() + ": " + op.name + " needs more groups than a launch can have");
  }
  const uint32_t count[3] = {static_cast<uint32_t>(groups), 1, 1}, group_size[3] = {compiler.group_size, 1, 1};
  HP_CHECK(compiler.launch(stream.device.index, stream.handle(), kernel.function, count, group_size, args, num_args),
           stream.device.name() + ": launch of " + op.name);
  if (Recorder* active = recorder()) active->launched(op, kernel, stream, groups, args, num_args);
}

void launch_portable(Operator& op, const PortableKernel& kernel, Stream& stream, int64_t elements,
                     const HpLaunchArg* args, uint32_t num_args) {
  const int64_t groups = (elements + kernel.elements_per_group - 1) / kernel.elements_per_group;
  launch_groups(op, kernel, stream, groups, args, num_args);
}

}  // namespace hp
