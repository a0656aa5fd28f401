// The sizes of a recurrent net, and what is kept of its run. A reserve of one dimension tells ours from that of
// Paddle's kernel for the CPU, which has two.
#pragma once

#include "parts.h"

namespace hp::paddle_adapter {

enum class Kind { kLstm, kGru, kTanh, kRelu };

// The net's sizes, from the attributes that both kernels have: dropout_prob, is_bidirec, input_size, hidden_size,
// num_layers, mode, seed, is_test.
struct Net {
  Kind kind;
  bool test;
  double dropout;
  int64_t time, batch, width, layers, directions;
  int64_t gates;  // of a cell
  int64_t kept;   // how many numbers for each of its elements a cell keeps for its gradient
  DType dtype;

  bool read(const Call& call) {
    const auto& mode = call.attr<std::string>(5);
    if (mode == "LSTM") {
      kind = Kind::kLstm, gates = 4, kept = 4;
    } else if (mode == "GRU") {
      kind = Kind::kGru, gates = 3, kept = 5;
    } else if (mode == "RNN_TANH" || mode == "RNN_RELU") {
      kind = mode == "RNN_TANH" ? Kind::kTanh : Kind::kRelu, gates = 1, kept = 0;
    } else {
      return false;
    }
    const auto& dims = call.input(0)->dims();
    if (dims.size() != 3) return false;
    dropout = call.real(0);
    directions = call.attr<bool>(1) ? 2 : 1;
    width = call.integer(3);
    layers = call.integer(4);
    test = call.attr<bool>(7);
    time = dims[0];
    batch = dims[1];
    dtype = to_core(call.kernel.dtype);
    return call.inputs(2).count == layers * directions * 4 && time > 0 && batch > 0 && width > 0;
  }
  bool has_cells() const { return kind == Kind::kLstm; }
  bool drops() const { return !test && dropout != 0 && layers > 1; }
  int64_t state() const { return batch * width; }
  int64_t output() const { return time * state() * directions; }
  // Where the net's tensors for (layer, direction) are among those of all.
  int64_t place(int64_t layer, int64_t direction) const { return layer * directions + direction; }
};

// A time in the order of a direction, and where the states before and after it are kept: the forward direction has the
// first state in front of all others, the backward one behind them.
struct Moment {
  Moment(const Net& net, int64_t direction, int64_t k)
      : time(direction == 0 ? k : net.time - 1 - k), before(time + direction), after(time + 1 - direction) {}
  const int64_t time, before, after;
};

// The tensors that are kept, in memory of `size` elements.
class Book {
 public:
  Book(const Net& net, void* data) : net_(net), data_(static_cast<char*>(data)) {}

  static int64_t size(const Net& net) {
    const int64_t masks = net.drops() ? (net.layers - 1) * net.output() : 0, bytes = info(net.dtype).bytes;
    return net.layers * net.directions * cell_size(net) + (net.layers - 1) * net.output() + (masks + bytes - 1) / bytes;
  }

  // States of a direction as rows, `count` moments from the one at `first` on.
  Shaped hidden(int64_t layer, int64_t direction, int64_t first, int64_t count) const {
    return rows(start(layer, direction) + first * net_.state(), count * net_.batch, net_.width);
  }
  Shaped cell(int64_t layer, int64_t direction, int64_t at) const {
    return rows(start(layer, direction) + (net_.time + 1 + at) * net_.state(), net_.batch, net_.width);
  }
  Shaped workspace(int64_t layer, int64_t direction, int64_t time) const {
    const int64_t states = (net_.time + 1) * net_.state() * (net_.has_cells() ? 2 : 1), wide = net_.kept * net_.width;
    return rows(start(layer, direction) + states + time * net_.batch * wide, net_.batch, wide);
  }
  // What goes into a layer behind the first: time x batch x (directions * width).
  Shaped input(int64_t layer) const {
    const int64_t sizes[] = {net_.time, net_.batch, net_.directions * net_.width};
    return Shaped(at(inputs() + (layer - 1) * net_.output()), net_.dtype, 3, sizes);
  }
  Shaped mask(int64_t layer) const {
    const int64_t sizes[] = {net_.time, net_.batch, net_.directions * net_.width};
    char* masks = at(inputs() + (net_.layers - 1) * net_.output());
    return Shaped(masks + (layer - 1) * net_.output(), DType::kBool, 3, sizes);
  }

 private:
  static int64_t cell_size(const Net& net) {
    return (net.time + 1) * net.state() * (net.has_cells() ? 2 : 1) + net.time * net.state() * net.kept;
  }
  int64_t start(int64_t layer, int64_t direction) const { return net_.place(layer, direction) * cell_size(net_); }
  int64_t inputs() const { return net_.layers * net_.directions * cell_size(net_); }
  char* at(int64_t element) const { return data_ + element * info(net_.dtype).bytes; }
  Shaped rows(int64_t first, int64_t count, int64_t wide) const {
    const int64_t sizes[] = {count, wide};
    return Shaped(at(first), net_.dtype, 2, sizes);
  }
  const Net& net_;
  char* const data_;
};

}  // namespace hp::paddle_adapter
