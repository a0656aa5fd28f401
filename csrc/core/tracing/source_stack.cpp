#include "core/tracing/source_stack.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

namespace hp {
namespace {

std::atomic<StackId (*)(bool)> stack_function{nullptr};

// Leaked on purpose: threads use it until the process ends.
struct StackTable {
  std::mutex mutex;
  std::vector<SourceFrame> frames;
  std::vector<std::vector<uint32_t>> stacks{{}};  // the empty stack is 0
  std::map<std::vector<uint32_t>, StackId> by_frames{{{}, 0}};
  std::vector<std::string> library_folders;
  std::string working_folder;

  static StackTable& instance() {
    static auto* table = new StackTable;
    return *table;
  }

  bool in_program(const SourceFrame& frame) const {
    const std::string& file = frame.file;
    if (file.empty() || file[0] == '<' || frame.line == 0) return false;
    // A site-packages folder below the standard library also contains programs.
    if (file.find("site-packages") != std::string::npos) {
      return std::none_of(library_folders.begin(), library_folders.end(), [&](const std::string& folder) {
        return folder.find("site-packages") != std::string::npos && file.compare(0, folder.size(), folder) == 0;
      });
    }
    return std::none_of(library_folders.begin(), library_folders.end(),
                        [&](const std::string& folder) { return file.compare(0, folder.size(), folder) == 0; });
  }

  std::string show(const SourceFrame& frame) const {
    const bool below = !working_folder.empty() && frame.file.compare(0, working_folder.size(), working_folder) == 0;
    return frame.file.substr(below ? working_folder.size() : 0) + ":" + std::to_string(frame.line);
  }
};

}  // namespace

StackId current_stack(bool native) {
  const auto function = stack_function.load(std::memory_order_acquire);
  return function != nullptr ? function(native) : 0;
}

void set_stack_function(StackId (*function)(bool)) { stack_function.store(function, std::memory_order_release); }

uint32_t intern_frame(SourceFrame frame) {
  StackTable& table = StackTable::instance();
  std::lock_guard<std::mutex> lock(table.mutex);
  table.frames.push_back(std::move(frame));
  return static_cast<uint32_t>(table.frames.size() - 1);
}

StackId intern_stack(const std::vector<uint32_t>& frames) {
  StackTable& table = StackTable::instance();
  std::lock_guard<std::mutex> lock(table.mutex);
  const auto [entry, added] = table.by_frames.emplace(frames, static_cast<StackId>(table.stacks.size()));
  if (added) table.stacks.push_back(frames);
  return entry->second;
}

std::vector<SourceFrame> stack_frames(StackId stack) {
  StackTable& table = StackTable::instance();
  std::lock_guard<std::mutex> lock(table.mutex);
  std::vector<SourceFrame> frames;
  if (stack >= table.stacks.size()) return frames;
  for (const uint32_t frame : table.stacks[stack]) frames.push_back(table.frames[frame]);
  return frames;
}

void set_library_folders(std::vector<std::string> folders, std::string working_folder) {
  StackTable& table = StackTable::instance();
  std::lock_guard<std::mutex> lock(table.mutex);
  table.library_folders = std::move(folders);
  table.working_folder = std::move(working_folder);
}

std::string program_line(StackId stack) {
  StackTable& table = StackTable::instance();
  std::lock_guard<std::mutex> lock(table.mutex);
  if (stack >= table.stacks.size() || table.stacks[stack].empty()) return "";
  for (const uint32_t frame : table.stacks[stack]) {
    if (table.in_program(table.frames[frame])) return table.show(table.frames[frame]);
  }
  for (const uint32_t frame : table.stacks[stack]) {
    if (table.frames[frame].line != 0) return table.show(table.frames[frame]);
  }
  return "";
}

}  // namespace hp
