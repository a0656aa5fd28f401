// Hashes of the rows of a contiguous matrix; out has 64 bits for each row.
#pragma once

#include "../core/service.h"

namespace hp::ops {

bool hash_tensor(const Service& service, Device& device, const View& out, const View& self);

}  // namespace hp::ops
