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

// The stream of the kernel running on this thread; null outside kernels.
thread_local Stream* launch_stream = nullptr;

// The streams last passed to TVMFFIEnvSetStream on this thread: comparing is cheaper than setting again.
thread_local std::array<HpStream, kMaxDevices> environment_streams{};

// Whether the kernel running on this thread declined the call.
thread_local bool declined = false;

struct LaunchScope {
  explicit LaunchScope(Stream& stream) : previous(launch_stream) { launch_stream = &stream; }
  ~LaunchScope() { launch_stream = previous; }
  Stream* previous;
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

int call(const Kernel& kernel, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  if (!(kernel.flags & kPythonKernel)) return kernel.function(kernel.self, args, num_args, result);
  const ObjectArguments objects(args, num_args);
  return kernel.function(kernel.self, objects.data(), num_args, result);
}

bool declined_or_throw(const Operator& op, const Kernel& kernel, const Stream& stream) {
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
  if (error == nullptr && std::exchange(declined, false)) return false;
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
  declined = launch_stream != nullptr;
  return declined;
}

Runtime* launching_runtime() {
  if (launch_stream != nullptr) return &launch_stream->device.runtime;
  const std::vector<Runtime*> all = Runtime::mounted();
  return all.size() == 1 ? all[0] : nullptr;
}

Stream* launching_stream(int device) {
  if (launch_stream != nullptr && launch_stream->device.index == device) return launch_stream;
  Runtime* const runtime = launching_runtime();
  return runtime != nullptr ? &current_stream(runtime->device(device)) : nullptr;
}

namespace {

bool launch_now(const Operator& op, const Kernel& kernel, Stream& stream, const TVMFFIAny* args, int32_t num_args) {
  const int device = stream.device.index;
  if (environment_streams[device] != stream.handle()) {
    TVMFFIEnvSetStream(HP_DLPACK_DEVICE_TYPE, device, stream.handle(), nullptr);
    environment_streams[device] = stream.handle();
  }
  LaunchScope launch_scope(stream);
  OperatorScope operator_scope(op);
  stream.note_launch(&op);
  declined = false;
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
    if ((kernel.flags & kPythonKernel) && std::exchange(declined, false)) {
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
        return launch_now(op, kernel, stream, trial, num_args);
      });
    }
  }
  return launch_now(op, kernel, stream, args, num_args);
}

}  // namespace hp
