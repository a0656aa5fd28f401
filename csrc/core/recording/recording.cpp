#include "core/recording/recording.h"

#include <algorithm>
#include <cstring>

#include "core/dispatch/launch.h"

namespace hp {

RecordedStep::~RecordedStep() {
  for (const TVMFFIAny& value : any) {
    if (value.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(value.v_obj);
  }
}

RecordedStep RecordedStep::of(Operator& op, const PortableKernel& kernel, int64_t groups, const HpLaunchArg* args,
                              uint32_t num_args) {
  RecordedStep step(kPortable, &op);
  step.portable = kernel;
  step.groups = groups;
  constexpr size_t kUnit = 16;
  size_t bytes = 0;
  for (uint32_t i = 0; i < num_args; ++i) bytes += (args[i].bytes + kUnit - 1) / kUnit * kUnit;
  step.values.reset(new unsigned char[bytes]);
  step.args.assign(args, args + num_args);
  size_t offset = 0;
  for (HpLaunchArg& arg : step.args) {
    std::memcpy(&step.values[offset], arg.value, arg.bytes);
    arg.value = &step.values[offset];
    offset += (arg.bytes + kUnit - 1) / kUnit * kUnit;
  }
  return step;
}

std::optional<RecordedStep> RecordedStep::of(const Operator& op, const Kernel& kernel, const TVMFFIAny* args,
                                             int32_t num_args) {
  RecordedStep step(kVendor, const_cast<Operator*>(&op));  // operators are interned, never const objects
  step.vendor = &kernel;
  size_t tensors = 0, dimensions = 0;
  for (int32_t i = 0; i < num_args; ++i) {
    if (args[i].type_index != kTVMFFIDLTensorPtr) continue;
    ++tensors;
    dimensions += 2 * static_cast<size_t>(static_cast<const DLTensor*>(args[i].v_ptr)->ndim);
  }
  step.tensors.reserve(tensors);  // `any` points into it
  step.dimensions.reset(new int64_t[dimensions]);
  int64_t* next = step.dimensions.get();
  for (int32_t i = 0; i < num_args; ++i) {
    TVMFFIAny value = args[i];
    if (value.type_index == kTVMFFIDLTensorPtr) {
      DLTensor& tensor = step.tensors.emplace_back(*static_cast<const DLTensor*>(value.v_ptr));
      auto copy_dimensions = [&](int64_t* from) {
        if (from == nullptr) return from;
        int64_t* const copy = next;
        next = std::copy(from, from + tensor.ndim, next);
        return copy;
      };
      tensor.shape = copy_dimensions(tensor.shape);
      tensor.strides = copy_dimensions(tensor.strides);
      value.v_ptr = &tensor;
    } else if (value.type_index >= kTVMFFIStaticObjectBegin) {
      TVMFFIObjectIncRef(value.v_obj);
    } else if (value.type_index == kTVMFFIRawStr || value.type_index == kTVMFFIByteArrayPtr ||
               value.type_index == kTVMFFIObjectRValueRef || value.type_index == kTVMFFIOpaquePtr) {
      return std::nullopt;
    }
    step.any.push_back(value);
  }
  return step;
}

bool RandomDraws::bind(RecordedStep& step, size_t first) {
  bool all_known = true;
  for (const auto& [argument, state] : arguments_) {
    bool known = false;
    for (size_t i = 0; i < drawn_.size() && !known; ++i) {
      Drawn& drawn = drawn_[i];
      if (drawn.state.seed != state.seed || state.offset < drawn.state.offset ||
          state.offset >= drawn.state.offset + drawn.blocks) {
        continue;
      }
      drawn.used = known = true;
      step.draws.push_back(
          {first + i, state.offset - drawn.state.offset, step.integer(argument), step.integer(argument + 1)});
    }
    all_known = all_known && known;
  }
  arguments_.clear();
  return all_known;
}

bool RandomDraws::all_used() const {
  return std::all_of(drawn_.begin(), drawn_.end(), [](const Drawn& drawn) { return drawn.used; });
}

namespace {

// Adds memory that is allocated separately to the bytes in use before each step.
void add_live_bytes(const RecordedMemory& memory, std::vector<size_t>& live) {
  constexpr size_t kBlock = 512;  // the allocator's block size
  const size_t last = memory.kind == RecordedMemory::kRetained ? live.size() : std::min(memory.last, live.size());
  for (size_t s = memory.first; s < last; ++s) live[s] += (memory.bytes + kBlock - 1) / kBlock * kBlock;
}

size_t largest(const std::vector<size_t>& values) { return *std::max_element(values.begin(), values.end()); }

}  // namespace

void Recording::plan(const std::vector<size_t>& external_bytes) {
  std::vector<RecordedMemory*> temporaries;
  std::vector<size_t> outside = external_bytes;  // live bytes outside the arena
  for (RecordedMemory& memory : memories) {
    if (memory.kind == RecordedMemory::kTemporary) temporaries.push_back(&memory);
    if (memory.kind == RecordedMemory::kRetained) add_live_bytes(memory, outside);
  }
  std::vector<size_t> separate = outside;
  for (const RecordedMemory* memory : temporaries) add_live_bytes(*memory, separate);
  const size_t goal = largest(separate);
  std::stable_sort(temporaries.begin(), temporaries.end(),
                   [](const RecordedMemory* a, const RecordedMemory* b) { return a->bytes > b->bytes; });
  const size_t portion = std::max<size_t>(1, temporaries.size() / 16);
  for (size_t first = 0;; first = std::min(first + portion, temporaries.size())) {
    arena_bytes = plan_memory({temporaries.begin() + static_cast<ptrdiff_t>(first), temporaries.end()});
    if (first == temporaries.size() || largest(outside) + arena_bytes <= goal) return;
    for (size_t k = first; k < std::min(first + portion, temporaries.size()); ++k) {
      if (temporaries[k]->first == temporaries[k]->last) continue;  // no step uses it
      temporaries[k]->kind = RecordedMemory::kStandalone;
      add_live_bytes(*temporaries[k], outside);
    }
  }
}

Recording::Replay::Replay(Recording& recording, Stream& stream, void* arena, DrawFunction draw)
    : recording_(recording), stream_(stream), draw_(std::move(draw)), bases_(recording.memories.size()) {
  for (size_t i = 0; i < bases_.size(); ++i) {
    const RecordedMemory& memory = recording.memories[i];
    if (memory.kind == RecordedMemory::kTemporary) bases_[i] = static_cast<char*>(arena) + memory.offset;
  }
}

void Recording::Replay::run(size_t last) {
  if (recording_.memories[0].bytes != 0 && next_ < last) bases_[0] = static_cast<char*>(stream_.fault_record());
  for (; next_ < last; ++next_) launch_step(recording_.steps[next_]);
  const auto& counts = recording_.counts;
  for (; next_count_ < counts.size() && counts[next_count_].step <= last; ++next_count_) {
    counts[next_count_].op->count(counts[next_count_].tier);
  }
}

void Recording::Replay::launch_step(RecordedStep& step) {
  auto resolve = [&](const RecordedStep::Patch& patch) { return bases_[patch.memory] + patch.offset; };
  if (step.kind == RecordedStep::kCopy) {
    return stream_.device.copy_on_device(resolve(step.patches[0]), resolve(step.patches[1]), step.bytes, stream_);
  }
  for (const RecordedStep::Patch& patch : step.patches) *patch.address = resolve(patch);
  for (const RecordedStep::Draw& draw : step.draws) {
    while (drawn_.size() <= draw.draw) drawn_.push_back(draw_(recording_.draws[drawn_.size()]));
    *draw.seed = static_cast<int64_t>(drawn_[draw.draw].seed);
    *draw.offset = static_cast<int64_t>(drawn_[draw.draw].offset + draw.delta);
  }
  if (step.kind == RecordedStep::kPortable) {
    launch_groups(*step.op, step.portable, stream_, step.groups, step.args.data(),
                  static_cast<uint32_t>(step.args.size()));
  } else if (!launch(*step.op, *step.vendor, stream_, step.any.data(), static_cast<int32_t>(step.any.size()))) {
    throw Error(HP_ERROR, stream_.device.name() + ": kernel '" + step.vendor->name + "' declined " + step.op->name +
                              " in a replay, but accepted the same arguments when it was recorded");
  }
}

}  // namespace hp
