#include "core/recording/device_graph.h"

#include <cstdio>

#include "core/dispatch/launch.h"
#include "core/recording/graph_capture.h"
#include "core/tracing/tracer.h"

namespace hp {

DeviceGraph::~DeviceGraph() {
  try {
    // Launches on different streams are ordered, so the last one ends last.
    if (last_ != nullptr && last_->capture() == nullptr) last_->wait();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "[hardpoint] %s: waiting for a graph that is destroyed: %s\n", device_.name().c_str(),
                 error.what());
  }
  for (const RecordedStep& step : steps) {
    if (step.kind != RecordedStep::kGraph) continue;
    if (guarded([&] { return device_.plugin.graphs.destroy(device_.index, step.graph); }) != HP_OK) {
      std::fprintf(stderr, "[hardpoint] %s: destroying a graph failed: %s\n", device_.name().c_str(),
                   take_message().c_str());
    }
  }
}

void DeviceGraph::launch(Stream& stream, const Recording::DrawFunction& draw) {
  static const Operator& op = Operator::intern("hardpoint::graph");
  if (&stream.device != &device_) {
    throw Error(HP_INVALID_ARGUMENT, "a graph of " + device_.name() + " cannot be replayed on " + stream.device.name());
  }
  if (GraphCapture* capture = stream.capture()) capture->refuse("the replay of a graph", "graphs cannot be nested");
  if (last_ != nullptr && last_ != &stream) {
    Event* event = device_.acquire_event(false);
    event->record(*last_);
    event->block(stream);
    device_.release_event(event);
  }
  last_ = &stream;
  if (fault_stream == &stream) {
    stream.fault_record();
  } else if (fault_stream != nullptr) {
    stream.watch_faults_of(*fault_stream);
  }
  std::vector<PhiloxState> drawn;
  drawn.reserve(draws.size());
  for (const uint64_t blocks : draws) drawn.push_back(draw(blocks));
  for (RecordedStep& step : steps) {
    for (const RecordedStep::Draw& each : step.draws) {
      *each.seed = static_cast<int64_t>(drawn[each.draw].seed);
      *each.offset = static_cast<int64_t>(drawn[each.draw].offset + each.delta);
    }
    switch (step.kind) {
      case RecordedStep::kGraph: {
        OperatorScope scope(op);
        stream.note_launch(&op);
        TraceScope trace(TraceKind::kKernel, op.name.c_str(), stream);
        HP_CHECK(device_.plugin.graphs.launch(device_.index, step.graph, stream.handle()),
                 device_.name() + ": launch of a graph");
        break;
      }
      case RecordedStep::kCopy:
        device_.copy_on_device(step.to, step.from, step.bytes, stream);
        break;
      case RecordedStep::kFill:
        device_.fill(step.to, step.value, step.bytes, stream);
        break;
      case RecordedStep::kPortable:
        launch_groups(*step.op, step.portable, stream, step.groups, step.args.data(),
                      static_cast<uint32_t>(step.args.size()));
        break;
      case RecordedStep::kVendor:
        if (!hp::launch(*step.op, *step.vendor, stream, step.any.data(), static_cast<int32_t>(step.any.size()))) {
          throw Error(HP_ERROR, device_.name() + ": kernel '" + step.vendor->name + "' declined " + step.op->name +
                                    " in a graph, but accepted the same arguments when it was captured");
        }
        break;
    }
  }
}

std::string DeviceGraph::describe() const {
  std::string text;
  for (const RecordedStep& step : steps) {
    switch (step.kind) {
      case RecordedStep::kGraph:
        text += "graph of the plug-in\n";
        break;
      case RecordedStep::kCopy:
        text += "copy of " + std::to_string(step.bytes) + " bytes\n";
        break;
      case RecordedStep::kFill:
        text += "fill of " + std::to_string(step.bytes) + " bytes\n";
        break;
      default:
        text += step.op->name + (step.kind == RecordedStep::kVendor ? " (vendor)" : " (portable)") +
                (step.draws.empty() ? "" : ", random") + "\n";
    }
  }
  return text;
}

}  // namespace hp
