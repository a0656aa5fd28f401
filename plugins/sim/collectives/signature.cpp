#include "collectives/signature.h"

#include "collectives/reduction.h"

namespace sim {

bool Signature::matches(const Signature& other) const {
  return kind == other.kind && size == other.size && element == other.element && reduction == other.reduction &&
         root == other.root;
}

const char* Signature::name() const {
  static constexpr const char* kNames[] = {"all_reduce", "reduce",     "reduce_scatter",
                                           "broadcast",  "all_gather", "all_to_all"};
  return kNames[static_cast<uint32_t>(kind)];
}

std::string Signature::text() const {
  std::string text = name() + std::string(" of ") + std::to_string(size) + " ";
  text += reduces() ? element_name(element) + std::string(" (") + reduction_name(reduction) + ")" : "bytes";
  if (kind == CollectiveKind::reduce) text += " to rank " + std::to_string(root);
  if (kind == CollectiveKind::broadcast) text += " from rank " + std::to_string(root);
  return text;
}

}  // namespace sim
