#include "../../ops/matmul.h"

#include <optional>

#include "../../ops/reduction.h"
#include "../parts.h"

namespace hp::paddle_adapter::ops {
namespace {

// A batch of matrices: a vector becomes a matrix of one row (`as_row`) or one column.
Shaped matrices(const View& given, bool as_row, bool transposed) {
  Shaped made(given);
  if (made.ndim() == 1) return made.unsqueeze(as_row ? 0 : 1);
  return transposed ? made.swap(made.ndim() - 2, made.ndim() - 1) : made;
}

int64_t rows(const View& m) { return m.sizes[m.ndim - 2]; }
int64_t columns(const View& m) { return m.sizes[m.ndim - 1]; }

// Joins the dimensions in front of the matrix to one; false where their strides do not allow it.
bool join_batch(Shaped& m) {
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
  m = Shaped(View{m.view().data, m.view().dtype, 3, sizes, strides});
  return true;
}

// Batches of one dimension, for operands that are broadcast to `sizes` already.
class Batches {
 public:
  Batches(Device& device, const Shaped& given) : joined(given) {
    if (join_batch(joined)) return;
    static Step step("copy");
    dense_.emplace(device, given.view().dtype, given.view().ndim, given.view().sizes);
    copied = copy(step.on(device), device, *dense_, given);
    joined = *dense_;
    join_batch(joined);
  }
  Shaped joined;
  bool copied = true;

 private:
  std::optional<Temporary> dense_;
};

// out = a @ b; out is contiguous and has the sizes of the broadcast batch.
bool product(const Service& service, Device& device, Shaped out, Shaped a, Shaped b) {
  const int batch = out.ndim() - 2;
  // A batch of rows on the left of a single matrix is one tall matrix.
  if (b.ndim() == 2 && batch > 0 && a.view().contiguous() && out.view().contiguous() && a.ndim() == out.ndim()) {
    const int64_t tall = a.view().numel() / columns(a);
    const int64_t left[] = {tall, columns(a)}, result[] = {tall, columns(b)};
    return hp::ops::matmul(service, device, Shaped(out.view().data, out.view().dtype, 2, result),
                           Shaped(a.view().data, a.view().dtype, 2, left), b);
  }
  if (batch == 0) return hp::ops::matmul(service, device, out, a, b);
  std::array<int64_t, 16> wanted;
  for (Shaped* m : {&a, &b}) {
    std::copy(out.view().sizes, out.view().sizes + batch, wanted.begin());
    wanted[batch] = rows(*m);
    wanted[batch + 1] = columns(*m);
    m->expand(out.ndim(), wanted.data());
  }
  if (!join_batch(out)) return false;
  const Batches left(device, a), right(device, b);
  return left.copied && right.copied && hp::ops::matmul(service, device, out, left.joined, right.joined);
}

// Vectors have no dimension in the output; it has it here.
Shaped output_matrices(const View& out, const View& x, const View& y) {
  Shaped made(out);
  if (x.ndim == 1) made.unsqueeze(y.ndim == 1 ? 0 : made.ndim() - 1);
  if (y.ndim == 1) made.unsqueeze(made.ndim());
  return made;
}

bool takes(const Call& call) {
  return call.plain() && is_float(to_core(call.kernel.dtype)) && call.input(0)->numel() != 0 &&
         call.input(1)->numel() != 0 && call.input(0)->dims().size() <= kMaxDimensions &&
         call.input(1)->dims().size() <= kMaxDimensions;
}

bool matmul(Call& call) {
  if (!takes(call)) return false;
  const View x = call.view_of(0), y = call.view_of(1);
  const View out = call.allocate(0);
  return product(call.service(), call.device, output_matrices(out, x, y), matrices(x, true, call.attr<bool>(0)),
                 matrices(y, false, call.attr<bool>(1)));
}

// The gradient of one factor: `a @ b`, in the shape of `of` without its transposition, summed over what was broadcast.
bool factor_grad(Call& call, DenseTensor* wanted, const View& given, bool as_row, Shaped a, Shaped b) {
  static Step step("matmul");
  if (wanted == nullptr) return true;
  const View out = call.allocate(*wanted);
  Shaped target(out);
  if (given.ndim == 1) target.unsqueeze(as_row ? 0 : 1);
  const Service& service = step.on(call.device);
  const int batch = std::max(a.ndim(), b.ndim()) - 2;
  // The gradient of a matrix that met a batch of rows is one product of tall matrices.
  if (target.ndim() == 2 && batch > 0 && a.ndim() == b.ndim()) {
    Shaped tall_a = a, tall_b = b;
    tall_a.swap(tall_a.ndim() - 2, tall_a.ndim() - 1);
    const bool left = tall_a.view().contiguous() && tall_b.view().contiguous();
    const int64_t height = a.view().numel() / rows(a);
    if (left && b.view().numel() / columns(b) == height) {
      const int64_t of_a[] = {height, rows(a)}, of_b[] = {height, columns(b)};
      Shaped flat(a.view().data, a.view().dtype, 2, of_a);
      return hp::ops::matmul(service, call.device, target, flat.swap(0, 1),
                             Shaped(b.view().data, b.view().dtype, 2, of_b));
    }
  }
  std::array<int64_t, 16> sizes{};
  for (int d = 0; d < batch; ++d) {
    sizes[d] = 1;
    for (const Shaped* m : {&a, &b}) {
      const int k = m->view().ndim - 2 - batch + d;
      if (k >= 0) sizes[d] = std::max(sizes[d], m->view().sizes[k]);
    }
  }
  sizes[batch] = rows(a);
  sizes[batch + 1] = columns(b);
  bool broadcast = target.ndim() != batch + 2;
  for (int d = 0; d < batch && !broadcast; ++d) broadcast = target.size(d) != sizes[d];
  if (!broadcast) return product(service, call.device, target, a, b);
  const Temporary whole(call.device, out.dtype, batch + 2, sizes.data());
  return product(service, call.device, whole, a, b) && sum_to(call.device, target, whole);
}

bool both_grads(Call& call, bool transpose_x, bool transpose_y) {
  if (!takes(call)) return false;
  const View x = call.view_of(0), y = call.view_of(1);
  transpose_x = transpose_x && x.ndim > 1, transpose_y = transpose_y && y.ndim > 1;
  const Shaped grad = output_matrices(call.view_of(2), x, y);
  const auto transposed = [](Shaped m) { return m.swap(m.ndim() - 2, m.ndim() - 1); };
  const Shaped a = matrices(x, true, transpose_x), b = matrices(y, false, transpose_y);  // grad belongs to a @ b
  const bool done = (transpose_x ? factor_grad(call, call.output(0), x, true, b, transposed(grad))
                                 : factor_grad(call, call.output(0), x, true, grad, transposed(b))) &&
                    (transpose_y ? factor_grad(call, call.output(1), y, false, transposed(grad), a)
                                 : factor_grad(call, call.output(1), y, false, transposed(a), grad));
  return done && decomposed(call);
}
bool matmul_grad(Call& call) { return both_grads(call, call.attr<bool>(0), call.attr<bool>(1)); }

// Batches of matrices, and a matrix with a vector.
bool bmm(Call& call) {
  if (!takes(call)) return false;
  const View x = call.view_of(0), y = call.view_of(1);
  const View out = call.allocate(0);
  return product(call.service(), call.device, output_matrices(out, x, y), matrices(x, true, false),
                 matrices(y, false, false));
}
bool bmm_grad(Call& call) { return both_grads(call, false, false); }
bool mv(Call& call) { return bmm(call); }
bool mv_grad(Call& call) { return both_grads(call, false, false); }

// out = beta * input + alpha * x @ y. Inputs: input, x, y.
bool addmm(Call& call) {
  static Step plain("matmul");
  if (!call.plain() || !is_float(to_core(call.kernel.dtype)) || call.input(0)->numel() == 0 ||
      call.input(1)->numel() == 0 || call.input(2)->numel() == 0 || !call.service().able()) {
    return false;
  }
  const View out = call.allocate(0);
  Shaped added(call.view_of(0));
  const auto factor = [&](int i) { return hp::ops::Factor{call.real(i), call.integer(i)}; };
  return hp::ops::addmm(call.service(), plain.on(call.device).kernel(), call.device, out,
                        added.expand(out.ndim, out.sizes), call.view_of(1), call.view_of(2), factor(0), factor(1));
}

// Inputs: input, x, y, the gradient. Attributes: alpha, beta.
bool addmm_grad(Call& call) {
  static Step step("matmul");
  static PointwiseStep scale("scale");
  for (int i = 1; i < 4; ++i) {
    const DenseTensor& tensor = *call.input(i);
    if (!tensor.initialized() || !on_device(tensor) || tensor.numel() == 0) return false;
  }
  if (!is_float(to_core(call.kernel.dtype)) || !step.on(call.device).able()) return false;
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
      Shaped other(call.view_of(3 - i));
      other.swap(0, 1);
      done = i == 1 ? hp::ops::matmul(step.on(call.device), call.device, out, grad, other)
                    : hp::ops::matmul(step.on(call.device), call.device, out, other, grad);
    }
    if (!done || !scaled(out, i == 0 ? 1 : 0)) return false;
  }
  return decomposed(call);
}

// Of vectors, or of each row.
bool dot(Call& call) {
  static Step vectors("dot"), sum("sum");
  static PointwiseStep multiply("mul");
  if (!takes(call)) return false;
  const View x = call.view_of(0), y = call.view_of(1), out = call.allocate(0);
  if (x.ndim == 1) {
    return hp::ops::dot(vectors.on(call.device), call.device, Shaped(out.data, out.dtype, 0, nullptr), x, y) &&
           decomposed(call);
  }
  const Temporary products(call.device, x.dtype, x.ndim, x.sizes);
  return multiply(call.device, products, {x, y}) &&
         hp::ops::sum(sum.on(call.device), call.device, out, products, uint64_t{1} << (x.ndim - 1),
                      out.ndim == x.ndim) &&
         decomposed(call);
}
bool dot_grad(Call& call) {
  static PointwiseStep multiply("mul");
  if (!takes(call)) return false;
  const View x = call.view_of(0), y = call.view_of(1);
  Shaped grad(call.view_of(2));
  if (grad.ndim() < x.ndim) grad.unsqueeze(grad.ndim());
  for (int i : {0, 1}) {
    if (call.output(i) != nullptr && !multiply(call.device, call.allocate(i), {i == 0 ? y : x, grad})) return false;
  }
  return decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/matmul.inc"
