// Writing by index. Writes to the same element happen in index order, whatever the number of threads.
#pragma once

#include <vector>

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

enum class ScatterOp : int { kSet, kAdd, kMultiply, kMax, kMin };

// Writes src to out at `index` along `dim`, as torch.scatter. src is at least as large as index. `negative`: indices
// may count from the end, which vendor kernels need not support.
bool scatter(const OpBinding& binding, Device& device, const View& out, const View& index, const View& src, int64_t dim,
             ScatterOp write, bool negative = false);

// Writes the slices of src along `dim` to the slices of out at `index`, which has one dimension. `negative` as for
// `scatter`.
bool index_write(const OpBinding& binding, Device& device, const View& out, const View& index, const View& src,
                 int64_t dim, ScatterOp write, bool negative);

// The inverse of `index` (indexing.h): values have the shape of its result.
bool index_put(const OpBinding& binding, Device& device, const View& out, const View& values,
               const std::vector<View>& indices, int64_t first, ScatterOp write);

// Adds the rows of grad to the rows of out at `indices`. All are contiguous; out is a matrix.
bool embedding_dense_backward(const OpBinding& binding, Device& device, const View& out, const View& grad,
                              const View& indices);

}  // namespace hp::ops
