#include "ops/foreach.h"

#include <algorithm>

#include "core/dispatch/template_call.h"

namespace hp::ops {
namespace {

// Tensors per launch. Small kernels waste few parameters on short lists; the largest uses all the argument space of
// TemplateCall, which depends on the number of operands.
constexpr int kFewSlots = 8, kSomeSlots = 40;
constexpr int max_slots(size_t operands) { return operands == 1 ? 96 : operands == 2 ? 72 : 54; }

template <int kSlots>
struct PointerTable {
  int64_t first[kSlots + 1], size[kSlots], together;
  double number[kSlots];
};

// Whether two outputs share memory and must be written in order.
template <int kSlots>
bool overlap(const std::vector<View>& out, size_t begin, size_t end) {
  struct Range {
    const char *first, *last;
  };
  Range ranges[kSlots];
  const size_t count = end - begin;
  bool ascending = true;
  for (size_t i = 0; i < count; ++i) {
    const char* first = static_cast<const char*>(out[begin + i].data);
    ranges[i] = {first, first + out[begin + i].bytes()};
    ascending = ascending && (i == 0 || ranges[i - 1].last <= first);
  }
  if (ascending) return false;  // the usual case: allocated in order
  std::sort(ranges, ranges + count, [](const Range& a, const Range& b) { return a.first < b.first; });
  for (size_t i = 1; i < count; ++i) {
    if (ranges[i - 1].last > ranges[i].first) return true;
  }
  return false;
}

// Launches for up to kSlots tensors, starting at `begin`.
template <int kSlots>
void launch_some(TemplateCall& call, Operator& op, const Device& device, const ForeachCall& list, size_t begin) {
  PointerTable<kSlots> table;
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
  // One group for all tensors if they are small and a group is one work-item, or if outputs overlap.
  table.together = (device.group_size() == 1 && call.groups_for(elements) <= 1) ||
                   overlap<kSlots>(list.out, begin, std::min(count, begin + kSlots));
  call.value(table).launch(op, table.together ? 1 : groups);
}

template <int kSlots>
bool launch_all(const OpBinding& binding, Device& device, const ForeachCall& list) {
  static KernelTemplate one("foreach:map1", {"T"}, {"SLOTS", "OP"}), two("foreach:map2", {"T"}, {"SLOTS", "OP", "ONE"}),
      three("foreach:map3", {"T"}, {"SLOTS", "OP"});
  const size_t operands = list.operands.size();
  KernelTemplate& kernels = operands == 1 ? one : operands == 2 ? two : three;
  for (size_t begin = 0; begin < list.out.size(); begin += kSlots) {
    TemplateCall call(kernels, device, {list.out[0].dtype}, {kSlots, static_cast<int>(list.op), list.one});
    if (!call.available()) return false;  // all launches use one kernel, so this fails before anything is written
    launch_some<kSlots>(call, binding.op, device, list, begin);
  }
  return true;
}

}  // namespace

bool foreach_map(const OpBinding& binding, Device& device, const ForeachCall& list) {
  if (!binding.portable_allowed) return false;
  PortableScope scope(binding);
  if (list.out.empty()) return scope.done();
  const size_t count = list.out.size(), operands = list.operands.size();
  const auto launch = count <= kFewSlots || !takes_many_arguments(device) ? launch_all<kFewSlots>
                      : count <= kSomeSlots                               ? launch_all<kSomeSlots>
                      : operands == 1                                     ? launch_all<max_slots(1)>
                      : operands == 2                                     ? launch_all<max_slots(2)>
                                                                          : launch_all<max_slots(3)>;
  return launch(binding, device, list) && scope.done();
}

}  // namespace hp::ops
