// What went wrong in work that was queued. Streams that wait for the work's event share it, and it is reported once.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "host.h"

namespace sim {

struct QueuedFailure {
  QueuedFailure(HpStatus status, std::string text) : status(status), text(std::move(text)) {}

  // HP_OK where somebody has learnt of it already.
  HpStatus report() { return reported.exchange(true) ? HP_OK : host->fail(status, "%s", text.c_str()); }

  const HpStatus status;
  const std::string text;
  std::atomic<bool> reported{false};
};

using FailurePointer = std::shared_ptr<QueuedFailure>;

}  // namespace sim
