// Sends, receives and barriers.
//
// A staged message has a head, so that its receiver can say what is wrong with it.
#include "dense.h"

namespace hp::torch_adapter {
namespace {

using c10d::OpType;
using WorkPtr = ProcessGroup::WorkPtr;

at::Tensor head_of(const at::Tensor& tensor) {
  at::Tensor head = at::empty({2}, at::kLong);
  int64_t* words = head.mutable_data_ptr<int64_t>();
  words[0] = tensor.numel();
  words[1] = static_cast<int64_t>(tensor.scalar_type());
  return head;
}

}  // namespace

WorkPtr ProcessGroup::send(Tensors& tensors, int peer, int tag) {
  const at::Tensor from = Dense(single(tensors, "send")).tensor;
  Call call("send", OpType::SEND, signature_of(from), Call::Kind::kSend, peer);
  call.inputs = {from};
  call.results = {tensors[0]};
  call.native = [from, peer](Communicator& communicator, Stream& stream) {
    return communicator.send(data(from), from.nbytes(), peer, stream);
  };
  call.staged = [peer, tag, head = head_of(from)](Backend& gloo, Tensors& in, Tensors&) {
    Tensors first = {head}, rest = {as_bytes(in[0])};
    gloo.send(first, peer, tag)->wait();
    if (rest[0].numel() > 0) gloo.send(rest, peer, tag)->wait();
  };
  return run(std::move(call));
}

WorkPtr ProcessGroup::recv(Tensors& tensors, int peer, int tag) { return receive(single(tensors, "recv"), peer, tag); }

WorkPtr ProcessGroup::recvAnysource(Tensors& tensors, int tag) { return receive(single(tensors, "recv"), -1, tag); }

WorkPtr ProcessGroup::receive(const at::Tensor& tensor, int peer, int tag) {
  TORCH_CHECK_VALUE(peer >= 0 || !pairs_,
                    "a receive from any rank is not possible through the plug-in: name the rank, ",
                    "or call init_process_group without device_id");
  const Dense to = Dense::output(tensor);
  Call call("recv", OpType::RECV, signature_of(tensor), Call::Kind::kReceive, peer);
  call.outputs = {to.tensor};
  call.results = {tensor};
  call.native = [made = to.tensor, peer](Communicator& communicator, Stream& stream) {
    return communicator.receive(data(made), made.nbytes(), peer, stream);
  };
  call.source = std::make_shared<std::atomic<int>>(peer);
  call.staged = [peer, tag, source = call.source, rank = getRank()](Backend& gloo, Tensors&, Tensors& out) {
    Tensors head = {at::empty({2}, at::kLong)};
    const WorkPtr first = peer >= 0 ? gloo.recv(head, peer, tag) : gloo.recvAnysource(head, tag);
    first->wait();
    *source = peer >= 0 ? peer : first->sourceRank();
    const Signature sent{head[0].const_data_ptr<int64_t>()[0],
                         static_cast<c10::ScalarType>(head[0].const_data_ptr<int64_t>()[1])};
    const Signature expected = signature_of(out[0]);
    Tensors rest = {as_bytes(out[0])};
    if (sent.size != expected.size || sent.dtype != expected.dtype) {
      // What was sent is taken all the same: the next message must find its own head.
      Tensors lost = {at::empty({sent.size * static_cast<int64_t>(c10::elementSize(sent.dtype))}, at::kByte)};
      if (lost[0].numel() > 0) gloo.recv(lost, *source, tag)->wait();
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
  Call call("barrier", OpType::BARRIER, signature_of(token));
  call.inputs = call.outputs = {token};
  call.native = [token](Communicator& communicator, Stream& stream) {
    return communicator.all_reduce(data(token), data(token), 1, HP_UINT8, HP_MAX, stream);
  };
  // All processes have met once they have compared what they call.
  call.staged = [](Backend&, Tensors&, Tensors&) {};
  return run(std::move(call), true);
}

void ProcessGroup::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  staging_->gloo().monitoredBarrier(options, wait_all_ranks);
}

}  // namespace hp::torch_adapter
