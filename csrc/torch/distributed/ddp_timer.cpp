// Device timing of DDP's steps. Without it DDP reports none and warns.
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <array>

#include "runtime/adapter.h"

namespace hp::torch_adapter {

class StepTimer final : public c10d::Timer {
 public:
  explicit StepTimer(c10::Device device) : device_(device_at(device.index())) {}
  ~StepTimer() override {
    for (hp::Event* event : events_) {
      if (event != nullptr) device_.release_event(event);
    }
  }

  void record(Event event) override {
    Timer::record(event);
    hp::Event*& recorded = events_.at(static_cast<size_t>(event));
    if (recorded == nullptr) recorded = device_.acquire_event(true);
    recorded->record(current_stream(device_));
  }

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    hp::Event* const first = events_.at(static_cast<size_t>(start));
    hp::Event* const last = events_.at(static_cast<size_t>(end));
    if (first == nullptr || last == nullptr) return std::nullopt;
    first->synchronize();
    last->synchronize();
    const double milliseconds = first->elapsed_ms(*last);
    // DDP does not record every event in every step, so `last` may belong to an earlier step.
    if (milliseconds < 0) return std::nullopt;
    return static_cast<int64_t>(milliseconds * 1e6);
  }

 private:
  Device& device_;
  std::array<hp::Event*, 5> events_{};
};

}  // namespace hp::torch_adapter

namespace c10d {
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kPrivateUse1, hp::torch_adapter::StepTimer)
}
