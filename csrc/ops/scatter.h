// Writing by index: several writes to one place happen in the order of their indices, whatever the number of threads.
#pragma once

#include <vector>

#include "../core/service.h"

namespace hp::ops {

enum class Write : int { kSet, kAdd, kMultiply, kMax, kMin };

// Writes src to the places of out that `index` names along `dim`. src is as large as index, or larger.
bool scatter(const Service& service, Device& device, const View& out, const View& index, const View& src, int64_t dim,
             Write write);

// Writes the slices of src along `dim` to those of out that `index`, of one dimension, names. `negative`: an index may
// count from the end.
bool index_write(const Service& service, Device& device, const View& out, const View& index, const View& src,
                 int64_t dim, Write write, bool negative);

// The counterpart of `index`: values have the shape that it would return.
bool index_put(const Service& service, Device& device, const View& out, const View& values,
               const std::vector<View>& indices, int64_t first, Write write);

// Adds rows of grad to those of out that `indices` names. All are contiguous; out is a matrix.
bool embedding_dense_backward(const Service& service, Device& device, const View& out, const View& grad,
                              const View& indices);

}  // namespace hp::ops
