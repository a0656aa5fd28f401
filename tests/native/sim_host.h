// What the tests of `sim` share: a host for the plug-in, and small tools around the contract. HP_SIM_LIBRARY names the
// built library.
//
// The settings are read once in a process, so that a case which needs others runs in a child: the same program, started
// again with HP_SIM_CHILD set to the child's name. A program ends with SIM_MAIN instead of CHECK_MAIN.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "hardpoint/plugin.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

extern char** environ;

using Clock = std::chrono::steady_clock;

// --- the host ------------------------------------------------------------------------------------------------------

inline thread_local std::string message, raised;  // of host->fail; "kind: text" of host->raise
inline thread_local const char* operator_name = "aten::test";
inline thread_local std::map<int, HpStream> current_streams;

inline std::string format(const char* text, va_list arguments) {
  char buffer[4096];
  vsnprintf(buffer, sizeof buffer, text, arguments);
  return buffer;
}
inline void host_log(HpLogLevel, const char* text) { fprintf(stderr, "%s\n", text); }
inline HpStatus host_fail(HpStatus status, const char* text, ...) {
  va_list arguments;
  va_start(arguments, text);
  message = format(text, arguments);
  va_end(arguments);
  return status;
}
inline int host_raise(const char* kind, const char* text, ...) {
  va_list arguments;
  va_start(arguments, text);
  raised = std::string(kind) + ": " + format(text, arguments);
  va_end(arguments);
  return -1;
}
inline const char* host_operator_name() { return operator_name; }
inline thread_local uint64_t correlation = 0;
inline uint64_t host_correlation() { return correlation; }
inline HpStream host_current_stream(int device) { return current_streams[device]; }

inline const HpHost host = {sizeof(HpHost), HP_ABI_MAJOR, HP_ABI_MINOR,       host_log,
                            host_fail,      host_raise,   host_operator_name, host_current_stream,
                            nullptr,        nullptr,      host_correlation};

inline void* library() {
  static void* const handle = dlopen(getenv("HP_SIM_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  if (!handle) check::fail(__FILE__, __LINE__, std::string("HP_SIM_LIBRARY: ") + dlerror());
  return handle;
}
template <class Function>
Function symbol(const char* name) {
  void* const found = dlsym(library(), name);
  if (!found) check::fail(__FILE__, __LINE__, std::string("not exported: ") + name);
  return reinterpret_cast<Function>(found);
}
inline HpStatus init(const HpPlugin** plugin) {
  return symbol<decltype(&hp_plugin_init)>("hp_plugin_init")(&host, plugin);
}

inline const HpPlugin& sim() {
  static const HpPlugin* plugin = [] {
    const HpPlugin* made = nullptr;
    if (init(&made) != HP_OK) check::fail(__FILE__, __LINE__, message);
    return made;
  }();
  return *plugin;
}

inline int set_fault(const char* specification) {
  return reinterpret_cast<int (*)(const char*)>(sim().private_function(sim().context, "set_fault"))(specification);
}

// --- small tools ---------------------------------------------------------------------------------------------------

#define OK(...)                                                                                      \
  do {                                                                                               \
    if ((__VA_ARGS__) != HP_OK) check::fail(__FILE__, __LINE__, #__VA_ARGS__ " failed: " + message); \
  } while (0)

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
#define CHECK_TEXT(text, part)                                                                                    \
  do {                                                                                                            \
    if (!contains(text, part)) check::fail(__FILE__, __LINE__, "'" + std::string(part) + "' is not in: " + text); \
  } while (0)

inline void synchronize(int device = 0, HpStream stream = nullptr) {
  OK(sim().streams->synchronize(device, stream, 0));
}
inline HpStream new_stream(int device = 0) {
  HpStream stream;
  OK(sim().streams->create(device, 0, &stream));
  return stream;
}
inline HpEvent new_event(int device = 0, int timing = 0) {
  HpEvent event;
  OK(sim().events->create(device, timing, &event));
  return event;
}
inline uint64_t free_memory(int device) {
  uint64_t free_bytes, total;
  OK(sim().info->memory(device, &free_bytes, &total));
  return free_bytes;
}

struct Memory {
  explicit Memory(size_t bytes, int device = 0) : bytes(bytes), device(device) {
    OK(sim().allocate(device, bytes, &ptr));
  }
  Memory(const Memory&) = delete;
  ~Memory() { sim().free(device, ptr); }

  void write(const void* from) {
    OK(sim().copy_to_device(device, ptr, from, bytes, nullptr));
    synchronize(device);
  }
  void read(void* to) {
    OK(sim().copy_to_host(device, to, ptr, bytes, nullptr));
    synchronize(device);
  }

  const size_t bytes;
  const int device;
  void* ptr = nullptr;
};

// --- children ------------------------------------------------------------------------------------------------------

struct Child {
  int status;
  std::string output;  // stdout and stderr
};
inline std::map<std::string, void (*)()>& children() {
  static std::map<std::string, void (*)()> all;
  return all;
}
struct RegisterChild {
  RegisterChild(const char* name, void (*body)()) { children()[name] = body; }
};
#define CHILD(name)                                                \
  void child_##name();                                             \
  const RegisterChild register_child_##name(#name, &child_##name); \
  void child_##name()

inline Child run_child(const std::string& name, const std::map<std::string, std::string>& settings = {}) {
  std::vector<std::string> environment = {"HP_SIM_CHILD=" + name};
  for (const auto& [key, value] : settings) environment.push_back(key + "=" + value);
  for (char** e = environ; *e; ++e)
    if (settings.count(std::string(*e, strcspn(*e, "="))) == 0) environment.push_back(*e);
  std::vector<char*> pointers;
  for (std::string& e : environment) pointers.push_back(e.data());
  pointers.push_back(nullptr);

  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  char program[] = "/proc/self/exe";
  char* const arguments[] = {program, nullptr};
  pid_t pid;
  CHECK(posix_spawn(&pid, program, &actions, nullptr, arguments, pointers.data()) == 0);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);

  Child child{0, ""};
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) child.output.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  waitpid(pid, &child.status, 0);
  return child;
}
inline void expect_success(const Child& child) {
  if (!WIFEXITED(child.status) || WEXITSTATUS(child.status) != 0)
    check::fail(__FILE__, __LINE__, "status " + std::to_string(child.status) + ", output: " + child.output);
}

// Runs `body` after fork(): the exit status is 0 when it returned true.
template <class Body>
bool after_fork(Body body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body() ? 0 : 1);
  int status;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// --- several threads -----------------------------------------------------------------------------------------------

template <class Body>
void in_threads(int count, Body body) {
  std::vector<std::thread> threads;
  std::vector<std::string> failures(static_cast<size_t>(count));
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      try {
        body(t);
      } catch (const std::exception& e) {
        failures[static_cast<size_t>(t)] = e.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures)
    if (!failure.empty()) check::fail(__FILE__, __LINE__, failure);
}

inline int sim_main(int argc, char** argv) {
  const char* const name = getenv("HP_SIM_CHILD");
  if (!name) return check::run(argc, argv);
  try {
    children().at(name)();
  } catch (const std::exception& e) {
    printf("%s\n", e.what());
    return 1;
  }
  return 0;
}

#define SIM_MAIN \
  int main(int argc, char** argv) { return sim_main(argc, argv); }
