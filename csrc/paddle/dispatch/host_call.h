// Runs a call's CPU kernel on host copies of its inputs, once or several times. For the CPU tier and debugging tools.
//
// Outputs that share memory with an input, or are the same object, do so on the host too, since kernels rely on it. If
// the CPU kernel takes float32 only, 16-bit floats are converted on the host.
#pragma once

#include <deque>
#include <vector>

#include "core/memory/scratch.h"
#include "dispatch/call.h"

namespace hp::paddle_adapter {

// Converts `count` elements on the host. Both dtypes must be real floating-point.
void convert_floats(void* to, phi::DataType to_dtype, const void* from, phi::DataType from_dtype, int64_t count);

class HostCall {
 public:
  struct Output {
    DenseTensor* device;  // the call's output
    DenseTensor* host;    // the kernel's result, owned by the HostCall; no memory if the kernel allocated none
  };

  explicit HostCall(Call& call);
  HostCall(const HostCall&) = delete;
  // Copies the inputs to the host on the current stream and waits. If this throws HP_TIMEOUT, never destroy the object:
  // pending copies may still write to it.
  void copy_inputs();

  // Whether the kernel computes floats in the call's dtype or in float64.
  enum class FloatMode { kKernelDtype, kDouble };
  // Runs the CPU kernel. `keep_inputs`: copy inputs that the kernel overwrites, so that it can run again. Returns false
  // if Paddle has no such CPU kernel.
  bool run(FloatMode floats = FloatMode::kKernelDtype, bool keep_inputs = false);
  // Outputs of the last run, without those the caller does not need.
  const std::vector<Output>& outputs() const { return outputs_; }
  // Bytes copied from the device to the host.
  size_t copied_bytes() const { return copied_bytes_; }
  // The dtype in which the last run's kernel takes tensors of `dtype`.
  phi::DataType host_dtype(phi::DataType dtype) const;

 private:
  // A contiguous host copy of an input, shared by inputs with the same memory.
  struct Source {
    const void* address;  // device address; null if the input was on the host or has no memory
    DenseTensor host;
    DenseTensor working;  // passed to the kernel instead of `host` if it must be converted or kept
    bool written;         // an output shares this memory
  };
  Source* stage_input(const DenseTensor& input);
  const void* dense_bytes(const DenseTensor& input);
  Source* shared_with(const DenseTensor* output);
  DenseTensor* working_input(const DenseTensor* input, bool keep_inputs);
  DenseTensor* working_output(DenseTensor* output);

  Call& call_;
  Stream& stream_;
  phi::DeviceContext* const host_;
  const bool mixed_;  // a float32 kernel with 16-bit float inputs
  FloatMode floats_ = FloatMode::kKernelDtype;
  std::deque<Source> sources_;
  std::deque<std::pair<const DenseTensor*, Source*>> inputs_;
  std::deque<Scratch> scratch_;
  std::deque<DenseTensor> tensors_;                                           // arguments of the last run
  std::vector<std::pair<const DenseTensor*, DenseTensor*>> input_arguments_;  // the call's input, its argument
  std::vector<Output> outputs_;
  size_t copied_bytes_ = 0;
};

}  // namespace hp::paddle_adapter
