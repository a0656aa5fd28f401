// CUDA graphs, captured from a stream.
#pragma once

#include "hardpoint/plugin.h"

namespace nv {

HpStatus begin_capture(int device, HpStream stream);
HpStatus end_capture(int device, HpStream stream, HpGraph* graph);
HpStatus launch_graph(int device, HpGraph graph, HpStream stream);
HpStatus destroy_graph(int device, HpGraph graph);

}  // namespace nv
