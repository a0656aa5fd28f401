// Reading and writing by index.
#pragma once

#include "../core/service.h"

namespace hp::ops {

// out = self at the places that `index` names along `dim`. out has the sizes of index.
bool gather(const Service& service, Device& device, const View& out, const View& self, const View& index, int64_t dim);

// out = rows of `weight`, which is a contiguous matrix; out and indices are contiguous.
bool embedding(const Service& service, Device& device, const View& out, const View& weight, const View& indices);

}  // namespace hp::ops
