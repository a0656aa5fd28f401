#include "runtime/graph.h"

#include <vector>

#include "host.h"
#include "runtime/stream.h"

namespace sim {

namespace {

struct Graph {
  int device;
  std::vector<CapturedTask> tasks;
};

struct OperatorName {
  explicit OperatorName(const char* name) { captured_operator = name; }
  ~OperatorName() { captured_operator = nullptr; }
};

}  // namespace

HpStatus begin_capture(int device, HpStream handle) {
  Stream* const stream = find_stream(device, handle);
  if (!stream) return HP_INVALID_ARGUMENT;
  if (!handle) return host->fail(HP_INVALID_ARGUMENT, "the default stream of sim:%d cannot capture a graph", device);
  if (!stream->begin_capture())
    return host->fail(HP_INVALID_ARGUMENT, "a stream of sim:%d captures a graph already", device);
  return HP_OK;
}

HpStatus end_capture(int device, HpStream handle, HpGraph* graph) {
  Stream* const stream = find_stream(device, handle);
  if (!stream) return HP_INVALID_ARGUMENT;
  *graph = reinterpret_cast<HpGraph>(new Graph{device, stream->end_capture()});
  return HP_OK;
}

HpStatus launch_graph(int device, HpGraph handle, HpStream stream_handle) {
  Stream* const stream = find_stream(device, stream_handle);
  if (!stream) return HP_INVALID_ARGUMENT;
  const Graph& graph = *reinterpret_cast<const Graph*>(handle);
  if (graph.device != device)
    return host->fail(HP_INVALID_ARGUMENT, "a graph of sim:%d cannot run on sim:%d", graph.device, device);
  for (const CapturedTask& task : graph.tasks) {
    const OperatorName name(task.operator_name);
    stream->submit(task.kind, task.tiny, [&run = task.run] { run(); });
  }
  return HP_OK;
}

HpStatus destroy_graph(int, HpGraph handle) {
  delete reinterpret_cast<Graph*>(handle);
  return HP_OK;
}

}  // namespace sim
