// The error of a queued task. Streams that wait for the task's event share this error, which is reported only once.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "host.h"

namespace sim {

struct StreamError {
  StreamError(HpStatus status, std::string text) : status(status), text(std::move(text)) {}

  // Reports the error, or returns HP_OK if it was reported before.
  HpStatus report() { return reported.exchange(true) ? HP_OK : host->fail(status, "%s", text.c_str()); }

  const HpStatus status;
  const std::string text;
  std::atomic<bool> reported{false};
};

using StreamErrorPtr = std::shared_ptr<StreamError>;

}  // namespace sim
