// Graph mode: a program of instructions over numbered registers, executed without Python between them.
//
// hardpoint.graph lowers an FX graph to one. A register holds a tensor or a number, from the instruction that writes it
// to the last one that reads it. Programs run below autograd.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph_fused.h"

namespace hp::torch_adapter {

using Registers = std::vector<c10::IValue>;

// An argument of an instruction: a constant, a register, or a list with registers in it.
struct GraphValue {
  enum Kind { kConstant, kRegister, kTensors, kOptionalTensors, kIntegers, kAnything } kind = kConstant;
  c10::IValue constant;
  int reg = -1;
  bool as_tensor = false;  // the register may hold a number, where the operator takes a tensor
  bool required = false;   // it takes an undefined tensor where there is none
  std::vector<GraphValue> items;

  c10::IValue get(const Registers& registers) const;
  // Registers that it reads.
  void collect(std::vector<int>& found) const;
};

// What an FX node with a converter asks for: a vendor's kernel by name, outputs first.
struct GraphKernel {
  std::string kernel;
  struct Output {
    at::ScalarType dtype;
    std::vector<GraphValue> sizes, strides;
  };
  std::vector<Output> outputs;
  size_t num_inputs = 0;  // of the instruction's arguments; the rest are attributes
};

struct GraphInstruction {
  enum Kind { kOperator, kInteger, kPython, kKernel, kFused } kind;
  std::string name;  // of the FX nodes, for messages
  std::vector<GraphValue> arguments;
  std::vector<int> results;  // -1: nobody reads it
  bool unpack = false;       // the one result is a list, whose items go to the registers
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
  std::shared_ptr<PyObject> function;  // of Python; released under the interpreter's lock
  std::unique_ptr<GraphKernel> kernel;
  std::unique_ptr<FusedRegion> fused;
  // The same in terms of plain operators: where there is no such kernel, and while tools watch or rules are in force.
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
  std::vector<c10::IValue> constants;  // tensors that the graph owns: the registers after the inputs

  // The registers at the start.
  Registers begin(std::vector<c10::IValue> inputs) const;
  // One instruction, without its releases. `tools`: plain operators only. `given`: storages that are not the program's
  // own, and never written in place of a result.
  void execute(const GraphInstruction& instruction, Registers& registers, bool tools,
               const std::vector<const void*>& given) const;
  std::vector<c10::IValue> finish(const Registers& registers) const;

  // All of it, one after the other.
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs, bool tools) const;
};

// A number where an operator takes a tensor, as torch's own bindings make it.
at::Tensor number_as_tensor(const c10::Scalar& number);

// Addresses of the storages of tensors.
std::vector<const void*> storages_of(const Registers& registers);

}  // namespace hp::torch_adapter
