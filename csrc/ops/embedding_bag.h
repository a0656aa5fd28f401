// Sums, means and maxima of rows of an embedding.
#pragma once

#include "../core/service.h"

namespace hp::ops {

// Contiguous throughout; indices, offsets and the three outputs behind out have one dtype. `chosen` is undefined unless
// mode is 2, the maximum: the rows that it comes from, -1 for a bag without rows. padding_idx: a row that does not
// count; -1: none.
bool embedding_bag(const Service& service, Device& device, const View& out, const View& bag_of, const View& sizes,
                   const View& chosen, const View& weight, const View& indices, const View& offsets,
                   const View& samples, int64_t mode, int64_t padding_idx);

}  // namespace hp::ops
