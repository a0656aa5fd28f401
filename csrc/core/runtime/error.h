// Exceptions thrown by the core, and their conversion from a plug-in's status codes.
#pragma once

#include <cxxabi.h>

#include <cstddef>
#include <stdexcept>
#include <string>

#include "hardpoint/plugin.h"

namespace hp {

// The text with '?' for each byte that is not part of valid UTF-8. Python refuses any other text, and plug-ins pass on
// what drivers and compilers print: in the encoding of the locale, or cut inside a character.
std::string valid_utf8(std::string text);

class Error : public std::runtime_error {
 public:
  Error(HpStatus status, const std::string& message) : std::runtime_error(valid_utf8(message)), status(status) {}
  const HpStatus status;
};

class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const std::string& message) : Error(HP_OUT_OF_MEMORY, message) {}
};

const char* status_name(HpStatus status);

// Returns and clears the message that the plug-in stored on this thread with HpHost::fail.
std::string take_message();
void store_message(std::string message);

// Throws unless `status` is HP_OK. `what` names the plug-in, the device and the function: "sim:0: allocate".
void check(HpStatus status, const std::string& what);

// Stores the message of the exception that is being handled, and returns HP_ERROR.
HpStatus escaped_exception();

// Calls a function of the plug-in. The contract forbids exceptions, but one that comes must not skip the core's frames.
template <class Call>
inline HpStatus guarded(Call call) {
  try {
    return call();
  } catch (const abi::__forced_unwind&) {  // the thread is being canceled
    throw;
  } catch (...) {
    return escaped_exception();
  }
}

// The same, but evaluates `what` only on failure.
#define HP_CHECK(expression, what)                                             \
  do {                                                                         \
    const HpStatus hp_status = ::hp::guarded([&] { return (expression); });    \
    if (__builtin_expect(hp_status != HP_OK, 0)) ::hp::check(hp_status, what); \
  } while (0)

}  // namespace hp
