// The last tier: the CPU's kernel on copies of the inputs, and the outputs brought back, in the order of Paddle's
// stream.
#include "../core/copy_views.h"
#include "../python/line.h"
#include "host_call.h"

namespace hp::paddle_adapter {
namespace {

class Staging {
 public:
  explicit Staging(Call& call) : call_(call), stream_(current_stream(call.device)), host_(call) {}

  void run() {
    host_.bring_inputs();
    host_.run();
    for (const HostCall::Output& output : host_.outputs()) bring_back(*output.given, *output.made);
    if (copied_bytes_ != 0) stream_.synchronize();
    call_.kernel.op->copied_bytes.fetch_add(host_.copied_bytes() + copied_bytes_, std::memory_order_relaxed);
  }

 private:
  void bring_back(DenseTensor& given, const DenseTensor& made) {
    if (!made.has_allocation()) return;
    // A kernel may give another dtype than the shape rule said, but not for having been widened.
    const bool wide = made.dtype() == phi::DataType::FLOAT32 && host_.host_dtype(given.dtype()) != given.dtype();
    const phi::DataType dtype = wide ? given.dtype() : made.dtype();
    const size_t bytes = static_cast<size_t>(made.numel()) * phi::SizeOf(dtype);
    const void* from = bytes == 0 ? nullptr : made.data();
    if (wide && bytes != 0) {
      narrowed_.emplace_back(bytes);
      convert_floats(narrowed_.back().data(), dtype, made.data(), made.dtype(), made.numel());
      from = narrowed_.back().data();
    }
    const bool kept = given.initialized() && on_device(given) && given.dims() == made.dims() && given.dtype() == dtype;
    if (kept && !given.meta().is_contiguous()) {
      // A view with gaps: what lies between belongs to others.
      View dense = view(given);
      const auto strides = phi::DenseTensorMeta::calc_strides(given.dims());
      dense.strides = strides.Get();
      dense.data = scratch_.emplace_back(call_.device, dense.bytes()).get();
      copy_in(dense.data, from, bytes);
      copy_views(call_.device, view(given), dense);
      return;
    }
    if (!kept) {
      given.Resize(made.dims());
      if (given.layout() != made.layout()) {
        phi::DenseTensorMeta meta = given.meta();
        meta.layout = made.layout();
        given.set_meta(meta);
      }
    }
    copy_in(call_.context.Alloc(&given, dtype), from, bytes);
  }

  void copy_in(void* to, const void* from, size_t bytes) {
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
    throw Error(HP_NOT_SUPPORTED, "it would run on the CPU, and a rule for fallback forbids that" + python_line());
  }
  if (!call.kernel.cpu.IsValid()) {
    throw Error(HP_NOT_SUPPORTED, "the device has no kernel for these arguments, and Paddle has none for the CPU");
  }
  OperatorScope scope(op);
  op.count(Tier::kCpu);
  const CpuCost cost(op);
  if (observed()) notify({op, Tier::kCpu, true, nullptr});
  auto staging = std::make_unique<Staging>(call);
  try {
    staging->run();
  } catch (const Error& error) {
    if (error.status == HP_TIMEOUT) staging.release();  // queued copies may still use its memory
    throw;
  }
  if (observed()) notify({op, Tier::kCpu, false, nullptr});
}

}  // namespace hp::paddle_adapter
