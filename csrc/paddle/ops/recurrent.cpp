// Recurrent nets: cells and matrix products, step after step. What the gradient needs is kept in `reserve`, in an order
// of our own (recurrent_net.h).
#include "../../ops/recurrent.h"

#include "../../ops/creation.h"
#include "../../ops/matmul.h"
#include "../../ops/random.h"
#include "../../ops/reduction.h"
#include "../generator.h"
#include "../recurrent_net.h"

namespace hp::paddle_adapter::ops {
namespace {

struct Steps {
  Step lstm{"lstm_cell"}, lstm_backward{"lstm_cell_backward"}, gru{"gru_cell"}, gru_backward{"gru_cell_backward"};
  Step product{"matmul"}, sum{"sum"}, copying{"copy"}, counting{"arange"}, dropout{"dropout"},
      dropout_backward{"dropout_backward"};
  PointwiseStep add{"add"}, tanh{"tanh"}, tanh_backward{"tanh_backward"}, relu{"relu"},
      relu_backward{"threshold_backward"}, before{"lt"}, where{"where"};
};
Steps& steps() {
  static Steps all;
  return all;
}

Shaped transposed(const View& matrix) { return Shaped(matrix).swap(0, 1); }

// Row `i` of a tensor of three dimensions, as a matrix.
Shaped part(const View& whole, int64_t i) { return Shaped(whole).narrow(0, i, 1).drop(0); }

// As a matrix of rows.
Shaped as_rows(const View& whole) {
  const int64_t sizes[] = {whole.sizes[0] * whole.sizes[1], whole.sizes[2]};
  return Shaped(whole.data, whole.dtype, 2, sizes);
}

// Which elements of a batch have not ended: time x batch x 1, if there are lengths at all.
class Lengths {
 public:
  bool set(Call& call, const Net& net, const DenseTensor* lengths) {
    if (lengths == nullptr) return true;
    const View given = view(*lengths);
    const int64_t sizes[] = {net.time, net.batch, 1}, row[] = {1, net.batch, 1};
    const Temporary times(call.device, given.dtype, 1, sizes);
    mask_.emplace(call.device, DType::kBool, 3, sizes);
    nothing_.emplace(call.device, net.dtype, 0, nullptr);
    const int64_t column[] = {net.time, 1, 1};
    Steps& step = steps();
    return hp::ops::arange(step.counting.on(call.device), call.device, times, int64_t{0}, int64_t{1}) &&
           step.before(call.device, *mask_,
                       {Shaped(times.view().data, given.dtype, 3, column), Shaped(given.data, given.dtype, 3, row)}) &&
           zero(call.device, *nothing_);
  }
  bool any() const { return mask_.has_value(); }
  const View& all() const { return *mask_; }
  const View& nothing() const { return *nothing_; }
  // Of one time: batch x 1.
  Shaped at(int64_t time) const { return part(*mask_, time); }

 private:
  std::optional<Temporary> mask_, nothing_;
};

bool takes(const Call& call, const Net& net) {
  Steps& step = steps();
  Device& device = call.device;
  if (!is_float(net.dtype) || !step.product.on(device).able()) return false;
  switch (net.kind) {
    case Kind::kLstm:
      return step.lstm.on(device).able() && step.lstm_backward.on(device).able();
    case Kind::kGru:
      return step.gru.on(device).able() && step.gru_backward.on(device).able();
    default:
      return true;
  }
}

// ---- Forwards

// The weights and biases of one direction of a layer.
struct Weights {
  Weights(const Call& call, const Net& net, int64_t layer, int64_t direction) {
    const auto all = call.inputs(2);
    const auto first = static_cast<int>(2 * net.place(layer, direction));
    const auto biases = static_cast<int>(2 * net.layers * net.directions) + first;
    input = view(*all[first]), hidden = view(*all[first + 1]);
    input_bias = view(*all[biases]), hidden_bias = view(*all[biases + 1]);
  }
  View input, hidden, input_bias, hidden_bias;
};

bool run_cell(Device& device, const Net& net, const Book& book, int64_t layer, int64_t direction, const Moment& now,
              const View& input_gates, const View& hidden_gates, const Weights& weights) {
  Steps& step = steps();
  const Shaped before = book.hidden(layer, direction, now.before, 1),
               after = book.hidden(layer, direction, now.after, 1);
  if (net.kind == Kind::kLstm) {
    return hp::ops::lstm_cell(step.lstm.on(device), device, after, book.cell(layer, direction, now.after),
                              book.workspace(layer, direction, now.time), input_gates, hidden_gates,
                              book.cell(layer, direction, now.before), weights.input_bias, weights.hidden_bias);
  }
  if (net.kind == Kind::kGru) {
    return hp::ops::gru_cell(step.gru.on(device), device, after, book.workspace(layer, direction, now.time),
                             input_gates, hidden_gates, before, weights.input_bias, weights.hidden_bias);
  }
  PointwiseStep& activation = net.kind == Kind::kTanh ? step.tanh : step.relu;
  return step.add(device, after, {input_gates, hidden_gates}, {1}) && activation(device, after, {after});
}

// One direction of a layer; `out` gets its part of the layer's output.
bool run_direction(Call& call, const Net& net, const Book& book, const Lengths& lengths, int64_t layer,
                   int64_t direction, const View& input, const View& out) {
  Steps& step = steps();
  Device& device = call.device;
  const Service &product = step.product.on(device), &copying = step.copying.on(device);
  const Weights weights(call, net, layer, direction);
  const int64_t wide = net.gates * net.width, all[] = {net.time, net.batch, wide}, one[] = {net.batch, wide};
  const Temporary input_gates(device, net.dtype, 3, all), hidden_gates(device, net.dtype, 2, one);
  if (!hp::ops::matmul(product, device, as_rows(input_gates), as_rows(input), transposed(weights.input))) return false;
  if (net.gates == 1 && !(step.add(device, input_gates, {input_gates, weights.input_bias}, {1}) &&
                          step.add(device, input_gates, {input_gates, weights.hidden_bias}, {1}))) {
    return false;
  }
  const int64_t place = net.place(layer, direction);
  const Moment start(net, direction, 0), end(net, direction, net.time - 1);
  const auto given = call.inputs(1);
  if (!copy(copying, device, book.hidden(layer, direction, start.before, 1), part(view(*given[0]), place)))
    return false;
  if (net.has_cells() &&
      !copy(copying, device, book.cell(layer, direction, start.before), part(view(*given[1]), place))) {
    return false;
  }
  for (int64_t k = 0; k < net.time; ++k) {
    const Moment now(net, direction, k);
    const Shaped before = book.hidden(layer, direction, now.before, 1),
                 after = book.hidden(layer, direction, now.after, 1);
    if (!hp::ops::matmul(product, device, hidden_gates, before, transposed(weights.hidden)) ||
        !run_cell(device, net, book, layer, direction, now, part(input_gates, now.time), hidden_gates, weights)) {
      return false;
    }
    if (!lengths.any()) continue;
    // Where a sequence has ended, the state stays.
    const Shaped mask = lengths.at(now.time);
    if (!step.where(device, after, {mask, after, before})) return false;
    if (!net.has_cells()) continue;
    const Shaped cell = book.cell(layer, direction, now.after);
    if (!step.where(device, cell, {mask, cell, book.cell(layer, direction, now.before)})) return false;
  }
  const int64_t states[] = {net.time, net.batch, net.width};
  const Shaped found(book.hidden(layer, direction, 1 - direction, net.time).view().data, net.dtype, 3, states);
  const Shaped mine = Shaped(out).narrow(2, direction * net.width, net.width);
  const bool written = lengths.any() ? step.where(device, mine, {lengths.all(), found, lengths.nothing()})
                                     : copy(copying, device, mine, found);
  const auto last = call.outputs(2);
  return written && copy(copying, device, part(view(*last[0]), place), book.hidden(layer, direction, end.after, 1)) &&
         (!net.has_cells() ||
          copy(copying, device, part(view(*last[1]), place), book.cell(layer, direction, end.after)));
}

bool run_layers(Call& call, const Net& net, const Book& book, const Lengths& lengths) {
  Steps& step = steps();
  const View last = view(*call.output(0));
  for (int64_t layer = 0; layer < net.layers; ++layer) {
    const Shaped input = layer == 0 ? Shaped(call.view_of(0)) : book.input(layer);
    const Shaped out = layer == net.layers - 1 ? Shaped(last) : book.input(layer + 1);
    for (int64_t direction = 0; direction < net.directions; ++direction) {
      if (!run_direction(call, net, book, lengths, layer, direction, input, out)) return false;
    }
    if (layer == net.layers - 1 || !net.drops()) continue;
    const PhiloxState at = take_blocks(call, hp::ops::narrow_blocks(net.output()), call.integer(6));
    if (!hp::ops::dropout(step.dropout.on(call.device), call.device, out, book.mask(layer + 1), out, net.dropout, at)) {
      return false;
    }
  }
  return true;
}

// Inputs: x, pre_state, weight_list, sequence_length. Outputs: out, dropout_state, state, reserve.
bool rnn(Call& call) {
  Net net;
  if (!call.plain() || !net.read(call) || !takes(call, net)) return false;
  call.allocate(0);
  for (DenseTensor* state : call.outputs(2)) call.allocate(*state);
  std::optional<Temporary> passing;
  void* memory;
  const int64_t size = Book::size(net);
  if (net.test) {
    memory = passing.emplace(call.device, net.dtype, 1, &size).view().data;
  } else {
    // The masks are in the reserve: this output is one tensor for all calls of a layer.
    call.output(1)->Resize({1});
    call.context.Alloc(call.output(1), phi::DataType::UINT8);
    call.output(3)->Resize({size});
    memory = call.context.Alloc(call.output(3), call.kernel.dtype);
  }
  const Book book(net, memory);
  Lengths lengths;
  return lengths.set(call, net, call.input(3)) && run_layers(call, net, book, lengths) && decomposed(call);
}

// ---- Backwards

// The gradients of a direction's states, on the way from the last moment to the first.
class StateGrads {
 public:
  StateGrads(Device& device, const Net& net) : hidden(device, net), cell(device, net), next_cell(device, net) {}
  struct State : Temporary {
    State(Device& device, const Net& net) : State(device, net.dtype, std::array{net.batch, net.width}) {}
    State(Device& device, DType dtype, std::array<int64_t, 2> sizes) : Temporary(device, dtype, 2, sizes.data()) {}
  };
  State hidden, cell, next_cell;
};

// Row `place` of a gradient that may be missing.
bool copy_or_zero(Device& device, const View& to, const DenseTensor* from, int64_t place) {
  return ready(from) ? copy(steps().copying.on(device), device, to, part(view(*from), place)) : zero(device, to);
}

class Backward {
 public:
  Backward(Call& call, const Net& net, const Book& book, const Lengths& lengths)
      : call_(call), device_(call.device), net_(net), book_(book), lengths_(lengths) {}

  bool run() {
    const View last = call_.view_of(7);  // ready, or zero
    std::unique_ptr<Temporary> above, below;
    const int64_t sizes[] = {net_.time, net_.batch, net_.directions * net_.width};
    if (!ready(call_.input(7))) {
      above = std::make_unique<Temporary>(device_, net_.dtype, 3, sizes);
      if (!zero(device_, *above)) return false;
    }
    for (int64_t layer = net_.layers - 1; layer >= 0; --layer) {
      const Shaped grad = above ? Shaped(*above) : Shaped(last);
      Shaped grad_input;
      if (layer > 0) {
        below = std::make_unique<Temporary>(device_, net_.dtype, 3, sizes);
        grad_input = *below;
      } else if (call_.output(0) != nullptr) {
        call_.output(0)->Resize(call_.input(0)->dims());
        grad_input = Shaped(call_.allocate(0));
      }
      for (int64_t direction = 0; direction < net_.directions; ++direction) {
        if (!run_direction(layer, direction, grad, grad_input)) return false;
      }
      if (layer == 0) break;
      if (net_.drops() &&
          !hp::ops::dropout_backward(step_.dropout_backward.on(device_), device_, grad_input, grad_input,
                                     book_.mask(layer), net_.dropout == 1 ? 0 : 1 / (1 - net_.dropout))) {
        return false;
      }
      above.swap(below);
    }
    return true;
  }

 private:
  // `grad_input` is undefined where nobody wants it, and summed up over the directions.
  bool run_direction(int64_t layer, int64_t direction, const View& grad, const View& grad_input) {
    const int64_t place = net_.place(layer, direction), wide = net_.gates * net_.width;
    const Weights weights(call_, net_, layer, direction);
    const int64_t states[] = {net_.time, net_.batch, net_.width}, all[] = {net_.time, net_.batch, wide};
    const Temporary grads(device_, net_.dtype, 3, states), gates(device_, net_.dtype, 3, all);
    std::optional<Temporary> hidden_gates;  // a GRU's differ from those of its input
    if (net_.kind == Kind::kGru) hidden_gates.emplace(device_, net_.dtype, 3, all);
    const Shaped mine = Shaped(grad).narrow(2, direction * net_.width, net_.width);
    const bool copied = lengths_.any() ? step_.where(device_, grads, {lengths_.all(), mine, lengths_.nothing()})
                                       : copy(step_.copying.on(device_), device_, grads, mine);
    StateGrads state(device_, net_);
    if (!copied || !copy_or_zero(device_, state.hidden, state_grad(0), place)) return false;
    if (net_.has_cells() && !copy_or_zero(device_, state.cell, state_grad(1), place)) return false;
    const View& to_hidden = hidden_gates ? hidden_gates->view() : gates.view();
    for (int64_t k = net_.time - 1; k >= 0; --k) {
      const Moment now(net_, direction, k);
      if (!run_moment(layer, direction, now, part(grads, now.time), part(gates, now.time), part(to_hidden, now.time),
                      weights, state)) {
        return false;
      }
    }
    const Shaped input = layer == 0 ? Shaped(call_.view_of(0)) : book_.input(layer);
    return keep_states(place, state) && keep_weights(place, gates, to_hidden, input, layer, direction) &&
           pass_on(grad_input, gates, weights, direction);
  }

  // One moment: the gradients of its gates, and those of the states before it in place of those after it.
  bool run_moment(int64_t layer, int64_t direction, const Moment& now, const View& grad, const View& gates,
                  const View& hidden_gates, const Weights& weights, StateGrads& state) {
    const View& hidden = state.hidden.view();
    const StateGrads::State whole(device_, net_), passed(device_, net_);
    if (!step_.add(device_, whole, {grad, hidden}, {1})) return false;
    const bool masked = lengths_.any();
    std::optional<StateGrads::State> kept_hidden, kept_cell;
    if (masked) {
      const Shaped mask = lengths_.at(now.time);
      kept_hidden.emplace(device_, net_);
      if (!step_.where(device_, *kept_hidden, {mask, lengths_.nothing(), hidden}) ||
          !step_.where(device_, whole, {mask, whole, lengths_.nothing()})) {
        return false;
      }
      if (net_.has_cells()) {
        kept_cell.emplace(device_, net_);
        if (!step_.where(device_, *kept_cell, {mask, lengths_.nothing(), state.cell}) ||
            !step_.where(device_, state.cell, {mask, state.cell, lengths_.nothing()})) {
          return false;
        }
      }
    }
    const Service& product = step_.product.on(device_);
    bool done;
    switch (net_.kind) {
      case Kind::kLstm:
        done = hp::ops::lstm_cell_backward(step_.lstm_backward.on(device_), device_, gates, state.next_cell, whole,
                                           state.cell, book_.cell(layer, direction, now.before),
                                           book_.cell(layer, direction, now.after),
                                           book_.workspace(layer, direction, now.time)) &&
               (masked ? step_.add(device_, state.cell, {state.next_cell, *kept_cell}, {1})
                       : copy(step_.copying.on(device_), device_, state.cell, state.next_cell));
        break;
      case Kind::kGru:
        done = hp::ops::gru_cell_backward(step_.gru_backward.on(device_), device_, gates, hidden_gates, passed, whole,
                                          book_.workspace(layer, direction, now.time));
        break;
      case Kind::kTanh:
        done = step_.tanh_backward(device_, gates, {whole, book_.hidden(layer, direction, now.after, 1)});
        break;
      default:
        done = step_.relu_backward(device_, gates, {whole, book_.hidden(layer, direction, now.after, 1)}, {0});
        break;
    }
    return done && hp::ops::matmul(product, device_, hidden, hidden_gates, weights.hidden) &&
           (net_.kind != Kind::kGru || step_.add(device_, hidden, {hidden, passed}, {1})) &&
           (!masked || step_.add(device_, hidden, {hidden, *kept_hidden}, {1}));
  }

  bool keep_states(int64_t place, const StateGrads& state) {
    const auto wanted = call_.outputs(1);
    for (int i = 0; i < wanted.count; ++i) {
      if (wanted[i] == nullptr) continue;
      wanted[i]->Resize(call_.inputs(1)[i]->dims());
      const View all = call_.allocate(*wanted[i]);
      const View& found = i == 0 ? state.hidden.view() : state.cell.view();
      if (!copy(step_.copying.on(device_), device_, part(all, place), found)) return false;
    }
    return true;
  }

  bool keep_weights(int64_t place, const View& gates, const View& hidden_gates, const View& input, int64_t layer,
                    int64_t direction) {
    const Service &product = step_.product.on(device_), &sum = step_.sum.on(device_);
    const auto wanted = call_.outputs(2);
    const auto output = [&](int64_t i) {
      return i < wanted.count && wanted[static_cast<int>(i)] != nullptr ? call_.allocate(*wanted[static_cast<int>(i)])
                                                                        : View{};
    };
    const int64_t first = 2 * place, biases = 2 * net_.layers * net_.directions + first;
    const Shaped of_input = as_rows(gates), of_hidden = as_rows(hidden_gates);
    const Shaped states = book_.hidden(layer, direction, direction, net_.time);  // those before each moment
    if (const View to = output(first);
        to.defined() && !hp::ops::matmul(product, device_, to, transposed(of_input), as_rows(input))) {
      return false;
    }
    if (const View to = output(first + 1);
        to.defined() && !hp::ops::matmul(product, device_, to, transposed(of_hidden), states)) {
      return false;
    }
    for (int i : {0, 1}) {
      const View to = output(biases + i);
      if (to.defined() && !hp::ops::sum(sum, device_, to, i == 0 ? of_input : of_hidden, 1, false)) return false;
    }
    return true;
  }

  bool pass_on(const View& grad_input, const View& gates, const Weights& weights, int64_t direction) {
    if (!grad_input.defined()) return true;
    const Service& product = step_.product.on(device_);
    if (direction == 0) return hp::ops::matmul(product, device_, as_rows(grad_input), as_rows(gates), weights.input);
    const Temporary other(device_, net_.dtype, 3, grad_input.sizes);
    return hp::ops::matmul(product, device_, as_rows(other), as_rows(gates), weights.input) &&
           step_.add(device_, grad_input, {grad_input, other}, {1});
  }

  const DenseTensor* state_grad(int i) const {
    const auto given = call_.inputs(8);
    return i < given.count ? given[i] : nullptr;
  }

  Call& call_;
  Device& device_;
  const Net& net_;
  const Book& book_;
  const Lengths& lengths_;
  Steps& step_ = steps();
};

// Inputs: x, pre_state, weight_list, sequence_length, out, dropout_state, reserve, out_grad, state_grad. Outputs:
// x_grad, pre_state_grad, weight_grad_list.
bool rnn_grad(Call& call) {
  const DenseTensor* reserve = call.input(6);
  if (!ready(reserve) || reserve->dims().size() != 1) return false;  // the CPU tier kept it
  Net net;
  const bool known = net.read(call) && reserve->numel() == Book::size(net) && takes(call, net);
  const Book book(net, const_cast<void*>(reserve->data()));
  Lengths lengths;
  if (known && lengths.set(call, net, call.input(3)) && Backward(call, net, book, lengths).run()) {
    return decomposed(call);
  }
  throw Error(HP_NOT_SUPPORTED, "the device cannot compute the gradient of a net that it ran");
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/recurrent.inc"
