// The random generator of a device: a Philox seed and offset.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>
#include <torch/version.h>

#include "core/runtime/philox.h"

namespace hp::torch_adapter {

class PhiloxGenerator final : public c10::GeneratorImpl {
 public:
  explicit PhiloxGenerator(c10::DeviceIndex index);

  void set_current_seed(uint64_t seed) override { state_.reseed(seed); }
  uint64_t current_seed() const override { return state_.seed; }
  uint64_t seed() override;
  void set_offset(uint64_t offset) override { state_.offset = offset; }
  uint64_t get_offset() const override { return state_.offset; }
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 14
  // Torch's offsets count 32-bit values, four in a block. The caller holds mutex_.
  void philox_state(uint64_t increment, at::Tensor& seed, at::Tensor& offset, at::Tensor& intragraph_offset) override;
#endif

  // Reserves `blocks` blocks and returns the state at their start. The caller holds mutex_.
  PhiloxState take(uint64_t blocks);

 private:
  PhiloxGenerator* clone_impl() const override;
  PhiloxState state_;
};

const at::Generator& default_generator(c10::DeviceIndex index);

// Reserves blocks of `generator`, or of the device's default one, and returns the state at their start. Locks the
// generator.
PhiloxState take_blocks(const std::optional<at::Generator>& generator, c10::DeviceIndex index, uint64_t blocks);

// Draws a seed from `generator`, or from the device's default one, to seed another generator, such as a CPU kernel's.
uint64_t draw_seed(const std::optional<at::Generator>& generator, c10::DeviceIndex index);

}  // namespace hp::torch_adapter
