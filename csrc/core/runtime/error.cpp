#include "core/runtime/error.h"

namespace hp {

namespace {

thread_local std::string message;

// The length of the UTF-8 character at `at`, 0 if there is none.
size_t utf8_length(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(at), second = byte(at + 1);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xC2 && first <= 0xDF ? 2 : first >= 0xE0 && first <= 0xEF ? 3 : 4;
  if (length == 4 && (first < 0xF0 || first > 0xF4)) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  }
  // Longer than necessary, halves of UTF-16 pairs, beyond the last code point.
  const bool excluded = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                        (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return excluded ? 0 : length;
}

}  // namespace

std::string valid_utf8(std::string text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length == 0) text[at] = '?';
    at += length == 0 ? 1 : length;
  }
  return text;
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

HpStatus escaped_exception() {
  std::string what = "of an unknown type";
  try {
    throw;
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {
  }
  store_message("the plug-in threw a C++ exception: " + what + "; it must catch it and return host->fail(...)");
  return HP_ERROR;
}

void check(HpStatus status, const std::string& what) {
  if (status == HP_OK) return;
  std::string detail = take_message();
  std::string text = what + " failed (" + status_name(status);
  if (status < HP_OK || status > HP_DEVICE_LOST) text += " " + std::to_string(status);
  text += ')';
  // What Hardpoint adds to the plug-in's message starts with a semicolon.
  if (!detail.empty()) text += (detail[0] == ';' ? "" : ": ") + detail;
  if (status == HP_OUT_OF_MEMORY) throw OutOfMemory(text);
  throw Error(status, text);
}

}  // namespace hp
