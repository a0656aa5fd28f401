// einsum of one or two operands: labels that occur in one operand only are summed first, then one batched matmul.
#include <algorithm>

#include "dispatch/composition.h"
#include "ops/matmul.h"
#include "ops/reduction.h"

namespace hp::paddle_adapter::ops {
namespace {

StandardOp matmul_op("matmul"), sum_op("sum");

bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

// A tensor with a label for each dimension.
struct Labeled {
  ShapedView view;
  std::string labels;

  int64_t size(char label) const { return view.view().sizes[labels.find(label)]; }
  // The tensor with its dimensions permuted to `order`, a permutation of its labels.
  ShapedView permuted(const std::string& order) const {
    ShapedView result = view;
    for (size_t d = 0; d < order.size(); ++d) {
      const auto from = static_cast<int>(labels.find(order[d]));
      result.size(static_cast<int>(d)) = view.view().sizes[from];
      result.stride(static_cast<int>(d)) = view.view().strides[from];
    }
    return result;
  }
};

// A contiguous view of an operand in another dimension order, summed over the labels left out.
class Arranged {
 public:
  bool set(Device& device, const Labeled& operand, const std::string& order) {
    std::string summed;
    for (char label : operand.labels) {
      if (!has(order, label)) summed += label;
    }
    std::array<int64_t, 16> sizes{};
    for (size_t d = 0; d < order.size(); ++d) sizes[d] = operand.size(order[d]);
    const ShapedView from = operand.permuted(order + summed);
    const auto ndim = static_cast<int>(order.size());
    if (summed.empty() && from.view().contiguous()) return view = from, true;
    temporary_ = std::make_unique<Temporary>(device, operand.view.view().dtype, ndim, sizes.data());
    view = *temporary_;
    if (summed.empty()) return copy(copy_op.on(device), device, view, from);
    uint64_t dims = 0;
    for (size_t d = 0; d < summed.size(); ++d) dims |= uint64_t{1} << (order.size() + d);
    return hp::ops::sum(sum_op.on(device), device, view, from, dims, false);
  }
  ShapedView view;

 private:
  std::unique_ptr<Temporary> temporary_;
};

int64_t size_of(const Labeled& operand, const std::string& labels) {
  int64_t size = 1;
  for (char label : labels) size *= operand.size(label);
  return size;
}

// out = from, permuted to the order of `out` and repeated along the labels it lacks.
bool broadcast_to(Device& device, const Labeled& out, const View& from, const std::string& labels) {
  ShapedView expanded = out.view;
  for (int d = 0; d < expanded.ndim(); ++d) {
    const size_t position = labels.find(out.labels[d]);
    expanded.stride(d) = position == std::string::npos ? 0 : from.strides[position];
  }
  expanded.set_data(from.data);
  return copy(copy_op.on(device), device, out.view, expanded);
}

// out = the products of a and b, summed over the labels that out lacks, repeated along those that only out has.
bool contract(Device& device, const Labeled& out, const Labeled& a, const Labeled& b) {
  std::string batch, rows, inner, columns;
  for (char label : out.labels) {
    if (has(a.labels, label)) {
      (has(b.labels, label) ? batch : rows) += label;
    } else if (has(b.labels, label)) {
      columns += label;
    }
  }
  for (char label : a.labels) {
    if (has(b.labels, label) && !has(out.labels, label)) inner += label;
  }
  Arranged left, right;
  if (!left.set(device, a, batch + rows + inner) || !right.set(device, b, batch + inner + columns)) return false;
  const int64_t count = size_of(a, batch), m = size_of(a, rows), k = size_of(a, inner), n = size_of(b, columns);
  const std::string order = batch + rows + columns;
  std::array<int64_t, 16> sizes{};
  for (size_t d = 0; d < order.size(); ++d) sizes[d] = out.size(order[d]);
  const DType dtype = out.view.view().dtype;
  const auto ndim = static_cast<int>(order.size());
  // The matmul writes to the output if the order matches, else to a temporary.
  const bool direct = order == out.labels && out.view.view().contiguous();
  std::unique_ptr<Temporary> temporary;
  if (!direct) temporary = std::make_unique<Temporary>(device, dtype, ndim, sizes.data());
  const View& result = direct ? out.view.view() : temporary->view();
  const int64_t x_sizes[] = {count, m, k}, y_sizes[] = {count, k, n}, z_sizes[] = {count, m, n};
  const ShapedView x(left.view.view().data, dtype, 3, x_sizes), y(right.view.view().data, dtype, 3, y_sizes),
      z(result.data, dtype, 3, z_sizes);
  if (!hp::ops::matmul(matmul_op.on(device), device, z, x, y)) return false;
  return direct || broadcast_to(device, out, result, order);
}

// The same for one operand.
bool rearrange(Device& device, const Labeled& out, const Labeled& a) {
  std::string order;
  for (char label : out.labels) {
    if (has(a.labels, label)) order += label;
  }
  Arranged arranged;
  return arranged.set(device, a, order) && broadcast_to(device, out, arranged.view, order);
}

// A parsed equation.
struct Equation {
  std::vector<std::string> operands;
  std::string output;

  // False if not supported here: more than two operands, an ellipsis, a repeated label (diagonal), or sizes that
  // differ.
  bool read(const Call& call, List<const DenseTensor> tensors) {
    std::string equation = call.attr<std::string>(0);
    equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
    const size_t arrow = equation.find("->");
    if (arrow == std::string::npos || has(equation, '.')) return false;
    output = equation.substr(arrow + 2);
    operands.emplace_back();
    for (char letter : equation.substr(0, arrow)) {
      if (letter == ',') {
        operands.emplace_back();
      } else {
        operands.back() += letter;
      }
    }
    if (operands.size() > 2 || static_cast<int>(operands.size()) != tensors.count || output.size() > kMaxKernelRank ||
        repeats(output)) {
      return false;
    }
    std::array<int64_t, 256> sizes{};
    for (int i = 0; i < tensors.count; ++i) {
      const auto& dims = tensors[i]->dims();
      const std::string& labels = operands[i];
      if (static_cast<int>(labels.size()) != dims.size() || dims.size() > kMaxKernelRank || repeats(labels) ||
          tensors[i]->numel() == 0) {
        return false;
      }
      for (int d = 0; d < dims.size(); ++d) {
        int64_t& known = sizes[static_cast<unsigned char>(labels[d])];
        if (known != 0 && known != dims[d]) return false;
        known = dims[d];
      }
    }
    for (char label : output) {
      if (sizes[static_cast<unsigned char>(label)] == 0) return false;
    }
    return is_float(to_core(call.kernel.dtype)) && matmul_op.on(call.device).can_serve();
  }

 private:
  static bool repeats(std::string labels) {
    std::sort(labels.begin(), labels.end());
    return std::adjacent_find(labels.begin(), labels.end()) != labels.end();
  }
};

// Outputs: out, the operands saved for the gradient, and tensors with their shapes.
bool einsum(Call& call) {
  Equation equation;
  const auto operands = call.inputs(0);
  if (!call.inputs_ready() || !equation.read(call, operands)) return false;
  const Labeled out{ShapedView(call.allocate(0)), equation.output},
      a{ShapedView(view(*operands[0])), equation.operands[0]};
  const bool done = operands.count == 1
                        ? rearrange(call.device, out, a)
                        : contract(call.device, out, a, {ShapedView(view(*operands[1])), equation.operands[1]});
  if (!done) return false;
  for (int i = 0; i < call.outputs(1).count; ++i) {
    if (call.outputs(1)[i] != nullptr) *call.outputs(1)[i] = *operands[i];
  }
  return count_decomposed(call);
}

// Inputs: tensors with the operands' shapes, the saved operands, out_grad. For equations supported here, the CPU kernel
// saves the same.
bool einsum_grad(Call& call) {
  Equation equation;
  const auto shapes = call.inputs(0), operands = call.inputs(1);
  if (shapes.count != operands.count || !is_ready(call.input(2))) return false;
  for (int i = 0; i < operands.count; ++i) {
    if (!is_ready(operands[i]) || operands[i]->dims() != shapes[i]->dims()) return false;
  }
  if (!equation.read(call, operands)) return false;
  const auto grads = call.outputs(0);
  const Labeled grad{ShapedView(call.view_of(2)), equation.output};
  for (int i = 0; i < operands.count; ++i) {
    if (grads[i] == nullptr) continue;
    const Labeled out{ShapedView(call.allocate(*grads[i])), equation.operands[i]};
    const bool done = operands.count == 1 ? rearrange(call.device, out, grad)
                                          : contract(call.device, out, grad,
                                                     {ShapedView(view(*operands[1 - i])), equation.operands[1 - i]});
    if (!done) return false;
  }
  return count_decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/einsum.inc"
