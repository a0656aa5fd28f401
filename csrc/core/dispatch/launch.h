// Launches a vendor kernel: sets the operator and stream it sees, and converts its TVM-FFI error to hp::Error.
#pragma once

#include <tvm/ffi/c_api.h>

#include "core/dispatch/operator.h"
#include "core/runtime/runtime.h"

namespace hp {

// Returns false if the kernel declined the call (NotImplementedError): the caller tries the next tier. Throws Error,
// naming the operator, if the kernel failed.
bool launch(const Operator& op, const Kernel& kernel, Stream& stream, const TVMFFIAny* args, int32_t num_args);

// Marks this thread's kernel call as declined. Returns false outside kernels: the caller must raise an error.
bool mark_declined();

// The runtime whose kernel this thread is running; outside kernels, the only mounted runtime, or null.
Runtime* launching_runtime();

// The running kernel's stream if `device` is its device; else the current stream, or null without launching_runtime().
Stream* launching_stream(int device);

}  // namespace hp
