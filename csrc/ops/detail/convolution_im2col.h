// Convolution as a matrix product (im2col), used by convolution.cpp where it is faster.
#pragma once

#include "core/dispatch/vendor_call.h"
#include "core/memory/scratch.h"
#include "ops/detail/convolution_shape.h"

namespace hp::ops {

// Multiplies the weight by a matrix of the elements its taps read (columns in convolution.c). With few output positions
// per image, vectors along one image are partly idle; here the positions of several images are adjacent. Temporaries
// hold a few images at a time and are not much larger than the weight.
class Im2colConvolution {
 public:
  Im2colConvolution(const OpBinding& binding, Device& device, const ConvolutionShape& g);
  // Whether im2col is expected to be faster.
  static bool is_preferred(const Device& device, const ConvolutionShape& g, const View& weight);

  // Compute one tensor from the others. Return false if the device has no kernel. `bias` may be undefined.
  bool make_y(const View& y, const View& x, const View& weight, const View& bias) const;
  bool make_x(const View& x, const View& y, const View& weight, const View& bias) const;
  bool make_weight(const View& weight, const View& x, const View& y) const;

 private:
  template <class Work>
  bool for_images(const Work& work) const;
  MatrixView weight_rows(const View& weight) const;
  bool gather(const Scratch& columns, const View& x, int64_t first, int64_t count) const;
  bool gather_channels(const Scratch& to, const View& y, int64_t first, int64_t count) const;

  const OpBinding& binding_;
  Device& device_;
  const ConvolutionShape& g_;
  const int64_t positions_, depth_;  // per image; inner size of the product
  const int64_t images_;             // per matrix product
};

}  // namespace hp::ops
