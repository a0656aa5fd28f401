// The sizes of a recurrent network, and the layout of the tensors saved for its gradient, for recurrent.cpp. Our
// reserve tensor has one dimension; that of Paddle's CPU kernel has two, which tells them apart.
#pragma once

#include "dispatch/composition.h"

namespace hp::paddle_adapter {

enum class RnnMode { kLstm, kGru, kTanh, kRelu };

// Read from the attributes of rnn and rnn_grad: dropout_prob, is_bidirec, input_size, hidden_size, num_layers, mode,
// seed, is_test.
struct RnnConfig {
  RnnMode kind;
  bool is_test;
  double dropout;
  int64_t time, batch, width, layers, directions;
  int64_t gates;  // per cell
  int64_t saved;  // values that a cell saves for its gradient, per element of its state
  DType dtype;

  bool read(const Call& call) {
    const auto& mode = call.attr<std::string>(5);
    if (mode == "LSTM") {
      kind = RnnMode::kLstm, gates = 4, saved = 4;
    } else if (mode == "GRU") {
      kind = RnnMode::kGru, gates = 3, saved = 5;
    } else if (mode == "RNN_TANH" || mode == "RNN_RELU") {
      kind = mode == "RNN_TANH" ? RnnMode::kTanh : RnnMode::kRelu, gates = 1, saved = 0;
    } else {
      return false;
    }
    const auto& dims = call.input(0)->dims();
    if (dims.size() != 3) return false;
    dropout = call.real(0);
    directions = call.attr<bool>(1) ? 2 : 1;
    width = call.integer(3);
    layers = call.integer(4);
    is_test = call.attr<bool>(7);
    time = dims[0];
    batch = dims[1];
    dtype = to_core(call.kernel.dtype);
    return call.inputs(2).count == layers * directions * 4 && time > 0 && batch > 0 && width > 0;
  }
  bool has_cells() const { return kind == RnnMode::kLstm; }
  bool has_dropout() const { return !is_test && dropout != 0 && layers > 1; }
  int64_t state() const { return batch * width; }
  int64_t output() const { return time * state() * directions; }
  // Index of (layer, direction) in lists of weights and states.
  int64_t index(int64_t layer, int64_t direction) const { return layer * directions + direction; }
};

// Step `k` of a direction: its time, and the slots of the states before and after it. The initial state is in the first
// slot for the forward direction, in the last for the backward one.
struct RnnTimeStep {
  RnnTimeStep(const RnnConfig& net, int64_t direction, int64_t k)
      : time(direction == 0 ? k : net.time - 1 - k), before(time + direction), after(time + 1 - direction) {}
  const int64_t time, before, after;
};

// Views of the saved tensors in a buffer of `size` elements, which it does not own.
class RnnReserve {
 public:
  RnnReserve(const RnnConfig& net, void* data) : net_(net), data_(static_cast<char*>(data)) {}

  static int64_t size(const RnnConfig& net) {
    const int64_t masks = net.has_dropout() ? (net.layers - 1) * net.output() : 0, bytes = info(net.dtype).bytes;
    return net.layers * net.directions * cell_size(net) + (net.layers - 1) * net.output() + (masks + bytes - 1) / bytes;
  }

  // The hidden states in slots `first` to `first + count - 1`, as rows.
  ShapedView hidden(int64_t layer, int64_t direction, int64_t first, int64_t count) const {
    return rows(start(layer, direction) + first * net_.state(), count * net_.batch, net_.width);
  }
  ShapedView cell(int64_t layer, int64_t direction, int64_t slot) const {
    return rows(start(layer, direction) + (net_.time + 1 + slot) * net_.state(), net_.batch, net_.width);
  }
  ShapedView workspace(int64_t layer, int64_t direction, int64_t time) const {
    const int64_t states = (net_.time + 1) * net_.state() * (net_.has_cells() ? 2 : 1), wide = net_.saved * net_.width;
    return rows(start(layer, direction) + states + time * net_.batch * wide, net_.batch, wide);
  }
  // The input of a layer after the first: time x batch x (directions * width).
  ShapedView input(int64_t layer) const {
    const int64_t sizes[] = {net_.time, net_.batch, net_.directions * net_.width};
    return ShapedView(at(inputs() + (layer - 1) * net_.output()), net_.dtype, 3, sizes);
  }
  ShapedView mask(int64_t layer) const {
    const int64_t sizes[] = {net_.time, net_.batch, net_.directions * net_.width};
    char* masks = at(inputs() + (net_.layers - 1) * net_.output());
    return ShapedView(masks + (layer - 1) * net_.output(), DType::kBool, 3, sizes);
  }

 private:
  static int64_t cell_size(const RnnConfig& net) {
    return (net.time + 1) * net.state() * (net.has_cells() ? 2 : 1) + net.time * net.state() * net.saved;
  }
  int64_t start(int64_t layer, int64_t direction) const { return net_.index(layer, direction) * cell_size(net_); }
  int64_t inputs() const { return net_.layers * net_.directions * cell_size(net_); }
  char* at(int64_t element) const { return data_ + element * info(net_.dtype).bytes; }
  ShapedView rows(int64_t first, int64_t count, int64_t wide) const {
    const int64_t sizes[] = {count, wide};
    return ShapedView(at(first), net_.dtype, 2, sizes);
  }
  const RnnConfig& net_;
  char* const data_;
};

}  // namespace hp::paddle_adapter
