// A minimal test runner for the C++ parts: TEST(name) { CHECK(condition); } and one main per program.
#pragma once

#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace check {

struct Case {
  const char* name;
  std::function<void()> body;
};
inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}
struct Register {
  Register(const char* name, std::function<void()> body) { cases().push_back({name, std::move(body)}); }
};
struct Failure : std::exception {
  explicit Failure(std::string text) : text(std::move(text)) {}
  const char* what() const noexcept override { return text.c_str(); }
  std::string text;
};
[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
  throw Failure(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

// Runs all cases, or those whose name contains argv[1]. Prints one line a case.
inline int run(int argc, char** argv) {
  int failed = 0, ran = 0;
  for (const Case& c : cases()) {
    if (argc > 1 && !std::strstr(c.name, argv[1])) continue;
    ++ran;
    try {
      c.body();
      std::printf("ok   %s\n", c.name);
    } catch (const std::exception& e) {
      ++failed;
      std::printf("FAIL %s: %s\n", c.name, e.what());
    }
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed\n", ran - failed, failed);
  return failed == 0 && ran > 0 ? 0 : 1;
}

// The message of what `call` throws.
template <class Exception, class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Exception& e) {
    return e.what();
  }
  fail(__FILE__, __LINE__, "nothing thrown");
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace check

#define TEST(name)                                                   \
  static void test_##name();                                         \
  static const check::Register register_##name(#name, &test_##name); \
  static void test_##name()
#define CHECK(...)                                                                  \
  do {                                                                              \
    if (!(__VA_ARGS__)) check::fail(__FILE__, __LINE__, "CHECK(" #__VA_ARGS__ ")"); \
  } while (0)
// The expression must throw `type` with `text` in its message.
#define CHECK_THROWS(type, text, ...)                                                                     \
  do {                                                                                                    \
    bool thrown = false;                                                                                  \
    try {                                                                                                 \
      __VA_ARGS__;                                                                                        \
    } catch (const type& e) {                                                                             \
      thrown = true;                                                                                      \
      if (!std::strstr(e.what(), text)) check::fail(__FILE__, __LINE__, std::string("got: ") + e.what()); \
    }                                                                                                     \
    if (!thrown) check::fail(__FILE__, __LINE__, "nothing thrown by " #__VA_ARGS__);                      \
  } while (0)
#define CHECK_MAIN \
  int main(int argc, char** argv) { return check::run(argc, argv); }
