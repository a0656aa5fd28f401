#include "graph/graphed_call.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>

#include "runtime/module.h"

namespace py = pybind11;

namespace hp::torch_adapter {
namespace {

struct Alias {
  std::shared_ptr<std::atomic<int64_t>> alive;
  c10::Storage storage;
};
void release_alias(void* context) {
  auto* alias = static_cast<Alias*>(context);
  alias->alive->fetch_sub(1, std::memory_order_relaxed);
  delete alias;
}

// The tensor without its repeated elements: one of each expanded dimension.
at::Tensor distinct_elements(const at::Tensor& tensor) {
  at::Tensor view = tensor;
  for (int64_t i = 0; i < view.dim(); ++i) {
    if (view.stride(i) == 0 && view.size(i) > 1) view = view.narrow(i, 0, 1);
  }
  return view;
}

}  // namespace

GraphedCall::GraphedCall(std::shared_ptr<TorchGraph> graph, const std::vector<c10::IValue>& inputs,
                         const std::vector<int>& fixed, const std::vector<c10::IValue>& outputs)
    : graph_(std::move(graph)), alive_(std::make_shared<std::atomic<int64_t>>(0)) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].isInt()) numbers_.emplace_back(i, inputs[i].toInt());
    if (!inputs[i].isTensor()) continue;
    const at::Tensor& tensor = inputs[i].toTensor();
    const bool is_fixed = std::find(fixed.begin(), fixed.end(), static_cast<int>(i)) != fixed.end();
    inputs_.push_back(
        {i, is_fixed ? at::Tensor() : tensor, tensor.const_data_ptr(), tensor.sizes().vec(), tensor.strides().vec()});
  }
  for (const c10::IValue& value : outputs) {
    Output& output = outputs_.emplace_back();
    if (!value.isTensor() || !value.toTensor().defined()) {
      output.value = value;
      continue;
    }
    const at::Tensor& tensor = value.toTensor();
    output.sizes = tensor.sizes().vec();
    output.strides = tensor.strides().vec();
    output.offset = tensor.storage_offset();
    output.dtype = tensor.scalar_type();
    for (const Input& input : inputs_) {
      const bool shared = inputs[input.index].toTensor().storage().is_alias_of(tensor.storage());
      if (shared && !input.tensor.defined()) output.input = static_cast<int>(input.index);
    }
    if (output.input >= 0) continue;
    const auto found = std::find_if(storages_.begin(), storages_.end(),
                                    [&](const c10::Storage& each) { return each.is_alias_of(tensor.storage()); });
    output.storage = static_cast<int>(found - storages_.begin());
    if (found == storages_.end()) storages_.push_back(tensor.storage());
  }
}

bool GraphedCall::is_result(const at::Tensor& tensor) {
  return tensor.has_storage() && tensor.storage().data_ptr().get_deleter() == &release_alias;
}

bool GraphedCall::accepts(const std::vector<c10::IValue>& inputs) const {
  if (alive_->load(std::memory_order_relaxed) != 0) return false;
  for (const auto& [index, number] : numbers_) {
    if (!inputs[index].isInt() || inputs[index].toInt() != number) return false;
  }
  for (const Input& input : inputs_) {
    const at::Tensor& tensor = inputs[input.index].toTensor();
    if (!input.tensor.defined() && tensor.const_data_ptr() != input.address) return false;
    if (tensor.sizes() != input.sizes || tensor.strides() != input.strides) return false;
  }
  return true;
}

c10::Storage GraphedCall::alias(const c10::Storage& storage) const {
  alive_->fetch_add(1, std::memory_order_relaxed);
  c10::DataPtr data(const_cast<void*>(storage.data()), new Alias{alive_, storage}, &release_alias, storage.device());
  return c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(data), storage.allocator(), false);
}

std::vector<c10::IValue> GraphedCall::run(const std::vector<c10::IValue>& inputs) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  for (const Input& input : inputs_) {
    const at::Tensor& tensor = inputs[input.index].toTensor();
    if (input.tensor.defined() && tensor.const_data_ptr() != input.address)
      distinct_elements(input.tensor).copy_(distinct_elements(tensor));
  }
  graph_->replay();
  std::vector<c10::Storage> storages;
  storages.reserve(storages_.size());
  for (const c10::Storage& storage : storages_) storages.push_back(alias(storage));
  std::vector<c10::IValue> results;
  results.reserve(outputs_.size());
  for (const Output& output : outputs_) {
    if (output.input < 0 && output.storage < 0) {
      results.push_back(output.value);
      continue;
    }
    const c10::Storage& storage =
        output.input >= 0 ? inputs[output.input].toTensor().storage() : storages[output.storage];
    at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), kKeySet,
                                                                 c10::scalarTypeToTypeMeta(output.dtype));
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(output.sizes, output.strides, output.offset);
    results.emplace_back(std::move(tensor));
  }
  return results;
}

// Returns the results of the first call that accepts the inputs, or None. Empties the list of inputs, unless None.
static py::object run_first(const std::vector<std::shared_ptr<GraphedCall>>& calls, py::list inputs_list) {
  std::vector<c10::IValue> inputs;
  inputs.reserve(inputs_list.size());
  for (py::handle item : inputs_list) inputs.push_back(ivalue_from_python(item));
  GraphedCall* accepting = nullptr;
  for (const auto& call : calls) {
    if (accepting == nullptr && call->accepts(inputs)) accepting = call.get();
  }
  if (accepting == nullptr) return py::none();
  PyList_SetSlice(inputs_list.ptr(), 0, PyList_GET_SIZE(inputs_list.ptr()), nullptr);
  std::vector<c10::IValue> results;
  {
    py::gil_scoped_release release;
    results = accepting->run(inputs);
    inputs.clear();
  }
  py::list outputs;
  for (c10::IValue& result : results) {
    outputs.append(result.isTensor() && !result.toTensor().defined() ? py::none()
                                                                     : torch::jit::toPyObject(std::move(result)));
  }
  return outputs;
}

void bind_graphed_calls(py::module_& m) {
  py::class_<GraphedCall, std::shared_ptr<GraphedCall>>(m, "GraphedCall")
      .def(py::init([](std::shared_ptr<TorchGraph> graph, const py::list& inputs, const std::vector<int>& fixed,
                       const py::list& outputs) {
        std::vector<c10::IValue> given, made;
        for (py::handle item : inputs) given.push_back(ivalue_from_python(item));
        for (py::handle item : outputs) made.push_back(ivalue_from_python(item));
        return std::make_shared<GraphedCall>(std::move(graph), given, fixed, made);
      }));
  m.def("run_graphed_call", &run_first);
  m.def("is_graphed_result", &GraphedCall::is_result);
}

}  // namespace hp::torch_adapter
