#include "core/memory/memory_history.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>

#include "core/runtime/clock.h"

namespace hp {

std::atomic<bool> memory_history_enabled{false};

namespace {

constexpr size_t kShownHolders = 5;

struct LiveBlock {
  uint64_t bytes;
  StackId stack;
};

struct History {
  std::mutex mutex;
  bool recording = false, streaming = false;
  size_t max_events = 0;
  StackUse stacks = StackUse::kNone;
  bool native = false;
  std::deque<MemoryEvent> ring;
  std::vector<MemoryEvent> stream;
  std::map<const Device*, std::unordered_map<uint64_t, LiveBlock>> live;

  static History& instance() {
    static auto* history = new History;
    return *history;
  }

  // Call with the mutex held.
  void apply() {
    const bool on = recording || streaming;
    if (!on) live.clear();
    memory_history_enabled.store(on, std::memory_order_relaxed);
  }
};

}  // namespace

const char* memory_action_name(MemoryAction action) {
  static const char* const names[] = {"alloc",         "free_requested", "free_completed",
                                      "segment_alloc", "segment_free",   "oom"};
  return names[static_cast<int>(action)];
}

void start_memory_history(size_t max_events, StackUse stacks, bool native) {
  History& history = History::instance();
  std::lock_guard<std::mutex> lock(history.mutex);
  history.recording = true;
  history.max_events = max_events;
  history.stacks = stacks;
  history.native = native;
  while (history.ring.size() > max_events) history.ring.pop_front();
  history.apply();
}

void stop_memory_history() {
  History& history = History::instance();
  std::lock_guard<std::mutex> lock(history.mutex);
  history.recording = false;
  history.apply();
}

void clear_memory_history() {
  History& history = History::instance();
  std::lock_guard<std::mutex> lock(history.mutex);
  history.ring.clear();
}

std::vector<MemoryEvent> memory_events(const Device& device) {
  History& history = History::instance();
  std::lock_guard<std::mutex> lock(history.mutex);
  std::vector<MemoryEvent> events;
  std::copy_if(history.ring.begin(), history.ring.end(), std::back_inserter(events),
               [&](const MemoryEvent& event) { return event.device == &device; });
  return events;
}

StackId allocation_stack(const Device& device, uint64_t address) {
  History& history = History::instance();
  std::lock_guard<std::mutex> lock(history.mutex);
  const auto blocks = history.live.find(&device);
  if (blocks == history.live.end()) return 0;
  const auto found = blocks->second.find(address);
  return found == blocks->second.end() ? 0 : found->second.stack;
}

void start_memory_stream() {
  History& history = History::instance();
  std::lock_guard<std::mutex> lock(history.mutex);
  history.streaming = true;
  history.stream.clear();
  history.apply();
}

void stop_memory_stream() {
  History& history = History::instance();
  std::lock_guard<std::mutex> lock(history.mutex);
  history.streaming = false;
  history.apply();
}

std::vector<MemoryEvent> take_memory_events() {
  History& history = History::instance();
  std::vector<MemoryEvent> events;
  std::lock_guard<std::mutex> lock(history.mutex);
  events.swap(history.stream);
  return events;
}

StackId memory_event_stack(MemoryAction action) {
  const bool is_free = action == MemoryAction::kFreeRequested || action == MemoryAction::kFreeCompleted;
  History& history = History::instance();
  bool native = false;
  {
    std::lock_guard<std::mutex> lock(history.mutex);
    const bool recorded =
        history.recording && (is_free ? history.stacks == StackUse::kAll : history.stacks != StackUse::kNone);
    if (!recorded && (is_free || !history.streaming)) return 0;
    native = recorded && history.native;
  }
  return current_stack(native);
}

void add_memory_event(MemoryEvent event) {
  event.time_ns = trace_clock_ns();
  History& history = History::instance();
  std::lock_guard<std::mutex> lock(history.mutex);
  if (event.action == MemoryAction::kAlloc) {
    history.live[event.device][event.address] = {event.bytes, event.stack};
  } else if (event.action == MemoryAction::kFreeRequested) {
    history.live[event.device].erase(event.address);
  }
  if (history.recording && history.max_events != 0) {
    if (history.ring.size() >= history.max_events) history.ring.pop_front();
    history.ring.push_back(event);
  }
  if (history.streaming) history.stream.push_back(event);
}

std::string largest_holders(const Device& device) {
  std::map<StackId, std::pair<uint64_t, int>> by_stack;
  {
    History& history = History::instance();
    std::lock_guard<std::mutex> lock(history.mutex);
    for (const auto& entry : history.live[&device]) {
      auto& [bytes, blocks] = by_stack[entry.second.stack];
      bytes += entry.second.bytes;
      ++blocks;
    }
  }
  std::map<std::string, std::pair<uint64_t, int>> by_line;
  for (const auto& [stack, sum] : by_stack) {
    const std::string line = program_line(stack);
    auto& [bytes, blocks] = by_line[line.empty() ? "an unknown line" : line];
    bytes += sum.first;
    blocks += sum.second;
  }
  if (by_line.empty()) return "";
  std::vector<std::pair<std::string, std::pair<uint64_t, int>>> lines(by_line.begin(), by_line.end());
  std::sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) {
    return a.second.first != b.second.first ? a.second.first > b.second.first : a.first < b.first;
  });
  std::string text = " The largest holders are ";
  for (size_t i = 0; i < std::min(kShownHolders, lines.size()); ++i) {
    const auto& [line, sum] = lines[i];
    text += (i != 0 ? ", " : "") + line + " (" + describe_bytes(sum.first) + " in " + std::to_string(sum.second) +
            (sum.second == 1 ? " block)" : " blocks)");
  }
  return text + ".";
}

std::string describe_bytes(uint64_t bytes) {
  static const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
  return text;
}

}  // namespace hp
