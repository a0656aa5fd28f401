#include "runtime/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

#include <cstring>

#include "core/recording/graph_capture.h"
#include "core/recording/recorder.h"
#include "runtime/adapter.h"

namespace hp::torch_adapter {

namespace {
constexpr size_t kStateBytes = 2 * sizeof(uint64_t);
}

PhiloxGenerator::PhiloxGenerator(c10::DeviceIndex index)
    : c10::GeneratorImpl(c10::Device(kDeviceType, index), kKeySet) {}

uint64_t PhiloxGenerator::seed() {
  state_.reseed(c10::detail::getNonDeterministicRandom());
  return state_.seed;
}

void PhiloxGenerator::set_state(const c10::TensorImpl& state) {
  TORCH_CHECK(state.device().is_cpu() && state.dtype() == caffe2::TypeMeta::Make<uint8_t>() && state.is_contiguous() &&
                  state.numel() == static_cast<int64_t>(kStateBytes),
              "the state of a ", runtime().name(), " generator must be a contiguous CPU tensor of ", kStateBytes,
              " bytes (dtype uint8), as get_state returns it; got ", state.numel(), " elements of ",
              c10::typeMetaToScalarType(state.dtype()), " on ", state.device());
  const auto* bytes = static_cast<const uint8_t*>(state.data());
  std::memcpy(&state_.seed, bytes, sizeof(uint64_t));
  std::memcpy(&state_.offset, bytes + sizeof(uint64_t), sizeof(uint64_t));
}

c10::intrusive_ptr<c10::TensorImpl> PhiloxGenerator::get_state() const {
  at::TensorBase state =
      at::detail::empty_cpu({static_cast<int64_t>(kStateBytes)}, at::kByte, false, at::MemoryFormat::Contiguous);
  auto* bytes = static_cast<uint8_t*>(state.mutable_data_ptr());
  std::memcpy(bytes, &state_.seed, sizeof(uint64_t));
  std::memcpy(bytes + sizeof(uint64_t), &state_.offset, sizeof(uint64_t));
  return state.getIntrusivePtr();
}

PhiloxGenerator* PhiloxGenerator::clone_impl() const {
  auto* copy = new PhiloxGenerator(device().index());
  copy->state_ = state_;
  return copy;
}

PhiloxState PhiloxGenerator::take(uint64_t blocks) {
  const PhiloxState from = state_;
  state_.advance(blocks);
  return from;
}

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 14
void PhiloxGenerator::philox_state(uint64_t increment, at::Tensor& seed, at::Tensor& offset,
                                   at::Tensor& intragraph_offset) {
  if (Recorder* active = recorder()) active->refuse("it takes the state of a generator as numbers");
  const PhiloxState from = take(increment / 4 + (increment % 4 != 0));
  const auto number = [](uint64_t bits) {
    at::Tensor tensor(at::detail::empty_cpu({1}, at::kLong, false, at::MemoryFormat::Contiguous));
    std::memcpy(tensor.mutable_data_ptr(), &bits, sizeof(bits));
    return tensor;
  };
  seed = number(from.seed);
  offset = number(4 * from.offset);
  intragraph_offset = number(0);
}
#endif

// The initial seed is the CPU generator's: random, or the argument of torch.manual_seed if the program called it before
// the device was mounted.
const at::Generator& default_generator(c10::DeviceIndex index) {
  static const auto* generators = [] {
    auto* all = new std::vector<at::Generator>;
    const uint64_t seed = at::detail::getDefaultCPUGenerator().current_seed();
    for (int i = 0; i < runtime().device_count(); ++i) {
      all->push_back(at::make_generator<PhiloxGenerator>(static_cast<c10::DeviceIndex>(i)));
      all->back().set_current_seed(seed);
    }
    return all;
  }();
  return (*generators)[device_at(index).index];
}

PhiloxState take_blocks(const std::optional<at::Generator>& generator, c10::DeviceIndex index, uint64_t blocks) {
  const at::Generator& used = generator && generator->defined() ? *generator : default_generator(index);
  TORCH_CHECK(used.device().type() == kDeviceType, "Expected a '", runtime().name(),
              "' device type for generator but found '", used.device().type(), "'");
  auto* philox = static_cast<PhiloxGenerator*>(used.unsafeGetGeneratorImpl());
  std::lock_guard<std::mutex> lock(philox->mutex_);
  const PhiloxState from = philox->take(blocks);
  if (Recorder* active = recorder()) {
    if (used == default_generator(index)) {
      active->on_draw(from, blocks);
    } else {
      active->refuse("it draws from a generator argument");
    }
  }
  if (GraphCapture* capture = current_stream(device_at(index)).capture()) {
    if (used != default_generator(index)) {
      capture->refuse("an operator with a generator argument", "only the default generator advances between replays");
    }
    capture->on_draw(from, blocks);
  }
  return from;
}

uint64_t draw_seed(const std::optional<at::Generator>& generator, c10::DeviceIndex index) {
  const PhiloxState state = take_blocks(generator, index, 1);
  const PhiloxBlock block = philox4x32(state.seed, state.offset, 0);
  return block[0] | static_cast<uint64_t>(block[1]) << 32;
}

}  // namespace hp::torch_adapter
