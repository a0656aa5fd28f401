#include "core/dispatch/tool_scope.h"

#include <mutex>

namespace hp {
namespace {

thread_local const Operator* executing = nullptr;  // operator of the intercepted call executing on this thread
thread_local const char* served_by = "";           // the tier that served it
thread_local bool in_tool = false;

// Observes calls only while an intercepted call executes, because an observer slows down every call.
struct TierObserver {
  std::mutex mutex;
  int calls = 0, id = 0;

  static TierObserver& instance() {
    static auto* observer = new TierObserver;
    return *observer;
  }
  static void note(void*, const CallEvent& event) {
    if (!event.begin && &event.op == executing) served_by = tier_name(event.tier);
  }
};

}  // namespace

bool enters_tool(const Operator& op) { return executing != &op && !in_tool; }

InterceptedCallScope::InterceptedCallScope(const Operator& op) : previous_(executing), previous_tier_(served_by) {
  TierObserver& observer = TierObserver::instance();
  std::lock_guard<std::mutex> lock(observer.mutex);
  if (observer.calls++ == 0) observer.id = add_observer(&TierObserver::note, nullptr);
  executing = &op;
  served_by = "";
}

InterceptedCallScope::~InterceptedCallScope() {
  executing = previous_;
  served_by = previous_tier_;
  TierObserver& observer = TierObserver::instance();
  std::lock_guard<std::mutex> lock(observer.mutex);
  if (--observer.calls == 0) remove_observer(observer.id);
}

const char* InterceptedCallScope::tier() const { return served_by; }

ToolScope::ToolScope() : previous_(in_tool) { in_tool = true; }
ToolScope::~ToolScope() { in_tool = previous_; }

}  // namespace hp
