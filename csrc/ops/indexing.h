// Reading by index: gather, index_select, take, advanced indexing, embedding and embedding_bag.
#pragma once

#include <vector>

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

// out[i][j] = self[index[i][j]][j] for dim 0, as torch.gather. out has the sizes of index. `negative`: indices may
// count from the end, which vendor kernels need not support.
bool gather(const OpBinding& binding, Device& device, const View& out, const View& self, const View& index, int64_t dim,
            bool negative = false);

// out = the slices of self along `dim` at the indices in `index`. `negative` as for `gather`.
bool index_select(const OpBinding& binding, Device& device, const View& out, const View& self, const View& index,
                  int64_t dim, bool negative = false);

// out = the elements of self at flat indices. self is contiguous, out has the sizes of index.
bool take(const OpBinding& binding, Device& device, const View& out, const View& self, const View& index);

// Advanced indexing: `indices`, all of one shape, index consecutive dimensions of self from `first` on. In out, their
// shape replaces those dimensions.
bool index(const OpBinding& binding, Device& device, const View& out, const View& self,
           const std::vector<View>& indices, int64_t first);

// out = the rows of `weight` at `indices`. All are contiguous; weight is a matrix.
bool embedding(const OpBinding& binding, Device& device, const View& out, const View& weight, const View& indices);

// Sum, mean or maximum over bags of rows of `weight`. All views are contiguous; indices, offsets, bag_of, sizes and
// max_indices have one dtype. `max_indices`, defined for mode 2 (maximum) only, is the row of each maximum, -1 for an
// empty bag. Row `padding_idx` is skipped; -1: none.
bool embedding_bag(const OpBinding& binding, Device& device, const View& out, const View& bag_of, const View& sizes,
                   const View& max_indices, const View& weight, const View& indices, const View& offsets,
                   const View& samples, int64_t mode, int64_t padding_idx);

// Combines index tensors of one shape into row-major offsets into `self`, -1 where an index is out of range. `offsets`
// is device memory for as many elements.
bool index_offsets(const Operator& op, Device& device, int64_t* offsets, const View& self,
                   const std::vector<View>& indices, int64_t first);

}  // namespace hp::ops
