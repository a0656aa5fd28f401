// Variance, standard deviation and mean.
#pragma once

#include "../core/service.h"

namespace hp::ops {

// The sum of squares is divided by the number of elements less `correction`, or 0 if that is negative. `dims` has a bit
// for each dimension that is reduced.
using Spread = bool(const Service& service, Device& device, const View& out, const View& self, uint64_t dims,
                    double correction, bool keepdim);
Spread var, std;

// The mean as well; both outputs have the same strides.
using SpreadAndMean = bool(const Service& service, Device& device, const View& out, const View& mean, const View& self,
                           uint64_t dims, double correction, bool keepdim);
SpreadAndMean var_mean, std_mean;

}  // namespace hp::ops
