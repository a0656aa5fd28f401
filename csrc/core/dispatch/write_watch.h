// Copy on write: interception of operators that write to memory which tensors share.
#pragma once

#include "core/dispatch/operator.h"

namespace hp {

// Between begin and end (calls nest), every operator is intercepted, so that the adapter can give a lazy clone its own
// memory before a write. Programs without lazy clones pay nothing.
void begin_write_watch();
void end_write_watch();

// Whether a tool intercepts the operator, not only the write watch.
bool intercepted_by_tool(const Operator& op);

}  // namespace hp
