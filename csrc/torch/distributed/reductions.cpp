// The reductions of c10d: all_reduce, reduce, reduce_scatter.
#include <ATen/ops/view_as_real.h>

#include "distributed/contiguous_tensor.h"

namespace hp::torch_adapter {
namespace {

using c10d::OpType;
using c10d::ReduceOp;
using WorkPtr = ProcessGroup::WorkPtr;

// A reduction in terms of what the transports support.
class Reduction {
 public:
  Reduction(const ReduceOp& op, c10::ScalarType dtype) : op_(op), dtype_(dtype) {
    const ReduceOp::RedOpType requested = op;
    if (requested == ReduceOp::PREMUL_SUM) op_ = ReduceOp(ReduceOp::SUM);
    if (dtype == at::kBool) {
      // A sum of booleans is a logical or, as elsewhere in torch.
      TORCH_CHECK_VALUE(requested != ReduceOp::AVG,
                        "ReduceOp.AVG does not support torch.bool: convert to a numeric dtype first");
      if (requested == ReduceOp::SUM || requested == ReduceOp::BOR) op_ = ReduceOp(ReduceOp::MAX);
      if (requested == ReduceOp::PRODUCT || requested == ReduceOp::BAND) op_ = ReduceOp(ReduceOp::MIN);
    }
    if (c10::isComplexType(dtype)) {
      TORCH_CHECK_VALUE(op_.op_ == ReduceOp::SUM || op_.op_ == ReduceOp::AVG,
                        "complex tensors support only ReduceOp.SUM and ReduceOp.AVG");
    }
  }

  // The tensor's elements in a dtype that transports can reduce, as a view.
  static at::Tensor reducible_view(const at::Tensor& dense) {
    if (dense.is_complex()) return at::view_as_real(dense);
    return dense.scalar_type() == at::kBool ? dense.view(at::kByte) : dense;
  }

  // The plug-in's element type and reduction, or nothing if it has none.
  std::optional<std::pair<HpElement, HpReduction>> native() const {
    const auto element = element_of(c10::isComplexType(dtype_) ? c10::toRealValueType(dtype_) : dtype_);
    if (!element) return std::nullopt;
    switch (op_.op_) {
      case ReduceOp::SUM:
        return {{*element, HP_SUM}};
      case ReduceOp::AVG:
        return {{*element, HP_MEAN}};
      case ReduceOp::PRODUCT:
        return {{*element, HP_PRODUCT}};
      case ReduceOp::MIN:
        return {{*element, HP_MIN}};
      case ReduceOp::MAX:
        return {{*element, HP_MAX}};
      default:
        return std::nullopt;
    }
  }

  // Through gloo, which has no mean and not every dtype: `reduce` gets a tensor of a supported dtype and reduces it in
  // place.
  template <class Reduce>
  void staged(at::Tensor& out, const at::Tensor& in, int size, Reduce reduce) const {
    const bool narrow = in.scalar_type() == at::kShort;
    at::Tensor work = narrow ? in.to(at::kInt) : in;
    at::Tensor result = reduce(work, op_.op_ == ReduceOp::AVG ? ReduceOp(ReduceOp::SUM) : op_);
    if (op_.op_ == ReduceOp::AVG) {
      c10::isIntegralType(result.scalar_type(), false) ? result.div_(size, "trunc") : result.div_(size);
    }
    if (!result.is_same(out)) out.copy_(result);
  }

  int number() const { return static_cast<int>(op_.op_); }

 private:
  static std::optional<HpElement> element_of(c10::ScalarType dtype) {
    switch (dtype) {
      case at::kBool:
      case at::kByte:
        return HP_UINT8;
      case at::kChar:
        return HP_INT8;
      case at::kShort:
        return HP_INT16;
      case at::kInt:
        return HP_INT32;
      case at::kLong:
        return HP_INT64;
      case at::kHalf:
        return HP_FLOAT16;
      case at::kBFloat16:
        return HP_BFLOAT16;
      case at::kFloat:
        return HP_FLOAT32;
      case at::kDouble:
        return HP_FLOAT64;
      default:
        return std::nullopt;
    }
  }

  ReduceOp op_;
  c10::ScalarType dtype_;
};

// Applies the factor of PREMUL_SUM before the sum.
at::Tensor scaled(const at::Tensor& tensor, const ReduceOp& op) {
  if (op.op_ != ReduceOp::PREMUL_SUM) return tensor;
  // This name exists in torch 2.11 to 2.13.
  const auto* factor = static_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  return factor->tensor_factor.defined() ? tensor.mul(factor->tensor_factor) : tensor.mul(factor->double_factor);
}

Signature signature_of(const at::Tensor& tensor, const Reduction& reduction, int root = -1) {
  return {tensor.numel(), tensor.scalar_type(), reduction.number(), root};
}

}  // namespace

WorkPtr ProcessGroup::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = expect_single(tensors, "all_reduce");
  const ContiguousTensor dense(scaled(tensor, options.reduceOp));
  const at::Tensor reducible_view = Reduction::reducible_view(dense.tensor);
  const Reduction reduction(options.reduceOp, tensor.scalar_type());
  CommCall call("all_reduce", OpType::ALLREDUCE, signature_of(tensor, reduction));
  call.inputs = call.outputs = {reducible_view};
  call.results = {tensor};
  if (const auto native = reduction.native()) {
    call.native = [reducible_view, native](Communicator& communicator, Stream& stream) {
      return communicator.all_reduce(data(reducible_view), data(reducible_view), reducible_view.numel(), native->first,
                                     native->second, stream);
    };
  }
  call.staged = [reduction, size = getSize()](Backend& gloo, Tensors& in, Tensors& out) {
    reduction.staged(out[0], in[0], size, [&](at::Tensor& work, const ReduceOp& op) {
      Tensors list = {work};
      c10d::AllreduceOptions options;
      options.reduceOp = op;
      gloo.allreduce(list, options)->wait();
      return work;
    });
  };
  if (!dense.tensor.is_same(tensor)) {
    call.finish = [tensor, buffer = dense.tensor] { at::Tensor(tensor).copy_(buffer, true); };
  }
  return run(std::move(call));
}

WorkPtr ProcessGroup::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return coalesced(tensors.size(), [&](size_t i) {
    Tensors one = {tensors[i]};
    return allreduce(one, options);
  });
}

WorkPtr ProcessGroup::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const at::Tensor& tensor = expect_single(tensors, "reduce");
  const int root = static_cast<int>(options.rootRank);
  const ContiguousTensor dense(scaled(tensor, options.reduceOp));
  const at::Tensor reducible_view = Reduction::reducible_view(dense.tensor);
  const Reduction reduction(options.reduceOp, tensor.scalar_type());
  CommCall call("reduce", OpType::REDUCE, signature_of(tensor, reduction, root));
  call.inputs = {reducible_view};
  if (getRank() == root) call.outputs = {reducible_view};
  call.results = {tensor};
  if (const auto native = reduction.native()) {
    call.native = [reducible_view, native, root](Communicator& communicator, Stream& stream) {
      return communicator.reduce(data(reducible_view), data(reducible_view), reducible_view.numel(), native->first,
                                 native->second, root, stream);
    };
  }
  call.staged = [reduction, root, size = getSize(), rank = getRank()](Backend& gloo, Tensors& in, Tensors& out) {
    at::Tensor result = rank == root ? out[0] : in[0];
    reduction.staged(result, in[0], size, [&](at::Tensor& work, const ReduceOp& op) {
      Tensors list = {work};
      c10d::ReduceOptions options;
      options.reduceOp = op;
      options.rootRank = root;
      gloo.reduce(list, options)->wait();
      return work;
    });
  };
  if (getRank() == root && !dense.tensor.is_same(tensor)) {
    call.finish = [tensor, buffer = dense.tensor] { at::Tensor(tensor).copy_(buffer, true); };
  }
  return run(std::move(call));
}

WorkPtr ProcessGroup::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                           const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(input.numel() == output.numel() * getSize() && input.scalar_type() == output.scalar_type(),
                    "reduce_scatter needs an input of ", getSize(),
                    " times the output's elements and of its dtype: got ", input.sizes(), " ", input.scalar_type(),
                    " and ", output.sizes(), " ", output.scalar_type());
  const ContiguousTensor from(scaled(input, options.reduceOp));
  const ContiguousTensor to = ContiguousTensor::output(output);
  const at::Tensor source = Reduction::reducible_view(from.tensor), target = Reduction::reducible_view(to.tensor);
  const Reduction reduction(options.reduceOp, input.scalar_type());
  CommCall call("reduce_scatter", OpType::_REDUCE_SCATTER_BASE, signature_of(output, reduction));
  call.inputs = {source};
  call.outputs = {target};
  call.results = {output};
  if (const auto native = reduction.native()) {
    call.native = [source, target, native](Communicator& communicator, Stream& stream) {
      return communicator.reduce_scatter(data(target), data(source), target.numel(), native->first, native->second,
                                         stream);
    };
  }
  call.staged = [reduction, size = getSize(), rank = getRank()](Backend& gloo, Tensors& in, Tensors& out) {
    reduction.staged(out[0], in[0], size, [&](at::Tensor& work, const ReduceOp& op) {
      Tensors list = {work};
      c10d::AllreduceOptions options;
      options.reduceOp = op;
      gloo.allreduce(list, options)->wait();
      return work.view({size, -1})[rank].view(out[0].sizes());
    });
  };
  call.finish = to.finish();
  return run(std::move(call));
}

WorkPtr ProcessGroup::reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& options) {
  at::Tensor output = expect_single(outputs, "reduce_scatter");
  const Tensors& parts = expect_single(inputs, "reduce_scatter");
  check_per_rank(parts, getSize(), output, "reduce_scatter");
  at::Tensor whole = concat_flat(parts);
  return _reduce_scatter_base(output, whole, options);
}

WorkPtr ProcessGroup::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                      const c10d::ReduceScatterOptions& options) {
  return coalesced(outputs.size(), [&](size_t i) { return _reduce_scatter_base(outputs[i], inputs.at(i), options); });
}

}  // namespace hp::torch_adapter
