#include "foreach.h"

#include <algorithm>

#include "../core/template_call.h"

namespace hp::ops {
namespace {

template <int kSlots>
struct Table {
  int64_t first[kSlots + 1], size[kSlots], together;
  double number[kSlots];
};

// Whether two outputs share memory, so that one must be written after the other.
bool overlap(const std::vector<View>& out, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    const char* const a = static_cast<const char*>(out[i].data);
    for (size_t j = i + 1; j < end; ++j) {
      const char* const b = static_cast<const char*>(out[j].data);
      if (a < b + out[j].bytes() && b < a + out[i].bytes()) return true;
    }
  }
  return false;
}

// As many tensors as the kernel has parameters for, from `begin` on.
template <int kSlots>
void launch_some(TemplateCall& call, Operator& op, const ListCall& list, size_t begin) {
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
  table.together = call.groups_for(elements) <= 1 || overlap(list.out, begin, std::min(count, begin + kSlots));
  call.value(table).launch(op, table.together ? 1 : groups);
}

}  // namespace

bool foreach_map(const Service& service, Device& device, const ListCall& list) {
  static TemplateKernels one("foreach:map1", {"T"}, {"OP"}), two("foreach:map2", {"T"}, {"OP", "ONE"}),
      three("foreach:map3", {"T"}, {"OP"});
  if (!service.has_compiler) return false;
  PortableScope scope(service);
  if (list.out.empty()) return scope.done();
  const DType dtype = list.out[0].dtype;
  const size_t operands = list.operands.size(), slots = operands == 1 ? 12 : operands == 2 ? 8 : 6;
  for (size_t begin = 0; begin < list.out.size(); begin += slots) {
    TemplateCall call(operands == 1   ? one
                      : operands == 2 ? two
                                      : three,
                      device, {dtype}, {static_cast<int>(list.op), list.one});
    if (!call.available()) return false;  // found out before anything is written: they are all of one kernel
    if (operands == 1) {
      launch_some<12>(call, service.op, list, begin);
    } else if (operands == 2) {
      launch_some<8>(call, service.op, list, begin);
    } else {
      launch_some<6>(call, service.op, list, begin);
    }
  }
  return scope.done();
}

}  // namespace hp::ops
