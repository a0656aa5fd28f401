#include "core/tracing/trace_file.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "core/memory/memory_history.h"
#include "core/tracing/host_events.h"
#include "core/tracing/source_stack.h"
#include "core/tracing/tracer.h"

namespace hp {
namespace {

constexpr std::chrono::milliseconds kInterval{100};
constexpr size_t kWriteBytes = size_t{1} << 20;  // bytes per write
// Process numbers of devices. Linux gives processes smaller ones.
constexpr int64_t kFirstDeviceRow = int64_t{1} << 24;

// Chrome's viewer takes colors by name only.
const char* color_of(Tier tier) {
  static const char* const names[kNumTiers] = {"good", "rail_response", "bad", "terrible"};
  return names[static_cast<int>(tier)];
}
constexpr const char* kCopyColor = "generic_work";
constexpr const char* kWaitColor = "thread_state_iowait";
constexpr const char* kCompilationColor = "yellow";
constexpr const char* kCollectiveColor = "rail_animation";

const char* category_of(const TraceRecord& record) {
  if (record.kind == TraceKind::kKernel) return tier_name(record.tier);
  return record.kind == TraceKind::kCollective ? "collective" : "copy";
}

int64_t row_of(const Device& device) { return kFirstDeviceRow + device.runtime.slot * kMaxDevices + device.index; }

void append_quoted(std::string& text, const std::string& value) {
  text += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", c);
      text += escaped;
    } else {
      text += c;
    }
  }
  text += '"';
}

// Appends events to a text, one at a time.
class EventText {
 public:
  std::string text;

  explicit EventText(int64_t base_ns) : base_ns_(base_ns) {}

  EventText& begin(const char* phase, const std::string& name, int64_t process, int64_t row) {
    text += ",\n{\"ph\":\"";
    text += phase;
    text += "\",\"name\":";
    append_quoted(text, name);
    return number("pid", process).number("tid", row);
  }
  EventText& number(const char* key, int64_t value) {
    this->key(key);
    text += std::to_string(value);
    return *this;
  }
  EventText& word(const char* key, const std::string& value) {
    this->key(key);
    append_quoted(text, value);
    return *this;
  }
  // A time in microseconds since the trace began.
  EventText& time(const char* key, int64_t ns) { return microseconds(key, ns - base_ns_); }
  EventText& span(int64_t start_ns, int64_t end_ns) {
    return time("ts", start_ns).microseconds("dur", end_ns > start_ns ? end_ns - start_ns : 0);
  }
  EventText& object(const char* key) {
    this->key(key);
    text += '{';
    return *this;
  }
  void end() { text += '}'; }
  EventText& end_object() {
    text += '}';
    return *this;
  }

 private:
  void key(const char* key) {
    if (text.back() != '{') text += ',';
    text += '"';
    text += key;
    text += "\":";
  }
  EventText& microseconds(const char* key, int64_t ns) {
    this->key(key);
    char value[40];
    std::snprintf(value, sizeof(value), "%.3f", static_cast<double>(ns) * 1e-3);
    text += value;
    return *this;
  }
  const int64_t base_ns_;
};

class TraceFile {
 public:
  TraceFile(const std::string& path, const std::string& about, const std::string& program)
      : path_(path), process_(getpid()), events_(trace_clock_ns()) {
    file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file_ < 0) throw Error(HP_ERROR, "cannot write the trace to " + path + ": " + std::strerror(errno));
    events_.text = "[\n{\"ph\":\"M\",\"name\":\"hardpoint\",\"pid\":" + std::to_string(process_) +
                   ",\"tid\":0,\"args\":" + about + "}";
    events_.begin("M", "process_name", process_, 0).object("args").word("name", program).end_object().end();
    write_out();
    start_trace_stream();
    start_memory_stream();
    start_host_events();
    thread_ = std::thread([this] { run(); });
  }
  TraceFile(const TraceFile&) = delete;

  // Writes what is queued, unless another thread is doing so. That one may be in a plug-in that waits for the GIL,
  // which this thread holds.
  void drain() {
    const std::unique_lock<std::mutex> lock(drain_mutex_, std::try_to_lock);
    if (lock.owns_lock()) collect(false);
  }

  std::string finish(const std::string& totals) {
    stop_host_events();
    stop_memory_stream();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      done_ = true;
    }
    wake_.notify_all();
    thread_.join();
    const std::lock_guard<std::mutex> lock(drain_mutex_);  // other threads may be draining
    collect(true);
    stop_trace_stream();
    events_.text += ",\n{\"ph\":\"M\",\"name\":\"hardpoint_totals\",\"pid\":" + std::to_string(process_) +
                    ",\"tid\":0,\"args\":" + totals + "}\n]\n";
    write_out();
    if (file_ >= 0) close(file_);
    return error_;
  }

  // In a forked child: the file and its thread belong to the parent.
  void abandon() { close(file_); }

 private:
  void run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!wake_.wait_for(lock, kInterval, [this] { return done_; })) {
      lock.unlock();
      const int64_t now = trace_clock_ns();
      const StackId stack = current_stack();  // takes the GIL: without a lock
      {
        const std::lock_guard<std::mutex> draining(drain_mutex_);
        add_sample(stack, now);
        collect(false);
      }
      lock.lock();
    }
  }

  void collect(bool all) {
    const auto add_all = [this](const auto& list) {
      for (const auto& each : list) {
        add(each);
        if (events_.text.size() >= kWriteBytes) write_out();
      }
    };
    add_all(take_trace_stream(all));
    add_all(take_host_events());
    add_all(take_memory_events());
    write_out();
  }

  // Writes whole events only: on a full disk, the event that does not fit is left out.
  void write_out() {
    const std::string text = std::move(events_.text);
    events_.text.clear();
    size_t written = 0;
    while (file_ >= 0 && written < text.size()) {
      const ssize_t count = write(file_, text.data() + written, text.size() - written);
      if (count > 0) {
        written += static_cast<size_t>(count);
      } else if (count < 0 && errno != EINTR) {
        give_up(std::strerror(errno), text, written);
      }
    }
    size_ += static_cast<off_t>(written);
  }

  void give_up(const char* reason, const std::string& text, size_t written) {
    const size_t complete = written == 0 ? 0 : text.rfind(",\n{", written - 1);
    // Nothing else can be done if this fails, too.
    [[maybe_unused]] const int ignored =
        ftruncate(file_, size_ + static_cast<off_t>(complete == std::string::npos ? 0 : complete));
    close(file_);
    file_ = -1;
    error_ = "the trace in " + path_ + " ends early: " + reason;
    stop_host_events();
    stop_memory_stream();
    stop_trace_stream();
  }

  // ---- Events

  // The program's current line, which explains idle time outside operators. This thread has no Python frames, so the
  // stack is the main thread's.
  void add_sample(StackId stack, int64_t now) {
    if (stack == 0 || file_ < 0) return;
    name_thread(static_cast<int32_t>(process_));
    events_.begin("i", program_line(stack), process_, process_).word("cat", "sample").word("s", "t").time("ts", now);
    events_.end();
  }

  void name_row(int64_t process, int64_t row, const std::string& name) {
    if (!rows_.emplace(process, row).second) return;
    events_.begin("M", "thread_name", process, row).object("args").word("name", name).end_object().end();
  }

  void name_device(const Device& device, int64_t stream) {
    const int64_t process = row_of(device);
    if (devices_.insert(process).second) {
      events_.begin("M", "process_name", process, 0).object("args").word("name", device.name()).end_object().end();
      events_.begin("M", "process_sort_index", process, 0).object("args").number("sort_index", -1).end_object().end();
    }
    name_row(process, stream, "stream " + std::to_string(stream));
  }

  void name_thread(int32_t thread) {
    name_row(process_, thread, thread == process_ ? "main thread" : "thread " + std::to_string(thread));
  }

  void describe(StackId stack) {
    if (stack == 0 || !stacks_.insert(stack).second) return;
    events_.begin("M", "hardpoint_stack", process_, 0).object("args");
    events_.number("stack", stack).word("line", program_line(stack));
    std::string frames;
    for (const SourceFrame& frame : stack_frames(stack)) {
      frames += frame.file + ":" + std::to_string(frame.line) + " " + frame.function + "\n";
    }
    events_.word("frames", frames).end_object().end();
  }

  void add(const TraceRecord& record) {
    const Device& device = *record.device;
    name_device(device, record.stream);
    if (record.thread != 0) name_thread(record.thread);
    const char* category = category_of(record);
    const char* color = record.kind == TraceKind::kKernel       ? color_of(record.tier)
                        : record.kind == TraceKind::kCollective ? kCollectiveColor
                                                                : kCopyColor;
    const int64_t number = ++launches_;
    const bool launched = record.thread != 0;  // a plug-in may report work that no launch caused
    // The arrow to the kernel starts in the operator's slice, if there is one.
    if (launched && (record.kind != TraceKind::kKernel || !record.inside_operator)) {
      events_.begin("X", record.name, process_, record.thread).word("cat", "launch").word("cname", color);
      events_.span(record.launch_start_ns, record.launch_end_ns).end();
    }
    if (launched) {
      events_.begin("s", "launch", process_, record.thread).word("cat", "launch").number("id", number);
      events_.time("ts", record.launch_start_ns).end();
    }
    events_.begin("X", record.name, row_of(device), record.stream).word("cat", category).word("cname", color);
    events_.span(record.start_ns, record.end_ns).object("args").number("launch", number);
    if (record.op != nullptr) events_.word("operator", record.op->name);
    if (record.bytes != 0) events_.number("bytes", static_cast<int64_t>(record.bytes));
    events_.word("timed by", record.source()).end_object().end();
    if (!launched) return;
    events_.begin("f", "launch", row_of(device), record.stream).word("cat", "launch").number("id", number);
    events_.word("bp", "e").time("ts", record.start_ns).end();
  }

  void add(const HostEvent& event) {
    name_thread(event.thread);
    describe(event.stack);
    const bool is_operator = event.kind == HostEventKind::kOperator, is_wait = event.kind == HostEventKind::kWait;
    const std::string name =
        event.kind == HostEventKind::kCompilation ? std::string("compile ") + event.name : event.name;
    events_.begin("X", name, process_, event.thread);
    events_.word("cat", is_operator ? tier_name(event.tier) : is_wait ? "wait" : "compilation");
    events_.word("cname", is_operator ? color_of(event.tier) : is_wait ? kWaitColor : kCompilationColor);
    events_.span(event.start_ns, event.end_ns).object("args");
    if (is_operator) events_.word("tier", tier_name(event.tier));
    if (is_wait) events_.word("device", event.device->name());
    if (event.stack != 0) events_.word("line", program_line(event.stack));
    events_.end_object().end();
  }

  // A point of the memory counter. The allocation is in an object beside `args`: each argument of a counter is drawn as
  // a curve.
  void add(const MemoryEvent& event) {
    if (event.action == MemoryAction::kFreeCompleted) return;
    name_device(*event.device, 0);
    describe(event.stack);
    events_.begin("C", "memory", row_of(*event.device), 0).time("ts", event.time_ns).object("args");
    events_.number("allocated", event.allocated).number("cached", event.reserved - event.allocated).end_object();
    events_.object("memory").word("action", memory_action_name(event.action));
    events_.number("address", static_cast<int64_t>(event.address)).number("bytes", static_cast<int64_t>(event.bytes));
    events_.number("stack", event.stack).end_object().end();
  }

  const std::string path_;
  const int64_t process_;
  int file_ = -1;
  off_t size_ = 0;  // of the complete events in the file
  EventText events_;
  std::string error_;
  int64_t launches_ = 0;
  std::set<std::pair<int64_t, int64_t>> rows_;
  std::set<int64_t> devices_;
  std::set<StackId> stacks_;
  std::thread thread_;
  std::mutex drain_mutex_;  // guards everything above
  std::mutex mutex_;        // guards done_
  std::condition_variable wake_;
  bool done_ = false;
};

std::mutex& file_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
TraceFile* current_file = nullptr;

// Threads that add events call it, so the file may be closed meanwhile.
void drain_current() {
  const std::unique_lock<std::mutex> lock(file_mutex(), std::try_to_lock);
  if (lock.owns_lock() && current_file != nullptr) current_file->drain();
}

void after_fork() {
  if (current_file == nullptr) return;
  tracing_enabled.store(false, std::memory_order_relaxed);
  abandon_host_events();
  memory_history_enabled.store(false, std::memory_order_relaxed);
  current_file->abandon();
  current_file = nullptr;  // leaked: its thread exists in the parent only
}

}  // namespace

void start_trace_file(const std::string& path, const std::string& about, const std::string& program) {
  std::lock_guard<std::mutex> lock(file_mutex());
  if (current_file != nullptr) throw Error(HP_INVALID_ARGUMENT, "a trace is already being written");
  static const int registered = pthread_atfork(nullptr, nullptr, &after_fork);
  (void)registered;
  current_file = new TraceFile(path, about, program);
  set_trace_overflow(&drain_current);
}

std::string stop_trace_file(const std::string& totals) {
  std::unique_ptr<TraceFile> file;
  {
    std::lock_guard<std::mutex> lock(file_mutex());
    set_trace_overflow(nullptr);
    file.reset(current_file);
    current_file = nullptr;
  }
  return file ? file->finish(totals) : "";
}

}  // namespace hp
