// Variance, standard deviation and mean.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

// Divides the sum of squares by max(0, elements - correction). `dims` has a bit for each reduced dimension.
using VarianceFunction = bool(const OpBinding& binding, Device& device, const View& out, const View& self,
                              uint64_t dims, double correction, bool keepdim);
VarianceFunction var, std;

// These also return the mean; both outputs have the same strides.
using VarianceMeanFunction = bool(const OpBinding& binding, Device& device, const View& out, const View& mean,
                                  const View& self, uint64_t dims, double correction, bool keepdim);
VarianceMeanFunction var_mean, std_mean;

}  // namespace hp::ops
