#include "core/dispatch/launch.h"

#include <tvm/ffi/extra/c_env_api.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/recording/graph_capture.h"
#include "core/recording/recorder.h"
#include "core/tracing/tracer.h"

namespace hp {
namespace {

struct LaunchState {
  Stream* stream = nullptr;  // of the running kernel; null outside kernels
  bool declined = false;     // whether the running kernel declined the call
  // The streams last passed to TVMFFIEnvSetStream: comparing is cheaper than setting again.
  std::array<HpStream, kMaxDevices> environment{};
};
thread_local LaunchState launch_state;

// What a kernel finds while it runs: its operator and its stream.
class LaunchScope {
 public:
  LaunchScope(const Operator& op, Stream& stream)
      : state_(launch_state), previous_(state_.stream), operator_scope_(op) {
    const int device = stream.device.index;
    if (state_.environment[device] != stream.handle()) {
      TVMFFIEnvSetStream(HP_DLPACK_DEVICE_TYPE, device, stream.handle(), nullptr);
      state_.environment[device] = stream.handle();
    }
    state_.stream = &stream;
    state_.declined = false;
    stream.note_launch(&op);
  }
  ~LaunchScope() { state_.stream = previous_; }
  LaunchScope(const LaunchScope&) = delete;

 private:
  LaunchState& state_;
  Stream* const previous_;
  const OperatorScope operator_scope_;
};

// Arguments for a Python function: DLTensor pointers, which it could not export by DLPack for want of an owner, become
// tensor objects. The data still belongs to the caller.
class ObjectArguments {
 public:
  ObjectArguments(const TVMFFIAny* args, int32_t count) : args_(args, args + count) {
    for (TVMFFIAny& arg : args_) {
      if (arg.type_index == kTVMFFIDLTensorPtr) adopt(arg);
    }
  }
  ObjectArguments(const ObjectArguments&) = delete;
  ObjectArguments& operator=(const ObjectArguments&) = delete;
  ~ObjectArguments() {
    for (TVMFFIObjectHandle object : objects_) TVMFFIObjectDecRef(object);
  }
  const TVMFFIAny* data() const { return args_.data(); }

 private:
  struct Tensor {
    DLManagedTensor managed;
    std::vector<int64_t> shape, strides;
  };

  void adopt(TVMFFIAny& arg) {
    const DLTensor& from = *static_cast<const DLTensor*>(arg.v_ptr);
    auto tensor = std::make_unique<Tensor>();
    tensor->shape.assign(from.shape, from.shape + from.ndim);
    if (from.strides != nullptr) tensor->strides.assign(from.strides, from.strides + from.ndim);
    tensor->managed.dl_tensor = from;
    tensor->managed.dl_tensor.shape = tensor->shape.data();
    tensor->managed.dl_tensor.strides = from.strides != nullptr ? tensor->strides.data() : nullptr;
    tensor->managed.manager_ctx = tensor.get();
    tensor->managed.deleter = [](DLManagedTensor* self) { delete static_cast<Tensor*>(self->manager_ctx); };
    TVMFFIObjectHandle object = nullptr;
    if (TVMFFITensorFromDLPack(&tensor->managed, 0, 0, &object) != 0) return;  // pass the pointer instead
    tensor.release();
    objects_.push_back(object);
    arg.type_index = kTVMFFITensor;
    arg.v_obj = static_cast<TVMFFIObject*>(object);
  }

  std::vector<TVMFFIAny> args_;
  std::vector<TVMFFIObjectHandle> objects_;
};

// Calls a kernel. An exception, which the contract forbids, becomes an error.
int call_function(const Kernel& kernel, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  try {
    return kernel.function(kernel.self, args, num_args, result);
  } catch (const abi::__forced_unwind&) {  // the thread is being canceled
    throw;
  } catch (...) {
    escaped_exception();
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", take_message().c_str());
    return -1;
  }
}

int call(const Kernel& kernel, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  if (!(kernel.flags & kPythonKernel)) return call_function(kernel, args, num_args, result);
  const ObjectArguments objects(args, num_args);
  return kernel.function(kernel.self, objects.data(), num_args, result);
}

bool declined_or_throw(const Operator& op, const Kernel& kernel, const Stream& stream) {
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
  if (error == nullptr && std::exchange(launch_state.declined, false)) return false;
  std::string kind = "Error", message = "(no message)";
  if (error != nullptr) {
    const TVMFFIErrorCell* cell = TVMFFIErrorGetCellPtr(error);
    kind.assign(cell->kind.data, cell->kind.size);
    message.assign(cell->message.data, cell->message.size);
    TVMFFIObjectDecRef(error);
  }
  if (kind == "NotImplementedError") return false;
  throw Error(HP_ERROR, stream.device.name() + ": kernel '" + kernel.name + "' failed in " + op.name + ": " + kind +
                            ": " + message);
}

}  // namespace

bool mark_declined() {
  LaunchState& state = launch_state;
  state.declined = state.stream != nullptr;
  return state.declined;
}

Runtime* launching_runtime() {
  if (const Stream* stream = launch_state.stream) return &stream->device.runtime;
  const std::vector<Runtime*> all = Runtime::mounted();
  return all.size() == 1 ? all[0] : nullptr;
}

Stream* launching_stream(int device) {
  Stream* const stream = launch_state.stream;
  if (stream != nullptr && stream->device.index == device) return stream;
  Runtime* const runtime = launching_runtime();
  return runtime != nullptr ? &current_stream(runtime->device(device)) : nullptr;
}

namespace {

// While something watches launches, or for a Python function.
bool launch_watched(const Operator& op, const Kernel& kernel, Stream& stream, const TVMFFIAny* args, int32_t num_args) {
  const LaunchScope scope(op, stream);
  TVMFFIAny result{};
  Recorder* const active = recorder();
  {
    const Recorder::PauseScope paused(active);
    TraceScope trace(TraceKind::kKernel, kernel.name, stream);
    if (call(kernel, args, num_args, &result) != 0) {
      trace.discard();
      return declined_or_throw(op, kernel, stream);
    }
    // A Python function may decline without an error.
    if ((kernel.flags & kPythonKernel) && std::exchange(launch_state.declined, false)) {
      trace.discard();
      return false;
    }
  }
  if (result.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(result.v_obj);
  if (active != nullptr) active->on_launch(op, kernel, stream, args, num_args);
  return true;
}

}  // namespace

bool launch(const Operator& op, const Kernel& kernel, Stream& stream, const TVMFFIAny* args, int32_t num_args) {
  if (GraphCapture* capture = stream.capture(); __builtin_expect(capture != nullptr, 0)) {
    if (capture->records_next_launch()) {
      return capture->on_launch(op, kernel, args, num_args, [&](const TVMFFIAny* trial) {
        return launch_watched(op, kernel, stream, trial, num_args);
      });
    }
  }
  const bool watched = recording() || tracing() || (kernel.flags & kPythonKernel);
  if (__builtin_expect(watched, 0)) return launch_watched(op, kernel, stream, args, num_args);
  const LaunchScope scope(op, stream);
  TVMFFIAny result{};
  if (__builtin_expect(call_function(kernel, args, num_args, &result) != 0, 0)) {
    return declined_or_throw(op, kernel, stream);
  }
  if (result.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(result.v_obj);
  return true;
}

}  // namespace hp
