// Selected rows: gradients of embeddings. The numbers of the rows are on the host, their values on the device.
#include <paddle/phi/backends/context_pool.h>
#include <paddle/phi/core/kernel_context.h>

#include "dispatch/composition.h"
#include "dispatch/sparse_call.h"
#include "dispatch/sparse_gradients.h"
#include "ops/index_views.h"
#include "ops/indexing.h"
#include "ops/scatter.h"

namespace hp::paddle_adapter::ops {
namespace {

using hp::ops::ScatterOp;
using phi::SelectedRows;

StandardOp row_add_op("index_add"), row_copy_op("index_copy"), row_select_op("index_select");

// Whether kernels can read the values.
bool rows_ready(const SelectedRows& rows) {
  const DenseTensor& value = rows.value();
  return static_cast<int64_t>(rows.rows().size()) == (value.dims().size() == 0 ? 0 : value.dims()[0]) &&
         (rows.rows().empty() || is_ready(&value)) && value.dims().size() <= kMaxKernelRank;
}

// Numbers of rows on the device.
class Index : public Temporary {
 public:
  Index(Device& device, const std::vector<int64_t>& numbers)
      : Index(device, numbers, static_cast<int64_t>(numbers.size())) {}

 private:
  Index(Device& device, const std::vector<int64_t>& numbers, int64_t count)
      : Temporary(device, DType::kI64, 1, &count) {
    Stream& stream = current_stream(device);
    device.copy_to_device(view().data, numbers.data(), numbers.size() * sizeof(int64_t), stream);
    stream.synchronize();
  }
};

// Adds slices of `values` to those of `out` at `numbers`, which may repeat.
bool add_slices(Device& device, const View& out, const std::vector<int64_t>& numbers, const View& values) {
  if (values.numel() == 0) return true;
  return hp::ops::index_write(row_add_op.on(device), device, out, Index(device, numbers), values, 0, ScatterOp::kAdd,
                              false);
}

std::vector<int64_t> distinct(std::vector<int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

// The position of each number in an ascending list.
std::vector<int64_t> positions(const std::vector<int64_t>& numbers, const std::vector<int64_t>& list) {
  std::vector<int64_t> found;
  for (const int64_t number : numbers) {
    found.push_back(std::lower_bound(list.begin(), list.end(), number) - list.begin());
  }
  return found;
}

// Allocates a tensor of zeros.
bool allocate_zeros(Call& call, DenseTensor& tensor, const common::DDim& dims, phi::DataType dtype) {
  tensor.Resize(dims);
  tensor.set_type(dtype);
  return zero(call.device, call.allocate(tensor));
}

// ---- Optimizers: the kernel for dense gradients, which has the same arguments

// The tensors of a step: the caller's, or the rows of them that have a gradient.
class DenseStep {
 public:
  DenseStep(Call& call, const SparseArguments& arguments, bool only_rows)
      : call_(call), arguments_(arguments), only_rows_(only_rows) {
    for (const auto& input : arguments.inputs) {
      if (is_gradient(input.front())) gradient_ = static_cast<const SelectedRows*>(input.front());
    }
  }

  bool run(const PhiKernel& kernel) {
    if (gradient_ == nullptr || !rows_ready(*gradient_)) return false;
    dims_ = gradient_->GetCompleteDims();
    if (only_rows_) {
      numbers_ = distinct(gradient_->rows());
      if (numbers_.empty()) return false;
      index_.emplace(call_.device, numbers_);
    }
    phi::KernelContext context(const_cast<phi::DeviceContext*>(&call_.context));
    for (const auto& input : arguments_.inputs) {
      const phi::TensorBase* given = input.front();
      const DenseTensor* taken = is_gradient(given) ? make_gradient() : take(static_cast<const DenseTensor*>(given));
      if (given != nullptr && taken == nullptr) return false;
      context.EmplaceBackInput(taken);
    }
    for (int i = 0; i < call_.num_attributes(); ++i) context.EmplaceBackAttr(call_.attribute(i));
    for (phi::TensorBase* output : arguments_.outputs) {
      DenseTensor* target = static_cast<DenseTensor*>(output);
      if (only_rows_ && output != nullptr && output->dims() == dims_) {
        target = rows_of(*target);
        if (target == nullptr) return false;  // not in place
      }
      context.EmplaceBackOutput(target);
    }
    run_boxed(kernel, context);
    for (auto& [whole, rows] : taken_) {
      if (!hp::ops::index_write(row_copy_op.on(call_.device), call_.device, view(*whole), *index_, view(rows), 0,
                                ScatterOp::kSet, false)) {
        throw Error(HP_NOT_SUPPORTED, "the step is done, but no kernel can write its rows to the parameter");
      }
    }
    return true;
  }

 private:
  static bool is_gradient(const phi::TensorBase* tensor) { return tensor != nullptr && SelectedRows::classof(tensor); }

  // Zeros where there is no gradient.
  const DenseTensor* make_gradient() {
    common::DDim dims = dims_;
    if (only_rows_) dims[0] = static_cast<int64_t>(numbers_.size());
    const auto& rows = gradient_->rows();
    const bool done = allocate_zeros(call_, dense_gradient_, dims, gradient_->dtype()) &&
                      add_slices(call_.device, view(dense_gradient_), only_rows_ ? positions(rows, numbers_) : rows,
                                 view(gradient_->value()));
    return done ? &dense_gradient_ : nullptr;
  }

  const DenseTensor* take(const DenseTensor* whole) {
    if (whole == nullptr || !only_rows_ || whole->dims() != dims_) return whole;
    if (!is_ready(whole)) return nullptr;
    DenseTensor& rows = taken_.emplace_back(whole, DenseTensor()).second;
    common::DDim dims = dims_;
    dims[0] = static_cast<int64_t>(numbers_.size());
    rows.Resize(dims);
    rows.set_type(whole->dtype());
    const View to = call_.allocate(rows);
    return hp::ops::index_select(row_select_op.on(call_.device), call_.device, to, view(*whole), *index_, 0, false)
               ? &rows
               : nullptr;
  }

  DenseTensor* rows_of(const DenseTensor& output) {
    for (auto& [whole, rows] : taken_) {
      if (output.initialized() && whole->data() == output.data()) return &rows;
    }
    return nullptr;
  }

  Call& call_;
  const SparseArguments& arguments_;
  const bool only_rows_;
  const SelectedRows* gradient_ = nullptr;
  common::DDim dims_;
  std::vector<int64_t> numbers_;
  std::optional<Index> index_;
  DenseTensor dense_gradient_;
  std::deque<std::pair<const DenseTensor*, DenseTensor>> taken_;
};

// `lazy`: position of an attribute that leaves rows without a gradient as they are, or -1.
bool with_dense_gradient(Call& call, const SparseArguments& arguments, const char* dense_name, int lazy) {
  const PhiKernel* kernel = find_kernel(dense_name, call.kernel.dtype);
  if (kernel == nullptr || kernel->attributes != call.kernel.attributes ||
      kernel->inputs.size() != arguments.inputs.size() || kernel->outputs.size() != arguments.outputs.size()) {
    return false;
  }
  return DenseStep(call, arguments, lazy >= 0 && call.attr<bool>(lazy)).run(*kernel) && count_decomposed(call);
}

// Inputs: param, learning_rate, grad, master_param. Attribute: multi_precision. Only the rows with a gradient change.
bool sgd_dense_param_sparse_grad(Call& call, const SparseArguments& arguments) {
  static PointwiseOp multiply("mul"), negate("neg");
  const DenseTensor &param = *arguments.dense(0), &rate = *arguments.dense(1);
  const SelectedRows& grad = arguments.rows(2);
  const View values = view(grad.value());
  if (call.attr<bool>(0) || grad.value().dtype() != param.dtype() || rate.dtype() != param.dtype() ||
      rate.numel() != 1 || !rows_ready(grad) || !is_ready(&param) || !is_ready(&rate)) {
    return with_dense_gradient(call, arguments, "sgd", -1);
  }
  View out;
  if (!allocate_copy(call, arguments.dense_output(0), param, out)) return false;
  if (values.numel() == 0) return count_decomposed(call);
  const int64_t one[] = {1};
  const Temporary step(call.device, out.dtype, 1, one), change(call.device, out.dtype, values.ndim, values.sizes);
  return negate(call.device, step, {ShapedView(const_cast<void*>(rate.data()), out.dtype, 1, one)}) &&
         multiply(call.device, change, {values, step}) && add_slices(call.device, out, grad.rows(), change) &&
         count_decomposed(call);
}

// ---- Gradients of embeddings

// Inputs: indices, weight, out_grad. The rows of padding are not left out: lookups and optimizers ignore them.
bool embedding_sparse_grad(Call& call, const SparseArguments& arguments) {
  const DenseTensor &indices = *arguments.dense(0), &weight = *arguments.dense(1), &grad = *arguments.dense(2);
  if (!is_index(indices) || !is_ready(&indices) || !is_ready(&grad) || weight.dims().size() != 2) {
    return false;
  }
  const bool wide = indices.dtype() == phi::DataType::INT64;
  std::vector<char> bytes(view(indices).bytes());
  Stream& stream = current_stream(call.device);
  call.device.copy_to_host(bytes.data(), indices.data(), bytes.size(), stream);
  stream.synchronize();
  std::vector<int64_t> numbers(indices.numel());
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] =
        wide ? reinterpret_cast<const int64_t*>(bytes.data())[i] : reinterpret_cast<const int32_t*>(bytes.data())[i];
  }
  SelectedRows& out = arguments.rows_output(0);
  out.set_rows(numbers);
  out.set_height(weight.dims()[0]);
  DenseTensor flat = grad;
  flat.Resize({indices.numel(), weight.dims()[1]});
  DenseTensor& value = *out.mutable_value();
  value.Resize(flat.dims());
  value.set_type(flat.dtype());
  if (in_backward()) {
    // If the embedding is used twice, Paddle adds these gradients on the CPU, wherever they are.
    void* to = phi::DeviceContextPool::Instance().Get(phi::CPUPlace())->Alloc(&value, value.dtype());
    call.device.copy_to_host(to, flat.data(), view(flat).bytes(), stream);
    stream.synchronize();
    return count_decomposed(call);
  }
  View to;
  return allocate_copy(call, value, flat, to) && count_decomposed(call);
}

// ---- Sums

// Sums rows with equal numbers: the result has each number once, in ascending order.
bool sum_rows(Call& call, const SparseArguments& arguments) {
  SelectedRows& out = arguments.rows_output(0);
  std::vector<int64_t> numbers;
  const SelectedRows* first = nullptr;
  for (const phi::TensorBase* input : arguments.inputs[0]) {
    const auto& rows = static_cast<const SelectedRows&>(*input);
    if (!rows_ready(rows)) return false;
    if (rows.rows().empty()) continue;
    if (first == nullptr) first = &rows;
    numbers.insert(numbers.end(), rows.rows().begin(), rows.rows().end());
  }
  if (first == nullptr) return false;
  numbers = distinct(std::move(numbers));
  common::DDim dims = first->value().dims();
  dims[0] = static_cast<int64_t>(numbers.size());
  DenseTensor sum;
  if (!allocate_zeros(call, sum, dims, first->dtype())) return false;
  for (const phi::TensorBase* input : arguments.inputs[0]) {
    const auto& rows = static_cast<const SelectedRows&>(*input);
    if (!add_slices(call.device, view(sum), positions(rows.rows(), numbers), view(rows.value()))) return false;
  }
  out.set_height(first->height());
  out.set_rows(numbers);
  *out.mutable_value() = sum;
  return count_decomposed(call);
}
bool merge_selected_rows(Call& call, const SparseArguments& arguments) { return sum_rows(call, arguments); }
bool add_n_sr(Call& call, const SparseArguments& arguments) { return sum_rows(call, arguments); }

// Inputs: a list of dense tensors and selected rows.
bool add_n(Call& call, const SparseArguments& arguments) {
  static PointwiseOp add("add");
  DenseTensor& output = arguments.dense_output(0);
  const DType dtype = to_core(call.kernel.dtype);
  const auto& inputs = arguments.inputs[0];
  for (const phi::TensorBase* input : inputs) {
    const bool dense = DenseTensor::classof(input);
    if (dense ? input->numel() != 0 && (!is_ready(static_cast<const DenseTensor*>(input)) ||
                                        input->dims() != output.dims() || input->dtype() != call.kernel.dtype)
              : !SelectedRows::classof(input) || !rows_ready(static_cast<const SelectedRows&>(*input)) ||
                    input->dtype() != call.kernel.dtype) {
      return false;
    }
  }
  if (dtype == DType::kNone || dtype == DType::kBool || output.dims().size() > kMaxKernelRank) return false;
  // 16-bit floats are summed in float32. The output may be one of the inputs.
  output.set_type(call.kernel.dtype);
  const DType wide = dtype == DType::kF16 || dtype == DType::kBF16 ? DType::kF32 : dtype;
  const Temporary sum(call.device, wide, output.dims().size(), output.dims().Get());
  bool started = false;
  for (const phi::TensorBase* input : inputs) {
    if (!DenseTensor::classof(input) || input->numel() == 0) continue;
    const View from = view(static_cast<const DenseTensor&>(*input));
    if (started ? !add(call.device, sum, {sum, from}, {1.0}) : !copy(copy_op.on(call.device), call.device, sum, from)) {
      return false;
    }
    started = true;
  }
  if (!started && !zero(call.device, sum)) return false;
  for (const phi::TensorBase* input : inputs) {
    if (!SelectedRows::classof(input)) continue;
    const View values = view(static_cast<const SelectedRows&>(*input).value());
    Converted converted(call.device, values, wide);
    if (!converted.read() ||
        !add_slices(call.device, sum, static_cast<const SelectedRows&>(*input).rows(), converted)) {
      return false;
    }
  }
  return copy(copy_op.on(call.device), call.device, call.allocate(output), sum) && count_decomposed(call);
}

// ---- One kernel for all values

// The dense kernel on the values of the first input; the other inputs are dense.
bool on_values(Call& call, const SparseArguments& arguments, const char* dense_name) {
  const PhiKernel* dense_kernel = find_kernel(dense_name, call.kernel.dtype);
  const SelectedRows& x = arguments.rows(0);
  if (dense_kernel == nullptr || dense_kernel->attributes != call.kernel.attributes ||
      dense_kernel->inputs.size() != arguments.inputs.size() || !rows_ready(x) || x.rows().empty()) {
    return false;
  }
  SelectedRows& out = arguments.rows_output(0);
  if (&out != &x) {
    out.set_rows(x.rows());
    out.set_height(x.height());
  }
  DenseTensor& value = *out.mutable_value();
  value.Resize(x.value().dims());
  value.set_type(x.dtype());
  phi::KernelContext context(const_cast<phi::DeviceContext*>(&call.context));
  context.EmplaceBackInput(&x.value());
  for (size_t i = 1; i < arguments.inputs.size(); ++i) context.EmplaceBackInput(arguments.inputs[i].front());
  for (int i = 0; i < call.num_attributes(); ++i) context.EmplaceBackAttr(call.attribute(i));
  context.EmplaceBackOutput(&value);
  run_boxed(*dense_kernel, context);
  return count_decomposed(call);
}

bool get_tensor_from_selected_rows(Call& call, const SparseArguments& arguments) {
  const SelectedRows& x = arguments.rows(0);
  DenseTensor& output = arguments.dense_output(0);
  output.Resize(x.value().dims());
  output.set_type(x.dtype());
  View out;
  return rows_ready(x) && !x.rows().empty() && allocate_copy(call, output, x.value(), out) && count_decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/selected_rows.inc"
