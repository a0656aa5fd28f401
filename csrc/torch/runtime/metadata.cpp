#include "runtime/metadata.h"

#include <c10/core/TensorImpl.h>
#include <torch/csrc/jit/serialization/pickler_helper.h>

#include "runtime/adapter.h"

namespace hp::torch_adapter {
namespace {

struct TensorMetadata final : c10::BackendMeta {
  explicit TensorMetadata(Metadata values) : values(std::move(values)) {}
  c10::intrusive_ptr<c10::BackendMeta> clone(const c10::intrusive_ptr<c10::BackendMeta>&) const override {
    return c10::make_intrusive<TensorMetadata>(values);
  }
  Metadata values;
};

void save(const at::Tensor& tensor, Metadata& into) {
  for (const auto& [key, value] : get_metadata(tensor)) into[key] = value;
}

void load(const at::Tensor& tensor, Metadata& from) {
  if (!from.empty()) set_metadata(tensor, from);
}

}  // namespace

void enable_metadata() {
  static const bool once = [] {
    torch::jit::TensorBackendMetaRegistry(kDeviceType, &save, &load);
    return true;
  }();
  (void)once;
}

void set_metadata(const at::Tensor& tensor, Metadata values) {
  TORCH_CHECK(on_device(tensor), "metadata needs a tensor on ", runtime().name(), ", got one on ", tensor.device());
  tensor.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<TensorMetadata>(std::move(values)));
}

Metadata get_metadata(const at::Tensor& tensor) {
  c10::BackendMeta* meta = tensor.unsafeGetTensorImpl()->get_backend_meta();
  const auto* metadata = dynamic_cast<const TensorMetadata*>(meta);
  return metadata != nullptr ? metadata->values : Metadata();
}

}  // namespace hp::torch_adapter
