// Headers of Paddle 3.3 for kernels in plug-ins. Older tutorials include paddle/extension.h, which no longer declares
// DenseTensor and the macro, or paddle/phi/extension.h, which needs headers that are not in the wheel.
#pragma once

#include "paddle/phi/backends/custom/custom_context.h"
#include "paddle/phi/core/dense_tensor.h"
#include "paddle/phi/core/kernel_registry.h"
