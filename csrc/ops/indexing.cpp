#include "ops/indexing.h"

#include <algorithm>
#include <optional>

#include "core/dispatch/template_call.h"
#include "core/memory/scratch.h"
#include "core/tensor/collapsed_dims.h"
#include "core/tensor/raw_view.h"
#include "ops/detail/index_tensor.h"

namespace hp::ops {
namespace {

enum { kOut, kSelf, kIndex };  // operands of a read

// `dims` holds the strides of out, self and index.
bool read(Operator& op, Device& device, const View& out, const void* self, IndexTensor source, CollapsedDims<3>& dims) {
  static KernelTemplate kernels("indexing:read", {"T", "I"}, {"DIMS", "ROW", "UNIT"});
  if (info(out.dtype).bytes == 16) {
    CollapsedDims<3> pairs;
    pairs.add(2, {1, 1, 0});
    for (int d = 0; d < dims.count(); ++d) {
      pairs.add(dims[d].size, {2 * dims[d].stride[kOut], 2 * dims[d].stride[kSelf], dims[d].stride[kIndex]});
    }
    dims = pairs;
    source.step *= 2;
  }
  dims.sort(kOut);
  dims.finish();
  if (dims.count() > kMaxKernelRank) return false;
  const auto& inner = dims[0].stride;
  const bool row = inner[kIndex] == 0, unit = inner[kOut] == 1 && inner[row ? kSelf : kIndex] == 1;
  TemplateCall call(kernels, device, {raw_dtype(out.dtype), source.dtype}, {dims.count(), row, unit});
  StridedShape<3> geometry;
  dims.write(geometry);
  const int64_t elements = dims.numel();
  call.arg(out).pointer(self).pointer(source.index).fault(op).integer(elements);
  call.integer(source.limit).integer(source.wrap).integer(source.step).value(geometry);
  return call.launch_elements(op, elements);
}

struct EmbeddingBagShape {
  int64_t bags, offsets, indices, width, limit, padding, per_group;
};

}  // namespace

bool gather(const OpBinding& binding, Device& device, const View& out, const View& self, const View& index, int64_t dim,
            bool negative) {
  if (!negative && call_vendor(binding, device, {output(out), input(self), input(index), attribute(dim)})) return true;
  if (!binding.portable_allowed || !self.defined()) return false;
  PortableScope scope(binding);
  CollapsedDims<3> dims;
  for (int d = out.ndim - 1; d >= 0; --d) {
    dims.add(out.sizes[d], {out.strides[d], d == dim ? 0 : stride_of(self, d), index.strides[d]});
  }
  return read(binding.op, device, out, self.data, index_into(self, dim, index, negative), dims) && scope.done();
}

bool index_select(const OpBinding& binding, Device& device, const View& out, const View& self, const View& index,
                  int64_t dim, bool negative) {
  if (!negative && call_vendor(binding, device, {output(out), input(self), input(index), attribute(dim)})) return true;
  if (!binding.portable_allowed || !self.defined()) return false;
  PortableScope scope(binding);
  CollapsedDims<3> dims;
  for (int d = out.ndim - 1; d >= 0; --d) {
    const bool here = d == dim;
    dims.add(out.sizes[d], {out.strides[d], here ? 0 : self.strides[d], here && index.ndim > 0 ? index.strides[0] : 0});
  }
  return read(binding.op, device, out, self.data, index_into(self, dim, index, negative), dims) && scope.done();
}

bool take(const OpBinding& binding, Device& device, const View& out, const View& self, const View& index) {
  if (call_vendor(binding, device, {output(out), input(self), input(index)})) return true;
  if (!binding.portable_allowed || !self.defined()) return false;
  PortableScope scope(binding);
  CollapsedDims<3> dims;
  for (int d = out.ndim - 1; d >= 0; --d) dims.add(out.sizes[d], {out.strides[d], 0, index.strides[d]});
  const int64_t limit = self.numel();
  return read(binding.op, device, out, self.data, {index.data, index.dtype, limit, limit, 1}, dims) && scope.done();
}

bool index_offsets(const Operator& op, Device& device, int64_t* offsets, const View& self,
                   const std::vector<View>& indices, int64_t first) {
  static KernelTemplate kernels("indexing:positions", {"I"}, {"DIMS"});
  for (size_t k = 0; k < indices.size(); ++k) {
    const View& index = indices[k];
    CollapsedDims<1> dims;
    for (int d = index.ndim - 1; d >= 0; --d) dims.add(index.sizes[d], {index.strides[d]});
    dims.finish();
    if (dims.count() > kMaxKernelRank) return false;
    TemplateCall call(kernels, device, {index.dtype}, {dims.count()});
    if (!call.available()) return false;
    StridedShape<1> geometry;
    dims.write(geometry);
    const int64_t elements = dims.numel(), d = first + static_cast<int64_t>(k);
    call.pointer(offsets).arg(index).fault(op).integer(elements).integer(self.sizes[d]).integer(self.strides[d]);
    call.integer(k > 0).value(geometry).launch_elements(const_cast<Operator&>(op), elements);
  }
  return true;
}

bool index(const OpBinding& binding, Device& device, const View& out, const View& self,
           const std::vector<View>& indices, int64_t first) {
  std::vector<VendorArgument> arguments{output(out), input(self)};
  for (const View& each : indices) arguments.push_back(input(each));
  arguments.push_back(attribute(first));
  if (call_vendor(binding, device, arguments.data(), arguments.data() + arguments.size())) return true;
  if (!binding.portable_allowed || !self.defined()) return false;
  PortableScope scope(binding);
  const View& shape = indices[0];
  IndexTensor source = index_into(self, first, shape, true);
  std::vector<int64_t> strides(shape.strides, shape.strides + shape.ndim);
  std::optional<Scratch> offsets;
  const int count = static_cast<int>(indices.size());
  if (count > 1) {
    offsets.emplace(device, shape.numel() * static_cast<int64_t>(sizeof(int64_t)));
    if (!index_offsets(binding.op, device, static_cast<int64_t*>(offsets->get()), self, indices, first)) return false;
    source = {offsets->get(), DType::kI64, INT64_MAX, 0, 1};
    dense_strides(shape, strides.data());
  }
  CollapsedDims<3> dims;
  for (int d = out.ndim - 1; d >= 0; --d) {
    const int before = static_cast<int>(first), within = d - before;
    if (within >= 0 && within < shape.ndim) {
      dims.add(out.sizes[d], {out.strides[d], 0, strides[within]});
    } else {
      dims.add(out.sizes[d], {out.strides[d], self.strides[within < 0 ? d : d - shape.ndim + count], 0});
    }
  }
  return read(binding.op, device, out, self.data, source, dims) && scope.done();
}

bool embedding(const OpBinding& binding, Device& device, const View& out, const View& weight, const View& indices) {
  if (call_vendor(binding, device, {output(out), input(weight), input(indices)})) return true;
  if (!binding.portable_allowed || !weight.defined()) return false;
  PortableScope scope(binding);
  const int64_t width = weight.sizes[1];
  CollapsedDims<3> dims;
  dims.add(width, {1, 1, 0});
  dims.add(indices.numel(), {width, 0, 1});
  const IndexTensor source{indices.data, indices.dtype, weight.sizes[0], 0, width};
  return read(binding.op, device, out, weight.data, source, dims) && scope.done();
}

bool embedding_bag(const OpBinding& binding, Device& device, const View& out, const View& bag_of, const View& sizes,
                   const View& max_indices, const View& weight, const View& indices, const View& offsets,
                   const View& samples, int64_t mode, int64_t padding_idx) {
  if (call_vendor(binding, device,
                  {output(out), output(bag_of), output(sizes), output(max_indices), input(weight), input(indices),
                   input(offsets), input(samples), attribute(mode), attribute(padding_idx)}))
    return true;
  static KernelTemplate kernels("embedding_bag:forward", {"T", "I"}, {"MODE", "WEIGHTED"});
  if (!binding.portable_allowed || !is_float(weight.dtype)) return false;
  TemplateCall call(kernels, device, {weight.dtype, indices.dtype}, {static_cast<int>(mode), samples.defined()});
  const int64_t bags = out.sizes[0], width = out.sizes[1], count = indices.numel();
  const int64_t rows_per_bag = std::max<int64_t>(1, count / std::max<int64_t>(1, bags));
  const EmbeddingBagShape shape{
      bags, offsets.numel(), count, width, weight.sizes[0], padding_idx, call.rows_per_group(width * rows_per_bag)};
  call.arg(out).arg(bag_of).arg(sizes).arg(max_indices).arg(weight).arg(indices).arg(offsets).arg(samples);
  return call.fault(binding.op).value(shape).run(binding, ceil_div(bags, shape.per_group));
}

}  // namespace hp::ops
