#include "runtime/graphs.h"

#include <fstream>
#include <map>
#include <mutex>

#include "core/recording/graph_capture.h"
#include "runtime/adapter.h"
#include "runtime/status.h"

namespace hp::paddle_adapter {
namespace {

struct Captures {
  std::mutex mutex;
  std::map<Stream*, std::unique_ptr<GraphCapture>> active;
  std::map<const GraphCapture*, phi::Generator*> generators;
};
Captures& captures() {
  static auto* table = new Captures;
  return *table;
}

Stream& stream_at(C_Stream stream) {
  if (stream == nullptr) throw Error(HP_INVALID_ARGUMENT, "a graph capture needs a stream");
  return *reinterpret_cast<Stream*>(stream);
}

struct CapturedGraph {
  std::unique_ptr<DeviceGraph> graph;
  phi::Generator* generator;  // null if nothing is drawn
  std::string refused;        // why there is no graph
};
// Paddle destroys a graph and its executable form on its own: both handles own the graph.
using Handle = std::shared_ptr<CapturedGraph>;
template <class Opaque>
Handle& graph_of(Opaque handle) {
  return *reinterpret_cast<Handle*>(handle);
}

// Paddle's stream is usually the device's default stream, which cannot capture. So another stream captures, and
// Paddle's takes part.
C_Status begin_capture(const C_Device, C_Stream handle, C_StreamCaptureMode) {
  return run_or_throw([&] {
    Stream& stream = stream_at(handle);
    stream.synchronize();
    auto capture =
        std::make_unique<GraphCapture>(stream.device.pool_stream(0), std::make_shared<MemoryPool>(stream.device));
    capture->join(stream);
    std::lock_guard<std::mutex> lock(captures().mutex);
    captures().active[&stream] = std::move(capture);
  });
}

C_Status end_capture(const C_Device, C_Stream handle, C_CudaGraph* graph) {
  return run_or_throw([&] {
    std::unique_ptr<GraphCapture> capture;
    phi::Generator* generator = nullptr;
    {
      std::lock_guard<std::mutex> lock(captures().mutex);
      const auto found = captures().active.find(&stream_at(handle));
      if (found == captures().active.end()) throw Error(HP_INVALID_ARGUMENT, "the stream captures no graph");
      capture = std::move(found->second);
      captures().active.erase(found);
      if (const auto drawn = captures().generators.extract(capture.get())) generator = drawn.mapped();
    }
    auto captured = std::make_shared<CapturedGraph>();
    captured->generator = generator;
    try {
      captured->graph = capture->finish();
    } catch (const Error& error) {
      captured->refused =
          error.what();  // an exception here would leave Paddle capturing, so the replay reports the error
    }
    *graph = reinterpret_cast<C_CudaGraph>(new Handle(std::move(captured)));
  });
}

C_Status launch(const C_Device, C_GraphExec graph, C_Stream handle) {
  return run_or_throw([&] {
    const CapturedGraph& captured = *graph_of(graph);
    if (captured.graph == nullptr) throw Error(HP_INVALID_ARGUMENT, captured.refused);
    captured.graph->launch(stream_at(handle), [&](uint64_t blocks) -> PhiloxState {
      const auto [seed, offset] = captured.generator->IncrementOffset(blocks);
      return {seed, offset};
    });
  });
}

C_Status destroy(C_CudaGraph graph) {
  delete &graph_of(graph);
  return C_SUCCESS;
}
C_Status destroy_executable(C_GraphExec graph) {
  delete &graph_of(graph);
  return C_SUCCESS;
}

C_Status instantiate(C_GraphExec* executable, C_CudaGraph* graph, void**, char*, size_t) {
  *executable = reinterpret_cast<C_GraphExec>(new Handle(graph_of(*graph)));
  return C_SUCCESS;
}

// Paddle asks for the number of nodes only, and does not launch a graph with none.
C_Status count_nodes(C_CudaGraph graph, C_CudaGraphNode*, size_t* count) {
  const CapturedGraph& captured = *graph_of(graph);
  *count = captured.graph != nullptr ? captured.graph->steps.size() : 1;
  return C_SUCCESS;
}

C_Status capture_info(const C_Device, C_Stream handle, C_StreamCaptureStatus* status, unsigned long long* id,
                      C_CudaGraph*, C_CudaGraphNode*, void**, size_t*) {
  return run_or_log([&] {
    const GraphCapture* capture = handle == nullptr ? nullptr : stream_at(handle).capture();
    if (status != nullptr) *status = capture == nullptr ? C_StreamCaptureStatusNone : C_StreamCaptureStatusActive;
    if (id != nullptr) *id = capture == nullptr ? 0 : capture->number;
  });
}

C_Status no_parameters(C_CudaGraph, C_GraphHookManager* hooks) {
  hooks->size = 0;
  hooks->hooks = nullptr;
  hooks->user_data = nullptr;
  return C_SUCCESS;
}

C_Status print(C_CudaGraph graph, const char* path, unsigned int) {
  const CapturedGraph& captured = *graph_of(graph);
  return run_or_log([&] { std::ofstream(path) << (captured.graph ? captured.graph->describe() : captured.refused); });
}

C_Status exchange_mode(C_StreamCaptureMode*) { return C_SUCCESS; }  // all modes have the same effect

// Paddle gives each capture its own context, which must have handles of a BLAS library. Nothing uses them.
int no_library;
C_Status make_blas(const C_Device, C_BLASHandle* handle, C_Stream) {
  *handle = reinterpret_cast<C_BLASHandle>(&no_library);
  return C_SUCCESS;
}
C_Status make_blaslt(const C_Device, C_BLASLtHandle* handle) {
  *handle = reinterpret_cast<C_BLASLtHandle>(&no_library);
  return C_SUCCESS;
}
C_Status set_blas_mode(const C_Device, C_BLASHandle, int) { return C_SUCCESS; }
C_Status destroy_blas(const C_Device, C_BLASHandle) { return C_SUCCESS; }
C_Status destroy_blaslt(const C_Device, C_BLASLtHandle) { return C_SUCCESS; }

template <class Table>
auto fill(Table& table, int) -> decltype(table.cuda_graph_get_nodes, void()) {
  table.init_blas_handle = make_blas;
  table.blas_set_math_mode = set_blas_mode;
  table.init_blaslt_handle = make_blaslt;
  table.destroy_blas_handle = destroy_blas;
  table.destroy_blaslt_handle = destroy_blaslt;
  table.cuda_stream_begin_capture = begin_capture;
  table.cuda_stream_end_captrue = end_capture;
  table.cuda_graph_launch = launch;
  table.cuda_graph_destroy = destroy;
  table.cuda_graph_exec_destroy = destroy_executable;
  table.cuda_graph_instantiate = instantiate;
  table.cuda_graph_get_nodes = count_nodes;
  table.cuda_stream_capture_info = capture_info;
  table.get_parameter_setter_for_exec_graph = no_parameters;
  table.cuda_graph_debug_dot_print = print;
  table.cuda_thread_exchange_stream_capthure_mode = exchange_mode;
}
template <class Table>
void fill(Table&, long) {}

}  // namespace

void fill_graphs(C_DeviceInterface& table) { fill(table, 0); }

void note_captured_draw(Stream& stream, phi::Generator* generator, PhiloxState state, uint64_t blocks) {
  GraphCapture* const capture = stream.capture();
  bool same;
  {
    std::lock_guard<std::mutex> lock(captures().mutex);
    same = captures().generators.emplace(capture, generator).first->second == generator;
  }
  if (!same) capture->refuse("random numbers of two generators", "each launch draws from one");
  capture->on_draw(state, blocks);
}

}  // namespace hp::paddle_adapter
