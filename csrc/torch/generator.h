// The random generator of a device: a Philox seed and offset.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include "../core/philox.h"

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

  // Where the next `blocks` blocks begin, which are taken; the caller holds mutex_.
  PhiloxState take(uint64_t blocks);

 private:
  PhiloxGenerator* clone_impl() const override;
  PhiloxState state_;
};

const at::Generator& default_generator(c10::DeviceIndex index);

// Takes blocks from `generator`, or from the device's default one, and says where they begin.
PhiloxState take_blocks(const std::optional<at::Generator>& generator, c10::DeviceIndex index, uint64_t blocks);

// A seed drawn from `generator`, or from the device's default one, for work that runs with a generator of its own.
uint64_t draw_seed(const std::optional<at::Generator>& generator, c10::DeviceIndex index);

}  // namespace hp::torch_adapter
