#include "core/runtime/error.h"

namespace hp {

namespace {
thread_local std::string message;
}

const char* status_name(HpStatus status) {
  switch (status) {
    case HP_OK:
      return "ok";
    case HP_ERROR:
      return "error";
    case HP_INVALID_ARGUMENT:
      return "invalid argument";
    case HP_OUT_OF_MEMORY:
      return "out of memory";
    case HP_NOT_SUPPORTED:
      return "not supported";
    case HP_NOT_READY:
      return "not ready";
    case HP_TIMEOUT:
      return "timeout";
    case HP_DEVICE_LOST:
      return "device lost";
  }
  return "unknown status";
}

std::string take_message() {
  std::string text;
  text.swap(message);
  return text;
}

void store_message(std::string text) { message = std::move(text); }

void check(HpStatus status, const std::string& what) {
  if (status == HP_OK) return;
  std::string detail = take_message();
  std::string text = what + " failed (" + status_name(status) + ")";
  if (!detail.empty()) text += ": " + detail;
  if (status == HP_OUT_OF_MEMORY) throw OutOfMemory(text);
  throw Error(status, text);
}

}  // namespace hp
