// Advanced indexing: prepares index tensors for the kernels of indexing.cpp and scatter.cpp.
#pragma once

#include <ATen/native/IndexingUtils.h>

#include "ops/op_helpers.h"

namespace hp::torch_adapter {

// `self` permuted to make the indexed dimensions adjacent, from `first` on, and one int64 or int32 index tensor for
// each of them, all of one shape.
struct IndexedView {
  Tensor self;
  std::vector<Tensor> indices;
  int64_t first = 0;
  std::vector<int64_t> sizes;  // of the result

  // Copies indices from the CPU, and converts masks to indices, which waits for the device. Throws torch's own errors.
  IndexedView(Tensor source, at::IOptTensorListRef list) : self(std::move(source)) {
    at::native::checkIndexTensorTypes(list, /*allow_int=*/true);
    c10::List<OptionalTensor> moved;
    if (any_on_host(list)) moved = move_to(self.device(), list);
    std::vector<Tensor> all = at::native::expandTensors(self, moved.empty() ? list : at::IOptTensorListRef(moved));
    TORCH_CHECK_INDEX(all.size() <= static_cast<size_t>(self.dim()), "too many indices for tensor of dimension ",
                      self.dim(), " (got ", all.size(), ")");
    broadcast(all);
    all.resize(self.dim());
    if (!at::native::hasContiguousSubspace(all)) std::tie(self, all) = at::native::transposeToFront(self, all);
    while (first < self.dim() && !all[first].defined()) ++first;
    for (const Tensor& each : all) {
      if (each.defined()) indices.push_back(each);
    }
    const int64_t count = static_cast<int64_t>(indices.size());
    for (int64_t d = 0; d < first; ++d) sizes.push_back(self.size(d));
    if (count > 0) {
      const at::IntArrayRef shape = indices[0].sizes();
      sizes.insert(sizes.end(), shape.begin(), shape.end());
      for (int64_t d = first; d < first + count; ++d) {
        TORCH_CHECK_INDEX(self.size(d) != 0 || indices[0].numel() == 0,
                          "index is out of bounds for dimension with size 0");
      }
    }
    for (int64_t d = first + count; d < self.dim(); ++d) sizes.push_back(self.size(d));
  }

  std::vector<View> views() const {
    std::vector<View> all;
    for (const Tensor& each : indices) all.push_back(view(each));
    return all;
  }

 private:
  static bool on_host(const at::OptionalTensorRef& index) {
    return index.has_value() && index->defined() && index->is_cpu();
  }
  static bool any_on_host(const at::IOptTensorListRef& list) {
    for (const at::OptionalTensorRef index : list) {
      if (on_host(index)) return true;
    }
    return false;
  }
  static c10::List<OptionalTensor> move_to(c10::Device device, const at::IOptTensorListRef& list) {
    c10::List<OptionalTensor> moved;
    for (const at::OptionalTensorRef index : list) {
      moved.push_back(on_host(index) ? index->to(device) : index.has_value() ? OptionalTensor(*index) : std::nullopt);
    }
    return moved;
  }

  static void broadcast(std::vector<Tensor>& all) {
    try {
      all = at::expand_outplace(all);
    } catch (const std::exception&) {
      std::ostringstream shapes;
      const char* separator = "";
      for (const Tensor& each : all) {
        if (each.defined()) shapes << std::exchange(separator, ", ") << each.sizes();
      }
      TORCH_CHECK_INDEX(false, "shape mismatch: indexing tensors could not be broadcast together with shapes ",
                        shapes.str());
    }
  }
};

// Kernels need all index tensors to have one dtype: converts mixed ones to int64.
inline void unify_index_dtypes(std::vector<Tensor>& indices) {
  const auto differs = [&](const Tensor& each) { return each.scalar_type() != indices[0].scalar_type(); };
  if (std::none_of(indices.begin(), indices.end(), differs)) return;
  for (Tensor& each : indices) each = each.to(at::kLong);
}

}  // namespace hp::torch_adapter
