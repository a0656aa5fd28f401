// Error reporting for Paddle's callbacks: each wraps its body in one of these two.
#pragma once

#include <paddle/phi/backends/device_ext.h>
#include <paddle/phi/core/enforce.h>

#include <cstdio>
#include <exception>

#include "core/runtime/device_fault.h"

namespace hp::paddle_adapter {

// For callbacks that Paddle runs on behalf of a user's call: the exception reaches the user with its message, which a
// status would lose.
template <class Action>
C_Status run_or_throw(Action action) {
  try {
    action();
    return C_SUCCESS;
  } catch (const IndexOutOfRange& error) {
    PADDLE_THROW(common::errors::OutOfRange("%s", error.what()));
  } catch (const Error& error) {
    PADDLE_THROW(common::errors::External("%s", error.what()));
  }
}

// For callbacks that must not throw: prints the reason to stderr and returns C_ERROR.
template <class Action>
C_Status run_or_log(Action action) {
  try {
    action();
    return C_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "[hardpoint] %s\n", error.what());
    return C_ERROR;
  }
}

}  // namespace hp::paddle_adapter
