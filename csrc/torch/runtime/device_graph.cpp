#include "runtime/device_graph.h"

#ifdef HP_TORCH_GRAPHS
#include <ATen/core/GraphImplInterface.h>
#endif
#include <torch/csrc/utils/pybind.h>

#include <cctype>
#include <fstream>
#include <map>

#include "runtime/generator.h"
#include "runtime/module.h"

namespace py = pybind11;

namespace hp::torch_adapter {
namespace {

// The memory pools of existing graphs, by device and id.
std::shared_ptr<MemoryPool> memory_pool(Device& device, c10::MempoolId_t id) {
  static auto* mutex = new std::mutex;
  static auto* pools = new std::map<std::pair<int, c10::MempoolId_t>, std::weak_ptr<MemoryPool>>;
  std::lock_guard<std::mutex> lock(*mutex);
  std::weak_ptr<MemoryPool>& found = (*pools)[{device.index, id}];
  std::shared_ptr<MemoryPool> pool = found.lock();
  if (pool == nullptr) {
    for (auto it = pools->begin(); it != pools->end();) {  // drop pools without a graph
      it = &it->second != &found && it->second.expired() ? pools->erase(it) : std::next(it);
    }
    found = pool = std::make_shared<MemoryPool>(device);
  }
  return pool;
}

}  // namespace

c10::MempoolId_t new_graph_pool() {
  static std::atomic<uint64_t> last{0};
  return {0, ++last};
}

TorchGraph::~TorchGraph() { abandon(); }

void TorchGraph::capture_begin(c10::MempoolId_t pool) {
  TORCH_CHECK(capture_ == nullptr, "this graph is already capturing: call capture_end first");
  TORCH_CHECK(graph_ == nullptr, "this graph already holds a capture: call reset() before you capture again");
  Device& device = device_at(-1);
  pool_ = pool == c10::MempoolId_t{0, 0} ? new_graph_pool() : pool;
  device_ = device.index;
  const at::Generator& generator = default_generator(static_cast<c10::DeviceIndex>(device_));
  seed_ = generator.current_seed();
  offset_ = generator.get_offset();
  capture_ = std::make_unique<GraphCapture>(current_stream(device), memory_pool(device, pool_));
}

// The captured draws did not happen: each replay makes them.
void TorchGraph::restore_generator() {
  at::Generator generator = default_generator(static_cast<c10::DeviceIndex>(device_));
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed_);
  generator.set_offset(offset_);
}

void TorchGraph::capture_end() {
  TORCH_CHECK(capture_ != nullptr, "capture_end without capture_begin");
  restore_generator();
  const std::unique_ptr<GraphCapture> capture = std::move(capture_);
  graph_ = capture->finish();
}

void TorchGraph::abandon() noexcept {
  if (capture_ == nullptr) return;
  try {
    restore_generator();
  } catch (const std::exception& error) {
    TORCH_WARN(error.what());
  }
  capture_.reset();
}

void TorchGraph::replay() {
  TORCH_CHECK(graph_ != nullptr, "replay: capture a graph first");
  const auto index = static_cast<c10::DeviceIndex>(device_);
  graph_->launch(current_stream(device_at(index)),
                 [index](uint64_t blocks) { return take_blocks(std::nullopt, index, blocks); });
}

void TorchGraph::reset() {
  abandon();
  graph_.reset();
}

std::string TorchGraph::describe() const {
  TORCH_CHECK(graph_ != nullptr, "debug_dump: capture a graph first");
  return graph_->describe();
}

#ifdef HP_TORCH_GRAPHS
namespace {

class AcceleratorGraph final : public at::GraphImplInterface {
 public:
  explicit AcceleratorGraph(const at::GraphImplArgs&) {}
  // All modes have the same effect: what this stream cannot capture is refused, and other streams are not affected.
  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode) override { graph_.capture_begin(pool); }
  void capture_end() override { graph_.capture_end(); }
  void instantiate() override {}  // done by capture_end
  void replay() override { graph_.replay(); }
  void reset() override { graph_.reset(); }
  c10::MempoolId_t pool() const override { return graph_.pool(); }
  void enable_debug_mode() override {}
  void debug_dump(const std::string& path) override { std::ofstream(path) << graph_.describe(); }

 private:
  TorchGraph graph_;
};

}  // namespace
#endif

void register_graphs() {
#ifdef HP_TORCH_GRAPHS
  std::string key = runtime().name();  // torch's name of the device type, in capitals
  for (char& letter : key) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  at::GraphImplRegistry()->Register(key, [](const at::GraphImplArgs& args) -> std::unique_ptr<at::GraphImplInterface> {
    return std::make_unique<AcceleratorGraph>(args);
  });
#endif
}

void bind_device_graphs(py::module_& m) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  py::class_<TorchGraph, std::shared_ptr<TorchGraph>>(m, "DeviceGraph")
      .def(py::init<>())
      .def("capture_begin", &TorchGraph::capture_begin, Unlocked())
      .def("capture_end", &TorchGraph::capture_end, Unlocked())
      .def("abandon", &TorchGraph::abandon, Unlocked())
      .def("replay", &TorchGraph::replay, Unlocked())
      .def("reset", &TorchGraph::reset, Unlocked())
      .def("pool", &TorchGraph::pool)
      .def("describe", &TorchGraph::describe);
  m.def("new_graph_pool", &new_graph_pool);
  m.def("is_current_stream_capturing", [] { return current_stream(device_at(-1)).capture() != nullptr; });
}

}  // namespace hp::torch_adapter
