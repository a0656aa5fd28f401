#include "scatter.h"

#include <optional>

#include "../core/dimensions.h"
#include "../core/template_call.h"
#include "../core/words.h"
#include "index_tensor.h"
#include "indexing.h"
#include "parts.h"

namespace hp::ops {
namespace {

enum { kSelf, kValues, kIndex };  // operands of a write

struct Shares {
  int64_t rows, columns, columns_per_group, column_groups, places_per_group, limit, wrap, step;
};

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How columns and places are shared out. Results do not depend on it: each place has one owner in any case.
Shares share(const Device& device, const IndexTensor& target, int64_t rows, int64_t columns, int64_t extent,
             bool fixed) {
  Shares shares{rows, columns, columns, 1, extent, target.limit, target.wrap, target.step};
  const int64_t group_size = device.plugin.compiler.group_size;
  const int64_t wanted = std::min<int64_t>(divide_up(rows * columns, 8192), group_size == 1 ? 32 : 1024);
  int64_t ranges = 1;
  if (group_size > 1) {
    shares.columns_per_group = group_size;
    ranges = std::max<int64_t>(1, wanted / divide_up(columns, group_size));
  } else if (fixed && columns >= 64 && target.limit >= 64) {
    // Every group reads all indices, which is little beside the columns.
    ranges = std::min<int64_t>(wanted, 8);
    shares.columns_per_group = std::max<int64_t>(256, divide_up(columns, divide_up(wanted, ranges)));
  } else {
    shares.columns_per_group = std::max<int64_t>(fixed ? 16 : 1, divide_up(columns, wanted));
  }
  shares.column_groups = divide_up(columns, shares.columns_per_group);
  shares.places_per_group = divide_up(extent, std::min(ranges, extent));
  return shares;
}

// `rows` in order, `columns` in any. Strides are those of self, where the index decides in all of `rows`, of values and
// of index. `extent`: the indices are below it, for offsets as well.
bool write_by_index(Operator& op, Device& device, DType dtype, void* self, const void* values, IndexTensor target,
                    Dimensions<3>& rows, Dimensions<3>& columns, int64_t extent, Write write) {
  static TemplateKernels by_rows("scatter:rows", {"T", "I"}, {"ROWS", "COLS", "OPERATION", "FIXED", "UNIT"});
  static TemplateKernels by_lines("scatter:lines", {"T", "I"}, {"ROWS", "COLS", "OPERATION", "UNIT"});
  const bool moves = write == Write::kSet;
  if (moves ? info(dtype).bytes == 16 : is_complex(dtype)) {
    if (!moves && write != Write::kAdd) return false;
    Dimensions<3> whole = columns;
    columns.clear();
    columns.add(2, {1, 1, 0});
    for (int d = 0; d < whole.count(); ++d) {
      const auto& stride = whole[d].stride;
      columns.add(whole[d].size, {2 * stride[kSelf], 2 * stride[kValues], stride[kIndex]});
    }
    whole = rows;
    rows.clear();
    for (int d = 0; d < whole.count(); ++d) {
      rows.add(whole[d].size, {0, 2 * whole[d].stride[kValues], whole[d].stride[kIndex]});
    }
    target.step *= 2;
  }
  columns.sort(kSelf);
  rows.finish();
  columns.finish();
  const int dims = rows.count() + columns.count();
  if (dims > kMaxDimensions) return false;
  const auto &down = rows[0].stride, &along = columns[0].stride;
  const int64_t num_rows = rows.numel(), num_columns = columns.numel();
  const bool lines = rows.count() == 1 && (num_columns == 1 || (along[kIndex] != 0 && down[kIndex] < along[kIndex]));
  const Shares shares = share(device, target, num_rows, num_columns, extent, along[kIndex] == 0);
  const int64_t ranges = divide_up(extent, shares.places_per_group);
  const DType type = moves ? word_of(dtype) : part_of(dtype);
  const bool unit = lines ? down[kValues] == 1 && down[kIndex] == 1 : along[kSelf] == 1 && along[kValues] == 1;
  TemplateCall call =
      lines ? TemplateCall(by_lines, device, {type, target.dtype},
                           {rows.count(), columns.count(), static_cast<int>(write), unit})
            : TemplateCall(by_rows, device, {type, target.dtype},
                           {rows.count(), columns.count(), static_cast<int>(write), along[kIndex] == 0, unit});
  if (!call.available()) return false;
  Geometry<3> geometry;
  rows.write(geometry);
  columns.write(geometry, rows.count());
  call.pointer(self).pointer(values).pointer(target.index).fault(op).value(shares).value(geometry);
  call.launch(op, shares.column_groups * ranges);
  return true;
}

int64_t size_of(const View& view, int64_t dim) { return view.ndim == 0 ? 1 : view.sizes[dim]; }
int64_t stride_of(const View& view, int64_t dim) { return view.ndim == 0 ? 0 : view.strides[dim]; }

}  // namespace

bool scatter(const Service& service, Device& device, const View& out, const View& index, const View& src, int64_t dim,
             Write write) {
  if (call_vendor(service, device,
                  {output(out), input(index), input(src), attribute(dim), attribute(static_cast<int64_t>(write))}))
    return true;
  if (!service.has_compiler || !out.defined()) return false;
  PortableScope scope(service);
  Dimensions<3> rows, columns;
  rows.add(size_of(index, dim), {0, stride_of(src, dim), stride_of(index, dim)});
  for (int d = index.ndim - 1; d >= 0; --d) {
    if (d != dim) columns.add(index.sizes[d], {stride_of(out, d), stride_of(src, d), index.strides[d]});
  }
  const int64_t limit = size_of(out, dim);
  const IndexTensor target{index.data, index.dtype, limit, 0, stride_of(out, dim)};
  if (!write_by_index(service.op, device, out.dtype, out.data, src.data, target, rows, columns, limit, write))
    return false;
  return scope.done();
}

bool index_write(const Service& service, Device& device, const View& out, const View& index, const View& src,
                 int64_t dim, Write write, bool negative) {
  if (call_vendor(service, device,
                  {output(out), input(index), input(src), attribute(dim), attribute(static_cast<int64_t>(write))}))
    return true;
  if (!service.has_compiler || !out.defined()) return false;
  PortableScope scope(service);
  Dimensions<3> rows, columns;
  rows.add(index.numel(), {0, stride_of(src, dim), index.ndim == 0 ? 0 : index.strides[0]});
  for (int d = out.ndim - 1; d >= 0; --d) {
    if (d != dim) columns.add(out.sizes[d], {out.strides[d], stride_of(src, d), 0});
  }
  const int64_t limit = size_of(out, dim);
  const IndexTensor target{index.data, index.dtype, limit, negative ? limit : 0, stride_of(out, dim)};
  if (!write_by_index(service.op, device, out.dtype, out.data, src.data, target, rows, columns, limit, write))
    return false;
  return scope.done();
}

bool index_put(const Service& service, Device& device, const View& out, const View& values,
               const std::vector<View>& indices, int64_t first, Write write) {
  std::vector<VendorArgument> arguments{output(out), input(values)};
  for (const View& each : indices) arguments.push_back(input(each));
  arguments.push_back(attribute(first));
  arguments.push_back(attribute(static_cast<int64_t>(write)));
  if (call_vendor(service, device, arguments.data(), arguments.data() + arguments.size())) return true;
  if (!service.has_compiler || !out.defined()) return false;
  PortableScope scope(service);
  const View& shape = indices[0];
  int64_t extent = out.sizes[first];
  IndexTensor target{shape.data, shape.dtype, extent, extent, out.strides[first]};
  std::vector<int64_t> strides(shape.strides, shape.strides + shape.ndim);
  std::optional<Scratch> offsets;
  const int count = static_cast<int>(indices.size()), before = static_cast<int>(first);
  if (count > 1) {
    offsets.emplace(device, shape.numel() * static_cast<int64_t>(sizeof(int64_t)));
    if (!index_offsets(service.op, device, static_cast<int64_t*>(offsets->get()), out, indices, first)) return false;
    extent = 1;
    for (int d = before; d < before + count; ++d) extent += (out.sizes[d] - 1) * out.strides[d];
    // Offsets that are out of range are negative; they were told already.
    target = {offsets->get(), DType::kI64, extent, 0, 1};
    int64_t step = 1;
    for (int d = shape.ndim - 1; d >= 0; --d) strides[d] = step, step *= shape.sizes[d];
  }
  Dimensions<3> rows, columns;
  for (int d = shape.ndim - 1; d >= 0; --d) rows.add(shape.sizes[d], {0, values.strides[before + d], strides[d]});
  for (int d = out.ndim - 1; d >= 0; --d) {
    if (d >= before && d < before + count) continue;
    columns.add(out.sizes[d], {out.strides[d], values.strides[d < before ? d : d - count + shape.ndim], 0});
  }
  if (!write_by_index(service.op, device, out.dtype, out.data, values.data, target, rows, columns, extent, write))
    return false;
  return scope.done();
}

bool embedding_dense_backward(const Service& service, Device& device, const View& out, const View& grad,
                              const View& indices) {
  if (call_vendor(service, device, {output(out), input(grad), input(indices)})) return true;
  if (!service.has_compiler || !out.defined()) return false;
  PortableScope scope(service);
  const int64_t width = out.sizes[1], limit = out.sizes[0];
  Dimensions<3> rows, columns;
  rows.add(indices.numel(), {0, width, 1});
  columns.add(width, {1, 1, 0});
  const IndexTensor target{indices.data, indices.dtype, limit, 0, width};
  if (!write_by_index(service.op, device, out.dtype, out.data, grad.data, target, rows, columns, limit, Write::kAdd))
    return false;
  return scope.done();
}

}  // namespace hp::ops
