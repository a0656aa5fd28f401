// The collectives of c10d that move elements without reading them.
#include <numeric>

#include "distributed/contiguous_tensor.h"

namespace hp::torch_adapter {
namespace {

using c10d::OpType;
using WorkPtr = ProcessGroup::WorkPtr;

// Rows of a tensor for each rank: the caller's split sizes, or equal parts.
std::vector<int64_t> splits_of(const std::vector<int64_t>& splits, const at::Tensor& tensor, int size,
                               const char* side) {
  if (splits.empty()) {
    TORCH_CHECK_VALUE(tensor.dim() > 0 && tensor.size(0) % size == 0, "all_to_all cannot split an ", side, " of shape ",
                      tensor.sizes(), " into ", size, " equal parts");
    return std::vector<int64_t>(size, tensor.size(0) / size);
  }
  TORCH_CHECK_VALUE(splits.size() == static_cast<size_t>(size), "all_to_all needs ", size, " split sizes of its ", side,
                    ", got ", splits.size());
  const int64_t rows = std::accumulate(splits.begin(), splits.end(), int64_t{0});
  TORCH_CHECK_VALUE(tensor.dim() > 0 && rows == tensor.size(0), "the split sizes of the ", side, " add up to ", rows,
                    ", its shape is ", tensor.sizes());
  return splits;
}

// The address and size of each rank's rows.
std::vector<Communicator::PeerBuffer> parts_of(const at::Tensor& dense, const std::vector<int64_t>& splits) {
  const size_t row = dense.size(0) == 0 ? 0 : dense.nbytes() / static_cast<size_t>(dense.size(0));
  std::vector<Communicator::PeerBuffer> parts;
  char* position = static_cast<char*>(data(dense));
  for (const int64_t rows : splits) {
    parts.push_back({position, static_cast<size_t>(rows) * row});
    position += static_cast<size_t>(rows) * row;
  }
  return parts;
}

// As bytes, for gloo, which does not support every dtype.
at::Tensor rows_of_bytes(const at::Tensor& dense) {
  const int64_t rows = dense.size(0), row = rows == 0 ? 0 : dense.numel() / rows;
  return dense.view({rows, row}).view(at::kByte);
}

}  // namespace

WorkPtr ProcessGroup::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = expect_single(tensors, "broadcast");
  const int root = static_cast<int>(options.rootRank);
  const ContiguousTensor dense(tensor);
  CommCall call("broadcast", OpType::BROADCAST, signature_of(tensor, root));
  call.inputs = {dense.tensor};
  if (getRank() != root) call.outputs = {dense.tensor};
  call.results = {tensor};
  call.native = [buffer = dense.tensor, root](Communicator& communicator, Stream& stream) {
    return communicator.broadcast(data(buffer), buffer.nbytes(), root, stream);
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
                    "all_gather needs an output of ", getSize(), " times the input's elements and of its dtype: got ",
                    output.sizes(), " ", output.scalar_type(), " and ", input.sizes(), " ", input.scalar_type());
  const ContiguousTensor from(input), to = ContiguousTensor::output(output);
  return all_gather_flat(to.tensor, from.tensor, {output}, to.finish());
}

WorkPtr ProcessGroup::allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& /*options*/) {
  const at::Tensor& input = expect_single(inputs, "all_gather");
  const Tensors& parts = expect_single(outputs, "all_gather");
  check_per_rank(parts, getSize(), input, "all_gather");
  const at::Tensor whole = empty_per_rank(getSize(), input);
  return all_gather_flat(whole, ContiguousTensor(input).tensor, parts, copy_per_rank(whole, parts));
}

WorkPtr ProcessGroup::all_gather_flat(const at::Tensor& to, const at::Tensor& from, Tensors results,
                                      std::function<void()> finish) {
  CommCall call("all_gather", OpType::ALLGATHER, signature_of(from));
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
  // `outputs` is indexed by rank, then by tensor.
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
  const at::Tensor from = ContiguousTensor(expect_single(inputs, "gather")).tensor;
  const int root = static_cast<int>(options.rootRank);
  CommCall call("gather", OpType::GATHER, signature_of(from, root));
  call.inputs = {from};
  at::Tensor whole;
  if (getRank() == root) {
    call.results = expect_single(outputs, "gather");
    check_per_rank(call.results, getSize(), from, "gather");
    whole = empty_per_rank(getSize(), from);
    call.outputs = {whole};
    call.finish = copy_per_rank(whole, call.results);
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
  const at::Tensor& output = expect_single(outputs, "scatter");
  const ContiguousTensor to = ContiguousTensor::output(output);
  const int root = static_cast<int>(options.rootRank);
  CommCall call("scatter", OpType::SCATTER, signature_of(output, root));
  at::Tensor whole;
  if (getRank() == root) {
    const Tensors& parts = expect_single(inputs, "scatter");
    check_per_rank(parts, getSize(), output, "scatter");
    whole = concat_flat(parts);
    call.inputs = {whole};
  }
  call.outputs = {to.tensor};
  call.results = {output};
  call.native = [whole, buffer = to.tensor, root](Communicator& communicator, Stream& stream) {
    return communicator.scatter(data(buffer), whole.defined() ? data(whole) : nullptr, buffer.nbytes(), root, stream);
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
  const ContiguousTensor from(input), to = ContiguousTensor::output(output);
  const bool equal = input_splits.empty() && output_splits.empty();
  return all_to_all_rows(to.tensor, from.tensor, splits_of(output_splits, output, getSize(), "output"),
                         splits_of(input_splits, input, getSize(), "input"), equal, {output}, to.finish());
}

WorkPtr ProcessGroup::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& /*options*/) {
  const auto size = static_cast<size_t>(getSize());
  TORCH_CHECK_VALUE(outputs.size() == size && inputs.size() == size, "all_to_all needs two lists of ", size,
                    " tensors, one per rank: got ", inputs.size(), " inputs and ", outputs.size(), " outputs");
  std::vector<int64_t> sent, received;
  for (const at::Tensor& tensor : inputs) sent.push_back(tensor.numel());
  for (const at::Tensor& tensor : outputs) received.push_back(tensor.numel());
  at::Tensor source = concat_flat(inputs);
  const int64_t total = std::accumulate(received.begin(), received.end(), int64_t{0});
  at::Tensor target = at::empty({total}, source.options());
  const auto finish = [target, outputs, received] {
    const Tensors parts = target.split_with_sizes(received);
    for (size_t i = 0; i < outputs.size(); ++i) at::Tensor(outputs[i]).copy_(parts[i].view(outputs[i].sizes()), true);
  };
  return all_to_all_rows(target, source, received, sent, false, outputs, finish);
}

WorkPtr ProcessGroup::all_to_all_rows(const at::Tensor& to, const at::Tensor& from, std::vector<int64_t> received,
                                      std::vector<int64_t> sent, bool equal, Tensors results,
                                      std::function<void()> finish) {
  // Uneven splits differ between ranks, so they are not compared.
  CommCall call("all_to_all", OpType::ALLTOALL_BASE, {equal ? from.numel() : -1, from.scalar_type()});
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
