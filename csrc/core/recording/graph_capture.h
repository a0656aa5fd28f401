// Captures the work of a stream into a DeviceGraph instead of running it, whichever thread queues the work.
//
// With HpGraphs, the plug-in captures. Launches with random numbers need new arguments at each replay, so they are
// recorded on the host, between two captures of the plug-in. Without HpGraphs, every launch is recorded on the host.
// A stream that waits for an event of the capture joins it until the end: its work is captured in launch order.
#pragma once

#include <mutex>
#include <thread>

#include "core/memory/allocator.h"
#include "core/recording/device_graph.h"

namespace hp {

class GraphCapture {
 public:
  // Starts to capture the work of `stream`, whose allocations come from `pool`.
  GraphCapture(Stream& stream, std::shared_ptr<MemoryPool> pool);
  // Abandons the capture if finish() was not called.
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;

  // Ends the capture. Throws the reason if it was refused.
  std::unique_ptr<DeviceGraph> finish();

  Stream& stream;
  const uint64_t number;  // never reused, unlike the address
  bool owned_by_this_thread() const { return std::this_thread::get_id() == thread_; }

  // Fails the capture and throws. `why` completes a sentence about the operator: "it copies to the host".
  [[noreturn]] void refuse(const std::string& why);
  [[noreturn]] void refuse(const std::string& op, const std::string& why);
  [[noreturn]] void refuse_wait();

  // ---- Called by the core
  // Each returns false if the caller must queue the work, for the plug-in to capture.
  bool on_launch(Operator& op, const PortableKernel& kernel, int64_t groups, const HpLaunchArg* args,
                 uint32_t num_args);
  bool on_copy(void* to, const void* from, size_t bytes);
  bool on_fill(void* to, uint8_t value, size_t bytes);
  // A launch with options: the caller queues it for the plug-in's capture. Refused if the host would have to record it.
  void on_launch_with_options(const Operator& op);
  // Whether the next launch of a vendor kernel is recorded on the host.
  bool records_next_launch();
  // Records the launch of a vendor kernel. `rehearse` calls the kernel with other tensors. If it declines, nothing is
  // recorded and the result is false.
  bool on_launch(const Operator& op, const Kernel& kernel, const TVMFFIAny* args, int32_t num_args,
                 const std::function<bool(const TVMFFIAny*)>& rehearse);
  void on_random_arguments(uint32_t argument, PhiloxState state);
  // The next launch was declined.
  void on_decline();
  void* fault_record();
  void join(Stream& other);

  // ---- Called by an adapter
  void on_draw(PhiloxState state, uint64_t blocks);

 private:
  class Pause;
  void attach(Stream& stream);
  void detach() noexcept;
  void begin_plugin_capture();
  void end_plugin_capture(bool keep);
  void add(RecordedStep step);

  Device& device_;
  const bool by_plugin_;
  const std::thread::id thread_;
  bool plugin_captures_ = false;
  std::atomic<uint64_t> queued_{0};  // launches and copies in the plug-in's current capture

  std::mutex mutex_;  // guards the rest
  std::unique_ptr<DeviceGraph> graph_;
  RandomDraws draws_;
  std::string refused_;
  std::vector<std::pair<Stream*, HpStream>> attached_;  // and their own handles
};

}  // namespace hp
