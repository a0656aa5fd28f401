// Shared by all kernels: reading TVM-FFI arguments, raising errors, queueing work on the current stream.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <exception>

#include "hardpoint/plugin.h"
#include "host.h"
#include "kernels/dtype.h"
#include "kernels/kernels.h"
#include "memory/device_memory.h"
#include "runtime/stream.h"

namespace sim {

// A scalar argument; integers keep all 64 bits.
struct Number {
  bool is_float = false;
  int64_t whole = 0;
  double real = 0;

  template <class T>
  T as() const {
    return is_float ? convert<T>(real) : convert<T>(whole);
  }
  bool is_one() const { return is_float ? real == 1 : whole == 1; }
};

// Calls of at least this size go to a portable kernel if that is faster; below, the lookup costs too much.
constexpr int64_t kPortableMinElements = 4096;

// Portable kernels convert 16-bit floats with vector instructions of the host CPU, which this generic build cannot use.
inline bool is_half(DLDataType dtype) {
  return dtype.bits == 16 && (dtype.code == kDLFloat || dtype.code == kDLBfloat);
}

// The arguments of one kernel call. Accessors return 0, or the error code of a raised error.
class Call {
 public:
  Call(const char* name, const void* arguments, int32_t count)
      : name_(name), arguments_(static_cast<const TVMFFIAny*>(arguments)), count_(count) {}

  const char* name() const { return name_; }

  int expect(int32_t count) const {
    if (count_ == count) return 0;
    return host->raise("TypeError", "sim: %s takes %d arguments, got %d", name_, count, count_);
  }

  int tensor(int32_t index, const DLTensor** tensor) const {
    if (tensor_or_null(index, tensor)) return 0;
    return host->raise("TypeError", "sim: argument %d of %s must be a tensor", index, name_);
  }

  int number(int32_t index, Number* number) const {
    const TVMFFIAny& argument = arguments_[index];
    switch (argument.type_index) {
      case kTVMFFIInt:
      case kTVMFFIBool:
        *number = {false, argument.v_int64, 0};
        return 0;
      case kTVMFFIFloat:
        *number = {true, 0, argument.v_float64};
        return 0;
      default:
        return host->raise("TypeError", "sim: argument %d of %s must be a number", index, name_);
    }
  }

  // Reads a tensor, or a number and then sets `tensor` to null.
  int operand(int32_t index, const DLTensor** tensor, Number* number) const {
    return tensor_or_null(index, tensor) ? 0 : this->number(index, number);
  }

  // Raised before anything is queued: hands the call to the next tier.
  int unsupported(DLDataType dtype) const {
    return host->raise("NotImplementedError", "sim: %s does not support %s", name_, dtype_name(dtype).c_str());
  }

  int defer_to_portable() const {
    return host->raise("NotImplementedError", "sim: the portable kernel is faster for this %s", name_);
  }

  int wrong_dtype(DLDataType expected, DLDataType got) const {
    return host->raise("NotImplementedError", "sim: the operands of %s must have the same dtype, got %s and %s", name_,
                       dtype_name(expected).c_str(), dtype_name(got).c_str());
  }

  int wrong_shape(const char* what) const { return host->raise("ValueError", "sim: %s: %s", name_, what); }

  int not_on_device(const DLTensor& tensor, int device) const {
    return host->raise("RuntimeError", "sim: %s was given a tensor at %p that is not in the memory of sim:%d", name_,
                       tensor.data, device);
  }

  // Queues `work` on the current stream. `bytes`: total memory traffic.
  template <class Work>
  int launch(int device, size_t bytes, const Work& work) const {
    constexpr size_t kTinyKernel = 32 << 10;
    Stream* const stream = find_stream(device, host->current_stream(device));
    if (!stream)
      return host->raise("RuntimeError", "sim: %s: the current stream of sim:%d is not usable", name_, device);
    stream->submit(TaskKind::kernel, bytes <= kTinyKernel, work);
    return 0;
  }

 private:
  bool tensor_or_null(int32_t index, const DLTensor** tensor) const {
    const TVMFFIAny& argument = arguments_[index];
    *tensor = nullptr;
    if (argument.type_index == kTVMFFIDLTensorPtr) {
      *tensor = static_cast<const DLTensor*>(argument.v_ptr);
    } else if (argument.type_index == kTVMFFITensor) {
      // The DLTensor follows the object header.
      *tensor = reinterpret_cast<const DLTensor*>(reinterpret_cast<const char*>(argument.v_obj) + sizeof(TVMFFIObject));
    }
    return *tensor != nullptr;
  }

  const char* const name_;
  const TVMFFIAny* const arguments_;
  const int32_t count_;
};

// Runs the body of an exported kernel: turns exceptions into raised errors, and rejects calls after fork().
template <class Body>
int run_kernel(const char* name, const void* arguments, int32_t count, Body body) {
  if (unusable_after_fork()) return host->raise("RuntimeError", "%s", kForkedMessage);
  try {
    return body(Call(name, arguments, count));
  } catch (const std::exception& e) {
    return host->raise("RuntimeError", "sim: %s: %s", name, e.what());
  }
}

}  // namespace sim

// Defines the exported kernel of an operator; `body` is int(const sim::Call&).
#define SIM_KERNEL(op, body)                                                                    \
  extern "C" HP_EXPORT int __tvm_ffi_##op(void*, const void* arguments, int32_t count, void*) { \
    return sim::run_kernel(#op, arguments, count, body);                                        \
  }
