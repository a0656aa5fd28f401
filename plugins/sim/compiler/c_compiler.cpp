#include "compiler/c_compiler.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "compiler/cpu_arch.h"
#include "compiler/write_all.h"
#include "config.h"
#include "host.h"

extern char** environ;

namespace sim {

namespace {

using Clock = std::chrono::steady_clock;
using StringList = std::vector<std::string>;

constexpr size_t kMessageBytes = 1500;

struct CCompiler {
  StringList command;          // empty if no compiler was found
  std::string missing_reason;  // for the error message
  std::string temporary_root;  // parent of the temporary directories
};
// Never destroyed: kernels may be compiled during process exit.
const CCompiler* c_compiler;

StringList split(const char* text) {
  std::istringstream stream(text);
  StringList strings;
  for (std::string word; stream >> word;) strings.push_back(word);
  return strings;
}

bool is_program(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

// Resolves a program name like a shell; returns "" if there is none.
std::string find_program(const std::string& name, const char* path) {
  if (name.find('/') != std::string::npos) return is_program(name) ? name : "";
  std::istringstream stream(path);
  for (std::string folder; std::getline(stream, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (is_program(candidate)) return candidate;
  }
  return "";
}

const char* env_or(const char* name, const char* otherwise) {
  const char* const value = getenv(name);
  return value && *value ? value : otherwise;
}

// A private temporary directory, removed with its contents.
class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_(c_compiler->temporary_root + "/hardpoint-XXXXXX") {
    made_ = mkdtemp(path_.data()) != nullptr;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (made_) std::filesystem::remove_all(path_, ignored);
  }
  bool made() const { return made_; }
  const std::string& path() const { return path_; }
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  bool made_;
};

class File {
 public:
  File(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  File(const File&) = delete;
  ~File() {
    if (fd_ >= 0) close(fd_);
  }

  bool write(const char* text, size_t bytes) const { return fd_ >= 0 && write_all(fd_, text, bytes); }
  bool read_up_to(size_t limit, std::string* text) const {
    if (fd_ < 0) return false;
    char buffer[16 << 10];
    while (text->size() < limit) {
      const ssize_t n = read(fd_, buffer, std::min(sizeof buffer, limit - text->size()));
      if (n == 0) break;
      if (n > 0) {
        text->append(buffer, static_cast<size_t>(n));
      } else if (errno != EINTR) {
        return false;
      }
    }
    return true;
  }

 private:
  const int fd_;
};

std::vector<char*> pointers_to(StringList& strings) {
  std::vector<char*> pointers;
  for (std::string& word : strings) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Our environment, but with English messages, and the compiler's temporary files in a directory that will be removed.
StringList environment_in(const std::string& directory) {
  StringList environment = {"TMPDIR=" + directory, "LC_ALL=C"};
  for (char** entry = environ; *entry; ++entry)
    if (strncmp(*entry, "TMPDIR=", 7) != 0 && strncmp(*entry, "LC_ALL=", 7) != 0) environment.push_back(*entry);
  return environment;
}

// Starts the command with its output redirected to a file, so no pipe needs draining. Returns 0 or an errno.
// posix_spawn instead of fork, which would copy the page tables of a large process and run its fork handlers.
int spawn(StringList command, const std::string& directory, const std::string& messages, pid_t* pid) {
  StringList environment = environment_in(directory);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, messages.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  // Its own process group, so the time limit also kills the compiler's child processes. Default signal handling,
  // whatever this thread blocks or ignores.
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  const int error = posix_spawn(pid, command[0].c_str(), &actions, &attributes, pointers_to(command).data(),
                                pointers_to(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// CPU time of the processes of a group and of their finished children, in clock ticks.
uint64_t cpu_ticks(pid_t group) {
  uint64_t ticks = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    if (!isdigit(static_cast<unsigned char>(entry->path().filename().string()[0]))) continue;
    std::string text;
    if (!File((entry->path() / "stat").string(), O_RDONLY).read_up_to(4096, &text)) continue;
    const size_t name_end = text.rfind(')');  // the name may contain blanks
    if (name_end == std::string::npos) continue;
    std::istringstream fields(text.substr(name_end + 1));
    std::string skipped;
    pid_t its_group = 0;
    fields >> skipped >> skipped >> its_group;
    if (its_group != group) continue;
    for (int i = 0; i < 8; ++i) fields >> skipped;
    uint64_t times[4] = {};  // user, system; the same of waited-for children
    for (uint64_t& time : times) fields >> time;
    ticks += times[0] + times[1] + times[2] + times[3];
  }
  return ticks;
}

enum class Outcome { exited, too_long, hung };

// Sets `status` as waitpid does, or to 0 if other code in the process reaped the child (SIGCHLD ignored, wait for any
// child): success is then decided by the output file.
//
// The limit is CPU time, because a compiler on a busy machine may wait much longer than it works. A compiler that hangs
// uses none.
Outcome wait_for(pid_t pid, int* status) {
  const std::chrono::seconds limit(config.compiler_seconds);
  const uint64_t most_ticks = config.compiler_seconds * static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  uint64_t ticks = 0;
  Clock::time_point next_look = Clock::now() + limit, busy_at = Clock::now();
  Outcome outcome = Outcome::exited;
  std::chrono::microseconds nap{200};
  *status = 0;
  while (outcome == Outcome::exited) {
    const pid_t done = waitpid(pid, status, WNOHANG);
    if (done == pid || (done < 0 && errno != EINTR)) return Outcome::exited;
    if (const Clock::time_point now = Clock::now(); now >= next_look) {
      next_look = now + std::chrono::seconds(1);
      const uint64_t before = std::exchange(ticks, cpu_ticks(pid));
      if (ticks != before) busy_at = now;
      if (ticks >= most_ticks) outcome = Outcome::too_long;
      if (now - busy_at >= limit) outcome = Outcome::hung;
    }
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 3 / 2, std::chrono::microseconds(2000));
  }
  kill(-pid, SIGKILL);
  while (waitpid(pid, status, 0) < 0 && errno == EINTR) {
  }
  return outcome;
}

std::string exit_description(int status) {
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return "exit status " + std::to_string(WEXITSTATUS(status));
}

// The beginning of the compiler's output, without the name of the temporary directory.
std::string read_messages(const TemporaryDirectory& directory, const std::string& path) {
  std::string text;
  File(path, O_RDONLY).read_up_to(size_t{64} << 10, &text);
  const std::string prefix = directory.path() + "/";
  for (size_t at; (at = text.find(prefix)) != std::string::npos;) text.erase(at, prefix.size());
  if (text.size() > kMessageBytes) {
    size_t end = kMessageBytes;
    while (end > 0 && (text[end] & 0xc0) == 0x80) --end;  // do not cut a UTF-8 character
    text.resize(end);
    text += "...";
  }
  while (!text.empty() && isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text;
}

}  // namespace

void find_c_compiler() {
  CCompiler* const found = new CCompiler;
  found->temporary_root = env_or("TMPDIR", "/tmp");
  const char* const path = env_or("PATH", "/usr/local/bin:/usr/bin:/bin");
  if (const char* const chosen = env_or("HARDPOINT_CC", nullptr)) {
    found->command = split(chosen);  // may include arguments, as in "ccache gcc"
    found->missing_reason = "HARDPOINT_CC is '" + std::string(chosen) + "', which is not an executable";
    if (!found->command.empty()) found->command[0] = find_program(found->command[0], path);
    if (!found->command.empty() && found->command[0].empty()) found->command.clear();
  } else {
    found->missing_reason = "none of cc, gcc and clang is on PATH; install one, or set HARDPOINT_CC";
    for (const char* name : {"cc", "gcc", "clang"}) {
      const std::string program = find_program(name, path);
      if (program.empty()) continue;
      found->command = {program};
      break;
    }
  }
  c_compiler = found;
}

HpStatus compile_source(const char* source, const char* options, std::string* library) {
  if (c_compiler->command.empty())
    return host->fail(HP_NOT_SUPPORTED, "sim has no C compiler: %s", c_compiler->missing_reason.c_str());
  const TemporaryDirectory directory;
  if (!directory.made())
    return host->fail(HP_ERROR, "sim cannot create a temporary directory in '%s' (TMPDIR): %s",
                      c_compiler->temporary_root.c_str(), strerror(errno));
  const std::string input = directory.file("kernel.c"), output = directory.file("kernel.so"),
                    messages = directory.file("messages");
  if (!File(input, O_WRONLY | O_CREAT | O_EXCL).write(source, strlen(source)))
    return host->fail(HP_ERROR, "sim cannot write '%s': %s", input.c_str(), strerror(errno));

  StringList command = c_compiler->command;
  // Strict IEEE arithmetic: no contraction, no reordering, signed zeros. Only errno and floating-point traps are given
  // up, which kernels never use. Kernels bind to each other directly, even if the process has a symbol of the same
  // name.
  command.insert(command.end(), {"-std=gnu11", "-O3", "-fPIC", "-shared", config.arch->option, "-ffp-contract=off",
                                 "-fno-math-errno", "-fno-trapping-math", "-fvisibility=default",
                                 "-fno-semantic-interposition", "-Wl,-Bsymbolic", "-g0", "-w"});
  for (std::string& option : split(options ? options : "")) command.push_back(std::move(option));
  command.insert(command.end(), {"-o", output, input, "-lm"});
  const std::string& program = command[0];

  pid_t pid;
  if (const int error = spawn(command, directory.path(), messages, &pid))
    return host->fail(error == ENOENT ? HP_NOT_SUPPORTED : HP_ERROR, "sim cannot run the C compiler '%s': %s",
                      program.c_str(), strerror(error));
  int status;
  if (const Outcome outcome = wait_for(pid, &status); outcome != Outcome::exited)
    return host->fail(HP_ERROR, "sim: the C compiler '%s' was stopped after %llu s %s (HARDPOINT_SIM_COMPILER_SECONDS)",
                      program.c_str(), static_cast<unsigned long long>(config.compiler_seconds),
                      outcome == Outcome::hung ? "without any work" : "of CPU time");
  if (status != 0 || !File(output, O_RDONLY).read_up_to(SIZE_MAX, library) || library->empty())
    return host->fail(HP_ERROR, "sim: '%s' did not compile the kernel (%s):\n%s", program.c_str(),
                      exit_description(status).c_str(), read_messages(directory, messages).c_str());
  return HP_OK;
}

}  // namespace sim
