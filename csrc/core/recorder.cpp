#include "recorder.h"

#include <algorithm>
#include <cstring>

namespace hp {
namespace {

thread_local Recorder* current = nullptr;

constexpr const char* kUnknownMemory = "it uses memory that no tensor of the graph holds";

}  // namespace

std::atomic<int> recording_threads{0};

void note_count(Operator& op, Tier tier) {
  if (Recorder* active = active_recorder()) active->counted(op, tier);
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

size_t Recorder::given(const void* address, size_t bytes) {
  RecordedMemory memory{};
  memory.kind = RecordedMemory::kGiven;
  memory.bytes = bytes;
  recording_->memories.push_back(memory);
  const size_t number = recording_->memories.size() - 1;
  live_[static_cast<const char*>(address)] = number;
  return number;
}

bool Recorder::find(const void* address, uint32_t* memory, int64_t* offset) const {
  const auto* at = static_cast<const char*>(address);
  if (at == fault_words_ && at != nullptr) {
    *memory = 0, *offset = 0;
    return true;
  }
  auto after = live_.upper_bound(at);
  if (after == live_.begin()) return false;
  --after;
  const ptrdiff_t distance = at - after->first;
  if (distance >= static_cast<ptrdiff_t>(recording_->memories[after->second].bytes)) return false;
  *memory = static_cast<uint32_t>(after->second);
  *offset = distance;
  return true;
}

// ---- Parts

void Recorder::begin_part() {
  refused_.clear();
  drawn_.clear();
  random_arguments_.clear();
  first_step_ = recording_->steps.size();
  first_count_ = recording_->counts.size();
  first_draw_ = recording_->draws.size();
  first_memory_ = recording_->memories.size();
}

std::string Recorder::end_part() {
  for (const Drawn& drawn : drawn_) {
    if (!drawn.used) refuse("it draws random numbers in a way of its own");
  }
  if (refused_.empty()) return "";
  recording_->steps.erase(recording_->steps.begin() + static_cast<ptrdiff_t>(first_step_), recording_->steps.end());
  recording_->counts.resize(first_count_);
  recording_->draws.resize(first_draw_);
  const size_t now = recording_->steps.size();
  for (size_t i = 0; i < recording_->memories.size(); ++i) {
    RecordedMemory& memory = recording_->memories[i];
    if (i >= first_memory_) memory.kind = RecordedMemory::kForeign;
    if (memory.last > now && memory.last != SIZE_MAX) memory.last = now;
  }
  return refused_;
}

void Recorder::refuse(const std::string& why) {
  if (refused_.empty()) refused_ = why;
}

std::unique_ptr<Recording> Recorder::finish() {
  for (RecordedMemory& memory : recording_->memories) {
    if (memory.kind == RecordedMemory::kTemporary && memory.last == SIZE_MAX) memory.kind = RecordedMemory::kKept;
  }
  return std::move(recording_);
}

// ---- Memory

void Recorder::allocated(const Block* block, const void* address, size_t bytes) {
  RecordedMemory memory{};
  memory.kind = RecordedMemory::kTemporary;
  memory.bytes = bytes;
  memory.first = recording_->steps.size();
  memory.last = SIZE_MAX;
  memory.made = tick();
  recording_->memories.push_back(memory);
  const auto* at = static_cast<const char*>(address);
  live_[at] = recording_->memories.size() - 1;
  blocks_[block] = at;
}

void Recorder::freed(const Block* block) {
  const auto found = blocks_.find(block);
  if (found == blocks_.end()) return;
  const auto place = live_.find(found->second);
  recording_->memories[place->second].last = recording_->steps.size();
  recording_->memories[place->second].freed = tick();
  live_.erase(place);
  blocks_.erase(found);
}

void Recorder::armed(const void* fault_words) {
  fault_words_ = fault_words;
  recording_->memories[0].bytes = 1;  // it is in use
}

// ---- Launches

bool Recorder::patch(RecordedStep& step, void** address, const void* value) {
  *address = const_cast<void*>(value);
  if (value == nullptr) return true;
  RecordedStep::Patch made{address, 0, 0};
  if (!find(value, &made.memory, &made.offset)) {
    refuse(kUnknownMemory);
    return false;
  }
  step.patches.push_back(made);
  return true;
}

void Recorder::take_draws(RecordedStep& step, const std::function<int64_t*(uint32_t)>& word) {
  for (const auto& [argument, at] : random_arguments_) {
    bool known = false;
    for (size_t i = 0; i < drawn_.size() && !known; ++i) {
      if (drawn_[i].at.seed != at.seed || at.offset < drawn_[i].at.offset ||
          at.offset >= drawn_[i].at.offset + recording_->draws[first_draw_ + i]) {
        continue;
      }
      drawn_[i].used = known = true;
      step.draws.push_back({first_draw_ + i, at.offset - drawn_[i].at.offset, word(argument), word(argument + 1)});
    }
    if (!known) refuse("its random numbers come from a generator of its own");
  }
  random_arguments_.clear();
}

void Recorder::launched(Operator& op, const PortableKernel& kernel, Stream& stream, int64_t groups,
                        const HpLaunchArg* args, uint32_t num_args) {
  if (&stream != &stream_) return refuse("it works on another stream");
  RecordedStep step(RecordedStep::kPortable, &op);
  step.portable = &kernel;
  step.groups = groups;
  constexpr size_t kUnit = 16;
  size_t bytes = 0;
  for (uint32_t i = 0; i < num_args; ++i) bytes += (args[i].bytes + kUnit - 1) / kUnit * kUnit;
  step.values.reset(new unsigned char[bytes]);
  step.args.assign(args, args + num_args);
  size_t place = 0;
  for (HpLaunchArg& arg : step.args) {
    unsigned char* const value = &step.values[place];
    if (arg.is_pointer != 0) {
      void* pointer;
      std::memcpy(&pointer, arg.value, sizeof(pointer));
      if (!patch(step, reinterpret_cast<void**>(value), pointer)) return;
    } else {
      std::memcpy(value, arg.value, arg.bytes);
    }
    arg.value = value;
    place += (arg.bytes + kUnit - 1) / kUnit * kUnit;
  }
  take_draws(step, [&](uint32_t k) { return static_cast<int64_t*>(const_cast<void*>(step.args[k].value)); });
  step.tick = tick();
  recording_->steps.push_back(std::move(step));
}

void Recorder::launched(const Operator& op, const Kernel& kernel, Stream& stream, const TVMFFIAny* args,
                        int32_t num_args) {
  if (&stream != &stream_) return refuse("it works on another stream");
  RecordedStep step(RecordedStep::kVendor, const_cast<Operator*>(&op));  // interned: none is constant
  step.vendor = &kernel;
  size_t tensors = 0, dimensions = 0;
  for (int32_t i = 0; i < num_args; ++i) {
    if (args[i].type_index != kTVMFFIDLTensorPtr) continue;
    ++tensors;
    dimensions += 2 * static_cast<size_t>(static_cast<const DLTensor*>(args[i].v_ptr)->ndim);
  }
  step.tensors.reserve(tensors);  // arguments point into it
  step.dimensions.reset(new int64_t[dimensions]);
  int64_t* next = step.dimensions.get();
  for (int32_t i = 0; i < num_args; ++i) {
    TVMFFIAny value = args[i];
    if (value.type_index == kTVMFFIDLTensorPtr) {
      DLTensor& tensor = step.tensors.emplace_back(*static_cast<const DLTensor*>(value.v_ptr));
      auto keep = [&](int64_t* from) {
        if (from == nullptr) return from;
        int64_t* const kept = next;
        next = std::copy(from, from + tensor.ndim, next);
        return kept;
      };
      tensor.shape = keep(tensor.shape);
      tensor.strides = keep(tensor.strides);
      if (!patch(step, &tensor.data, tensor.data)) return;
      value.v_ptr = &tensor;
    } else if (value.type_index >= kTVMFFIStaticObjectBegin) {
      TVMFFIObjectIncRef(value.v_obj);
    } else if (value.type_index == kTVMFFIRawStr || value.type_index == kTVMFFIByteArrayPtr ||
               value.type_index == kTVMFFIObjectRValueRef || value.type_index == kTVMFFIOpaquePtr) {
      return refuse("a kernel of the vendor takes an argument that lives for the time of the call");
    }
    step.any.push_back(value);
  }
  take_draws(step, [&](uint32_t k) { return &step.any[k].v_int64; });
  step.tick = tick();
  recording_->steps.push_back(std::move(step));
}

void Recorder::copied(void* to, const void* from, size_t bytes, Stream& stream) {
  if (&stream != &stream_) return refuse("it works on another stream");
  RecordedStep step(RecordedStep::kCopy, nullptr);
  step.bytes = bytes;
  for (const void* address : {static_cast<const void*>(to), from}) {
    RecordedStep::Patch place{nullptr, 0, 0};
    if (!find(address, &place.memory, &place.offset)) return refuse(kUnknownMemory);
    step.patches.push_back(place);
  }
  step.tick = tick();
  recording_->steps.push_back(std::move(step));
}

void Recorder::counted(Operator& op, Tier tier) { recording_->counts.push_back({recording_->steps.size(), &op, tier}); }

// ---- Random numbers

void Recorder::drew(PhiloxState at, uint64_t blocks) {
  drawn_.push_back({at, false});
  recording_->draws.push_back(blocks);
}

void Recorder::random_arguments(uint32_t argument, PhiloxState at) { random_arguments_.emplace_back(argument, at); }

}  // namespace hp
