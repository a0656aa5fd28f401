// Launches kernels over a three-dimensional grid of programs, with arguments straight from Python: for Triton.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/dispatch/operator.h"
#include "core/runtime/runtime.h"

namespace hp {

class GridLauncher {
 public:
  using Grid = std::array<int64_t, 3>;

  // `kinds` has one character per argument: P for a pointer (a tensor, an address, None), '-' for a constant that the
  // kernel does not take, else the format character of Python's struct module, and 'E' for bfloat16. `added` is the
  // number of arguments that the launcher itself appends.
  GridLauncher(Runtime& runtime, const std::string& op, std::string kinds, size_t added);
  virtual ~GridLauncher() = default;
  GridLauncher(const GridLauncher&) = delete;

  // Queues the kernel on the current stream of the current device. Throws if a rule denies it.
  void launch(uintptr_t function, const Grid& grid, PyObject* const* values, size_t count) const;

  // A function launcher(x, y, z, stream, function, metadata, launch_metadata, enter, leave, *arguments), as Triton
  // calls one. Calls the hooks `enter` and `leave` unless they are None, and queues nothing for an empty grid.
  static pybind11::object callable(std::unique_ptr<const GridLauncher> launcher);

  static constexpr size_t kMaxArguments = 224;  // see HpCompiler::launch

 protected:
  struct Arguments {
    uint64_t words[kMaxArguments];
    HpLaunchArg args[kMaxArguments];
    uint32_t count = 0;
    void add(uint64_t word, uint32_t bytes, bool is_pointer);
  };
  // Appends the launcher's own arguments and launches. Called without the GIL.
  virtual void queue(Stream& stream, HpFunction function, const Grid& grid, Arguments& arguments) const = 0;

  Runtime& runtime_;
  Operator& op_;

 private:
  const std::string kinds_;
};

// Kernels in a dialect of the portable kernels, which take the sizes of the grid as arguments: one program per group.
class PortableGridLauncher final : public GridLauncher {
 public:
  // `reports`: the kernel takes the address of the fault record and the operator's code after the sizes of the grid.
  // `addresses`: after these it takes a pointer, and the same address as a number.
  // `guarded`: after these it takes the memory of some of its own arguments: address, and size or -1 if unknown.
  // `workspace`: bytes of device memory that each group needs, 0 for none; the kernel takes their address as its last
  // argument, and at most `max_groups` groups run all programs.
  PortableGridLauncher(Runtime& runtime, const std::string& op, std::string kinds, bool reports, bool addresses,
                       std::vector<size_t> guarded, int64_t workspace, int64_t max_groups);

 private:
  void queue(Stream& stream, HpFunction function, const Grid& grid, Arguments& arguments) const override;

  const bool reports_, addresses_;
  const std::vector<size_t> guarded_;
  const int64_t workspace_, max_groups_;
};

// Kernels that another compiler made for the device: one program per cluster of groups.
class BinaryGridLauncher final : public GridLauncher {
 public:
  // `options` has the group size, local memory, cluster and flags of a launch. The kernel takes a pointer for each
  // element of `scratch` after its arguments: so many bytes of device memory per program, NULL for 0.
  BinaryGridLauncher(Runtime& runtime, const std::string& op, std::string kinds, const HpLaunch& options,
                     std::vector<int64_t> scratch);

 private:
  void queue(Stream& stream, HpFunction function, const Grid& grid, Arguments& arguments) const override;

  const HpLaunch options_;
  const std::vector<int64_t> scratch_;
};

}  // namespace hp
