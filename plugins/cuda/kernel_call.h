// Shared by all kernels: reading TVM-FFI arguments, declining calls, caching plans.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <unordered_map>

#include "hardpoint/plugin.h"
#include "host.h"

namespace nv {

// The arguments of one kernel call.
class Call {
 public:
  Call(const void* arguments, int32_t count) : arguments_(static_cast<const TVMFFIAny*>(arguments)), count_(count) {}

  int32_t count() const { return count_; }
  // Null for None.
  const DLTensor* tensor(int32_t index) const {
    const TVMFFIAny& argument = arguments_[index];
    return argument.type_index == kTVMFFIDLTensorPtr ? static_cast<const DLTensor*>(argument.v_ptr) : nullptr;
  }
  double real(int32_t index) const {
    const TVMFFIAny& argument = arguments_[index];
    return argument.type_index == kTVMFFIFloat ? argument.v_float64 : static_cast<double>(argument.v_int64);
  }
  int64_t integer(int32_t index) const { return arguments_[index].v_int64; }
  const int64_t* list(int32_t index) const { return TVMFFIShapeGetCellPtr(arguments_[index].v_obj)->data; }

 private:
  const TVMFFIAny* arguments_;
  const int32_t count_;
};

// Hands the call to the next tier. Only before anything is queued.
inline int decline(const char* what) { return host->raise("NotImplementedError", "nv: %s", what); }

// Raises an error for a failed library call.
inline int raise_error(const char* library, const char* what, int status) {
  return host->raise("RuntimeError", "nv: %s: %s (status %d)", library, what, status);
}

// A cache of plans, the shape-dependent part of a library call. One per thread, so lookups take no lock. `Key` is a
// plain struct without padding.
template <class Key, class Plan>
class PlanCache {
 public:
  // The plan for a key. `make` creates it, and returns null for calls the library does not support.
  template <class Make>
  const Plan* get(const Key& key, Make make) {
    if (last_ && memcmp(&last_key_, &key, sizeof key) == 0) return last_;
    auto found = plans_.find(key);
    if (found == plans_.end()) found = plans_.emplace(key, make()).first;
    last_key_ = key;
    last_ = found->second.get();
    return last_;
  }

 private:
  struct Hash {
    size_t operator()(const Key& key) const {
      uint64_t words[sizeof(Key) / 8], sum = 0;
      static_assert(sizeof(Key) % 8 == 0);
      memcpy(words, &key, sizeof key);
      for (const uint64_t word : words) {
        sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
        sum ^= sum >> 29;
      }
      return sum;
    }
  };
  struct Equal {
    bool operator()(const Key& a, const Key& b) const { return memcmp(&a, &b, sizeof a) == 0; }
  };
  std::unordered_map<Key, std::unique_ptr<Plan>, Hash, Equal> plans_;
  Key last_key_;
  const Plan* last_ = nullptr;
};

template <class Body>
int run_kernel(const void* arguments, int32_t count, Body body) {
  try {
    return body(Call(arguments, count));
  } catch (const std::exception& error) {
    return host->raise("RuntimeError", "nv: %s", error.what());
  }
}

}  // namespace nv

// Defines the exported kernel of an operator; `body` is int(const nv::Call&).
#define NV_KERNEL(op, body)                                                                     \
  extern "C" HP_EXPORT int __tvm_ffi_##op(void*, const void* arguments, int32_t count, void*) { \
    return nv::run_kernel(arguments, count, body);                                              \
  }
