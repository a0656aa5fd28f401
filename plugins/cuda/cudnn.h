// cuDNN, opened at run time: the part of its graph API used for convolutions, declared here so that no header is
// needed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "driver.h"

namespace nv {

// Names and values as in cuDNN's headers.
enum { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_DOUBLE = 1, CUDNN_DATA_HALF = 2, CUDNN_DATA_BFLOAT16 = 9 };
enum { CUDNN_CROSS_CORRELATION = 1 };
enum { CUDNN_HEUR_MODE_FALLBACK = 2, CUDNN_HEUR_MODE_A = 3 };
enum { CUDNN_NUMERICAL_NOTE_TENSOR_CORE = 0, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS = 1 };

enum CudnnDescriptorType {
  CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR = 1,
  CUDNN_BACKEND_ENGINE_DESCRIPTOR = 2,
  CUDNN_BACKEND_ENGINECFG_DESCRIPTOR = 3,
  CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 4,
  CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 5,
  CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR = 10,
  CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR = 11,
  CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR = 12,
  CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 15,
  CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 16,
  CUDNN_BACKEND_TENSOR_DESCRIPTOR = 17
};

enum CudnnAttribute {
  CUDNN_ATTR_CONVOLUTION_COMP_TYPE = 100,
  CUDNN_ATTR_CONVOLUTION_CONV_MODE = 101,
  CUDNN_ATTR_CONVOLUTION_DILATIONS = 102,
  CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES = 103,
  CUDNN_ATTR_CONVOLUTION_POST_PADDINGS = 104,
  CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS = 105,
  CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS = 106,
  CUDNN_ATTR_ENGINEHEUR_MODE = 200,
  CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 201,
  CUDNN_ATTR_ENGINEHEUR_RESULTS = 202,
  CUDNN_ATTR_ENGINECFG_ENGINE = 300,
  CUDNN_ATTR_EXECUTION_PLAN_HANDLE = 400,
  CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401,
  CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
  CUDNN_ATTR_OPERATIONGRAPH_HANDLE = 800,
  CUDNN_ATTR_OPERATIONGRAPH_OPS = 801,
  CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT = 900,
  CUDNN_ATTR_TENSOR_DATA_TYPE = 901,
  CUDNN_ATTR_TENSOR_DIMENSIONS = 902,
  CUDNN_ATTR_TENSOR_STRIDES = 903,
  CUDNN_ATTR_TENSOR_UNIQUE_ID = 906,
  CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 1000,
  CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 1001,
  CUDNN_ATTR_VARIANT_PACK_WORKSPACE = 1003,
  CUDNN_ATTR_ENGINE_NUMERICAL_NOTE = 1303
};

enum CudnnAttributeType {
  CUDNN_TYPE_HANDLE = 0,
  CUDNN_TYPE_DATA_TYPE = 1,
  CUDNN_TYPE_INT64 = 3,
  CUDNN_TYPE_FLOAT = 4,
  CUDNN_TYPE_DOUBLE = 5,
  CUDNN_TYPE_VOID_PTR = 6,
  CUDNN_TYPE_CONVOLUTION_MODE = 7,
  CUDNN_TYPE_HEUR_MODE = 8,
  CUDNN_TYPE_NUMERICAL_NOTE = 11,
  CUDNN_TYPE_BACKEND_DESCRIPTOR = 15
};

using CudnnHandle = struct CudnnContext*;
using CudnnTensor = struct CudnnTensorStruct*;  // from the legacy API

struct Cudnn {
  int (*create)(CudnnHandle*);
  int (*set_stream)(CudnnHandle, CUstream);
  int (*descriptor_create)(CudnnDescriptorType, void**);
  int (*descriptor_destroy)(void*);
  int (*descriptor_set)(void*, CudnnAttribute, CudnnAttributeType, int64_t count, const void* values);
  int (*descriptor_get)(void*, CudnnAttribute, CudnnAttributeType, int64_t wanted, int64_t* count, void* values);
  int (*descriptor_finalize)(void*);
  int (*execute)(CudnnHandle, void* plan, void* pack);
  // The legacy API, used to add a bias.
  int (*tensor_create)(CudnnTensor*);
  int (*tensor_set)(CudnnTensor, int type, int dims, const int* sizes, const int* strides);
  int (*add)(CudnnHandle, const void* alpha, CudnnTensor, const void*, const void* beta, CudnnTensor, void*);
  bool found = false;
  std::string reason;
};

// Opens the library on first use.
const Cudnn& cudnn();

// A cuDNN backend descriptor. Errors are sticky: check `finish` or `good`.
class Descriptor {
 public:
  explicit Descriptor(CudnnDescriptorType kind) : good_(cudnn().descriptor_create(kind, &made_) == 0) {}
  Descriptor(Descriptor&& other) noexcept : made_(std::exchange(other.made_, nullptr)), good_(other.good_) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (made_) cudnn().descriptor_destroy(made_);
  }

  void set(CudnnAttribute name, CudnnAttributeType type, int64_t count, const void* values) {
    good_ = good_ && cudnn().descriptor_set(made_, name, type, count, values) == 0;
  }
  template <class T>
  void set(CudnnAttribute name, CudnnAttributeType type, const T& value) {
    set(name, type, 1, &value);
  }
  void set(CudnnAttribute name, const Descriptor& value) {
    good_ = good_ && value.good_;
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.made_);
  }
  // Returns the number of values, or -1 on error.
  int64_t get(CudnnAttribute name, CudnnAttributeType type, int64_t wanted, void* values) const {
    int64_t count = 0;
    return good_ && cudnn().descriptor_get(made_, name, type, wanted, &count, values) == 0 ? count : -1;
  }
  bool finish() {
    good_ = good_ && cudnn().descriptor_finalize(made_) == 0;
    return good_;
  }
  bool good() const { return good_; }
  void* get() const { return made_; }

 private:
  void* made_ = nullptr;
  bool good_;
};

}  // namespace nv
