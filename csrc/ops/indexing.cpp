#include "indexing.h"

#include <optional>

#include "../core/dimensions.h"
#include "../core/template_call.h"
#include "../core/words.h"
#include "index_tensor.h"

namespace hp::ops {
namespace {

enum { kOut, kSelf, kIndex };  // operands of a read

// Strides in `dims` are those of out, self and index.
bool read(Operator& op, Device& device, const View& out, const void* self, IndexTensor source, Dimensions<3>& dims) {
  static TemplateKernels kernels("indexing:read", {"T", "I"}, {"DIMS", "ROW", "UNIT"});
  if (info(out.dtype).bytes == 16) {
    Dimensions<3> pairs;
    pairs.add(2, {1, 1, 0});
    for (int d = 0; d < dims.count(); ++d) {
      pairs.add(dims[d].size, {2 * dims[d].stride[kOut], 2 * dims[d].stride[kSelf], dims[d].stride[kIndex]});
    }
    dims = pairs;
    source.step *= 2;
  }
  dims.sort(kOut);
  dims.finish();
  if (dims.count() > kMaxDimensions) return false;
  const auto& inner = dims[0].stride;
  const bool row = inner[kIndex] == 0, unit = inner[kOut] == 1 && inner[row ? kSelf : kIndex] == 1;
  TemplateCall call(kernels, device, {word_of(out.dtype), source.dtype}, {dims.count(), row, unit});
  if (!call.available()) return false;
  Geometry<3> geometry;
  dims.write(geometry);
  const int64_t elements = dims.numel();
  call.arg(out).pointer(self).pointer(source.index).fault(op).integer(elements);
  call.integer(source.limit).integer(source.wrap).integer(source.step).value(geometry);
  call.launch_elements(op, elements);
  return true;
}

}  // namespace

bool gather(const Service& service, Device& device, const View& out, const View& self, const View& index, int64_t dim) {
  if (call_vendor(service, device, {output(out), input(self), input(index), attribute(dim)})) return true;
  if (!service.has_compiler || !self.defined()) return false;
  PortableScope scope(service);
  Dimensions<3> dims;
  for (int d = out.ndim - 1; d >= 0; --d) {
    dims.add(out.sizes[d], {out.strides[d], d == dim || self.ndim == 0 ? 0 : self.strides[d], index.strides[d]});
  }
  const int64_t limit = self.ndim == 0 ? 1 : self.sizes[dim], step = self.ndim == 0 ? 0 : self.strides[dim];
  if (!read(service.op, device, out, self.data, {index.data, index.dtype, limit, 0, step}, dims)) return false;
  return scope.done();
}

bool index_select(const Service& service, Device& device, const View& out, const View& self, const View& index,
                  int64_t dim) {
  if (call_vendor(service, device, {output(out), input(self), input(index), attribute(dim)})) return true;
  if (!service.has_compiler || !self.defined()) return false;
  PortableScope scope(service);
  Dimensions<3> dims;
  for (int d = out.ndim - 1; d >= 0; --d) {
    const bool here = d == dim;
    dims.add(out.sizes[d], {out.strides[d], here ? 0 : self.strides[d], here && index.ndim > 0 ? index.strides[0] : 0});
  }
  const int64_t limit = self.ndim == 0 ? 1 : self.sizes[dim], step = self.ndim == 0 ? 0 : self.strides[dim];
  if (!read(service.op, device, out, self.data, {index.data, index.dtype, limit, 0, step}, dims)) return false;
  return scope.done();
}

bool take(const Service& service, Device& device, const View& out, const View& self, const View& index) {
  if (call_vendor(service, device, {output(out), input(self), input(index)})) return true;
  if (!service.has_compiler || !self.defined()) return false;
  PortableScope scope(service);
  Dimensions<3> dims;
  for (int d = out.ndim - 1; d >= 0; --d) dims.add(out.sizes[d], {out.strides[d], 0, index.strides[d]});
  const int64_t limit = self.numel();
  if (!read(service.op, device, out, self.data, {index.data, index.dtype, limit, limit, 1}, dims)) return false;
  return scope.done();
}

bool index_offsets(const Operator& op, Device& device, int64_t* offsets, const View& self,
                   const std::vector<View>& indices, int64_t first) {
  static TemplateKernels kernels("indexing:positions", {"I"}, {"DIMS"});
  for (size_t k = 0; k < indices.size(); ++k) {
    const View& index = indices[k];
    Dimensions<1> dims;
    for (int d = index.ndim - 1; d >= 0; --d) dims.add(index.sizes[d], {index.strides[d]});
    dims.finish();
    if (dims.count() > kMaxDimensions) return false;
    TemplateCall call(kernels, device, {index.dtype}, {dims.count()});
    if (!call.available()) return false;
    Geometry<1> geometry;
    dims.write(geometry);
    const int64_t elements = dims.numel(), d = first + static_cast<int64_t>(k);
    call.pointer(offsets).arg(index).fault(op).integer(elements).integer(self.sizes[d]).integer(self.strides[d]);
    call.integer(k > 0).value(geometry).launch_elements(const_cast<Operator&>(op), elements);
  }
  return true;
}

bool index(const Service& service, Device& device, const View& out, const View& self, const std::vector<View>& indices,
           int64_t first) {
  std::vector<VendorArgument> arguments{output(out), input(self)};
  for (const View& each : indices) arguments.push_back(input(each));
  arguments.push_back(attribute(first));
  if (call_vendor(service, device, arguments.data(), arguments.data() + arguments.size())) return true;
  if (!service.has_compiler || !self.defined()) return false;
  PortableScope scope(service);
  const View& shape = indices[0];
  IndexTensor source{shape.data, shape.dtype, self.sizes[first], self.sizes[first], self.strides[first]};
  std::vector<int64_t> strides(shape.strides, shape.strides + shape.ndim);
  std::optional<Scratch> offsets;
  const int count = static_cast<int>(indices.size());
  if (count > 1) {
    offsets.emplace(device, shape.numel() * static_cast<int64_t>(sizeof(int64_t)));
    if (!index_offsets(service.op, device, static_cast<int64_t*>(offsets->get()), self, indices, first)) return false;
    source = {offsets->get(), DType::kI64, INT64_MAX, 0, 1};
    int64_t step = 1;
    for (int d = shape.ndim - 1; d >= 0; --d) strides[d] = step, step *= shape.sizes[d];
  }
  Dimensions<3> dims;
  for (int d = out.ndim - 1; d >= 0; --d) {
    const int before = static_cast<int>(first), within = d - before;
    if (within >= 0 && within < shape.ndim) {
      dims.add(out.sizes[d], {out.strides[d], 0, strides[within]});
    } else {
      dims.add(out.sizes[d], {out.strides[d], self.strides[within < 0 ? d : d - shape.ndim + count], 0});
    }
  }
  if (!read(service.op, device, out, self.data, source, dims)) return false;
  return scope.done();
}

bool embedding(const Service& service, Device& device, const View& out, const View& weight, const View& indices) {
  if (call_vendor(service, device, {output(out), input(weight), input(indices)})) return true;
  if (!service.has_compiler || !weight.defined()) return false;
  PortableScope scope(service);
  const int64_t width = weight.sizes[1];
  Dimensions<3> dims;
  dims.add(width, {1, 1, 0});
  dims.add(indices.numel(), {width, 0, 1});
  const IndexTensor source{indices.data, indices.dtype, weight.sizes[0], 0, width};
  if (!read(service.op, device, out, weight.data, source, dims)) return false;
  return scope.done();
}

}  // namespace hp::ops
