#include "graph_replay.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>

#include "../core/rules.h"
#include "adapter.h"
#include "generator.h"

namespace hp::torch_adapter {
namespace {

const at::Tensor* device_tensor(const c10::IValue& value) {
  return value.isTensor() && on_device(value.toTensor()) ? &value.toTensor() : nullptr;
}
bool is_host_tensor(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && !on_device(value.toTensor());
}

std::vector<int> read_by(const GraphInstruction& instruction) {
  std::vector<int> registers;
  for (const GraphValue& argument : instruction.arguments) argument.collect(registers);
  return registers;
}

char* address_of(const at::Tensor& tensor) {
  return const_cast<char*>(static_cast<const char*>(tensor.const_data_ptr()));
}

}  // namespace

// ---- Recording

class RunRecorder {
 public:
  RunRecorder(const GraphProgram& program, Stream& stream, Registers registers)
      : program_(program),
        recorder_(stream),
        stream_(stream),
        registers_(std::move(registers)),
        given_(storages_of(registers_)),
        live_(program.num_registers),
        owned_(program.num_registers),
        described_(program.num_registers) {}

  std::unique_ptr<RecordedRun> run(std::vector<c10::IValue>& results, std::string& reason) {
    give_inputs();
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      execute(i);
      for (int reg : program_.instructions[i].releases) {
        if (live_[reg]) act(RecordedRun::Action::kRelease, static_cast<size_t>(reg));
        registers_[reg] = c10::IValue();
      }
    }
    for (const GraphValue& output : program_.outputs) {
      if (output.kind == GraphValue::kRegister) describe(output.reg);
    }
    results = program_.finish(registers_);
    registers_.clear();
    run_->recording_ = recorder_.finish();
    check_kept();
    reason = reason_;
    if (!reason_.empty()) return nullptr;
    arrange();
    return std::move(run_);
  }

 private:
  void fail(const std::string& why) {
    if (reason_.empty()) reason_ = why;
  }

  void act(RecordedRun::Action::Kind kind, size_t index) {
    run_->actions_.push_back({kind, recorder_.steps(), index, recorder_.tick()});
  }

  // Inputs that overlap are one piece of memory.
  void give_inputs() {
    struct Span {
      char* begin;
      char* end;
      int reg;
    };
    std::vector<Span> spans;
    for (int reg = 0; reg < static_cast<int>(registers_.size()); ++reg) {
      live_[reg] = !registers_[reg].isNone();
      const at::Tensor* tensor = device_tensor(registers_[reg]);
      if (tensor == nullptr || tensor->numel() == 0) continue;
      if (tensor->device().index() != stream_.device.index) fail("inputs are on several devices");
      const void* storage = tensor->storage().unsafeGetStorageImpl();
      owned_[reg] =
          tensor->use_count() == 1 &&
          tensor->storage().use_count() == static_cast<size_t>(std::count(given_.begin(), given_.end(), storage));
      char* const begin = address_of(*tensor);
      spans.push_back({begin, begin + span_bytes(*tensor), reg});
    }
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
    for (size_t first = 0; first < spans.size();) {
      char *const begin = spans[first].begin, *end = spans[first].end;
      size_t last = first + 1;
      for (; last < spans.size() && spans[last].begin < end; ++last) end = std::max(end, spans[last].end);
      const size_t memory = recorder_.given(begin, static_cast<size_t>(end - begin));
      for (; first < last; ++first) {
        run_->given_.push_back({memory, spans[first].reg, spans[first].begin - begin});
      }
    }
  }

  void execute(size_t index) {
    const GraphInstruction& instruction = program_.instructions[index];
    recorder_.begin_part();
    if (instruction.kind == GraphInstruction::kPython) recorder_.refuse("it is a function of Python");
    for (int reg : read_by(instruction)) {
      if (is_host_tensor(registers_[reg])) recorder_.refuse("it takes a tensor of the host");
    }
    program_.execute(instruction, registers_, false, given_);
    for (int reg : instruction.results) {
      if (reg >= 0 && is_host_tensor(registers_[reg])) recorder_.refuse("it gives a tensor of the host");
    }
    const std::string why = recorder_.end_part();
    if (!why.empty()) leave_out(index, why);
  }

  void leave_out(size_t index, const std::string& why) {
    const GraphInstruction& instruction = program_.instructions[index];
    run_->left_out_.emplace_back(instruction.name, why);
    for (int reg : read_by(instruction)) describe(reg);
    act(RecordedRun::Action::kExecute, index);
    for (int reg : instruction.results) {
      if (reg < 0) continue;
      live_[reg] = true;
      if (!registers_[reg].isTensor()) {
        if (!registers_[reg].isNone()) fail(instruction.name + " gives numbers that depend on data");
        continue;
      }
      const at::Tensor* tensor = device_tensor(registers_[reg]);
      if (tensor == nullptr || tensor->numel() == 0) continue;
      RecordedRun::Foreign foreign{index, 0, reg, 0};
      uint32_t memory;
      if (!recorder_.find(address_of(*tensor), &memory, &foreign.offset)) {
        fail(instruction.name + " gives a tensor in memory of its own");
      } else if (recorder_.memory(memory).kind == RecordedMemory::kForeign) {
        foreign.memory = memory;
        run_->foreign_.push_back(foreign);
      }
    }
  }

  // Notes where a register is that recorded instructions wrote, since something reads it that is not recorded.
  void describe(int reg) {
    if (live_[reg] || described_[reg]) return;
    described_[reg] = true;
    const at::Tensor* tensor = device_tensor(registers_[reg]);
    if (tensor == nullptr) {
      if (registers_[reg].isTensor() && registers_[reg].toTensor().defined()) fail("a tensor of the host is lost");
      run_->numbers_.emplace_back(reg, registers_[reg]);
      return;
    }
    RecordedTensor made;
    made.sizes = tensor->sizes().vec();
    made.strides = tensor->strides().vec();
    made.dtype = tensor->scalar_type();
    uint32_t memory;
    if (tensor->numel() != 0) {
      if (!recorder_.find(address_of(*tensor), &memory, &made.offset)) {
        return fail("a tensor is in memory that the graph does not know");
      }
      made.memory = memory;
    }
    if (tensor->is_conj() || tensor->is_neg()) fail("a tensor is conjugated or negated by a flag");
    run_->tensors_.emplace_back(reg, std::move(made));
  }

  // What is left must be outputs; else an operator keeps memory for later calls, at an address that a replay must not
  // take for its own.
  void check_kept() {
    const auto& memories = run_->recording_->memories;
    for (size_t m = 0; m < memories.size(); ++m) {
      if (memories[m].kind != RecordedMemory::kKept) continue;
      const bool known = std::any_of(run_->tensors_.begin(), run_->tensors_.end(),
                                     [&](const auto& entry) { return entry.second.memory == static_cast<int64_t>(m); });
      if (!known) fail("an operator keeps memory for itself");
    }
  }

  void arrange() {
    auto& actions = run_->actions_;
    const auto& memories = run_->recording_->memories;
    // An input whose memory an output shares is kept to the end.
    actions.erase(std::remove_if(actions.begin(), actions.end(),
                                 [&](const RecordedRun::Action& action) {
                                   return action.kind == RecordedRun::Action::kRelease &&
                                          is_shared(static_cast<int>(action.index));
                                 }),
                  actions.end());
    delay_releases();
    run_->recording_->plan(in_use());
    for (size_t m = 0; m < memories.size(); ++m) {
      const bool separate = memories[m].kind == RecordedMemory::kSeparate;
      if (separate || memories[m].kind == RecordedMemory::kKept) {
        actions.push_back({RecordedRun::Action::kAllocate, memories[m].first, m, memories[m].made});
      }
      if (separate) actions.push_back({RecordedRun::Action::kFree, memories[m].last, m, memories[m].freed});
    }
    std::sort(actions.begin(), actions.end(), [](const auto& a, const auto& b) { return a.tick < b.tick; });
  }

  // A plain run's views keep the memory of inputs alive; a replay makes no views.
  void delay_releases() {
    const auto& steps = run_->recording_->steps;
    std::vector<size_t> last_use(run_->recording_->memories.size(), SIZE_MAX);
    for (size_t s = 0; s < steps.size(); ++s) {
      for (const RecordedStep::Patch& patch : steps[s].patches) last_use[patch.memory] = s;
    }
    for (RecordedRun::Action& action : run_->actions_) {
      if (action.kind != RecordedRun::Action::kRelease) continue;
      for (const RecordedRun::Given& given : run_->given_) {
        const size_t last = last_use[given.memory];
        if (given.reg != static_cast<int>(action.index) || last == SIZE_MAX || last < action.step) continue;
        action.step = last + 1;
        action.tick = steps[last].tick;
      }
    }
  }

  // Bytes of inputs before each step: a replay may free them as it goes.
  std::vector<size_t> in_use() const {
    const size_t steps = run_->recording_->steps.size();
    std::vector<size_t> bytes(steps + 1), end(run_->recording_->memories.size());
    for (const RecordedRun::Given& given : run_->given_) {
      size_t last = steps + 1;
      for (const RecordedRun::Action& action : run_->actions_) {
        const bool released = action.kind == RecordedRun::Action::kRelease && action.index == size_t(given.reg);
        if (released && owned_[given.reg]) last = action.step;
      }
      end[given.memory] = std::max(end[given.memory], last);
    }
    for (size_t m = 0; m < end.size(); ++m) {
      for (size_t s = 0; s < end[m]; ++s) bytes[s] += run_->recording_->memories[m].bytes;
    }
    return bytes;
  }

  bool is_shared(int reg) const {
    for (const RecordedRun::Given& given : run_->given_) {
      if (given.reg != reg) continue;
      for (const auto& [other, tensor] : run_->tensors_) {
        if (tensor.memory == static_cast<int64_t>(given.memory)) return true;
      }
    }
    return false;
  }

  const GraphProgram& program_;
  Recorder recorder_;
  Stream& stream_;
  Registers registers_;
  const std::vector<const void*> given_;
  // By register: has a value in each replay; is an input that the caller has given away; is described.
  std::vector<bool> live_, owned_, described_;
  std::unique_ptr<RecordedRun> run_ = std::make_unique<RecordedRun>();
  std::string reason_;
};

std::unique_ptr<RecordedRun> RecordedRun::record(const GraphProgram& program, std::vector<c10::IValue> inputs,
                                                 std::vector<c10::IValue>& results, std::string& reason) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  Registers registers = program.begin(std::move(inputs));
  const auto found = std::find_if(registers.begin(), registers.end(),
                                  [](const c10::IValue& value) { return device_tensor(value) != nullptr; });
  Device& device = found == registers.end() ? device_at(-1) : device_holding(found->toTensor());
  return RunRecorder(program, current_stream(device), std::move(registers)).run(results, reason);
}

// ---- Replay

class RunReplayer {
 public:
  RunReplayer(RecordedRun& run, const GraphProgram& program, Device& device, Registers registers)
      : run_(run),
        program_(program),
        device_(device),
        registers_(std::move(registers)),
        arena_(run.recording_->arena_bytes == 0 ? at::Tensor() : bytes(run.recording_->arena_bytes)),
        replay_(*run.recording_, current_stream(device), arena_.defined() ? address_of(arena_) : nullptr,
                [&device](uint64_t blocks) { return take_blocks(std::nullopt, device.index, blocks); }),
        storages_(run.recording_->memories.size()) {
    for (const RecordedRun::Given& given : run.given_) {
      replay_.set(given.memory, address_of(registers_[given.reg].toTensor()) - given.distance);
    }
    for (const auto& [reg, number] : run.numbers_) registers_[reg] = number;
  }

  std::vector<c10::IValue> run() {
    for (const RecordedRun::Action& action : run_.actions_) {
      replay_.run(action.step);
      switch (action.kind) {
        case RecordedRun::Action::kAllocate: {
          const at::Tensor made = bytes(run_.recording_->memories[action.index].bytes);
          storages_[action.index] = made.storage();
          replay_.set(action.index, address_of(made));
          break;
        }
        case RecordedRun::Action::kFree:
          storages_[action.index] = c10::Storage();
          break;
        case RecordedRun::Action::kRelease:
          registers_[action.index] = c10::IValue();
          break;
        case RecordedRun::Action::kExecute:
          execute(action.index);
          break;
      }
    }
    replay_.run(run_.recording_->steps.size());
    for (const GraphValue& output : program_.outputs) {
      if (output.kind == GraphValue::kRegister) restore(output.reg);
    }
    return program_.finish(registers_);
  }

 private:
  at::Tensor bytes(size_t count) { return empty({static_cast<int64_t>(count)}, at::kByte, device_.index); }

  void execute(size_t index) {
    const GraphInstruction& instruction = program_.instructions[index];
    std::vector<int> restored;
    for (int reg : read_by(instruction)) {
      if (restore(reg)) restored.push_back(reg);
    }
    program_.execute(instruction, registers_, false, {});
    for (int reg : restored) registers_[reg] = c10::IValue();
    for (const RecordedRun::Foreign& foreign : run_.foreign_) {
      if (foreign.instruction != index) continue;
      const at::Tensor& tensor = registers_[foreign.reg].toTensor();
      storages_[foreign.memory] = tensor.storage();
      replay_.set(foreign.memory, address_of(tensor) - foreign.offset);
    }
  }

  // Makes the tensor that a recorded instruction would have written to the register; false if there is none to make.
  bool restore(int reg) {
    if (!registers_[reg].isNone()) return false;
    for (const auto& [described, tensor] : run_.tensors_) {
      if (described != reg) continue;
      registers_[reg] = make(tensor);
      return true;
    }
    return false;
  }

  at::Tensor make(const RecordedTensor& made) {
    if (made.memory < 0) return empty_strided(made.sizes, made.strides, made.dtype, device_.index);
    const auto memory = static_cast<size_t>(made.memory);
    const c10::Storage& storage = storage_of(memory);
    const auto offset = replay_.address(memory) + made.offset - static_cast<const char*>(storage.data());
    at::Tensor tensor =
        at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), kKeySet, c10::scalarTypeToTypeMeta(made.dtype));
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(made.sizes, made.strides,
                                                        offset / static_cast<int64_t>(c10::elementSize(made.dtype)));
    return tensor;
  }

  const c10::Storage& storage_of(size_t memory) {
    switch (run_.recording_->memories[memory].kind) {
      case RecordedMemory::kTemporary:
        return arena_.storage();
      case RecordedMemory::kGiven:
        for (const RecordedRun::Given& given : run_.given_) {
          if (given.memory == memory) return registers_[given.reg].toTensor().storage();
        }
        TORCH_CHECK(false, "memory that was given is gone");
      default:
        return storages_[memory];
    }
  }

  RecordedRun& run_;
  const GraphProgram& program_;
  Device& device_;
  Registers registers_;
  const at::Tensor arena_;
  Recording::Replay replay_;
  std::vector<c10::Storage> storages_;  // of kept and foreign memory
};

bool RecordedRun::replay(const GraphProgram& program, std::vector<c10::IValue>& inputs,
                         std::vector<c10::IValue>& results) {
  const auto value_of = [&](int reg) -> const at::Tensor& {
    return reg < program.num_inputs ? inputs[reg].toTensor() : program.constants[reg - program.num_inputs].toTensor();
  };
  for (size_t i = 1; i < given_.size(); ++i) {
    if (given_[i].memory != given_[i - 1].memory) continue;
    const char *one = address_of(value_of(given_[i - 1].reg)), *other = address_of(value_of(given_[i].reg));
    if (other - one != given_[i].distance - given_[i - 1].distance) return false;
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  Device& device = given_.empty() ? device_at(-1) : device_holding(value_of(given_[0].reg));
  results = RunReplayer(*this, program, device, program.begin(std::move(inputs))).run();
  return true;
}

// ---- Choosing

namespace {

// All that a recording depends on beside the bytes of tensors.
std::vector<int64_t> signature_of(const std::vector<c10::IValue>& inputs) {
  std::vector<int64_t> signature{static_cast<int64_t>(settings_version()), current_stream(device_at(-1)).id};
  for (const c10::IValue& value : inputs) {
    if (value.isTensor()) {
      const at::Tensor& tensor = value.toTensor();
      if (!tensor.defined()) continue;
      const bool ours = on_device(tensor);
      signature.push_back(tensor.device().index() * 2 + ours);
      signature.insert(signature.end(), tensor.sizes().begin(), tensor.sizes().end());
      signature.insert(signature.end(), tensor.strides().begin(), tensor.strides().end());
      // Kernels may have been chosen by it.
      if (ours) signature.push_back(static_cast<int64_t>(reinterpret_cast<uintptr_t>(address_of(tensor)) % 64));
    } else if (value.isInt()) {
      signature.push_back(value.toInt());
    } else if (value.isDouble()) {
      double number = value.toDouble();
      int64_t bits;
      std::memcpy(&bits, &number, sizeof(bits));
      signature.push_back(bits);
    } else if (value.isBool()) {
      signature.push_back(value.toBool());
    }
  }
  return signature;
}

}  // namespace

std::string GraphRunner::reason() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return reason_;
}

std::vector<c10::IValue> GraphRunner::run(std::vector<c10::IValue> inputs) {
  const bool tools = rules_in_force() || any_watched();
  if (record && !tools && !observed()) {
    std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (lock.owns_lock()) {
      std::vector<int64_t> signature = signature_of(inputs);
      const auto found = std::find_if(entries_.begin(), entries_.end(),
                                      [&](const auto& entry) { return entry->signature == signature; });
      if (found == entries_.end()) {
        // The first run compiles kernels and fills caches; the second is recorded.
        if (entries_.size() == kMostEntries) entries_.clear(), latest_ = nullptr;
        entries_.push_back(std::make_unique<Entry>(Entry{std::move(signature), false, nullptr}));
      } else if (Entry& entry = **found; !entry.refused) {
        std::vector<c10::IValue> results;
        if (entry.run == nullptr) {
          ++runs[1];
          std::string reason;
          entry.run = RecordedRun::record(*program_, std::move(inputs), results, reason);
          entry.refused = entry.run == nullptr;
          if (entry.refused) reason_ = reason;
          latest_ = entry.refused ? latest_ : entry.run.get();
          return results;
        }
        if (entry.run->replay(*program_, inputs, results)) {
          ++runs[2];
          return results;
        }
      }
    }
  }
  ++runs[0];
  return program_->run(std::move(inputs), tools);
}

}  // namespace hp::torch_adapter
