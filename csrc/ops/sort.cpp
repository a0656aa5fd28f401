#include "ops/sort.h"

#include <algorithm>
#include <optional>

#include "core/dispatch/template_call.h"
#include "core/memory/scratch.h"
#include "ops/detail/row_shape.h"

namespace hp::ops {
namespace {

// Shared with kernels/sources/sort.c.
constexpr int64_t kStack = 2048, kChunk = 65536, kSegment = 16384;
// Max work-groups that share scratch memory. Fixed, so that results do not depend on the number of threads.
constexpr int64_t kSlots = 16;

enum Statistic { kKth, kMedian, kNanMedian, kMode };  // STATISTIC in the kernels

int64_t item_bytes(DType dtype) { return info(dtype).bytes == 8 ? 16 : 8; }

bool can_sort(const OpBinding& binding, const View& self) {
  return binding.portable_allowed && self.defined() && !is_complex(self.dtype);
}

// Sorts every row, using `first` and `second` as buffers. Returns the one with the result, or null without a kernel.
void* sort_long(const OpBinding& binding, Device& device, const View& self, const RowShape& rows, bool descending,
                void* first, void* second) {
  static KernelTemplate chunks("sort:chunks", {"T"}, {"DESCENDING"});
  static KernelTemplate merge("sort:merge", {"T"}, {"DESCENDING"});
  const int64_t count = rows.outer * rows.inner, n = rows.n;
  TemplateCall call(chunks, device, {self.dtype}, {descending});
  const int64_t per_row = ceil_div(n, kChunk), segments = ceil_div(n, kSegment);
  call.pointer(first).pointer(second).arg(self).integer(n).integer(rows.inner).integer(per_row);
  if (!call.launch(binding.op, count * per_row)) return nullptr;
  for (int64_t width = kChunk; width < n; width *= 2) {
    TemplateCall next(merge, device, {self.dtype}, {descending});
    next.pointer(second).pointer(first).integer(n).integer(width).integer(segments);
    if (!next.launch(binding.op, count * segments)) return nullptr;
    std::swap(first, second);
  }
  return first;
}

// Whether several work-groups should share a row: with few, long rows.
bool shared(const RowShape& rows) { return rows.outer * rows.inner < 8 && rows.n > kChunk; }

// One launch in which each row belongs to one work-group.
struct RowLaunch {
  RowLaunch(TemplateCall& call, Device& device, const View& self, const RowShape& rows, int64_t need)
      : per_group(call.rows_per_group(rows.n)), groups((rows.outer * rows.inner + per_group - 1) / per_group) {
    if (need <= kStack && device.group_size() == 1) return;
    groups = std::min(groups, kSlots);
    scratch.emplace(device, groups * 2 * rows.n * item_bytes(self.dtype));
  }
  void* memory(const View& self) const { return scratch ? scratch->get() : self.data; }
  int64_t per_group, groups;
  std::optional<Scratch> scratch;
};

// Writes the first k elements of the sorted order.
bool first_of_order(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
                    int64_t k, int64_t dim, bool descending) {
  static KernelTemplate finish("sort:finish", {"T"}, {"DESCENDING"});
  static KernelTemplate kernels("sort:rows", {"T"}, {"DESCENDING"});
  const RowShape rows(self, dim);
  if (!can_sort(binding, self) || rows.n > UINT32_MAX) return false;
  PortableScope scope(binding);
  const int64_t count = rows.outer * rows.inner;
  const bool select = 4 * k <= rows.n && 2 * k + 128 <= kStack;
  if (shared(rows) && !select) {
    const int64_t bytes = count * rows.n * item_bytes(self.dtype);
    const Scratch a(device, bytes), b(device, bytes);
    const void* const sorted = sort_long(binding, device, self, rows, descending, a.get(), b.get());
    if (sorted == nullptr) return false;
    TemplateCall call(finish, device, {self.dtype}, {descending});
    call.arg(values).arg(indices).arg(self).pointer(sorted);
    call.integer(count).integer(rows.n).integer(rows.inner).integer(k);
    return call.launch_elements(binding.op, count * k) && scope.done();
  }
  TemplateCall call(kernels, device, {self.dtype}, {descending});
  if (!call.available()) return false;
  const RowLaunch launch(call, device, self, rows, select ? 2 * k + 128 : rows.n);
  call.arg(values).arg(indices).arg(self).pointer(launch.memory(self));
  call.integer(count).integer(rows.n).integer(rows.inner).integer(k).integer(launch.groups).integer(launch.per_group);
  call.launch(binding.op, launch.groups);
  return scope.done();
}

bool pick(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
          int64_t k, int64_t dim, Statistic statistic) {
  static KernelTemplate kernels("sort:pick", {"T"}, {"DESCENDING", "STATISTIC", "SORTED"});
  const RowShape rows(self, dim);
  if (!can_sort(binding, self) || rows.n > UINT32_MAX) return false;
  PortableScope scope(binding);
  const int64_t count = rows.outer * rows.inner;
  const bool sorted = shared(rows);
  TemplateCall call(kernels, device, {self.dtype}, {0, statistic, sorted});
  if (!call.available()) return false;
  call.arg(values).arg(indices).arg(self);
  if (sorted) {
    const int64_t bytes = count * rows.n * item_bytes(self.dtype);
    const Scratch a(device, bytes), b(device, bytes);
    const void* const items = sort_long(binding, device, self, rows, false, a.get(), b.get());
    if (items == nullptr) return false;
    call.pointer(items).integer(count).integer(rows.n).integer(rows.inner).integer(k).integer(count).integer(1);
    call.launch(binding.op, count);
    return scope.done();
  }
  const RowLaunch launch(call, device, self, rows, rows.n);
  call.pointer(launch.memory(self)).integer(count).integer(rows.n).integer(rows.inner).integer(k);
  call.integer(launch.groups).integer(launch.per_group).launch(binding.op, launch.groups);
  return scope.done();
}

bool pick_one(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
              int64_t dim, bool keepdim, Statistic statistic) {
  return call_vendor(binding, device,
                     {output(values), output(indices), input(self), attribute(dim), attribute(keepdim)}) ||
         pick(binding, device, values, indices, self, 0, dim, statistic);
}

}  // namespace

bool sort(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
          int64_t dim, bool descending, bool stable) {
  return call_vendor(binding, device,
                     {output(values), output(indices), input(self), attribute(dim), attribute(descending),
                      attribute(stable)}) ||
         first_of_order(binding, device, values, indices, self, self.ndim == 0 ? 1 : self.sizes[dim], dim, descending);
}

bool topk(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
          int64_t k, int64_t dim, bool largest, bool sorted) {
  return call_vendor(binding, device,
                     {output(values), output(indices), input(self), attribute(k), attribute(dim), attribute(largest),
                      attribute(sorted)}) ||
         first_of_order(binding, device, values, indices, self, k, dim, largest);
}

bool kthvalue(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
              int64_t k, int64_t dim, bool keepdim) {
  return call_vendor(
             binding, device,
             {output(values), output(indices), input(self), attribute(k), attribute(dim), attribute(keepdim)}) ||
         pick(binding, device, values, indices, self, k - 1, dim, kKth);
}

bool median(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
            int64_t dim, bool keepdim) {
  return pick_one(binding, device, values, indices, self, dim, keepdim, kMedian);
}
bool nanmedian(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
               int64_t dim, bool keepdim) {
  return pick_one(binding, device, values, indices, self, dim, keepdim, kNanMedian);
}
bool mode(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
          int64_t dim, bool keepdim) {
  return pick_one(binding, device, values, indices, self, dim, keepdim, kMode);
}

}  // namespace hp::ops
