// Paddle's graph callbacks (paddle.device.cuda.graphs.CUDAGraph), implemented with core's device graphs.
#pragma once

#include <paddle/phi/backends/device_ext.h>
#include <paddle/phi/core/generator.h>

#include "core/runtime/philox.h"
#include "core/runtime/runtime.h"

namespace hp::paddle_adapter {

// Fills in the graph callbacks of `table`, if Paddle's headers have them. The table must have the layout this adapter
// was compiled with.
void fill_graphs(C_DeviceInterface& table);

// A captured operator drew `blocks` blocks from `generator` at `state`. Each launch of the graph draws new ones.
void note_captured_draw(Stream& stream, phi::Generator* generator, PhiloxState state, uint64_t blocks);

}  // namespace hp::paddle_adapter
