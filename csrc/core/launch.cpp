#include "launch.h"

#include <tvm/ffi/extra/c_env_api.h>

#include <cstring>

#include "recorder.h"

namespace hp {
namespace {

thread_local Runtime* current_launch = nullptr;

// TVM-FFI's environment stream of this thread, as we last set it: setting it again costs more than comparing.
thread_local std::array<HpStream, kMaxDevices> environment_streams{};

struct LaunchScope {
  explicit LaunchScope(Runtime& runtime) : previous(current_launch) { current_launch = &runtime; }
  ~LaunchScope() { current_launch = previous; }
  Runtime* previous;
};

bool declined_or_throw(const Operator& op, const Kernel& kernel, const Stream& stream) {
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
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

Runtime* launching_runtime() {
  if (current_launch != nullptr) return current_launch;
  const std::vector<Runtime*> all = Runtime::mounted();
  return all.size() == 1 ? all[0] : nullptr;
}

bool launch(const Operator& op, const Kernel& kernel, Stream& stream, const TVMFFIAny* args, int32_t num_args) {
  const int device = stream.device.index;
  if (environment_streams[device] != stream.handle()) {
    TVMFFIEnvSetStream(HP_DLPACK_DEVICE_TYPE, device, stream.handle(), nullptr);
    environment_streams[device] = stream.handle();
  }
  LaunchScope launch_scope(stream.device.runtime);
  OperatorScope operator_scope(op);
  stream.note_launch(&op);
  TVMFFIAny result{};
  Recorder* const active = recorder();
  {
    const Recorder::Paused paused(active);
    if (kernel.function(kernel.self, args, num_args, &result) != 0) return declined_or_throw(op, kernel, stream);
  }
  if (result.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(result.v_obj);
  if (active != nullptr) active->launched(op, kernel, stream, args, num_args);
  return true;
}

}  // namespace hp
