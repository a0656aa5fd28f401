// Sums of products by labels: one matrix product of what is left when labels of one operand are summed away.
#include <algorithm>

#include "../../ops/matmul.h"
#include "../../ops/reduction.h"
#include "../parts.h"

namespace hp::paddle_adapter::ops {
namespace {

Step copying("copy"), products("matmul"), sums("sum");

bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

// A tensor with a label for each dimension.
struct Labelled {
  Shaped view;
  std::string labels;

  int64_t size(char label) const { return view.view().sizes[labels.find(label)]; }
  // Its dimensions in the order of `wanted`, all of which it has.
  Shaped in_order(const std::string& wanted) const {
    Shaped made = view;
    for (size_t d = 0; d < wanted.size(); ++d) {
      const auto from = static_cast<int>(labels.find(wanted[d]));
      made.size(static_cast<int>(d)) = view.view().sizes[from];
      made.stride(static_cast<int>(d)) = view.view().strides[from];
    }
    return made;
  }
};

// A dense copy in another order, without the labels that are not wanted: those are summed over.
class Arranged {
 public:
  bool set(Device& device, const Labelled& given, const std::string& wanted) {
    std::string summed;
    for (char label : given.labels) {
      if (!has(wanted, label)) summed += label;
    }
    std::array<int64_t, 16> sizes{};
    for (size_t d = 0; d < wanted.size(); ++d) sizes[d] = given.size(wanted[d]);
    const Shaped from = given.in_order(wanted + summed);
    const auto ndim = static_cast<int>(wanted.size());
    if (summed.empty() && from.view().contiguous()) return view = from, true;
    made_ = std::make_unique<Temporary>(device, given.view.view().dtype, ndim, sizes.data());
    view = *made_;
    if (summed.empty()) return copy(copying.on(device), device, view, from);
    uint64_t dims = 0;
    for (size_t d = 0; d < summed.size(); ++d) dims |= uint64_t{1} << (wanted.size() + d);
    return hp::ops::sum(sums.on(device), device, view, from, dims, false);
  }
  Shaped view;

 private:
  std::unique_ptr<Temporary> made_;
};

int64_t product_of(const Labelled& given, const std::string& labels) {
  int64_t size = 1;
  for (char label : labels) size *= given.size(label);
  return size;
}

// out = the sum of products of a and b over the labels that out lacks. Labels of out that neither has are repeated.
bool contract(Device& device, const Labelled& out, const Labelled& a, const Labelled& b) {
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
  const int64_t count = product_of(a, batch), m = product_of(a, rows), k = product_of(a, inner),
                n = product_of(b, columns);
  const std::string found = batch + rows + columns;
  std::array<int64_t, 16> sizes{};
  for (size_t d = 0; d < found.size(); ++d) sizes[d] = out.size(found[d]);
  const DType dtype = out.view.view().dtype;
  const auto ndim = static_cast<int>(found.size());
  // The result in this order is the output itself, or copied to it.
  const bool direct = found == out.labels && out.view.view().contiguous();
  std::unique_ptr<Temporary> made;
  if (!direct) made = std::make_unique<Temporary>(device, dtype, ndim, sizes.data());
  const View& whole = direct ? out.view.view() : made->view();
  const int64_t of_left[] = {count, m, k}, of_right[] = {count, k, n}, of_whole[] = {count, m, n};
  const Shaped x(left.view.view().data, dtype, 3, of_left), y(right.view.view().data, dtype, 3, of_right),
      z(whole.data, dtype, 3, of_whole);
  if (!hp::ops::matmul(products.on(device), device, z, x, y)) return false;
  if (direct) return true;
  Shaped spread = out.view;
  for (int d = 0; d < spread.ndim(); ++d) {
    const size_t at = found.find(out.labels[d]);
    spread.stride(d) = at == std::string::npos ? 0 : whole.strides[at];
  }
  spread.set_data(whole.data);
  return copy(copying.on(device), device, out.view, spread);
}

// The same of one operand.
bool rearrange(Device& device, const Labelled& out, const Labelled& a) {
  std::string found;
  for (char label : out.labels) {
    if (has(a.labels, label)) found += label;
  }
  Arranged made;
  if (!made.set(device, a, found)) return false;
  Shaped spread = out.view;
  for (int d = 0; d < spread.ndim(); ++d) {
    const size_t at = found.find(out.labels[d]);
    spread.stride(d) = at == std::string::npos ? 0 : made.view.view().strides[at];
  }
  spread.set_data(made.view.view().data);
  return copy(copying.on(device), device, out.view, spread);
}

// The labels of the operands and of the output, for what is served here: one or two operands, no ellipsis, no
// diagonals, sizes that agree.
struct Equation {
  std::vector<std::string> operands;
  std::string output;

  bool read(const Call& call, List<const DenseTensor> given) {
    const auto& text = call.attr<std::string>(0);
    std::string plain = text;
    plain.erase(std::remove(plain.begin(), plain.end(), ' '), plain.end());
    const size_t arrow = plain.find("->");
    if (arrow == std::string::npos || has(plain, '.')) return false;
    output = plain.substr(arrow + 2);
    operands.emplace_back();
    for (char letter : plain.substr(0, arrow)) {
      if (letter == ',') {
        operands.emplace_back();
      } else {
        operands.back() += letter;
      }
    }
    if (operands.size() > 2 || static_cast<int>(operands.size()) != given.count || output.size() > kMaxDimensions ||
        repeats(output)) {
      return false;
    }
    std::array<int64_t, 256> sizes{};
    for (int i = 0; i < given.count; ++i) {
      const auto& dims = given[i]->dims();
      const std::string& labels = operands[i];
      if (static_cast<int>(labels.size()) != dims.size() || dims.size() > kMaxDimensions || repeats(labels) ||
          given[i]->numel() == 0) {
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
    return is_float(to_core(call.kernel.dtype)) && products.on(call.device).able();
  }

 private:
  static bool repeats(std::string labels) {
    std::sort(labels.begin(), labels.end());
    return std::adjacent_find(labels.begin(), labels.end()) != labels.end();
  }
};

// Outputs: out, and what the gradient gets of each operand: the operand itself, and its sizes.
bool einsum(Call& call) {
  Equation equation;
  const auto given = call.inputs(0);
  if (!call.plain() || !equation.read(call, given)) return false;
  const Labelled out{Shaped(call.allocate(0)), equation.output}, a{Shaped(view(*given[0])), equation.operands[0]};
  const bool done = given.count == 1 ? rearrange(call.device, out, a)
                                     : contract(call.device, out, a, {Shaped(view(*given[1])), equation.operands[1]});
  if (!done) return false;
  for (int i = 0; i < call.outputs(1).count; ++i) {
    if (call.outputs(1)[i] != nullptr) *call.outputs(1)[i] = *given[i];
  }
  return decomposed(call);
}

// Inputs: sizes of the operands, what was kept of them, the gradient. The CPU's kernel keeps something else, but not
// for an equation that is served here.
bool einsum_grad(Call& call) {
  Equation equation;
  const auto sizes = call.inputs(0), given = call.inputs(1);
  if (sizes.count != given.count || !ready(call.input(2))) return false;
  for (int i = 0; i < given.count; ++i) {
    if (!ready(given[i]) || given[i]->dims() != sizes[i]->dims()) return false;
  }
  if (!equation.read(call, given)) return false;
  const auto wanted = call.outputs(0);
  const Labelled grad{Shaped(call.view_of(2)), equation.output};
  for (int i = 0; i < given.count; ++i) {
    if (wanted[i] == nullptr) continue;
    const Labelled out{Shaped(call.allocate(*wanted[i])), equation.operands[i]};
    const bool done = given.count == 1
                          ? rearrange(call.device, out, grad)
                          : contract(call.device, out, grad, {Shaped(view(*given[1 - i])), equation.operands[1 - i]});
    if (!done) return false;
  }
  return decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/einsum.inc"
