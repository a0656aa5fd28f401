// What a kernel of a plug-in needs of Paddle 3.3. Older tutorials include paddle/extension.h, which no longer declares
// DenseTensor and the macro, or paddle/phi/extension.h, which needs headers that the wheel does not carry.
#pragma once

#include "paddle/phi/backends/custom/custom_context.h"
#include "paddle/phi/core/dense_tensor.h"
#include "paddle/phi/core/kernel_registry.h"
