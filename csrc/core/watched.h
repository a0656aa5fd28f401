// The way of a watched call through an adapter: first to the tool, then, by the same entry, to what serves it.
#pragma once

#include "operator.h"

namespace hp {

// Of a watched operator: whether this thread's call is to go to the tool. False on its way back from there, and for
// what tools themselves call.
bool enters_tool(const Operator& op);

// A watched call on its way to what serves it.
class WatchedScope {
 public:
  explicit WatchedScope(const Operator& op);
  ~WatchedScope();
  WatchedScope(const WatchedScope&) = delete;
  // The tier that took the call; empty as long as none did.
  const char* tier() const;

 private:
  const Operator* const previous_;
  const char* const previously_by_;
};

// While a tool works, nothing is watched.
class ToolScope {
 public:
  ToolScope();
  ~ToolScope();
  ToolScope(const ToolScope&) = delete;

 private:
  const bool previous_;
};

}  // namespace hp
