#include "watched.h"

#include <mutex>

namespace hp {
namespace {

thread_local const Operator* passing = nullptr;  // the operator whose watched call this thread is in
thread_local const char* served_by = "";         // the tier that took it
thread_local bool in_tool = false;

// Listens to the observer point while any watched call is on its way, and no longer: others pay for it.
struct Listening {
  std::mutex mutex;
  int calls = 0, id = 0;

  static Listening& instance() {
    static auto* made = new Listening;
    return *made;
  }
  static void note(void*, const CallEvent& event) {
    if (!event.begin && &event.op == passing) served_by = tier_name(event.tier);
  }
};

}  // namespace

bool enters_tool(const Operator& op) { return passing != &op && !in_tool; }

WatchedScope::WatchedScope(const Operator& op) : previous_(passing), previously_by_(served_by) {
  Listening& listening = Listening::instance();
  std::lock_guard<std::mutex> lock(listening.mutex);
  if (listening.calls++ == 0) listening.id = add_observer(&Listening::note, nullptr);
  passing = &op;
  served_by = "";
}

WatchedScope::~WatchedScope() {
  passing = previous_;
  served_by = previously_by_;
  Listening& listening = Listening::instance();
  std::lock_guard<std::mutex> lock(listening.mutex);
  if (--listening.calls == 0) remove_observer(listening.id);
}

const char* WatchedScope::tier() const { return served_by; }

ToolScope::ToolScope() : previous_(in_tool) { in_tool = true; }
ToolScope::~ToolScope() { in_tool = previous_; }

}  // namespace hp
