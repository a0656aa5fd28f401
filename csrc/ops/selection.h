// Selecting by value: what comes out depends on the data.
#pragma once

#include <memory>

#include "../core/service.h"

namespace hp {
class TemplateKernels;
}

namespace hp::ops {

// Where each group of a selection writes. Made in the first of two steps; the second is one of the functions below.
class Places {
 public:
  // Counts the elements of `self`, contiguous, that are not zero.
  static Places of_nonzero(const Service& service, Device& device, const View& self);
  // Those that differ from the one before.
  static Places of_heads(const Service& service, Device& device, const View& self);
  // Sums up repeats.
  static Places of_repeats(const Service& service, Device& device, const View& self);

  bool available() const { return counts_ != nullptr; }
  // How many there are in all; waits for the device.
  int64_t total() const { return read_integer(*device_, counts() + groups_); }
  const int64_t* counts() const { return static_cast<const int64_t*>(counts_->get()); }

 private:
  Device* device_ = nullptr;
  int64_t groups_ = 0;
  std::unique_ptr<Scratch> counts_;
  Places(const Service& service, Device& device, TemplateKernels& kernels, const View& self, DType type, int parts);
};

// out = a row of coordinates for each element of self that is not zero, as many rows as out has.
bool nonzero(const Service& service, Device& device, const View& out, const View& self, const Places& places);
// out = the elements of self where the mask is set.
bool masked_select(const Service& service, Device& device, const View& out, const View& self, const View& mask,
                   const Places& places);
// Elements of source one after the other to the places of out where the mask is set.
bool masked_scatter(const Service& service, Device& device, const View& out, const View& mask, const View& source,
                    const Places& places);
// out = the value, one element in device memory, where the mask is set; both have the same sizes.
bool masked_fill(const Service& service, Device& device, const View& out, const View& mask, const View& value);
// The heads of runs of equal elements, with the lengths of the runs and each element's run where these are defined.
// `order`, where defined: where each element stood before it was sorted.
bool unique(const Service& service, Device& device, const View& out, const View& inverse, const View& lengths,
            const View& self, const View& order, const Places& places);
// out = the number of each element of self, as often as it says.
bool repeat_interleave(const Service& service, Device& device, const View& out, const View& self, const Places& places);
// out = where in `sorted` each element of self belongs. sorted has one row, or one for each row of self.
bool searchsorted(const Service& service, Device& device, const View& out, const View& sorted, const View& self,
                  const View& sorter, bool right);
// out = whether each element of self is among those of `among`, which is sorted or has at most kFewMembers elements.
constexpr int64_t kFewMembers = 32;
bool isin(const Service& service, Device& device, const View& out, const View& self, const View& among, bool invert);
// out = the coordinates of the elements on one side of a diagonal, `rows` lines from `first_row` on.
bool triangle_indices(const Service& service, Device& device, const View& out, int64_t first_row, int64_t rows,
                      int64_t columns, int64_t offset, bool upper);

}  // namespace hp::ops
