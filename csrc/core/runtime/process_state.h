// Settings of the whole process that belong to the program, not to a library that it loads.
#pragma once

#include <fcntl.h>
#include <fenv.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <clocale>
#include <cstdio>
#include <string>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

namespace hp {

inline std::string working_directory() {
  char* const folder = getcwd(nullptr, 0);
  std::string text = folder != nullptr ? folder : "";
  free(folder);
  return text;
}

inline std::string locale_name() {
  const char* const name = std::setlocale(LC_ALL, nullptr);
  return name != nullptr ? name : "C";
}

// Rounding mode, and whether subnormal numbers count as zero.
inline unsigned floating_point_modes() {
  unsigned modes = static_cast<unsigned>(fegetround());
#ifdef __SSE2__
  modes |= (_mm_getcsr() & 0x8040u) << 16;
#endif
  return modes;
}

// Restores the working directory, the locale, the handler of Ctrl-C, the standard streams and the floating-point modes
// when it ends, and says in the log what had changed. A library built with -ffast-math, for example, sets subnormal
// numbers to zero when it is loaded, for the thread that loads it.
class ProcessState {
 public:
  // `origin` is the plug-in's file.
  explicit ProcessState(const std::string& origin);
  ~ProcessState();
  ProcessState(const ProcessState&) = delete;
  ProcessState& operator=(const ProcessState&) = delete;

 private:
  const std::string& origin_;
  std::string folder_, locale_;
  std::array<int, 3> streams_;
  struct sigaction interrupt_{};
  fenv_t floating_point_;
  unsigned modes_;
};

inline ProcessState::ProcessState(const std::string& origin)
    : origin_(origin), folder_(working_directory()), locale_(locale_name()), modes_(floating_point_modes()) {
  sigaction(SIGINT, nullptr, &interrupt_);
  fegetenv(&floating_point_);
  for (int i = 0; i < 3; ++i) streams_[i] = fcntl(i, F_DUPFD_CLOEXEC, 3);
}

inline ProcessState::~ProcessState() {
  std::string changed;
  const auto note = [&](const char* what) { changed += (changed.empty() ? "" : ", ") + std::string(what); };
  if (!folder_.empty() && working_directory() != folder_) {
    note("the working directory");
    if (chdir(folder_.c_str()) != 0) note("which is gone");
  }
  if (locale_name() != locale_) {
    note("the locale");
    std::setlocale(LC_ALL, locale_.c_str());
  }
  struct sigaction now{};
  sigaction(SIGINT, nullptr, &now);
  // Without a word: compilers inside of drivers set one as a matter of course.
  if (now.sa_handler != interrupt_.sa_handler) sigaction(SIGINT, &interrupt_, nullptr);
  bool closed = false;
  for (int i = 0; i < 3; ++i) {
    if (streams_[i] < 0) continue;
    if (fcntl(i, F_GETFD) < 0) closed = dup2(streams_[i], i) == i;
    close(streams_[i]);
  }
  if (closed) note("the standard streams");
  if (floating_point_modes() != modes_) note("the floating-point modes (-ffast-math does)");
  fesetenv(&floating_point_);
  if (!changed.empty()) {
    std::fprintf(stderr,
                 "[hardpoint warning] %s: loading it changed settings of the process, which were restored: %s; "
                 "leave these to the program\n",
                 origin_.c_str(), changed.c_str());
  }
}

}  // namespace hp
