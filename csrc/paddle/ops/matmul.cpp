#include "ops/matmul.h"

#include <optional>

#include "dispatch/composition.h"
#include "ops/reduction.h"

namespace hp::paddle_adapter::ops {
namespace {

// The tensor as a batch of matrices. A vector becomes a matrix with one row (`as_row`) or one column.
ShapedView matrices(const View& tensor, bool as_row, bool transposed) {
  ShapedView result(tensor);
  if (result.ndim() == 1) return result.unsqueeze(as_row ? 0 : 1);
  return transposed ? result.swap(result.ndim() - 2, result.ndim() - 1) : result;
}

int64_t rows(const View& m) { return m.sizes[m.ndim - 2]; }
int64_t columns(const View& m) { return m.sizes[m.ndim - 1]; }

// Joins the batch dimensions into one. False if their strides do not allow it.
bool join_batch(ShapedView& m) {
  const int batch = m.ndim() - 2;
  if (batch == 0) return m.unsqueeze(0), true;
  int64_t size = 1, stride = 0, expected = -1;
  for (int d = batch - 1; d >= 0; --d) {
    if (m.size(d) == 1) continue;
    if (expected < 0) {
      stride = m.stride(d);
    } else if (m.stride(d) != expected) {
      return false;
    }
    size *= m.size(d);
    expected = m.stride(d) * m.size(d);
  }
  const int64_t sizes[] = {size, m.size(batch), m.size(batch + 1)};
  const int64_t strides[] = {stride, m.stride(batch), m.stride(batch + 1)};
  m = ShapedView(View{m.view().data, m.view().dtype, 3, sizes, strides});
  return true;
}

// An operand, broadcast already, with its batch dimensions joined into one; copied if its strides require it.
class JoinedBatch {
 public:
  JoinedBatch(Device& device, const ShapedView& operand) : joined(operand) {
    if (join_batch(joined)) return;
    static StandardOp step("copy");
    dense_.emplace(device, operand.view().dtype, operand.view().ndim, operand.view().sizes);
    ok = copy(step.on(device), device, *dense_, operand);
    joined = *dense_;
    join_batch(joined);
  }
  ShapedView joined;
  bool ok = true;  // false if a copy was needed and no kernel could make it

 private:
  std::optional<Temporary> dense_;
};

// out = a @ b. `out` is contiguous, with the broadcast batch sizes.
bool product(const OpBinding& binding, Device& device, ShapedView out, ShapedView a, ShapedView b) {
  const int batch = out.ndim() - 2;
  // With a single matrix on the right, treat the batch on the left as one tall matrix.
  if (b.ndim() == 2 && batch > 0 && a.view().contiguous() && out.view().contiguous() && a.ndim() == out.ndim()) {
    const int64_t tall = a.view().numel() / columns(a);
    const int64_t left[] = {tall, columns(a)}, result[] = {tall, columns(b)};
    return hp::ops::matmul(binding, device, ShapedView(out.view().data, out.view().dtype, 2, result),
                           ShapedView(a.view().data, a.view().dtype, 2, left), b);
  }
  if (batch == 0) return hp::ops::matmul(binding, device, out, a, b);
  std::array<int64_t, 16> sizes;
  for (ShapedView* m : {&a, &b}) {
    std::copy(out.view().sizes, out.view().sizes + batch, sizes.begin());
    sizes[batch] = rows(*m);
    sizes[batch + 1] = columns(*m);
    m->expand(out.ndim(), sizes.data());
  }
  if (!join_batch(out)) return false;
  const JoinedBatch left(device, a), right(device, b);
  return left.ok && right.ok && hp::ops::matmul(binding, device, out, left.joined, right.joined);
}

// The output as a batch of matrices: inserts the dimensions it lacks because x or y is a vector.
ShapedView output_matrices(const View& out, const View& x, const View& y) {
  ShapedView result(out);
  if (x.ndim == 1) result.unsqueeze(y.ndim == 1 ? 0 : result.ndim() - 1);
  if (y.ndim == 1) result.unsqueeze(result.ndim());
  return result;
}

bool supports_matmul(const Call& call) {
  return call.inputs_ready() && is_float(to_core(call.kernel.dtype)) && call.input(0)->numel() != 0 &&
         call.input(1)->numel() != 0 && call.input(0)->dims().size() <= kMaxKernelRank &&
         call.input(1)->dims().size() <= kMaxKernelRank;
}

// Paddle infers batch dimensions of the longer operand only, and its kernel resizes the output to the broadcast ones.
void broadcast_batch(DenseTensor& out, const View& x, const View& y) {
  if (x.ndim < 2 || y.ndim < 2 || (x.ndim == 2 && y.ndim == 2)) return;
  common::DDim dims = out.dims();
  const int batch = dims.size() - 2;
  for (int d = 0; d < batch; ++d) {
    for (const View* operand : {&x, &y}) {
      const int k = operand->ndim - 2 - batch + d;
      if (k >= 0 && operand->sizes[k] != 1) dims[d] = operand->sizes[k];
    }
  }
  if (dims != out.dims()) out.Resize(dims);
}

bool matmul(Call& call) {
  if (!supports_matmul(call)) return false;
  const View x = call.view_of(0), y = call.view_of(1);
  broadcast_batch(*call.output(0), x, y);
  const View out = call.allocate(0);
  return product(call.binding(), call.device, output_matrices(out, x, y), matrices(x, true, call.attr<bool>(0)),
                 matrices(y, false, call.attr<bool>(1)));
}

// The gradient of `factor`: `a @ b`, summed over the batch dimensions that were broadcast. Null `grad`: not needed.
bool factor_grad(Call& call, DenseTensor* grad, const View& factor, bool as_row, ShapedView a, ShapedView b) {
  static StandardOp step("matmul");
  if (grad == nullptr) return true;
  const View out = call.allocate(*grad);
  ShapedView target(out);
  if (factor.ndim == 1) target.unsqueeze(as_row ? 0 : 1);
  const OpBinding& binding = step.on(call.device);
  const int batch = std::max(a.ndim(), b.ndim()) - 2;
  // For a single matrix that was multiplied with a batch, the sum over the batch is one product of tall matrices.
  if (target.ndim() == 2 && batch > 0 && a.ndim() == b.ndim()) {
    ShapedView tall_a = a, tall_b = b;
    tall_a.swap(tall_a.ndim() - 2, tall_a.ndim() - 1);
    const bool contiguous = tall_a.view().contiguous() && tall_b.view().contiguous();
    const int64_t height = a.view().numel() / rows(a);
    if (contiguous && b.view().numel() / columns(b) == height) {
      const int64_t a_sizes[] = {height, rows(a)}, b_sizes[] = {height, columns(b)};
      ShapedView flat(a.view().data, a.view().dtype, 2, a_sizes);
      return hp::ops::matmul(binding, call.device, target, flat.swap(0, 1),
                             ShapedView(b.view().data, b.view().dtype, 2, b_sizes));
    }
  }
  std::array<int64_t, 16> sizes{};
  for (int d = 0; d < batch; ++d) {
    sizes[d] = 1;
    for (const ShapedView* m : {&a, &b}) {
      const int k = m->view().ndim - 2 - batch + d;
      if (k >= 0) sizes[d] = std::max(sizes[d], m->view().sizes[k]);
    }
  }
  sizes[batch] = rows(a);
  sizes[batch + 1] = columns(b);
  bool broadcast = target.ndim() != batch + 2;
  for (int d = 0; d < batch && !broadcast; ++d) broadcast = target.size(d) != sizes[d];
  if (!broadcast) return product(binding, call.device, target, a, b);
  const Temporary products(call.device, out.dtype, batch + 2, sizes.data());
  return product(binding, call.device, products, a, b) && sum_to(call.device, target, products);
}

bool both_grads(Call& call, bool transpose_x, bool transpose_y) {
  if (!supports_matmul(call)) return false;
  const View x = call.view_of(0), y = call.view_of(1);
  transpose_x = transpose_x && x.ndim > 1, transpose_y = transpose_y && y.ndim > 1;
  const ShapedView grad = output_matrices(call.view_of(2), x, y);
  const auto transposed = [](ShapedView m) { return m.swap(m.ndim() - 2, m.ndim() - 1); };
  const ShapedView a = matrices(x, true, transpose_x), b = matrices(y, false, transpose_y);  // out = a @ b
  const bool done = (transpose_x ? factor_grad(call, call.output(0), x, true, b, transposed(grad))
                                 : factor_grad(call, call.output(0), x, true, grad, transposed(b))) &&
                    (transpose_y ? factor_grad(call, call.output(1), y, false, transposed(grad), a)
                                 : factor_grad(call, call.output(1), y, false, transposed(a), grad));
  return done && count_decomposed(call);
}
bool matmul_grad(Call& call) { return both_grads(call, call.attr<bool>(0), call.attr<bool>(1)); }

// Also serves mv, a matrix times a vector.
bool bmm(Call& call) {
  if (!supports_matmul(call)) return false;
  const View x = call.view_of(0), y = call.view_of(1);
  const View out = call.allocate(0);
  return product(call.binding(), call.device, output_matrices(out, x, y), matrices(x, true, false),
                 matrices(y, false, false));
}
bool bmm_grad(Call& call) { return both_grads(call, false, false); }
bool mv(Call& call) { return bmm(call); }
bool mv_grad(Call& call) { return both_grads(call, false, false); }

// out = beta * input + alpha * x @ y. Inputs: input, x, y.
bool addmm(Call& call) {
  static StandardOp matmul("matmul");
  if (!call.inputs_ready() || !is_float(to_core(call.kernel.dtype)) || call.input(0)->numel() == 0 ||
      call.input(1)->numel() == 0 || call.input(2)->numel() == 0 || !call.binding().can_serve()) {
    return false;
  }
  const View out = call.allocate(0);
  ShapedView added(call.view_of(0));
  const auto factor = [&](int i) { return hp::ops::Factor{call.real(i), call.integer(i)}; };
  return hp::ops::addmm(call.binding(), matmul.on(call.device).kernel(), call.device, out,
                        added.expand(out.ndim, out.sizes), call.view_of(1), call.view_of(2), factor(0), factor(1));
}

// Inputs: input, x, y, out_grad. Attributes: alpha, beta.
bool addmm_grad(Call& call) {
  static StandardOp step("matmul");
  static PointwiseOp scale("scale");
  for (int i = 1; i < 4; ++i) {
    const DenseTensor& tensor = *call.input(i);
    if (!tensor.initialized() || !on_device(tensor) || tensor.numel() == 0) return false;
  }
  if (!is_float(to_core(call.kernel.dtype)) || !step.on(call.device).can_serve()) return false;
  const View grad = call.view_of(3);
  const auto scaled = [&](const View& out, int attribute) {
    return call.real(attribute) == 1 || scale(call.device, out, {out}, {call.real(attribute), 0}, 1);
  };
  for (int i = 0; i < 3; ++i) {
    if (call.output(i) == nullptr) continue;
    const View out = call.allocate(i);
    bool done;
    if (i == 0) {
      done = sum_to(call.device, out, grad);
    } else {
      ShapedView other(call.view_of(3 - i));
      other.swap(0, 1);
      done = i == 1 ? hp::ops::matmul(step.on(call.device), call.device, out, grad, other)
                    : hp::ops::matmul(step.on(call.device), call.device, out, other, grad);
    }
    if (!done || !scaled(out, i == 0 ? 1 : 0)) return false;
  }
  return count_decomposed(call);
}

// Of two vectors, or row by row of two matrices.
bool dot(Call& call) {
  static StandardOp vectors("dot"), sum("sum");
  static PointwiseOp multiply("mul");
  if (!supports_matmul(call)) return false;
  const View x = call.view_of(0), y = call.view_of(1), out = call.allocate(0);
  if (x.ndim == 1) {
    return hp::ops::dot(vectors.on(call.device), call.device, ShapedView(out.data, out.dtype, 0, nullptr), x, y) &&
           count_decomposed(call);
  }
  const Temporary products(call.device, x.dtype, x.ndim, x.sizes);
  return multiply(call.device, products, {x, y}) &&
         hp::ops::sum(sum.on(call.device), call.device, out, products, uint64_t{1} << (x.ndim - 1),
                      out.ndim == x.ndim) &&
         count_decomposed(call);
}
bool dot_grad(Call& call) {
  static PointwiseOp multiply("mul");
  if (!supports_matmul(call)) return false;
  const View x = call.view_of(0), y = call.view_of(1);
  ShapedView grad(call.view_of(2));
  if (grad.ndim() < x.ndim) grad.unsqueeze(grad.ndim());
  for (int i : {0, 1}) {
    if (call.output(i) != nullptr && !multiply(call.device, call.allocate(i), {i == 0 ? y : x, grad})) return false;
  }
  return count_decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/matmul.inc"
