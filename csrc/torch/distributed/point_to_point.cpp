// Sends, receives and barriers.
//
// A staged message has a header, from which its receiver can report a mismatch.
#include "distributed/contiguous_tensor.h"

namespace hp::torch_adapter {
namespace {

using c10d::OpType;
using WorkPtr = ProcessGroup::WorkPtr;

at::Tensor header_of(const at::Tensor& tensor) {
  at::Tensor header = at::empty({2}, at::kLong);
  int64_t* fields = header.mutable_data_ptr<int64_t>();
  fields[0] = tensor.numel();
  fields[1] = static_cast<int64_t>(tensor.scalar_type());
  return header;
}

}  // namespace

WorkPtr ProcessGroup::send(Tensors& tensors, int peer, int tag) {
  const at::Tensor from = ContiguousTensor(expect_single(tensors, "send")).tensor;
  CommCall call("send", OpType::SEND, signature_of(from), CommCall::Kind::kSend, peer);
  call.inputs = {from};
  call.results = {tensors[0]};
  call.native = [from, peer](Communicator& communicator, Stream& stream) {
    return communicator.send(data(from), from.nbytes(), peer, stream);
  };
  call.staged = [peer, tag, header = header_of(from)](Backend& gloo, Tensors& in, Tensors&) {
    Tensors first = {header}, rest = {as_bytes(in[0])};
    gloo.send(first, peer, tag)->wait();
    if (rest[0].numel() > 0) gloo.send(rest, peer, tag)->wait();
  };
  return run(std::move(call));
}

WorkPtr ProcessGroup::recv(Tensors& tensors, int peer, int tag) {
  return receive(expect_single(tensors, "recv"), peer, tag);
}

WorkPtr ProcessGroup::recvAnysource(Tensors& tensors, int tag) {
  return receive(expect_single(tensors, "recv"), -1, tag);
}

WorkPtr ProcessGroup::receive(const at::Tensor& tensor, int peer, int tag) {
  TORCH_CHECK_VALUE(peer >= 0 || !point_to_point_,
                    "a receive from any rank is not possible through the plug-in: name the rank, ",
                    "or call init_process_group without device_id");
  const ContiguousTensor to = ContiguousTensor::output(tensor);
  CommCall call("recv", OpType::RECV, signature_of(tensor), CommCall::Kind::kReceive, peer);
  call.outputs = {to.tensor};
  call.results = {tensor};
  call.native = [buffer = to.tensor, peer](Communicator& communicator, Stream& stream) {
    return communicator.receive(data(buffer), buffer.nbytes(), peer, stream);
  };
  call.source = std::make_shared<std::atomic<int>>(peer);
  call.staged = [peer, tag, source = call.source, rank = getRank()](Backend& gloo, Tensors&, Tensors& out) {
    Tensors header = {at::empty({2}, at::kLong)};
    const WorkPtr first = peer >= 0 ? gloo.recv(header, peer, tag) : gloo.recvAnysource(header, tag);
    first->wait();
    *source = peer >= 0 ? peer : first->sourceRank();
    const Signature sent{header[0].const_data_ptr<int64_t>()[0],
                         static_cast<c10::ScalarType>(header[0].const_data_ptr<int64_t>()[1])};
    const Signature expected = signature_of(out[0]);
    Tensors rest = {as_bytes(out[0])};
    if (sent.size != expected.size || sent.dtype != expected.dtype) {
      // Receive the payload anyway: the next message must start at its own header.
      Tensors dropped = {at::empty({sent.size * static_cast<int64_t>(c10::elementSize(sent.dtype))}, at::kByte)};
      if (dropped[0].numel() > 0) gloo.recv(dropped, *source, tag)->wait();
      TORCH_CHECK_VALUE(false, "rank ", rank, " calls recv ", expected.text(), ", but rank ", source->load(), " sent ",
                        sent.text().substr(3));
    }
    if (rest[0].numel() > 0) gloo.recv(rest, *source, tag)->wait();
  };
  call.finish = to.finish();
  return run(std::move(call));
}

WorkPtr ProcessGroup::barrier(const c10d::BarrierOptions& options) {
  const c10::DeviceIndex index = !options.device_ids.empty() ? static_cast<c10::DeviceIndex>(options.device_ids[0])
                                 : getBoundDeviceId()        ? getBoundDeviceId()->index()
                                 : !connections_.empty() ? static_cast<c10::DeviceIndex>(connections_.begin()->first)
                                                         : static_cast<c10::DeviceIndex>(current_device(runtime()));
  const at::Tensor token = at::empty({1}, at::TensorOptions().dtype(at::kByte).device(kDeviceType, index)).zero_();
  CommCall call("barrier", OpType::BARRIER, signature_of(token));
  call.inputs = call.outputs = {token};
  call.native = [token](Communicator& communicator, Stream& stream) {
    return communicator.all_reduce(data(token), data(token), 1, HP_UINT8, HP_MAX, stream);
  };
  // Staging::check_same_call has already synchronized the ranks.
  call.staged = [](Backend&, Tensors&, Tensors&) {};
  return run(std::move(call), true);
}

void ProcessGroup::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  staging_->gloo().monitoredBarrier(options, wait_all_ranks);
}

}  // namespace hp::torch_adapter
