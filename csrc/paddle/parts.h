// What functions of custom operators are put together of: standard operators, temporaries, and the usual shapes.
//
// A kernel of Paddle that one standard operator serves calls it with `call.service()`, which counts the call. One that
// takes several steps counts itself by `decomposed(call)`, and each step under the name of its standard operator.
#pragma once

#include <initializer_list>
#include <optional>

#include "../core/host_copy.h"
#include "call.h"
#include "pointwise.h"

namespace hp::paddle_adapter {

// A standard operator as a step. A static of the function that uses it.
class Step {
 public:
  explicit Step(const char* standard) : standard_(standard) {}
  const Service& on(Device& device) {
    const Service* known = services_[device.runtime.slot].load(std::memory_order_acquire);
    return known != nullptr ? *known : make(device.runtime);
  }

 private:
  const Service& make(Runtime& runtime);
  const std::string standard_;
  std::array<std::atomic<const Service*>, kMaxRuntimes> services_{};
};

class PointwiseStep : public Step {
 public:
  explicit PointwiseStep(const char* standard) : Step(standard), kernels_(pointwise_kernels(standard)) {}
  // In the output's dtype; where that is bool, in that of the first input.
  bool operator()(Device& device, const View& output, std::initializer_list<View> inputs,
                  std::initializer_list<double> attributes = {}, uint32_t variant = 0);

 private:
  PointwiseKernels& kernels_;
};

// Counts a call that was served by steps on the device. `return decomposed(call);`
bool decomposed(const Call& call);

// A view with sizes and strides of its own.
class Shaped {
 public:
  Shaped() = default;
  explicit Shaped(const View& given) : view_(given) {
    for (int d = 0; d < given.ndim; ++d) sizes_[d] = given.sizes[d], strides_[d] = given.strides[d];
    attach();
  }
  // Contiguous, of those sizes.
  Shaped(void* data, DType dtype, int ndim, const int64_t* sizes) {
    view_.data = data;
    view_.dtype = dtype;
    view_.ndim = ndim;
    int64_t step = 1;
    for (int d = ndim - 1; d >= 0; --d) sizes_[d] = sizes[d], strides_[d] = step, step *= sizes[d];
    attach();
  }
  Shaped(const Shaped& other) : Shaped(other.view_) {}
  Shaped& operator=(const Shaped& other) {
    view_ = other.view_;
    sizes_ = other.sizes_, strides_ = other.strides_;
    attach();
    return *this;
  }

  operator const View&() const { return view_; }
  const View& view() const { return view_; }
  int ndim() const { return view_.ndim; }
  int64_t& size(int d) { return sizes_[d]; }
  int64_t& stride(int d) { return strides_[d]; }
  void set_data(void* data) { view_.data = data; }

  // A dimension of one element in front of `d`.
  Shaped& unsqueeze(int d);
  // Without dimension `d`, of which the first element stays.
  Shaped& drop(int d);
  // The part of dimension `d` that begins at `first`.
  Shaped& narrow(int d, int64_t first, int64_t length, int64_t step = 1) {
    if (view_.data != nullptr)
      view_.data = static_cast<char*>(view_.data) + first * strides_[d] * info(view_.dtype).bytes;
    sizes_[d] = length;
    strides_[d] *= step;
    return *this;
  }
  Shaped& swap(int a, int b) {
    std::swap(sizes_[a], sizes_[b]);
    std::swap(strides_[a], strides_[b]);
    return *this;
  }
  // Broadcast to those sizes, the last dimensions aligned.
  Shaped& expand(int ndim, const int64_t* sizes);

 private:
  void attach() { view_.sizes = sizes_.data(), view_.strides = strides_.data(); }
  View view_;
  std::array<int64_t, 16> sizes_{}, strides_{};
};

// Device memory for the time of a call, as a contiguous tensor.
class Temporary : public Shaped {
 public:
  Temporary(Device& device, DType dtype, int ndim, const int64_t* sizes)
      : Shaped(nullptr, dtype, ndim, sizes), scratch_(device, view().bytes()) {
    set_data(scratch_.get());
  }

 private:
  Scratch scratch_;
};

// A tensor in the dtype that a kernel has it in: itself, or a contiguous stand-in. Inputs are read, outputs written.
class Converted {
 public:
  Converted(Device& device, const View& given, DType wanted);
  bool read();
  bool write();
  operator const View&() const { return view_; }
  const View& view() const { return view_; }

 private:
  Device& device_;
  const View given_;
  View view_;
  std::optional<Temporary> made_;
};

// The bytes of a number in that dtype, as whole words.
std::array<int64_t, 2> bits_of(const phi::Scalar& value, DType dtype);

// The same number in every element; counted for the operator "fill".
bool fill(Device& device, const View& out, const phi::Scalar& value);

// to = from, of the same sizes and any layout and dtype, counted for `service`. False where no kernel does it.
bool copy(const Service& service, Device& device, const View& to, const View& from);

// Zeros everywhere. False where no kernel does it.
bool zero(Device& device, const View& out);

// out = from, summed along the dimensions that out lacks or has one element in.
bool sum_to(Device& device, const View& out, const View& from);

// Whether a kernel can read the tensor: for those whose other inputs may be without memory.
inline bool ready(const DenseTensor* tensor) {
  return tensor != nullptr && tensor->initialized() && on_device(*tensor) && tensor->meta().is_contiguous() &&
         to_core(tensor->dtype()) != DType::kNone;
}

inline bool same_sizes(const View& a, const View& b) {
  return a.ndim == b.ndim && std::equal(a.sizes, a.sizes + a.ndim, b.sizes);
}

// The dimensions of a list as bits: negative ones count from the end, none at all means every one.
uint64_t mask_of(const std::vector<int64_t>& dims, int ndim);

}  // namespace hp::paddle_adapter
