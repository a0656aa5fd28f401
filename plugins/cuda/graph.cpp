#include "graph.h"

#include "device.h"
#include "host.h"

namespace nv {
namespace {

CUstream stream_of(HpStream stream) { return reinterpret_cast<CUstream>(stream); }
CUgraphExec executable(HpGraph graph) { return reinterpret_cast<CUgraphExec>(graph); }

}  // namespace

// Relaxed mode: Hardpoint refuses what cannot be captured, but allocates memory and loads modules during a capture.
HpStatus begin_capture(int device, HpStream stream) {
  if (HpStatus status = make_current(device)) return status;
  NV_CHECK(device, driver.stream_begin_capture(stream_of(stream), CU_STREAM_CAPTURE_MODE_RELAXED),
           "beginning a graph capture");
  return HP_OK;
}

HpStatus end_capture(int device, HpStream stream, HpGraph* graph) {
  if (HpStatus status = make_current(device)) return status;
  CUgraph captured = nullptr;
  NV_CHECK(device, driver.stream_end_capture(stream_of(stream), &captured), "ending a graph capture");
  if (!captured) return host->fail(HP_ERROR, "nv:%d: the graph capture failed: an earlier call invalidated it", device);
  CUgraphExec made = nullptr;
  const CUresult result = driver.graph_instantiate(&made, captured, 0);
  driver.graph_destroy(captured);  // the executable graph does not need it
  NV_CHECK(device, result, "instantiating a graph");
  *graph = reinterpret_cast<HpGraph>(made);
  return HP_OK;
}

HpStatus launch_graph(int device, HpGraph graph, HpStream stream) {
  if (HpStatus status = make_current(device)) return status;
  NV_CHECK(device, driver.graph_launch(executable(graph), stream_of(stream)), "launching a graph");
  return HP_OK;
}

HpStatus destroy_graph(int device, HpGraph graph) {
  if (HpStatus status = make_current(device)) return status;
  NV_CHECK(device, driver.graph_exec_destroy(executable(graph)), "destroying a graph");
  return HP_OK;
}

}  // namespace nv
