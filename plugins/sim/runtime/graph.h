// Graphs: tasks that a stream stored while it captured.
#pragma once

#include "hardpoint/plugin.h"

namespace sim {

HpStatus begin_capture(int device, HpStream stream);
HpStatus end_capture(int device, HpStream stream, HpGraph* graph);
HpStatus launch_graph(int device, HpGraph graph, HpStream stream);
HpStatus destroy_graph(int device, HpGraph graph);

}  // namespace sim
