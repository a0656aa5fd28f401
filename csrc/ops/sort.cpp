#include "sort.h"

#include <algorithm>
#include <optional>

#include "../core/template_call.h"
#include "rows.h"

namespace hp::ops {
namespace {

// As in kernels/sort.c.
constexpr int64_t kStack = 2048, kChunk = 65536, kSegment = 16384;
// Groups that share scratch memory; the rows they take do not depend on the number of threads.
constexpr int64_t kSlots = 16;

enum What { kPlace, kMedian, kNumberMedian, kMode };

int64_t item_bytes(DType dtype) { return info(dtype).bytes == 8 ? 16 : 8; }

bool able(const Service& service, const View& self) {
  return service.has_compiler && self.defined() && !is_complex(self.dtype);
}

// Sorts every row into `first` with the help of `second`; the result is returned.
void* sort_long(const Service& service, Device& device, const View& self, const Rows& rows, bool descending,
                void* first, void* second) {
  static TemplateKernels chunks("sort:chunks", {"T"}, {"DESCENDING"});
  static TemplateKernels merge("sort:merge", {"T"}, {"DESCENDING"});
  const int64_t count = rows.outer * rows.inner, n = rows.n;
  TemplateCall call(chunks, device, {self.dtype}, {descending});
  if (!call.available()) return nullptr;
  const int64_t per_row = (n + kChunk - 1) / kChunk, segments = (n + kSegment - 1) / kSegment;
  call.pointer(first).pointer(second).arg(self).integer(n).integer(rows.inner).integer(per_row);
  call.launch(service.op, count * per_row);
  for (int64_t width = kChunk; width < n; width *= 2) {
    TemplateCall next(merge, device, {self.dtype}, {descending});
    if (!next.available()) return nullptr;
    next.pointer(second).pointer(first).integer(n).integer(width).integer(segments);
    next.launch(service.op, count * segments);
    std::swap(first, second);
  }
  return first;
}

// A few long rows keep all threads busy only if each is shared.
bool shared(const Rows& rows) { return rows.outer * rows.inner < 8 && rows.n > kChunk; }

// One launch over rows, each by one group.
struct RowLaunch {
  RowLaunch(TemplateCall& call, Device& device, const View& self, const Rows& rows, int64_t need)
      : per_group(call.rows_per_group(rows.n)), groups((rows.outer * rows.inner + per_group - 1) / per_group) {
    if (need <= kStack && device.plugin.compiler.group_size == 1) return;
    groups = std::min(groups, kSlots);
    scratch.emplace(device, groups * 2 * rows.n * item_bytes(self.dtype));
  }
  void* memory(const View& self) const { return scratch ? scratch->get() : self.data; }
  int64_t per_group, groups;
  std::optional<Scratch> scratch;
};

// The first k of the order.
bool first_of_order(const Service& service, Device& device, const View& values, const View& places, const View& self,
                    int64_t k, int64_t dim, bool descending) {
  static TemplateKernels finish("sort:finish", {"T"}, {"DESCENDING"});
  static TemplateKernels kernels("sort:rows", {"T"}, {"DESCENDING"});
  const Rows rows(self, dim);
  if (!able(service, self) || rows.n > UINT32_MAX) return false;
  PortableScope scope(service);
  const int64_t count = rows.outer * rows.inner;
  const bool select = 4 * k <= rows.n && 2 * k + 128 <= kStack;
  if (shared(rows) && !select) {
    const int64_t bytes = count * rows.n * item_bytes(self.dtype);
    const Scratch a(device, bytes), b(device, bytes);
    const void* const sorted = sort_long(service, device, self, rows, descending, a.get(), b.get());
    TemplateCall call(finish, device, {self.dtype}, {descending});
    if (sorted == nullptr || !call.available()) return false;
    call.arg(values)
        .arg(places)
        .arg(self)
        .pointer(sorted)
        .integer(count)
        .integer(rows.n)
        .integer(rows.inner)
        .integer(k);
    call.launch_elements(service.op, count * k);
    return scope.done();
  }
  TemplateCall call(kernels, device, {self.dtype}, {descending});
  if (!call.available()) return false;
  const RowLaunch launch(call, device, self, rows, select ? 2 * k + 128 : rows.n);
  call.arg(values).arg(places).arg(self).pointer(launch.memory(self));
  call.integer(count).integer(rows.n).integer(rows.inner).integer(k).integer(launch.groups).integer(launch.per_group);
  call.launch(service.op, launch.groups);
  return scope.done();
}

bool pick(const Service& service, Device& device, const View& values, const View& places, const View& self, int64_t k,
          int64_t dim, What what) {
  static TemplateKernels kernels("sort:pick", {"T"}, {"DESCENDING", "WHAT", "SORTED"});
  const Rows rows(self, dim);
  if (!able(service, self) || rows.n > UINT32_MAX) return false;
  PortableScope scope(service);
  const int64_t count = rows.outer * rows.inner;
  const bool sorted = shared(rows);
  TemplateCall call(kernels, device, {self.dtype}, {0, what, sorted});
  if (!call.available()) return false;
  call.arg(values).arg(places).arg(self);
  if (sorted) {
    const int64_t bytes = count * rows.n * item_bytes(self.dtype);
    const Scratch a(device, bytes), b(device, bytes);
    const void* const items = sort_long(service, device, self, rows, false, a.get(), b.get());
    if (items == nullptr) return false;
    call.pointer(items).integer(count).integer(rows.n).integer(rows.inner).integer(k).integer(count).integer(1);
    call.launch(service.op, count);
    return scope.done();
  }
  const RowLaunch launch(call, device, self, rows, rows.n);
  call.pointer(launch.memory(self)).integer(count).integer(rows.n).integer(rows.inner).integer(k);
  call.integer(launch.groups).integer(launch.per_group).launch(service.op, launch.groups);
  return scope.done();
}

bool pick_one(const Service& service, Device& device, const View& values, const View& places, const View& self,
              int64_t dim, bool keepdim, What what) {
  return call_vendor(service, device,
                     {output(values), output(places), input(self), attribute(dim), attribute(keepdim)}) ||
         pick(service, device, values, places, self, 0, dim, what);
}

}  // namespace

bool sort(const Service& service, Device& device, const View& values, const View& places, const View& self, int64_t dim,
          bool descending, bool stable) {
  return call_vendor(
             service, device,
             {output(values), output(places), input(self), attribute(dim), attribute(descending), attribute(stable)}) ||
         first_of_order(service, device, values, places, self, self.ndim == 0 ? 1 : self.sizes[dim], dim, descending);
}

bool topk(const Service& service, Device& device, const View& values, const View& places, const View& self, int64_t k,
          int64_t dim, bool largest, bool sorted) {
  return call_vendor(service, device,
                     {output(values), output(places), input(self), attribute(k), attribute(dim), attribute(largest),
                      attribute(sorted)}) ||
         first_of_order(service, device, values, places, self, k, dim, largest);
}

bool kthvalue(const Service& service, Device& device, const View& values, const View& places, const View& self,
              int64_t k, int64_t dim, bool keepdim) {
  return call_vendor(service, device,
                     {output(values), output(places), input(self), attribute(k), attribute(dim), attribute(keepdim)}) ||
         pick(service, device, values, places, self, k - 1, dim, kPlace);
}

bool median(const Service& service, Device& device, const View& values, const View& places, const View& self,
            int64_t dim, bool keepdim) {
  return pick_one(service, device, values, places, self, dim, keepdim, kMedian);
}
bool nanmedian(const Service& service, Device& device, const View& values, const View& places, const View& self,
               int64_t dim, bool keepdim) {
  return pick_one(service, device, values, places, self, dim, keepdim, kNumberMedian);
}
bool mode(const Service& service, Device& device, const View& values, const View& places, const View& self, int64_t dim,
          bool keepdim) {
  return pick_one(service, device, values, places, self, dim, keepdim, kMode);
}

}  // namespace hp::ops
