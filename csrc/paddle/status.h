// How a callback of Paddle's table says that something failed.
#pragma once

#include <paddle/phi/backends/device_ext.h>
#include <paddle/phi/core/enforce.h>

#include <cstdio>
#include <exception>

#include "../core/error.h"

namespace hp::paddle_adapter {

// For what the program waits for: an exception tells it more than a status, and reaches it the same way.
template <class Action>
C_Status checked(Action action) {
  try {
    action();
    return C_SUCCESS;
  } catch (const Error& error) {
    PADDLE_THROW(common::errors::External("%s", error.what()));
  }
}

// For the rest, some of which is called where nothing may be thrown: the reason goes to stderr.
template <class Action>
C_Status guarded(Action action) {
  try {
    action();
    return C_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "[hardpoint] %s\n", error.what());
    return C_ERROR;
  }
}

}  // namespace hp::paddle_adapter
