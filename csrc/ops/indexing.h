// Reading by index.
#pragma once

#include <vector>

#include "../core/service.h"

namespace hp::ops {

// out = self at the places that `index` names along `dim`. out has the sizes of index.
bool gather(const Service& service, Device& device, const View& out, const View& self, const View& index, int64_t dim);

// out = the slices of self along `dim` that `index` names, in a row.
bool index_select(const Service& service, Device& device, const View& out, const View& self, const View& index,
                  int64_t dim);

// out = the elements of self, counted in order, that `index` names. self is contiguous, out has the sizes of index.
bool take(const Service& service, Device& device, const View& out, const View& self, const View& index);

// out = self at the places that `indices`, all of one shape, name along its dimensions from `first` on. That shape is
// in the place of these dimensions in out.
bool index(const Service& service, Device& device, const View& out, const View& self, const std::vector<View>& indices,
           int64_t first);

// out = rows of `weight`, which is a contiguous matrix; out and indices are contiguous.
bool embedding(const Service& service, Device& device, const View& out, const View& weight, const View& indices);

// For several index tensors of one shape: where each of their combinations lies in `self`, as offsets in row-major
// order; -1 where an index is out of range. `offsets` has room for them. False: there is no kernel.
bool index_offsets(const Operator& op, Device& device, int64_t* offsets, const View& self,
                   const std::vector<View>& indices, int64_t first);

}  // namespace hp::ops
