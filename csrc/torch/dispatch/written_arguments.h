// Which arguments a call writes.
#pragma once

#include <ATen/core/function_schema.h>

#include "core/dispatch/operator.h"

namespace hp::torch_adapter {

// Whether the operator writes argument `i`, declared by its schema or not.
bool writes_argument(const Operator& op, const c10::FunctionSchema& schema, size_t i);

}  // namespace hp::torch_adapter
