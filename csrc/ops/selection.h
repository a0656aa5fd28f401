// Selection by value, with data-dependent output sizes, and searches.
#pragma once

#include <memory>

#include "core/dispatch/vendor_call.h"
#include "core/memory/scratch.h"

namespace hp {
class KernelTemplate;
}

namespace hp::ops {

// The first of two steps of a selection: the offset at which each work-group writes. Pass it to a function below.
class SelectionOffsets {
 public:
  // Counts the nonzero elements of the contiguous `self`.
  static SelectionOffsets of_nonzero(const OpBinding& binding, Device& device, const View& self);
  // Counts the elements that differ from their predecessor.
  static SelectionOffsets of_run_starts(const OpBinding& binding, Device& device, const View& self);
  // Sums the repeat counts in `self`.
  static SelectionOffsets of_repeats(const OpBinding& binding, Device& device, const View& self);

  bool available() const { return counts_ != nullptr; }
  // The total count. Synchronizes the current stream.
  int64_t total() const { return read_integer(*device_, counts() + groups_); }
  const int64_t* counts() const { return static_cast<const int64_t*>(counts_->get()); }

 private:
  Device* device_ = nullptr;
  int64_t groups_ = 0;
  std::unique_ptr<Scratch> counts_;
  SelectionOffsets(const OpBinding& binding, Device& device, KernelTemplate& kernels, const View& self, DType type,
                   int parts);
};

// out = the coordinates of the first nonzero elements of self, one row each, as many as out has rows.
bool nonzero(const OpBinding& binding, Device& device, const View& out, const View& self,
             const SelectionOffsets& offsets);
// out = the elements of self where the mask is set.
bool masked_select(const OpBinding& binding, Device& device, const View& out, const View& self, const View& mask,
                   const SelectionOffsets& offsets);
// Writes consecutive elements of source to out where the mask is set.
bool masked_scatter(const OpBinding& binding, Device& device, const View& out, const View& mask, const View& source,
                    const SelectionOffsets& offsets);
// Sets out to `value`, one element in device memory, where the mask is set. mask has out's sizes.
bool masked_fill(const OpBinding& binding, Device& device, const View& out, const View& mask, const View& value);
// out = the first element of each run of equal elements. If defined, `lengths` gets the run lengths and `inverse` each
// element's run; `order`, if defined, is the index of each element before sorting.
bool unique(const OpBinding& binding, Device& device, const View& out, const View& inverse, const View& lengths,
            const View& self, const View& order, const SelectionOffsets& offsets);
// out = index i of each element of self, repeated self[i] times.
bool repeat_interleave(const OpBinding& binding, Device& device, const View& out, const View& self,
                       const SelectionOffsets& offsets);
// out = the insertion index in `sorted` of each element of self. sorted has one row, or one per row of self.
bool searchsorted(const OpBinding& binding, Device& device, const View& out, const View& sorted, const View& self,
                  const View& sorter, bool right);
// out = whether each element of self is in `among`, which is sorted or has at most kMaxUnsortedMembers elements.
constexpr int64_t kMaxUnsortedMembers = 32;
bool isin(const OpBinding& binding, Device& device, const View& out, const View& self, const View& among, bool invert);
// out = the coordinates of the elements of a triangle, for `rows` rows starting at `first_row`.
bool triangle_indices(const OpBinding& binding, Device& device, const View& out, int64_t first_row, int64_t rows,
                      int64_t columns, int64_t offset, bool upper);

}  // namespace hp::ops
