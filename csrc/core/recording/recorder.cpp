#include "core/recording/recorder.h"

#include <algorithm>
#include <cstring>

namespace hp {
namespace {

thread_local Recorder* current = nullptr;

constexpr const char* kUnknownMemory = "it uses memory that belongs to no tensor of the graph";

}  // namespace

std::atomic<int> recording_threads{0};

void record_count(Operator& op, Tier tier) {
  if (Recorder* active = active_recorder()) active->on_count(op, tier);
}

Recorder* active_recorder() { return current != nullptr && current->paused_ == 0 ? current : nullptr; }

Recorder::Recorder(Stream& stream) : stream_(stream), previous_(current) {
  current = this;
  recording_threads.fetch_add(1, std::memory_order_relaxed);
  RecordedMemory fault{};
  fault.kind = RecordedMemory::kFault;
  recording_->memories.push_back(fault);
}

Recorder::~Recorder() {
  current = previous_;
  recording_threads.fetch_sub(1, std::memory_order_relaxed);
}

size_t Recorder::add_external(const void* address, size_t bytes) {
  RecordedMemory memory{};
  memory.kind = RecordedMemory::kExternal;
  memory.bytes = bytes;
  recording_->memories.push_back(memory);
  const size_t number = recording_->memories.size() - 1;
  live_[static_cast<const char*>(address)] = number;
  return number;
}

bool Recorder::find(const void* address, uint32_t* memory, int64_t* offset) const {
  const auto* byte = static_cast<const char*>(address);
  if (byte == fault_record_ && byte != nullptr) {
    *memory = 0, *offset = 0;
    return true;
  }
  auto after = live_.upper_bound(byte);
  if (after == live_.begin()) return false;
  --after;
  const ptrdiff_t distance = byte - after->first;
  if (distance >= static_cast<ptrdiff_t>(recording_->memories[after->second].bytes)) return false;
  *memory = static_cast<uint32_t>(after->second);
  *offset = distance;
  return true;
}

// ---- Segments

void Recorder::begin_segment() {
  refused_.clear();
  draws_.clear();
  first_step_ = recording_->steps.size();
  first_count_ = recording_->counts.size();
  first_draw_ = recording_->draws.size();
  first_memory_ = recording_->memories.size();
}

std::string Recorder::end_segment() {
  if (!draws_.all_used()) refuse("it draws random numbers, but no kernel receives their seed and offset");
  if (refused_.empty()) return "";
  recording_->steps.erase(recording_->steps.begin() + static_cast<ptrdiff_t>(first_step_), recording_->steps.end());
  recording_->counts.resize(first_count_);
  recording_->draws.resize(first_draw_);
  const size_t now = recording_->steps.size();
  for (size_t i = 0; i < recording_->memories.size(); ++i) {
    RecordedMemory& memory = recording_->memories[i];
    if (i >= first_memory_) memory.kind = RecordedMemory::kUnrecorded;
    if (memory.last > now && memory.last != SIZE_MAX) memory.last = now;
  }
  return refused_;
}

void Recorder::refuse(const std::string& why) {
  if (refused_.empty()) refused_ = why;
}

std::unique_ptr<Recording> Recorder::finish() {
  for (RecordedMemory& memory : recording_->memories) {
    if (memory.kind == RecordedMemory::kTemporary && memory.last == SIZE_MAX) memory.kind = RecordedMemory::kRetained;
  }
  return std::move(recording_);
}

// ---- Memory

void Recorder::on_allocate(const Block* block, const void* address, size_t bytes) {
  RecordedMemory memory{};
  memory.kind = RecordedMemory::kTemporary;
  memory.bytes = bytes;
  memory.first = recording_->steps.size();
  memory.last = SIZE_MAX;
  memory.allocated_tick = tick();
  recording_->memories.push_back(memory);
  const auto* base = static_cast<const char*>(address);
  forget(base, base + bytes);
  live_[base] = recording_->memories.size() - 1;
  blocks_[block] = base;
}

// Drops stale entries that overlap [begin, end): the caller may free an input during the run, and the allocator may
// merge its memory with a neighbor's.
void Recorder::forget(const char* begin, const char* end) {
  auto entry = live_.lower_bound(begin);
  if (entry != live_.begin()) {
    const auto before = std::prev(entry);
    if (before->first + recording_->memories[before->second].bytes > begin) entry = before;
  }
  while (entry != live_.end() && entry->first < end) entry = live_.erase(entry);
}

void Recorder::on_free(const Block* block) {
  const auto found = blocks_.find(block);
  if (found == blocks_.end()) return;
  const auto entry = live_.find(found->second);
  recording_->memories[entry->second].last = recording_->steps.size();
  recording_->memories[entry->second].freed_tick = tick();
  live_.erase(entry);
  blocks_.erase(found);
}

void Recorder::on_fault_arm(const void* fault_record) {
  fault_record_ = fault_record;
  recording_->memories[0].bytes = 1;  // marks it as used
}

// ---- Launches

bool Recorder::patch(RecordedStep& step, void** address, const void* value) {
  *address = const_cast<void*>(value);
  if (value == nullptr) return true;
  RecordedStep::Patch patch{address, 0, 0};
  if (!find(value, &patch.memory, &patch.offset)) {
    refuse(kUnknownMemory);
    return false;
  }
  step.patches.push_back(patch);
  return true;
}

void Recorder::add_step(RecordedStep step) {
  if (!draws_.bind(step, first_draw_)) refuse("its random numbers do not come from the default generator");
  step.tick = tick();
  recording_->steps.push_back(std::move(step));
}

void Recorder::on_launch(Operator& op, const PortableKernel& kernel, Stream& stream, int64_t groups,
                         const HpLaunchArg* args, uint32_t num_args) {
  if (&stream != &stream_) return refuse("it runs on another stream");
  RecordedStep step = RecordedStep::of(op, kernel, groups, args, num_args);
  for (const HpLaunchArg& arg : step.args) {
    auto* const slot = static_cast<void**>(const_cast<void*>(arg.value));
    if (arg.is_pointer != 0 && !patch(step, slot, *slot)) return;
  }
  add_step(std::move(step));
}

void Recorder::on_launch(const Operator& op, const Kernel& kernel, Stream& stream, const TVMFFIAny* args,
                         int32_t num_args) {
  if (&stream != &stream_) return refuse("it runs on another stream");
  std::optional<RecordedStep> step = RecordedStep::of(op, kernel, args, num_args);
  if (!step) return refuse("a vendor kernel takes an argument that is valid only during the call");
  for (DLTensor& tensor : step->tensors) {
    if (!patch(*step, &tensor.data, tensor.data)) return;
  }
  add_step(std::move(*step));
}

void Recorder::on_copy(void* to, const void* from, size_t bytes, Stream& stream) {
  if (&stream != &stream_) return refuse("it runs on another stream");
  RecordedStep step(RecordedStep::kCopy, nullptr);
  step.bytes = bytes;
  for (const void* address : {static_cast<const void*>(to), from}) {
    RecordedStep::Patch patch{nullptr, 0, 0};
    if (!find(address, &patch.memory, &patch.offset)) return refuse(kUnknownMemory);
    step.patches.push_back(patch);
  }
  step.tick = tick();
  recording_->steps.push_back(std::move(step));
}

void Recorder::on_count(Operator& op, Tier tier) {
  recording_->counts.push_back({recording_->steps.size(), &op, tier});
}

// ---- Random numbers

void Recorder::on_draw(PhiloxState state, uint64_t blocks) {
  draws_.draw(state, blocks);
  recording_->draws.push_back(blocks);
}

void Recorder::on_random_arguments(uint32_t argument, PhiloxState state) { draws_.add_arguments(argument, state); }

}  // namespace hp
