#include "core/memory/stream_uses.h"

#include <cstdio>

namespace hp {

StreamUses::~StreamUses() {
  for (const Use& use : uses_) {
    if (use.event != nullptr) use.event->device.release_event(use.event);
  }
}

void StreamUses::add(Stream& stream) {
  for (const Use& use : uses_) {
    if (use.stream == &stream) return;
  }
  uses_.push_back({&stream, nullptr});
}

void StreamUses::record() noexcept {
  for (Use& use : uses_) {
    Device& device = use.stream->device;
    Event* event = nullptr;
    try {
      event = device.acquire_event(false);
      event->record(*use.stream);
      use.event = event;
    } catch (const std::exception& e) {
      device.release_event(event);
      std::fprintf(stderr, "[hardpoint] %s; memory used on stream %lld of %s is reused only when that stream is idle\n",
                   e.what(), static_cast<long long>(use.stream->id), device.name().c_str());
    }
  }
}

bool StreamUses::done(std::vector<Stream*>& busy) {
  for (const Use& use : uses_) {
    if (std::find(busy.begin(), busy.end(), use.stream) != busy.end()) return false;
    if (use.event != nullptr ? use.event->query() : use.stream->query()) continue;
    busy.push_back(use.stream);
    return false;
  }
  return true;
}

void StreamUses::wait() {
  for (const Use& use : uses_) {
    if (use.event != nullptr) {
      if (!use.event->captured()) use.event->synchronize();
    } else {
      use.stream->wait();
    }
  }
}

}  // namespace hp
