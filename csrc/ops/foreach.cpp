#include "foreach.h"

#include <algorithm>

#include "../core/template_call.h"

namespace hp::ops {
namespace {

constexpr int kFewSlots = 8, kMostSlots = 40;

template <int kSlots>
struct Table {
  int64_t first[kSlots + 1], size[kSlots], together;
  double number[kSlots];
};

// Whether two outputs share memory, so that one must be written after the other.
bool overlap(const std::vector<View>& out, size_t begin, size_t end) {
  struct Range {
    const char *first, *last;
  };
  Range ranges[kMostSlots];
  for (size_t i = begin; i < end; ++i) {
    Range& range = ranges[i - begin];
    range.first = static_cast<const char*>(out[i].data);
    range.last = range.first + out[i].bytes();
    for (const Range* other = ranges; other != &range; ++other) {
      if (other->first < range.last && range.first < other->last) return true;
    }
  }
  return false;
}

// As many tensors as the kernel has parameters for, from `begin` on.
template <int kSlots>
void launch_some(TemplateCall& call, Operator& op, const Device& device, const ListCall& list, size_t begin) {
  static_assert(kSlots <= kMostSlots);
  Table<kSlots> table;
  int64_t groups = 0, elements = 0;
  const size_t count = list.out.size();
  const auto add = [&](const std::vector<View>& views) {
    for (size_t k = begin; k < begin + kSlots; ++k) call.pointer(k < count ? views[k].data : nullptr);
  };
  add(list.out);
  for (const std::vector<View>* views : list.operands) add(*views);
  for (int k = 0; k < kSlots; ++k) {
    const bool used = begin + k < count;
    table.first[k] = groups;
    table.size[k] = used ? list.out[begin + k].numel() : 0;
    table.number[k] = used ? list.numbers[begin + k] : 0;
    groups += call.groups_for(table.size[k]);
    elements += table.size[k];
  }
  table.first[kSlots] = groups;
  // Groups of many work-items are there at once: none of them needs a second tensor.
  table.together = (device.plugin.compiler.group_size == 1 && call.groups_for(elements) <= 1) ||
                   overlap(list.out, begin, std::min(count, begin + kSlots));
  call.value(table).launch(op, table.together ? 1 : groups);
}

template <int kSlots>
bool launch_all(const Service& service, Device& device, const ListCall& list) {
  static TemplateKernels one("foreach:map1", {"T"}, {"SLOTS", "OP"}),
      two("foreach:map2", {"T"}, {"SLOTS", "OP", "ONE"}), three("foreach:map3", {"T"}, {"SLOTS", "OP"});
  const size_t operands = list.operands.size();
  TemplateKernels& kernels = operands == 1 ? one : operands == 2 ? two : three;
  for (size_t begin = 0; begin < list.out.size(); begin += kSlots) {
    TemplateCall call(kernels, device, {list.out[0].dtype}, {kSlots, static_cast<int>(list.op), list.one});
    if (!call.available()) return false;  // found out before anything is written: they are all of one kernel
    launch_some<kSlots>(call, service.op, device, list, begin);
  }
  return true;
}

}  // namespace

bool foreach_map(const Service& service, Device& device, const ListCall& list) {
  if (!service.has_compiler) return false;
  PortableScope scope(service);
  if (list.out.empty()) return scope.done();
  // Short lists leave few parameters empty.
  const bool wide = list.out.size() > kFewSlots && takes_many_arguments(device);
  return (wide ? launch_all<kMostSlots>(service, device, list) : launch_all<kFewSlots>(service, device, list)) &&
         scope.done();
}

}  // namespace hp::ops
