// Windows over images, as Paddle describes them.
#pragma once

#include <algorithm>
#include <string>

#include "parts.h"

namespace hp::paddle_adapter {

inline bool channels_last(const std::string& format) { return format == "NHWC" || format == "NDHWC"; }

// N x C x ..., whichever order the dimensions have in memory.
inline Shaped channels_second(const View& given, bool last) {
  Shaped made(given);
  if (last) {
    for (int d = given.ndim - 1; d > 1; --d) made.swap(d, d - 1);
  }
  return made;
}

using Sizes = std::array<int64_t, 3>;  // one for each spatial dimension

// A list with an entry for each spatial dimension. False where it has another length.
inline bool read_sizes(const std::vector<int64_t>& list, int rank, Sizes& to) {
  if (static_cast<int>(list.size()) != rank) return false;
  std::copy(list.begin(), list.end(), to.begin());
  return true;
}

// How much is added around an image.
struct Padding {
  Sizes before{}, after{};

  bool even() const { return before == after; }
  // From the attributes: a list for each dimension or for each side, and "EXPLICIT", "SAME" or "VALID". `size` is the
  // image's. False where the list has another length.
  bool read(const std::vector<int64_t>& list, const std::string& algorithm, int rank, const int64_t* size,
            const Sizes& stride, const Sizes& kernel) {
    if (algorithm == "VALID") return true;
    if (algorithm == "SAME") {
      for (int d = 0; d < rank; ++d) {
        const int64_t windows = (size[d] + stride[d] - 1) / stride[d];
        const int64_t all = std::max<int64_t>((windows - 1) * stride[d] + kernel[d] - size[d], 0);
        before[d] = all / 2;
        after[d] = all - all / 2;
      }
      return true;
    }
    const int sides = static_cast<int>(list.size()) / rank;
    if (static_cast<int>(list.size()) != rank * sides || (sides != 1 && sides != 2)) return false;
    for (int d = 0; d < rank; ++d) {
      before[d] = list[sides * d];
      after[d] = list[sides * d + sides - 1];
    }
    return true;
  }
};

}  // namespace hp::paddle_adapter
