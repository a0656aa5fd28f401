// A call that an adapter serves on the CPU itself, outside of its general CPU tier.
#pragma once

#include "core/dispatch/operator.h"

namespace hp {

// Counts and times the call, and notifies observers.
class CpuTierCall {
 public:
  explicit CpuTierCall(Operator& op) : op_(op), scope_(op), timer_(op) {
    op.count(Tier::kCpu);
    if (__builtin_expect(observed(), 0)) notify({op, Tier::kCpu, true, nullptr});
  }
  CpuTierCall(const CpuTierCall&) = delete;

  // Call once it is served, with the bytes copied between device and host.
  void done(uint64_t copied_bytes) {
    op_.copied_bytes.fetch_add(copied_bytes, std::memory_order_relaxed);
    if (__builtin_expect(observed(), 0)) notify({op_, Tier::kCpu, false, nullptr});
  }

 private:
  Operator& op_;
  const OperatorScope scope_;
  const CpuTierTimer timer_;
};

}  // namespace hp
