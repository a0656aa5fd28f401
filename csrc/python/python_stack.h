// Captures Python stacks for the core's records (core/tracing/source_stack.h).
#pragma once

namespace hp {

void capture_python_stacks();

}  // namespace hp
