#include "runtime/fault_injection.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "config.h"
#include "host.h"

namespace sim {

std::atomic<bool> faults_armed_flag{false};

namespace {

struct Fault {
  FaultKind kind = FaultKind::allocate;
  uint64_t after = 1, count = 1;
  std::string operator_name;
  uint64_t seen = 0;

  bool spent() const { return count != 0 && seen >= after - 1 + count; }
};

struct Faults {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Fault> list;
  uint64_t version = 0;  // of the list; a change ends a hang
};

// Never destroyed: workers may still hang here during process exit.
Faults& faults() {
  static Faults* const instance = new Faults;
  return *instance;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(separator, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

bool parse_count(const std::string& text, uint64_t* value) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos) return false;
  *value = std::strtoull(text.c_str(), nullptr, 10);
  return true;
}

bool parse_kind(const std::string& text, FaultKind* kind) {
  static constexpr struct {
    const char* name;
    FaultKind kind;
  } kKinds[] = {{"allocate", FaultKind::allocate},
                {"copy", FaultKind::copy},
                {"kernel", FaultKind::kernel},
                {"hang", FaultKind::hang}};
  for (const auto& known : kKinds) {
    if (text != known.name) continue;
    *kind = known.kind;
    return true;
  }
  return false;
}

HpStatus bad(const std::string& part, const char* expected) {
  return host->fail(HP_INVALID_ARGUMENT, "fault specification: '%s' is not %s", part.c_str(), expected);
}

// Parses the options of one fault. `operator=` takes the rest of the text, because operator names contain colons
// ("aten::add.Tensor").
HpStatus parse_options(const std::string& text, Fault* fault) {
  for (size_t start = 0; start < text.size();) {
    if (text.compare(start, 9, "operator=") == 0) {
      fault->operator_name = text.substr(start + 9);
      return HP_OK;
    }
    const size_t end = std::min(text.find(':', start), text.size());
    const std::string option = text.substr(start, end - start);
    const size_t equals = option.find('=');
    const std::string name = option.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : option.substr(equals + 1);
    if (name != "after" && name != "count") return bad(option, "after=N, count=M or operator=text");
    if (!parse_count(value, name == "after" ? &fault->after : &fault->count)) return bad(option, "a whole number");
    if (fault->after == 0) return bad(option, "a position, counted from 1");
    start = end + 1;
  }
  return HP_OK;
}

HpStatus parse(const std::string& specification, std::vector<Fault>* list) {
  if (specification.empty()) return HP_OK;
  for (const std::string& part : split(specification, ',')) {
    Fault fault;
    const size_t colon = std::min(part.find(':'), part.size());
    const std::string kind = part.substr(0, colon);
    if (!parse_kind(kind, &fault.kind)) return bad(kind, "one of allocate, copy, kernel, hang");
    if (HpStatus status = parse_options(part.substr(std::min(colon + 1, part.size())), &fault)) return status;
    list->push_back(fault);
  }
  return HP_OK;
}

}  // namespace

uint64_t take_fault(FaultKind kind, const char* operator_name) {
  Faults& all = faults();
  std::lock_guard<std::mutex> lock(all.mutex);
  bool hit = false, left = false;
  for (Fault& fault : all.list) {
    if (fault.kind == kind && !fault.spent() &&
        (fault.operator_name.empty() || std::string(operator_name).find(fault.operator_name) != std::string::npos))
      hit |= ++fault.seen >= fault.after;
    left |= !fault.spent();
  }
  if (!left) faults_armed_flag.store(false, std::memory_order_relaxed);
  return hit ? all.version : 0;
}

void hang(uint64_t version) {
  Faults& all = faults();
  std::unique_lock<std::mutex> lock(all.mutex);
  all.changed.wait_for(lock, std::chrono::seconds(config.hang_seconds),
                       [&all, version] { return all.version != version; });
}

HpStatus set_faults(const char* specification) {
  std::vector<Fault> list;
  if (HpStatus status = parse(specification ? specification : "", &list)) return status;
  Faults& all = faults();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.list = std::move(list);
  ++all.version;
  faults_armed_flag.store(!all.list.empty(), std::memory_order_relaxed);
  all.changed.notify_all();
  return HP_OK;
}

}  // namespace sim
