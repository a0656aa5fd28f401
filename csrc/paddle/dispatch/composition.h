// Building blocks for the functions in csrc/paddle/ops: standard operators, temporaries and reshaped views.
//
// A function that maps to one standard operator calls it with `call.binding()`, which counts the call. A function of
// several steps calls `count_decomposed(call)`; each step is counted under the name of its standard operator.
#pragma once

#include <initializer_list>
#include <optional>

#include "core/memory/scratch.h"
#include "core/tensor/host_copy.h"
#include "dispatch/call.h"
#include "dispatch/pointwise.h"

namespace hp::paddle_adapter {

// A standard operator used as a step. Declare it static in the function that uses it.
class StandardOp {
 public:
  explicit StandardOp(const char* standard) : standard_(standard) {}
  const OpBinding& on(Device& device) {
    const OpBinding* known = bindings_.find(device.runtime);
    return known != nullptr ? *known : make_binding(device.runtime);
  }

 private:
  const OpBinding& make_binding(Runtime& runtime);
  const std::string standard_;
  BindingCache bindings_;
};

// The operator that most compositions need.
extern StandardOp copy_op;

class PointwiseOp : public StandardOp {
 public:
  explicit PointwiseOp(const char* standard) : StandardOp(standard), kernels_(pointwise_kernels(standard)) {}
  // Computes in the output's dtype, or in the first input's if the output is bool.
  bool operator()(Device& device, const View& output, std::initializer_list<View> inputs,
                  std::initializer_list<double> attributes = {}, uint32_t variant = 0);

 private:
  PointwiseKernels& kernels_;
};

// Counts a call served by several steps on the device. Returns true: `return count_decomposed(call);`
bool count_decomposed(const Call& call);

// A view that owns its sizes and strides, but not its data. Rank 16 at most.
class ShapedView {
 public:
  ShapedView() = default;
  explicit ShapedView(const View& view) : view_(view) {
    for (int d = 0; d < view.ndim; ++d) sizes_[d] = view.sizes[d], strides_[d] = view.strides[d];
    attach();
  }
  // Contiguous.
  ShapedView(void* data, DType dtype, int ndim, const int64_t* sizes) {
    view_.data = data;
    view_.dtype = dtype;
    view_.ndim = ndim;
    int64_t step = 1;
    for (int d = ndim - 1; d >= 0; --d) sizes_[d] = sizes[d], strides_[d] = step, step *= sizes[d];
    attach();
  }
  ShapedView(const ShapedView& other) : ShapedView(other.view_) {}
  ShapedView& operator=(const ShapedView& other) {
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

  // Inserts a dimension of size 1 before `d`.
  ShapedView& unsqueeze(int d);
  // Removes dimension `d`, keeping its first element.
  ShapedView& drop(int d);
  // Keeps `length` elements of dimension `d`, from `first` on, `step` apart.
  ShapedView& narrow(int d, int64_t first, int64_t length, int64_t step = 1) {
    if (view_.data != nullptr)
      view_.data = static_cast<char*>(view_.data) + first * strides_[d] * info(view_.dtype).bytes;
    sizes_[d] = length;
    strides_[d] *= step;
    return *this;
  }
  ShapedView& swap(int a, int b) {
    std::swap(sizes_[a], sizes_[b]);
    std::swap(strides_[a], strides_[b]);
    return *this;
  }
  // Broadcasts to `sizes`, aligning the last dimensions.
  ShapedView& expand(int ndim, const int64_t* sizes);

 private:
  void attach() { view_.sizes = sizes_.data(), view_.strides = strides_.data(); }
  View view_;
  std::array<int64_t, 16> sizes_{}, strides_{};
};

// A contiguous temporary tensor. Its memory is returned to the allocator on destruction, in stream order.
class Temporary : public ShapedView {
 public:
  Temporary(Device& device, DType dtype, int ndim, const int64_t* sizes)
      : ShapedView(nullptr, dtype, ndim, sizes), scratch_(device, view().bytes()) {
    set_data(scratch_.get());
  }

 private:
  Scratch scratch_;
};

// A tensor in another dtype: the original if it has that dtype, else a contiguous temporary.
class Converted {
 public:
  Converted(Device& device, const View& original, DType dtype);
  bool read();   // original -> view; call before the kernel reads it. False if no kernel can convert.
  bool write();  // view -> original; call after the kernel wrote it. False if no kernel can convert.
  operator const View&() const { return view_; }
  const View& view() const { return view_; }

 private:
  Device& device_;
  const View original_;
  View view_;
  std::optional<Temporary> temporary_;
};

// The bytes of `value` in `dtype`, zero-padded to 16.
std::array<int64_t, 2> bits_of(const phi::Scalar& value, DType dtype);

// The functions below return false if no kernel serves them.

// Sets every element to `value`. Counted as `binding`, or as the operator "fill".
bool fill(const OpBinding& binding, Device& device, const View& out, const phi::Scalar& value);
bool fill(Device& device, const View& out, const phi::Scalar& value);

// to = from, for equal sizes and any strides and dtypes. Counted as `binding`.
bool copy(const OpBinding& binding, Device& device, const View& to, const View& from);

// Sets every element to 0. Counted as the operator "fill".
inline bool zero(Device& device, const View& out) { return fill(device, out, phi::Scalar(0)); }

// out = from, summed over the dimensions that `out` lacks or has with size 1 (the gradient of a broadcast).
bool sum_to(Device& device, const View& out, const View& from);

// Allocates `output` with the contents of `source`; copies nothing if they share memory. Sets `out` to its view.
bool allocate_copy(Call& call, DenseTensor& output, const DenseTensor& source, View& out);

// Whether a kernel can read the tensor. For functions of which other inputs may have no memory.
inline bool is_ready(const DenseTensor* tensor) {
  return tensor != nullptr && tensor->initialized() && on_device(*tensor) && tensor->meta().is_contiguous() &&
         to_core(tensor->dtype()) != DType::kNone;
}

inline bool same_sizes(const View& a, const View& b) {
  return a.ndim == b.ndim && std::equal(a.sizes, a.sizes + a.ndim, b.sizes);
}

// A negative dimension counts from the end.
inline int64_t wrap_dim(int64_t dim, int64_t ndim) { return dim < 0 ? dim + ndim : dim; }

// Bit mask of dimensions. Negative ones count from the end; an empty list means all.
uint64_t dim_mask(const std::vector<int64_t>& dims, int ndim);

}  // namespace hp::paddle_adapter
