// A call on the host: its inputs are copied over, and the CPU's kernel runs on them, once or several times.
//
// Outputs that share an input's memory do so on the host as well, where kernels rely on it. A kernel that the CPU has
// in single precision only serves 16-bit floats, too: they are converted on the host.
#pragma once

#include <deque>
#include <vector>

#include "call.h"

namespace hp::paddle_adapter {

// Between floating-point dtypes.
void convert_floats(void* to, phi::DataType to_dtype, const void* from, phi::DataType from_dtype, int64_t count);

class HostCall {
 public:
  struct Output {
    DenseTensor* given;  // of the call
    DenseTensor* made;   // on the host; without memory where the kernel made none
  };

  explicit HostCall(Call& call);
  HostCall(const HostCall&) = delete;
  // Copies the inputs in the order of Paddle's stream, and waits for them. Where that takes too long (HP_TIMEOUT), this
  // object must live on: copies may still write to it.
  void bring_inputs();

  // Floating-point dtypes are taken as these by the CPU's kernel.
  enum class Floats { kOwn, kDouble };
  // Runs the CPU's kernel. `again`: the inputs stay as they are, for another run. False if the CPU has no such kernel.
  bool run(Floats floats = Floats::kOwn, bool again = false);
  // Of the last run; those that the caller wants none of are not among them.
  const std::vector<Output>& outputs() const { return outputs_; }
  size_t copied_bytes() const { return copied_bytes_; }
  // What the kernel takes that dtype as.
  phi::DataType host_dtype(phi::DataType dtype) const;

 private:
  // An input on the host, its elements one after another.
  struct Source {
    const void* address;  // on the device; null for a tensor that was on the host or has no memory
    DenseTensor host;
    DenseTensor working;  // what the kernel takes: converted, or a copy that may be written
    bool written;         // an output lies in it
  };
  Source* bring(const DenseTensor& given);
  const void* dense_bytes(const DenseTensor& given);
  Source* shared_with(const DenseTensor* output);
  DenseTensor* working_input(const DenseTensor* given, bool again);
  DenseTensor* working_output(DenseTensor* given);

  Call& call_;
  Stream& stream_;
  phi::DeviceContext* const host_;
  const bool mixed_;  // a kernel for single precision with inputs in 16 bits
  Floats floats_ = Floats::kOwn;
  std::deque<Source> sources_;
  std::deque<std::pair<const DenseTensor*, Source*>> inputs_;
  std::deque<Scratch> scratch_;
  std::deque<DenseTensor> tensors_;  // of the last run
  std::vector<Output> outputs_;
  size_t copied_bytes_ = 0;
};

}  // namespace hp::paddle_adapter
