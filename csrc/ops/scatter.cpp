#include "ops/scatter.h"

#include <optional>

#include "core/dispatch/template_call.h"
#include "core/memory/scratch.h"
#include "core/tensor/collapsed_dims.h"
#include "core/tensor/raw_view.h"
#include "ops/detail/complex_view.h"
#include "ops/detail/index_tensor.h"
#include "ops/indexing.h"

namespace hp::ops {
namespace {

enum { kTarget, kValues, kTargetIndex };  // operands of a write

struct Partition {
  int64_t rows, columns, columns_per_group, column_groups, elements_per_group, limit, wrap, step;
};

// Splits columns and target elements among work-groups. Each element has one owner, so results do not depend on it.
Partition make_partition(const Device& device, const IndexTensor& target, int64_t rows, int64_t columns, int64_t extent,
                         bool fixed) {
  Partition partition{rows, columns, columns, 1, extent, target.limit, target.wrap, target.step};
  const int64_t group_size = device.group_size();
  const int64_t target_groups = std::min<int64_t>(ceil_div(rows * columns, 8192), group_size == 1 ? 32 : 1024);
  int64_t ranges = 1;
  if (group_size > 1) {
    partition.columns_per_group = group_size;
    ranges = std::max<int64_t>(1, target_groups / ceil_div(columns, group_size));
  } else if (fixed && columns >= 64 && target.limit >= 64) {
    // Every group reads all indices: cheap compared with the columns.
    ranges = std::min<int64_t>(target_groups, 8);
    partition.columns_per_group = std::max<int64_t>(256, ceil_div(columns, ceil_div(target_groups, ranges)));
  } else {
    partition.columns_per_group = std::max<int64_t>(fixed ? 16 : 1, ceil_div(columns, target_groups));
  }
  partition.column_groups = ceil_div(columns, partition.columns_per_group);
  partition.elements_per_group = ceil_div(extent, std::min(ranges, extent));
  return partition;
}

// Visits `rows` in order, `columns` in any order. Strides are those of self (0 in `rows`, where the index decides), of
// values and of index. Indices or offsets are below `extent`.
bool write_by_index(Operator& op, Device& device, const View& self, const void* values, IndexTensor target,
                    CollapsedDims<3>& rows, CollapsedDims<3>& columns, int64_t extent, ScatterOp write) {
  static KernelTemplate by_rows("scatter:rows", {"T", "I"}, {"ROWS", "COLS", "OPERATION", "FIXED", "UNIT"});
  static KernelTemplate by_lines("scatter:lines", {"T", "I"}, {"ROWS", "COLS", "OPERATION", "UNIT"});
  const bool copies = write == ScatterOp::kSet;
  if (copies ? info(self.dtype).bytes == 16 : is_complex(self.dtype)) {
    if (!copies && write != ScatterOp::kAdd) return false;
    CollapsedDims<3> original = columns;
    columns.clear();
    columns.add(2, {1, 1, 0});
    for (int d = 0; d < original.count(); ++d) {
      const auto& stride = original[d].stride;
      columns.add(original[d].size, {2 * stride[kTarget], 2 * stride[kValues], stride[kTargetIndex]});
    }
    original = rows;
    rows.clear();
    for (int d = 0; d < original.count(); ++d) {
      rows.add(original[d].size, {0, 2 * original[d].stride[kValues], original[d].stride[kTargetIndex]});
    }
    target.step *= 2;
  }
  columns.sort(kTarget);
  rows.finish();
  columns.finish();
  const int dims = rows.count() + columns.count();
  if (dims > kMaxKernelRank) return false;
  const auto &down = rows[0].stride, &along = columns[0].stride;
  const int64_t num_rows = rows.numel(), num_columns = columns.numel();
  const bool lines =
      rows.count() == 1 && (num_columns == 1 || (along[kTargetIndex] != 0 && down[kTargetIndex] < along[kTargetIndex]));
  const Partition partition = make_partition(device, target, num_rows, num_columns, extent, along[kTargetIndex] == 0);
  const int64_t ranges = ceil_div(extent, partition.elements_per_group);
  const DType type = copies ? raw_dtype(self.dtype) : real_dtype(self.dtype);
  const bool unit = lines ? down[kValues] == 1 && down[kTargetIndex] == 1 : along[kTarget] == 1 && along[kValues] == 1;
  TemplateCall call =
      lines ? TemplateCall(by_lines, device, {type, target.dtype},
                           {rows.count(), columns.count(), static_cast<int>(write), unit})
            : TemplateCall(by_rows, device, {type, target.dtype},
                           {rows.count(), columns.count(), static_cast<int>(write), along[kTargetIndex] == 0, unit});
  StridedShape<3> geometry;
  rows.write(geometry);
  columns.write(geometry, rows.count());
  call.arg(self).pointer(values).pointer(target.index).fault(op).value(partition).value(geometry);
  return call.launch(op, partition.column_groups * ranges);
}

}  // namespace

bool scatter(const OpBinding& binding, Device& device, const View& out, const View& index, const View& src, int64_t dim,
             ScatterOp write, bool negative) {
  if (!negative &&
      call_vendor(binding, device,
                  {output(out), input(index), input(src), attribute(dim), attribute(static_cast<int64_t>(write))}))
    return true;
  if (!binding.portable_allowed || !out.defined()) return false;
  PortableScope scope(binding);
  CollapsedDims<3> rows, columns;
  rows.add(size_of(index, dim), {0, stride_of(src, dim), stride_of(index, dim)});
  for (int d = index.ndim - 1; d >= 0; --d) {
    if (d != dim) columns.add(index.sizes[d], {stride_of(out, d), stride_of(src, d), index.strides[d]});
  }
  const IndexTensor target = index_into(out, dim, index, negative);
  return write_by_index(binding.op, device, out, src.data, target, rows, columns, target.limit, write) && scope.done();
}

bool index_write(const OpBinding& binding, Device& device, const View& out, const View& index, const View& src,
                 int64_t dim, ScatterOp write, bool negative) {
  if (!negative &&
      call_vendor(binding, device,
                  {output(out), input(index), input(src), attribute(dim), attribute(static_cast<int64_t>(write))}))
    return true;
  if (!binding.portable_allowed || !out.defined()) return false;
  PortableScope scope(binding);
  CollapsedDims<3> rows, columns;
  rows.add(index.numel(), {0, stride_of(src, dim), index.ndim == 0 ? 0 : index.strides[0]});
  for (int d = out.ndim - 1; d >= 0; --d) {
    if (d != dim) columns.add(out.sizes[d], {out.strides[d], stride_of(src, d), 0});
  }
  const IndexTensor target = index_into(out, dim, index, negative);
  return write_by_index(binding.op, device, out, src.data, target, rows, columns, target.limit, write) && scope.done();
}

bool index_put(const OpBinding& binding, Device& device, const View& out, const View& values,
               const std::vector<View>& indices, int64_t first, ScatterOp write) {
  std::vector<VendorArgument> arguments{output(out), input(values)};
  for (const View& each : indices) arguments.push_back(input(each));
  arguments.push_back(attribute(first));
  arguments.push_back(attribute(static_cast<int64_t>(write)));
  if (call_vendor(binding, device, arguments.data(), arguments.data() + arguments.size())) return true;
  if (!binding.portable_allowed || !out.defined()) return false;
  PortableScope scope(binding);
  const View& shape = indices[0];
  int64_t extent = out.sizes[first];
  IndexTensor target = index_into(out, first, shape, true);
  std::vector<int64_t> strides(shape.strides, shape.strides + shape.ndim);
  std::optional<Scratch> offsets;
  const int count = static_cast<int>(indices.size()), before = static_cast<int>(first);
  if (count > 1) {
    offsets.emplace(device, shape.numel() * static_cast<int64_t>(sizeof(int64_t)));
    if (!index_offsets(binding.op, device, static_cast<int64_t*>(offsets->get()), out, indices, first)) return false;
    extent = 1;
    for (int d = before; d < before + count; ++d) extent += (out.sizes[d] - 1) * out.strides[d];
    // Out-of-range offsets are negative and already reported.
    target = {offsets->get(), DType::kI64, extent, 0, 1};
    dense_strides(shape, strides.data());
  }
  CollapsedDims<3> rows, columns;
  for (int d = shape.ndim - 1; d >= 0; --d) rows.add(shape.sizes[d], {0, values.strides[before + d], strides[d]});
  for (int d = out.ndim - 1; d >= 0; --d) {
    if (d >= before && d < before + count) continue;
    columns.add(out.sizes[d], {out.strides[d], values.strides[d < before ? d : d - count + shape.ndim], 0});
  }
  return write_by_index(binding.op, device, out, values.data, target, rows, columns, extent, write) && scope.done();
}

bool embedding_dense_backward(const OpBinding& binding, Device& device, const View& out, const View& grad,
                              const View& indices) {
  if (call_vendor(binding, device, {output(out), input(grad), input(indices)})) return true;
  if (!binding.portable_allowed || !out.defined()) return false;
  PortableScope scope(binding);
  const int64_t width = out.sizes[1], limit = out.sizes[0];
  CollapsedDims<3> rows, columns;
  rows.add(indices.numel(), {0, width, 1});
  columns.add(width, {1, 1, 0});
  const IndexTensor target{indices.data, indices.dtype, limit, 0, width};
  return write_by_index(binding.op, device, out, grad.data, target, rows, columns, limit, ScatterOp::kAdd) &&
         scope.done();
}

}  // namespace hp::ops
