#include "core/memory/guard_zones.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "core/dispatch/operator.h"
#include "core/memory/block_heap.h"
#include "core/runtime/runtime.h"

namespace hp {

std::atomic<bool> guard_zones{false};

namespace {

// Neither zero, nor a likely number in any dtype, nor a NaN that a kernel might propagate.
constexpr unsigned char kPattern = 0x5B;
constexpr size_t kMaxBack = kGuardBytes + kMinBlock;

std::mutex damage_mutex;
std::vector<GuardDamage> damage;

// Never freed: queued copies read it.
const char* pattern() {
  static const std::array<char, kMaxBack> bytes = [] {
    std::array<char, kMaxBack> filled;
    filled.fill(static_cast<char>(kPattern));
    return filled;
  }();
  return bytes.data();
}

}  // namespace

size_t GuardZones::back_bytes() const { return std::min(size - kGuardBytes - bytes, kMaxBack); }

void GuardZones::fill(Stream& stream) const {
  device.copy_to_device(base, pattern(), kGuardBytes, stream);
  device.copy_to_device(base + kGuardBytes + bytes, pattern(), back_bytes(), stream);
}

void GuardZones::check(Stream& stream) const {
  std::vector<char> front(kGuardBytes), back(back_bytes());
  device.copy_to_host(front.data(), base, front.size(), stream);
  device.copy_to_host(back.data(), base + kGuardBytes + bytes, back.size(), stream);
  stream.wait();
  const auto written = [](char byte) { return byte != static_cast<char>(kPattern); };
  std::vector<int64_t> offsets;
  for (size_t i = 0; i < front.size(); ++i) {
    if (written(front[i])) offsets.push_back(static_cast<int64_t>(i) - static_cast<int64_t>(kGuardBytes));
  }
  for (size_t i = 0; i < back.size(); ++i) {
    if (written(back[i])) offsets.push_back(static_cast<int64_t>(bytes + i));
  }
  if (offsets.empty()) return;
  const Operator* op = current_operator();
  {
    std::lock_guard<std::mutex> lock(damage_mutex);
    damage.push_back({device.name(), op != nullptr ? op->name : "", reinterpret_cast<uint64_t>(base + kGuardBytes),
                      bytes, offsets.front(), offsets.back()});
  }
  fill(stream);
}

std::vector<GuardDamage> take_guard_damage() {
  std::lock_guard<std::mutex> lock(damage_mutex);
  std::vector<GuardDamage> taken;
  taken.swap(damage);
  return taken;
}

}  // namespace hp
