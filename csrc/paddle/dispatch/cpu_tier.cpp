// The last tier: runs Paddle's CPU kernel on host copies of the inputs and copies the outputs to the device, ordered on
// Paddle's stream.
#include "core/memory/scratch.h"
#include "core/recording/graph_capture.h"
#include "core/tensor/copy_views.h"
#include "dispatch/host_call.h"
#include "python/python_location.h"

namespace hp::paddle_adapter {
namespace {

class Staging {
 public:
  explicit Staging(Call& call) : call_(call), stream_(current_stream(call.device)), host_(call) {}

  void run() {
    host_.copy_inputs();
    host_.run();
    for (const HostCall::Output& output : host_.outputs()) copy_output(*output.device, *output.host);
    if (copied_bytes_ != 0) stream_.synchronize();
    call_.kernel.op->copied_bytes.fetch_add(host_.copied_bytes() + copied_bytes_, std::memory_order_relaxed);
  }

 private:
  void copy_output(DenseTensor& output, const DenseTensor& host) {
    if (!host.has_allocation()) return;
    if (output.lod() != host.lod()) output.ResetLoD(host.lod());
    // Keep the kernel's dtype even if it differs from InferMeta's, but convert a widened float back.
    const bool wide = host.dtype() == phi::DataType::FLOAT32 && host_.host_dtype(output.dtype()) != output.dtype();
    const phi::DataType dtype = wide ? output.dtype() : host.dtype();
    const size_t bytes = static_cast<size_t>(host.numel()) * phi::SizeOf(dtype);
    const void* from = bytes == 0 ? nullptr : host.data();
    if (wide && bytes != 0) {
      narrowed_.emplace_back(bytes);
      convert_floats(narrowed_.back().data(), dtype, host.data(), host.dtype(), host.numel());
      from = narrowed_.back().data();
    }
    const bool reused =
        output.initialized() && on_device(output) && output.dims() == host.dims() && output.dtype() == dtype;
    if (reused && !output.meta().is_contiguous()) {
      // A strided view: the memory between its elements must not be written.
      View dense = view(output);
      const auto strides = phi::DenseTensorMeta::calc_strides(output.dims());
      dense.strides = strides.Get();
      dense.data = scratch_.emplace_back(call_.device, dense.bytes()).get();
      copy_to_device(dense.data, from, bytes);
      copy_views(call_.device, view(output), dense);
      return;
    }
    if (!reused) {
      output.Resize(host.dims());
      if (output.layout() != host.layout()) {
        phi::DenseTensorMeta meta = output.meta();
        meta.layout = host.layout();
        output.set_meta(meta);
      }
    }
    copy_to_device(call_.context.Alloc(&output, dtype), from, bytes);
  }

  void copy_to_device(void* to, const void* from, size_t bytes) {
    if (bytes == 0) return;
    call_.device.copy_to_device(to, from, bytes, stream_);
    copied_bytes_ += bytes;
  }

  Call& call_;
  Stream& stream_;
  HostCall host_;
  std::deque<Scratch> scratch_;
  std::deque<std::vector<char>> narrowed_;
  size_t copied_bytes_ = 0;
};

}  // namespace

void cpu_tier(Call& call) {
  Operator& op = *call.kernel.op;
  if (!op.allows(Tier::kCpu)) {
    throw Error(HP_NOT_SUPPORTED, "it would run on the CPU, which a fallback rule forbids" + python_location());
  }
  if (!call.kernel.cpu.IsValid()) {
    throw Error(HP_NOT_SUPPORTED, "the device has no kernel for these arguments, and Paddle has none for the CPU");
  }
  if (GraphCapture* capture = stream_of(call.context).capture()) capture->refuse(op.name, "it runs on the CPU");
  OperatorScope scope(op);
  op.count(Tier::kCpu);
  const CpuTierTimer cost(op);
  if (observed()) notify({op, Tier::kCpu, true, nullptr});
  auto staging = std::make_unique<Staging>(call);
  try {
    staging->run();
  } catch (const Error& error) {
    if (error.status == HP_TIMEOUT) staging.release();  // leak it: queued copies may still access its memory
    throw;
  }
  if (observed()) notify({op, Tier::kCpu, false, nullptr});
}

}  // namespace hp::paddle_adapter
