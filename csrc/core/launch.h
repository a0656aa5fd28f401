// Calling a kernel: sets the operator and the stream that the kernel sees, and turns its error into ours.
#pragma once

#include <tvm/ffi/c_api.h>

#include "operator.h"
#include "runtime.h"

namespace hp {

// Returns false when the kernel declined the call (NotImplementedError): the next tier takes it. Throws Error, naming
// the operator, when it failed.
bool launch(const Operator& op, const Kernel& kernel, Stream& stream, const TVMFFIAny* args, int32_t num_args);

// The kernel that this thread is in will return "not this call"; false outside of kernels, where that is an error.
bool note_declined();

// The runtime whose kernel this thread is in; outside of kernels the only mounted one, else null.
Runtime* launching_runtime();

}  // namespace hp
