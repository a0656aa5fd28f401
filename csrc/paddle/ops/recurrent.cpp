// Recurrent networks: a matmul and a cell kernel for each time step. The tensors needed for the gradient are saved in
// the output `reserve`, in our own layout (rnn_reserve.h).
#include "ops/recurrent.h"

#include "ops/creation.h"
#include "ops/generator.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/reduction.h"
#include "ops/rnn_reserve.h"

namespace hp::paddle_adapter::ops {
namespace {

struct Steps {
  StandardOp lstm{"lstm_cell"}, lstm_backward{"lstm_cell_backward"}, gru{"gru_cell"}, gru_backward{"gru_cell_backward"};
  StandardOp matmul{"matmul"}, sum{"sum"}, copy_op{"copy"}, arange{"arange"}, dropout{"dropout"},
      dropout_backward{"dropout_backward"};
  PointwiseOp add{"add"}, tanh{"tanh"}, tanh_backward{"tanh_backward"}, relu{"relu"},
      relu_backward{"threshold_backward"}, less{"lt"}, where{"where"};
};
Steps& steps() {
  static Steps all;
  return all;
}

ShapedView transposed(const View& matrix) { return ShapedView(matrix).swap(0, 1); }

// Matrix `i` of a 3-D tensor.
ShapedView matrix_at(const View& tensor, int64_t i) { return ShapedView(tensor).narrow(0, i, 1).drop(0); }

// A 3-D tensor with its first two dimensions joined.
ShapedView as_rows(const View& tensor) {
  const int64_t sizes[] = {tensor.sizes[0] * tensor.sizes[1], tensor.sizes[2]};
  return ShapedView(tensor.data, tensor.dtype, 2, sizes);
}

// A mask, time x batch x 1, of the time steps within each sequence's length. Absent if the call has no lengths.
class Lengths {
 public:
  bool set(Call& call, const RnnConfig& net, const DenseTensor* lengths) {
    if (lengths == nullptr) return true;
    const View values = view(*lengths);
    const int64_t sizes[] = {net.time, net.batch, 1}, row[] = {1, net.batch, 1};
    const Temporary times(call.device, values.dtype, 1, sizes);
    mask_.emplace(call.device, DType::kBool, 3, sizes);
    zero_value_.emplace(call.device, net.dtype, 0, nullptr);
    const int64_t column[] = {net.time, 1, 1};
    Steps& step = steps();
    return hp::ops::arange(step.arange.on(call.device), call.device, times, int64_t{0}, int64_t{1}) &&
           step.less(call.device, *mask_,
                     {ShapedView(times.view().data, values.dtype, 3, column),
                      ShapedView(values.data, values.dtype, 3, row)}) &&
           zero(call.device, *zero_value_);
  }
  bool any() const { return mask_.has_value(); }
  const View& all() const { return *mask_; }
  const View& zero_value() const { return *zero_value_; }
  // The mask of one time step, batch x 1.
  ShapedView at(int64_t time) const { return matrix_at(*mask_, time); }

 private:
  std::optional<Temporary> mask_, zero_value_;
};

bool supports_recurrent(const Call& call, const RnnConfig& net) {
  Steps& step = steps();
  Device& device = call.device;
  if (!is_float(net.dtype) || !step.matmul.on(device).can_serve()) return false;
  switch (net.kind) {
    case RnnMode::kLstm:
      return step.lstm.on(device).can_serve() && step.lstm_backward.on(device).can_serve();
    case RnnMode::kGru:
      return step.gru.on(device).can_serve() && step.gru_backward.on(device).can_serve();
    default:
      return true;
  }
}

// ---- Forward

// The weights and biases of one direction of a layer.
struct Weights {
  Weights(const Call& call, const RnnConfig& net, int64_t layer, int64_t direction) {
    const auto all = call.inputs(2);
    const auto first = static_cast<int>(2 * net.index(layer, direction));
    const auto biases = static_cast<int>(2 * net.layers * net.directions) + first;
    input = view(*all[first]), hidden = view(*all[first + 1]);
    input_bias = view(*all[biases]), hidden_bias = view(*all[biases + 1]);
  }
  View input, hidden, input_bias, hidden_bias;
};

bool run_cell(Device& device, const RnnConfig& net, const RnnReserve& reserve, int64_t layer, int64_t direction,
              const RnnTimeStep& now, const View& input_gates, const View& hidden_gates, const Weights& weights) {
  Steps& step = steps();
  const ShapedView before = reserve.hidden(layer, direction, now.before, 1),
                   after = reserve.hidden(layer, direction, now.after, 1);
  if (net.kind == RnnMode::kLstm) {
    return hp::ops::lstm_cell(step.lstm.on(device), device, after, reserve.cell(layer, direction, now.after),
                              reserve.workspace(layer, direction, now.time), input_gates, hidden_gates,
                              reserve.cell(layer, direction, now.before), weights.input_bias, weights.hidden_bias);
  }
  if (net.kind == RnnMode::kGru) {
    return hp::ops::gru_cell(step.gru.on(device), device, after, reserve.workspace(layer, direction, now.time),
                             input_gates, hidden_gates, before, weights.input_bias, weights.hidden_bias);
  }
  PointwiseOp& activation = net.kind == RnnMode::kTanh ? step.tanh : step.relu;
  return step.add(device, after, {input_gates, hidden_gates}, {1}) && activation(device, after, {after});
}

// One direction of a layer. Writes its slice of the layer's output, `out`.
bool run_direction(Call& call, const RnnConfig& net, const RnnReserve& reserve, const Lengths& lengths, int64_t layer,
                   int64_t direction, const View& input, const View& out) {
  Steps& step = steps();
  Device& device = call.device;
  const OpBinding &matmul = step.matmul.on(device), &copy_op = step.copy_op.on(device);
  const Weights weights(call, net, layer, direction);
  const int64_t gate_width = net.gates * net.width, all[] = {net.time, net.batch, gate_width},
                one[] = {net.batch, gate_width};
  const Temporary input_gates(device, net.dtype, 3, all), hidden_gates(device, net.dtype, 2, one);
  if (!hp::ops::matmul(matmul, device, as_rows(input_gates), as_rows(input), transposed(weights.input))) return false;
  if (net.gates == 1 && !(step.add(device, input_gates, {input_gates, weights.input_bias}, {1}) &&
                          step.add(device, input_gates, {input_gates, weights.hidden_bias}, {1}))) {
    return false;
  }
  const int64_t index = net.index(layer, direction);
  const RnnTimeStep start(net, direction, 0), end(net, direction, net.time - 1);
  const auto initial = call.inputs(1);
  if (!copy(copy_op, device, reserve.hidden(layer, direction, start.before, 1), matrix_at(view(*initial[0]), index)))
    return false;
  if (net.has_cells() &&
      !copy(copy_op, device, reserve.cell(layer, direction, start.before), matrix_at(view(*initial[1]), index))) {
    return false;
  }
  for (int64_t k = 0; k < net.time; ++k) {
    const RnnTimeStep now(net, direction, k);
    const ShapedView before = reserve.hidden(layer, direction, now.before, 1),
                     after = reserve.hidden(layer, direction, now.after, 1);
    if (!hp::ops::matmul(matmul, device, hidden_gates, before, transposed(weights.hidden)) ||
        !run_cell(device, net, reserve, layer, direction, now, matrix_at(input_gates, now.time), hidden_gates,
                  weights)) {
      return false;
    }
    if (!lengths.any()) continue;
    // A sequence that has ended keeps its state.
    const ShapedView mask = lengths.at(now.time);
    if (!step.where(device, after, {mask, after, before})) return false;
    if (!net.has_cells()) continue;
    const ShapedView cell = reserve.cell(layer, direction, now.after);
    if (!step.where(device, cell, {mask, cell, reserve.cell(layer, direction, now.before)})) return false;
  }
  const int64_t states[] = {net.time, net.batch, net.width};
  const ShapedView result(reserve.hidden(layer, direction, 1 - direction, net.time).view().data, net.dtype, 3, states);
  const ShapedView slice = ShapedView(out).narrow(2, direction * net.width, net.width);
  const bool written = lengths.any() ? step.where(device, slice, {lengths.all(), result, lengths.zero_value()})
                                     : copy(copy_op, device, slice, result);
  const auto last = call.outputs(2);
  return written &&
         copy(copy_op, device, matrix_at(view(*last[0]), index), reserve.hidden(layer, direction, end.after, 1)) &&
         (!net.has_cells() ||
          copy(copy_op, device, matrix_at(view(*last[1]), index), reserve.cell(layer, direction, end.after)));
}

bool run_layers(Call& call, const RnnConfig& net, const RnnReserve& reserve, const Lengths& lengths) {
  Steps& step = steps();
  const View last = view(*call.output(0));
  for (int64_t layer = 0; layer < net.layers; ++layer) {
    const ShapedView input = layer == 0 ? ShapedView(call.view_of(0)) : reserve.input(layer);
    const ShapedView out = layer == net.layers - 1 ? ShapedView(last) : reserve.input(layer + 1);
    for (int64_t direction = 0; direction < net.directions; ++direction) {
      if (!run_direction(call, net, reserve, lengths, layer, direction, input, out)) return false;
    }
    if (layer == net.layers - 1 || !net.has_dropout()) continue;
    const PhiloxState philox = take_blocks(call, hp::ops::blocks_for_32bit(net.output()), call.integer(6));
    if (!hp::ops::dropout(step.dropout.on(call.device), call.device, out, reserve.mask(layer + 1), out, net.dropout,
                          philox)) {
      return false;
    }
  }
  return true;
}

// Inputs: x, pre_state, weight_list, sequence_length. Outputs: out, dropout_state, state, reserve.
bool rnn(Call& call) {
  RnnConfig net;
  if (!call.inputs_ready() || !net.read(call) || !supports_recurrent(call, net)) return false;
  call.allocate(0);
  for (DenseTensor* state : call.outputs(2)) call.allocate(*state);
  std::optional<Temporary> temporary;
  void* memory;
  const int64_t size = RnnReserve::size(net);
  if (net.is_test) {
    memory = temporary.emplace(call.device, net.dtype, 1, &size).view().data;
  } else {
    // dropout_state is one tensor for all calls of a layer, so the dropout masks are saved in `reserve`.
    call.output(1)->Resize({1});
    call.context.Alloc(call.output(1), phi::DataType::UINT8);
    call.output(3)->Resize({size});
    memory = call.context.Alloc(call.output(3), call.kernel.dtype);
  }
  const RnnReserve reserve(net, memory);
  Lengths lengths;
  return lengths.set(call, net, call.input(3)) && run_layers(call, net, reserve, lengths) && count_decomposed(call);
}

// ---- Backward

// Gradients of one direction's states, updated from the last time step to the first.
class StateGrads {
 public:
  StateGrads(Device& device, const RnnConfig& net) : hidden(device, net), cell(device, net), next_cell(device, net) {}
  struct State : Temporary {
    State(Device& device, const RnnConfig& net) : State(device, net.dtype, std::array{net.batch, net.width}) {}
    State(Device& device, DType dtype, std::array<int64_t, 2> sizes) : Temporary(device, dtype, 2, sizes.data()) {}
  };
  State hidden, cell, next_cell;
};

// to = matrix `index` of `from`, or zero if `from` is absent.
bool copy_or_zero(Device& device, const View& to, const DenseTensor* from, int64_t index) {
  return is_ready(from) ? copy(steps().copy_op.on(device), device, to, matrix_at(view(*from), index))
                        : zero(device, to);
}

class Backward {
 public:
  Backward(Call& call, const RnnConfig& net, const RnnReserve& reserve, const Lengths& lengths)
      : call_(call), device_(call.device), net_(net), reserve_(reserve), lengths_(lengths) {}

  bool run() {
    const View last = call_.view_of(7);  // undefined or unreadable: zero, see below
    std::unique_ptr<Temporary> above, below;
    const int64_t sizes[] = {net_.time, net_.batch, net_.directions * net_.width};
    if (!is_ready(call_.input(7))) {
      above = std::make_unique<Temporary>(device_, net_.dtype, 3, sizes);
      if (!zero(device_, *above)) return false;
    }
    for (int64_t layer = net_.layers - 1; layer >= 0; --layer) {
      const ShapedView grad = above ? ShapedView(*above) : ShapedView(last);
      ShapedView grad_input;
      if (layer > 0) {
        below = std::make_unique<Temporary>(device_, net_.dtype, 3, sizes);
        grad_input = *below;
      } else if (call_.output(0) != nullptr) {
        call_.output(0)->Resize(call_.input(0)->dims());
        grad_input = ShapedView(call_.allocate(0));
      }
      for (int64_t direction = 0; direction < net_.directions; ++direction) {
        if (!run_direction(layer, direction, grad, grad_input)) return false;
      }
      if (layer == 0) break;
      if (net_.has_dropout() &&
          !hp::ops::dropout_backward(step_.dropout_backward.on(device_), device_, grad_input, grad_input,
                                     reserve_.mask(layer), net_.dropout == 1 ? 0 : 1 / (1 - net_.dropout))) {
        return false;
      }
      above.swap(below);
    }
    return true;
  }

 private:
  // `grad_input` is the sum over the directions; undefined if not needed.
  bool run_direction(int64_t layer, int64_t direction, const View& grad, const View& grad_input) {
    const int64_t index = net_.index(layer, direction), gate_width = net_.gates * net_.width;
    const Weights weights(call_, net_, layer, direction);
    const int64_t states[] = {net_.time, net_.batch, net_.width}, all[] = {net_.time, net_.batch, gate_width};
    const Temporary grads(device_, net_.dtype, 3, states), gates(device_, net_.dtype, 3, all);
    std::optional<Temporary> hidden_gates;  // for a GRU, they differ from the input's gates
    if (net_.kind == RnnMode::kGru) hidden_gates.emplace(device_, net_.dtype, 3, all);
    const ShapedView slice = ShapedView(grad).narrow(2, direction * net_.width, net_.width);
    const bool copied = lengths_.any() ? step_.where(device_, grads, {lengths_.all(), slice, lengths_.zero_value()})
                                       : copy(step_.copy_op.on(device_), device_, grads, slice);
    StateGrads state(device_, net_);
    if (!copied || !copy_or_zero(device_, state.hidden, state_grad(0), index)) return false;
    if (net_.has_cells() && !copy_or_zero(device_, state.cell, state_grad(1), index)) return false;
    const View& to_hidden = hidden_gates ? hidden_gates->view() : gates.view();
    for (int64_t k = net_.time - 1; k >= 0; --k) {
      const RnnTimeStep now(net_, direction, k);
      if (!run_step(layer, direction, now, matrix_at(grads, now.time), matrix_at(gates, now.time),
                    matrix_at(to_hidden, now.time), weights, state)) {
        return false;
      }
    }
    const ShapedView input = layer == 0 ? ShapedView(call_.view_of(0)) : reserve_.input(layer);
    return write_states(index, state) && write_weights(index, gates, to_hidden, input, layer, direction) &&
           write_input_grad(grad_input, gates, weights, direction);
  }

  // One time step: computes the gradients of its gates, and turns the gradients of the states after it into those of
  // the states before it.
  bool run_step(int64_t layer, int64_t direction, const RnnTimeStep& now, const View& grad, const View& gates,
                const View& hidden_gates, const Weights& weights, StateGrads& state) {
    const View& hidden = state.hidden.view();
    const StateGrads::State total(device_, net_), direct(device_, net_);
    if (!step_.add(device_, total, {grad, hidden}, {1})) return false;
    const bool masked = lengths_.any();
    std::optional<StateGrads::State> ended_hidden, ended_cell;
    if (masked) {
      const ShapedView mask = lengths_.at(now.time);
      ended_hidden.emplace(device_, net_);
      if (!step_.where(device_, *ended_hidden, {mask, lengths_.zero_value(), hidden}) ||
          !step_.where(device_, total, {mask, total, lengths_.zero_value()})) {
        return false;
      }
      if (net_.has_cells()) {
        ended_cell.emplace(device_, net_);
        if (!step_.where(device_, *ended_cell, {mask, lengths_.zero_value(), state.cell}) ||
            !step_.where(device_, state.cell, {mask, state.cell, lengths_.zero_value()})) {
          return false;
        }
      }
    }
    const OpBinding& matmul = step_.matmul.on(device_);
    bool done;
    switch (net_.kind) {
      case RnnMode::kLstm:
        done = hp::ops::lstm_cell_backward(step_.lstm_backward.on(device_), device_, gates, state.next_cell, total,
                                           state.cell, reserve_.cell(layer, direction, now.before),
                                           reserve_.cell(layer, direction, now.after),
                                           reserve_.workspace(layer, direction, now.time)) &&
               (masked ? step_.add(device_, state.cell, {state.next_cell, *ended_cell}, {1})
                       : copy(step_.copy_op.on(device_), device_, state.cell, state.next_cell));
        break;
      case RnnMode::kGru:
        done = hp::ops::gru_cell_backward(step_.gru_backward.on(device_), device_, gates, hidden_gates, direct, total,
                                          reserve_.workspace(layer, direction, now.time));
        break;
      case RnnMode::kTanh:
        done = step_.tanh_backward(device_, gates, {total, reserve_.hidden(layer, direction, now.after, 1)});
        break;
      default:
        done = step_.relu_backward(device_, gates, {total, reserve_.hidden(layer, direction, now.after, 1)}, {0});
        break;
    }
    return done && hp::ops::matmul(matmul, device_, hidden, hidden_gates, weights.hidden) &&
           (net_.kind != RnnMode::kGru || step_.add(device_, hidden, {hidden, direct}, {1})) &&
           (!masked || step_.add(device_, hidden, {hidden, *ended_hidden}, {1}));
  }

  bool write_states(int64_t index, const StateGrads& state) {
    const auto outputs = call_.outputs(1);
    for (int i = 0; i < outputs.count; ++i) {
      if (outputs[i] == nullptr) continue;
      outputs[i]->Resize(call_.inputs(1)[i]->dims());
      const View out = call_.allocate(*outputs[i]);
      const View& grad = i == 0 ? state.hidden.view() : state.cell.view();
      if (!copy(step_.copy_op.on(device_), device_, matrix_at(out, index), grad)) return false;
    }
    return true;
  }

  bool write_weights(int64_t index, const View& gates, const View& hidden_gates, const View& input, int64_t layer,
                     int64_t direction) {
    const OpBinding &matmul = step_.matmul.on(device_), &sum = step_.sum.on(device_);
    const auto outputs = call_.outputs(2);
    const auto output = [&](int64_t i) {
      return i < outputs.count && outputs[static_cast<int>(i)] != nullptr
                 ? call_.allocate(*outputs[static_cast<int>(i)])
                 : View{};
    };
    const int64_t first = 2 * index, biases = 2 * net_.layers * net_.directions + first;
    const ShapedView of_input = as_rows(gates), of_hidden = as_rows(hidden_gates);
    const ShapedView states = reserve_.hidden(layer, direction, direction, net_.time);  // the state before each step
    if (const View to = output(first);
        to.defined() && !hp::ops::matmul(matmul, device_, to, transposed(of_input), as_rows(input))) {
      return false;
    }
    if (const View to = output(first + 1);
        to.defined() && !hp::ops::matmul(matmul, device_, to, transposed(of_hidden), states)) {
      return false;
    }
    for (int i : {0, 1}) {
      const View to = output(biases + i);
      if (to.defined() && !hp::ops::sum(sum, device_, to, i == 0 ? of_input : of_hidden, 1, false)) return false;
    }
    return true;
  }

  bool write_input_grad(const View& grad_input, const View& gates, const Weights& weights, int64_t direction) {
    if (!grad_input.defined()) return true;
    const OpBinding& matmul = step_.matmul.on(device_);
    if (direction == 0) return hp::ops::matmul(matmul, device_, as_rows(grad_input), as_rows(gates), weights.input);
    const Temporary other(device_, net_.dtype, 3, grad_input.sizes);
    return hp::ops::matmul(matmul, device_, as_rows(other), as_rows(gates), weights.input) &&
           step_.add(device_, grad_input, {grad_input, other}, {1});
  }

  const DenseTensor* state_grad(int i) const {
    const auto grads = call_.inputs(8);
    return i < grads.count ? grads[i] : nullptr;
  }

  Call& call_;
  Device& device_;
  const RnnConfig& net_;
  const RnnReserve& reserve_;
  const Lengths& lengths_;
  Steps& step_ = steps();
};

// Inputs: x, pre_state, weight_list, sequence_length, out, dropout_state, reserve, out_grad, state_grad. Outputs:
// x_grad, pre_state_grad, weight_grad_list.
bool rnn_grad(Call& call) {
  const DenseTensor* saved = call.input(6);
  if (!is_ready(saved) || saved->dims().size() != 1) return false;  // saved by the CPU tier
  RnnConfig net;
  const bool served = net.read(call) && saved->numel() == RnnReserve::size(net) && supports_recurrent(call, net);
  const RnnReserve reserve(net, const_cast<void*>(saved->data()));
  Lengths lengths;
  if (served && lengths.set(call, net, call.input(3)) && Backward(call, net, reserve, lengths).run()) {
    return count_decomposed(call);
  }
  throw Error(HP_NOT_SUPPORTED,
              "the device ran the forward pass but cannot compute this gradient: run the network on a CPU place");
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/recurrent.inc"
