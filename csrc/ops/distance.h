// p-norm distances between rows. All views are contiguous and of one dtype; none is empty.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

// out: batch x rows x columns, x1: batch x rows x m, x2: batch x columns x m.
bool cdist(const OpBinding& binding, Device& device, const View& out, const View& x1, const View& x2, double p);
bool cdist_backward(const OpBinding& binding, Device& device, const View& out, const View& grad, const View& x1,
                    const View& x2, const View& distances, double p);
// self: n x m; out: n (n - 1) / 2.
bool pdist(const OpBinding& binding, Device& device, const View& out, const View& self, double p);
bool pdist_backward(const OpBinding& binding, Device& device, const View& out, const View& grad, const View& self,
                    const View& distances, double p);

}  // namespace hp::ops
