// Interception of operator calls by tools: an intercepted call enters the tool, which issues it again to execute it.
#pragma once

#include "core/dispatch/operator.h"

namespace hp {

// Whether a call of an intercepted operator enters the tool. False in its InterceptedCallScope and in a ToolScope.
bool enters_tool(const Operator& op);

// Active while an intercepted call executes on this thread.
class InterceptedCallScope {
 public:
  explicit InterceptedCallScope(const Operator& op);
  ~InterceptedCallScope();
  InterceptedCallScope(const InterceptedCallScope&) = delete;
  // The tier that served the call; empty until one has.
  const char* tier() const;

 private:
  const Operator* const previous_;
  const char* const previous_tier_;
};

// Disables interception on this thread, for the calls that a tool itself makes.
class ToolScope {
 public:
  ToolScope();
  ~ToolScope();
  ToolScope(const ToolScope&) = delete;

 private:
  const bool previous_;
};

}  // namespace hp
