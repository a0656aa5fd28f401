// Graph mode: a program of instructions over numbered registers, executed without Python between instructions.
//
// hardpoint.graph lowers FX graphs to programs. A register holds a tensor or a number from the instruction that writes
// it to the last one that reads it. Programs run below autograd.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/fused_region.h"

namespace hp::torch_adapter {

using Registers = std::vector<c10::IValue>;

// An argument of an instruction: a constant, a register, or a list that contains registers.
struct GraphValue {
  enum Kind { kConstant, kRegister, kTensors, kOptionalTensors, kIntegers, kAnything } kind = kConstant;
  c10::IValue constant;
  int reg = -1;
  bool as_tensor = false;  // the operator takes a tensor, but the register may hold a number
  bool required = false;   // None becomes an undefined tensor
  std::vector<GraphValue> items;

  c10::IValue get(const Registers& registers) const;
  // Appends the registers that the value reads.
  void collect_registers(std::vector<int>& found) const;
};

// A call of a vendor kernel by name, requested by an FX node's converter. Outputs come first.
struct GraphKernel {
  std::string kernel;
  struct Output {
    at::ScalarType dtype;
    std::vector<GraphValue> sizes, strides;
  };
  std::vector<Output> outputs;
  size_t num_inputs = 0;  // leading arguments; the rest are attributes
};

struct GraphInstruction {
  enum Kind { kOperator, kInteger, kPython, kKernel, kFused } kind;
  std::string name;  // of the FX nodes, for messages
  std::vector<GraphValue> arguments;
  std::vector<int> results;  // -1: unused
  bool unpack = false;       // the single result is a list, whose items go to the registers
  std::vector<int> releases;

  std::optional<c10::OperatorHandle> handle;
  enum Integer {
    kAdd,
    kSubtract,
    kMultiply,
    kFloorDivide,
    kModulo,
    kPower,
    kMaximum,
    kMinimum,
    kNegate
  } integer = kAdd;
  std::shared_ptr<PyObject> function;  // a Python function; released under the GIL
  std::unique_ptr<GraphKernel> kernel;
  std::unique_ptr<FusedRegion> fused;
  // The same computation in single operators, for when the kernel is missing and while tools or rules are active.
  std::vector<GraphInstruction> plain;
};

class GraphProgram {
 public:
  GraphProgram(int num_inputs, int num_registers, std::string name)
      : num_inputs(num_inputs), num_registers(num_registers), name(std::move(name)) {}

  const int num_inputs, num_registers;
  const std::string name;
  std::vector<GraphInstruction> instructions;
  std::vector<GraphValue> outputs;
  std::vector<c10::IValue> constants;  // tensors owned by the graph, in the registers after the inputs

  // The initial registers.
  Registers begin(std::vector<c10::IValue> inputs) const;
  // Executes one instruction, without its releases. `tools`: run `plain` in place of kernels. `external`: storages that
  // the program does not own, and whose memory results must not reuse.
  void execute(const GraphInstruction& instruction, Registers& registers, bool tools,
               const std::vector<const void*>& external) const;
  std::vector<c10::IValue> finish(const Registers& registers) const;

  // Runs all instructions in order.
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs, bool tools) const;
};

// A number as the 0-dim tensor that torch's own bindings would pass to an operator.
at::Tensor number_as_tensor(const c10::Scalar& number);

// The StorageImpl of every tensor.
std::vector<const void*> storage_addresses(const Registers& registers);

}  // namespace hp::torch_adapter
