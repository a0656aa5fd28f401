// Convolutions as matrix products.
#pragma once

#include "../core/service.h"
#include "convolution_geometry.h"

namespace hp::ops {

// A convolution as one product, of the weight and what its taps read (kernels/convolution.c: columns). Vectors along
// the places of an image are idle where there are few places; here those of all images lie side by side. Temporaries
// hold some images at a time, hardly more than the weight does.
class ByColumns {
 public:
  ByColumns(const Service& service, Device& device, const Convolution& g);
  // Whether it is the better way.
  static bool suits(const Device& device, const Convolution& g, const View& weight);

  // False where the device has no kernel for it. `bias` may be undefined.
  bool make_y(const View& y, const View& x, const View& weight, const View& bias) const;
  bool make_x(const View& x, const View& y, const View& weight, const View& bias) const;
  bool make_weight(const View& weight, const View& x, const View& y) const;

 private:
  template <class Work>
  bool for_images(const Work& work) const;
  Matrix weight_rows(const View& weight) const;
  bool gather(const Scratch& columns, const View& x, int64_t first, int64_t count) const;
  bool gather_channels(const Scratch& to, const View& y, int64_t first, int64_t count) const;

  const Service& service_;
  Device& device_;
  const Convolution& g_;
  const int64_t places_, depth_;  // of an image; of the product
  const int64_t images_;          // at a time
};

}  // namespace hp::ops
