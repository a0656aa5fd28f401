// Collectives of c10d that move elements without looking at them.
#include <numeric>

#include "dense.h"

namespace hp::torch_adapter {
namespace {

using c10d::OpType;
using WorkPtr = ProcessGroup::WorkPtr;

// Rows of a tensor for each process: what the caller says, or equal parts.
std::vector<int64_t> splits_of(const std::vector<int64_t>& given, const at::Tensor& tensor, int size,
                               const char* side) {
  if (given.empty()) {
    TORCH_CHECK_VALUE(tensor.dim() > 0 && tensor.size(0) % size == 0, "all_to_all cannot split an ", side, " of shape ",
                      tensor.sizes(), " into ", size, " equal parts");
    return std::vector<int64_t>(size, tensor.size(0) / size);
  }
  TORCH_CHECK_VALUE(given.size() == static_cast<size_t>(size), "all_to_all needs ", size, " split sizes of its ", side,
                    ", got ", given.size());
  const int64_t rows = std::accumulate(given.begin(), given.end(), int64_t{0});
  TORCH_CHECK_VALUE(tensor.dim() > 0 && rows == tensor.size(0), "the split sizes of the ", side, " add up to ", rows,
                    ", its shape is ", tensor.sizes());
  return given;
}

// Where each process's rows are.
std::vector<Communicator::Part> parts_of(const at::Tensor& dense, const std::vector<int64_t>& splits) {
  const size_t row = dense.size(0) == 0 ? 0 : dense.nbytes() / static_cast<size_t>(dense.size(0));
  std::vector<Communicator::Part> parts;
  char* at = static_cast<char*>(data(dense));
  for (const int64_t rows : splits) {
    parts.push_back({at, static_cast<size_t>(rows) * row});
    at += static_cast<size_t>(rows) * row;
  }
  return parts;
}

// gloo does not know all dtypes.
at::Tensor rows_of_bytes(const at::Tensor& dense) {
  const int64_t rows = dense.size(0), row = rows == 0 ? 0 : dense.numel() / rows;
  return dense.view({rows, row}).view(at::kByte);
}

}  // namespace

WorkPtr ProcessGroup::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = single(tensors, "broadcast");
  const int root = static_cast<int>(options.rootRank);
  const Dense dense(tensor);
  Call call("broadcast", OpType::BROADCAST, signature_of(tensor, root));
  call.inputs = {dense.tensor};
  if (getRank() != root) call.outputs = {dense.tensor};
  call.results = {tensor};
  call.native = [made = dense.tensor, root](Communicator& communicator, Stream& stream) {
    return communicator.broadcast(data(made), made.nbytes(), root, stream);
  };
  call.staged = [root](Backend& gloo, Tensors& in, Tensors&) {
    Tensors list = {as_bytes(in[0])};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    gloo.broadcast(list, options)->wait();
  };
  if (getRank() != root) call.finish = dense.finish();
  return run(std::move(call));
}

// ---- Gathering

WorkPtr ProcessGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                      const c10d::AllgatherOptions& /*options*/) {
  TORCH_CHECK_VALUE(output.numel() == input.numel() * getSize() && input.scalar_type() == output.scalar_type(),
                    "all_gather needs an output of ", getSize(), " parts like the input: got ", output.sizes(), " ",
                    output.scalar_type(), " and ", input.sizes(), " ", input.scalar_type());
  const Dense from(input), to = Dense::output(output);
  return gather_all(to.tensor, from.tensor, {output}, to.finish());
}

WorkPtr ProcessGroup::allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& /*options*/) {
  const at::Tensor& input = single(inputs, "all_gather");
  const Tensors& parts = single(outputs, "all_gather");
  check_parts(parts, getSize(), input, "all_gather");
  const at::Tensor whole = room_for(getSize(), input);
  return gather_all(whole, Dense(input).tensor, parts, spread(whole, parts));
}

WorkPtr ProcessGroup::gather_all(const at::Tensor& to, const at::Tensor& from, Tensors results,
                                 std::function<void()> finish) {
  Call call("all_gather", OpType::ALLGATHER, signature_of(from));
  call.inputs = {from};
  call.outputs = {to};
  call.results = std::move(results);
  call.native = [to, from](Communicator& communicator, Stream& stream) {
    return communicator.all_gather(data(to), data(from), from.nbytes(), stream);
  };
  call.staged = [](Backend& gloo, Tensors& in, Tensors& out) {
    at::Tensor whole = as_bytes(out[0]), part = as_bytes(in[0]);
    if (part.numel() > 0) gloo._allgather_base(whole, part, c10d::AllgatherOptions())->wait();
  };
  call.finish = std::move(finish);
  return run(std::move(call));
}

WorkPtr ProcessGroup::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) {
  // Here the lists are by process.
  return coalesced(inputs.size(), [&](size_t i) {
    TensorLists parts(1);
    for (const Tensors& list : outputs) parts[0].push_back(list.at(i));
    Tensors one = {inputs[i]};
    return allgather(parts, one, options);
  });
}

WorkPtr ProcessGroup::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                      const c10d::AllgatherOptions& options) {
  return coalesced(inputs.size(), [&](size_t i) { return _allgather_base(outputs.at(i), inputs[i], options); });
}

WorkPtr ProcessGroup::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  const at::Tensor from = Dense(single(inputs, "gather")).tensor;
  const int root = static_cast<int>(options.rootRank);
  Call call("gather", OpType::GATHER, signature_of(from, root));
  call.inputs = {from};
  at::Tensor whole;
  if (getRank() == root) {
    call.results = single(outputs, "gather");
    check_parts(call.results, getSize(), from, "gather");
    whole = room_for(getSize(), from);
    call.outputs = {whole};
    call.finish = spread(whole, call.results);
  }
  call.native = [whole, from, root](Communicator& communicator, Stream& stream) {
    return communicator.gather(whole.defined() ? data(whole) : nullptr, data(from), from.nbytes(), root, stream);
  };
  call.staged = [root, size = getSize()](Backend& gloo, Tensors& in, Tensors& out) {
    TensorLists parts(out.empty() ? 0 : 1);
    if (!out.empty()) parts[0] = as_bytes(out[0]).view({size, -1}).unbind(0);
    Tensors one = {as_bytes(in[0])};
    c10d::GatherOptions options;
    options.rootRank = root;
    if (one[0].numel() > 0) gloo.gather(parts, one, options)->wait();
  };
  return run(std::move(call));
}

WorkPtr ProcessGroup::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) {
  const at::Tensor& output = single(outputs, "scatter");
  const Dense to = Dense::output(output);
  const int root = static_cast<int>(options.rootRank);
  Call call("scatter", OpType::SCATTER, signature_of(output, root));
  at::Tensor whole;
  if (getRank() == root) {
    const Tensors& parts = single(inputs, "scatter");
    check_parts(parts, getSize(), output, "scatter");
    whole = joined(parts);
    call.inputs = {whole};
  }
  call.outputs = {to.tensor};
  call.results = {output};
  call.native = [whole, made = to.tensor, root](Communicator& communicator, Stream& stream) {
    return communicator.scatter(data(made), whole.defined() ? data(whole) : nullptr, made.nbytes(), root, stream);
  };
  call.staged = [root, size = getSize()](Backend& gloo, Tensors& in, Tensors& out) {
    TensorLists parts(in.empty() ? 0 : 1);
    if (!in.empty()) parts[0] = as_bytes(in[0]).view({size, -1}).unbind(0);
    Tensors one = {as_bytes(out[0])};
    c10d::ScatterOptions options;
    options.rootRank = root;
    if (one[0].numel() > 0) gloo.scatter(one, parts, options)->wait();
  };
  call.finish = to.finish();
  return run(std::move(call));
}

// ---- All to all

WorkPtr ProcessGroup::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                                    std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& /*options*/) {
  TORCH_CHECK_VALUE(input.scalar_type() == output.scalar_type(), "all_to_all needs one dtype: got ",
                    input.scalar_type(), " and ", output.scalar_type());
  const Dense from(input), to = Dense::output(output);
  const bool equal = input_splits.empty() && output_splits.empty();
  return exchange_rows(to.tensor, from.tensor, splits_of(output_splits, output, getSize(), "output"),
                       splits_of(input_splits, input, getSize(), "input"), equal, {output}, to.finish());
}

WorkPtr ProcessGroup::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& /*options*/) {
  const auto size = static_cast<size_t>(getSize());
  TORCH_CHECK_VALUE(outputs.size() == size && inputs.size() == size, "all_to_all needs lists of ", size,
                    " tensors, one for each process: got ", inputs.size(), " and ", outputs.size());
  std::vector<int64_t> sent, received;
  for (const at::Tensor& tensor : inputs) sent.push_back(tensor.numel());
  for (const at::Tensor& tensor : outputs) received.push_back(tensor.numel());
  at::Tensor source = joined(inputs);
  const int64_t total = std::accumulate(received.begin(), received.end(), int64_t{0});
  at::Tensor target = at::empty({total}, source.options());
  const auto finish = [target, outputs, received] {
    const Tensors parts = target.split_with_sizes(received);
    for (size_t i = 0; i < outputs.size(); ++i) at::Tensor(outputs[i]).copy_(parts[i].view(outputs[i].sizes()), true);
  };
  return exchange_rows(target, source, received, sent, false, outputs, finish);
}

WorkPtr ProcessGroup::exchange_rows(const at::Tensor& to, const at::Tensor& from, std::vector<int64_t> received,
                                    std::vector<int64_t> sent, bool equal, Tensors results,
                                    std::function<void()> finish) {
  // Only equal parts are the same in every process.
  Call call("all_to_all", OpType::ALLTOALL_BASE, {equal ? from.numel() : -1, from.scalar_type()});
  call.inputs = {from};
  call.outputs = {to};
  call.results = std::move(results);
  call.native = [from, to, sent, received, equal, size = getSize()](Communicator& communicator, Stream& stream) {
    if (equal) return communicator.all_to_all(data(to), data(from), from.nbytes() / size, stream);
    return communicator.exchange(parts_of(from, sent).data(), parts_of(to, received).data(), stream);
  };
  call.staged = [sent, received](Backend& gloo, Tensors& in, Tensors& out) {
    at::Tensor target = rows_of_bytes(out[0]), source = rows_of_bytes(in[0]);
    std::vector<int64_t> to_peers = sent, from_peers = received;
    gloo.alltoall_base(target, source, from_peers, to_peers, c10d::AllToAllOptions())->wait();
  };
  call.finish = std::move(finish);
  return run(std::move(call));
}

}  // namespace hp::torch_adapter
