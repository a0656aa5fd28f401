// Copies: host to device, device to host, within a device and between devices, of any layout and dtype.
//
// Byte copies need equal dtypes and layouts. Other copies are brought to that form first: on the device by the
// plug-in's `copy` kernel or the portable one, otherwise on the host.
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/conj_physical.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/view_as_real.h>

#include "core/dispatch/cpu_tier_call.h"
#include "core/recording/graph_capture.h"
#include "core/tensor/copy_views.h"
#include "ops/complex_parts.h"
#include "ops/op_helpers.h"

namespace hp::torch_adapter {
namespace {

using at::Tensor;

bool same_bits(const Tensor& a, const Tensor& b) { return a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg(); }

// Whether copying the bytes copies the tensor.
bool same_layout(const Tensor& a, const Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || !same_bits(a, b)) return false;
  if (a.is_contiguous() && b.is_contiguous()) return true;
  return a.strides() == b.strides() && a.is_non_overlapping_and_dense();
}

Tensor physical(const Tensor& tensor) {
  // The tensor as stored, without its lazy conjugate and negative bits.
  if (!tensor.is_conj() && !tensor.is_neg()) return tensor;
  Tensor bare = tensor.alias();
  bare.unsafeGetTensorImpl()->_set_conj(false);
  bare.unsafeGetTensorImpl()->_set_neg(false);
  return bare;
}

Tensor empty_cpu_like(const Tensor& like) {
  Tensor result = like.is_non_overlapping_and_dense()
                      ? Tensor(at::detail::empty_strided_cpu(like.sizes(), like.strides(), like.scalar_type()))
                      : Tensor(at::detail::empty_cpu(like.sizes(), like.scalar_type(), false, std::nullopt));
  result._set_conj(like.is_conj());
  result._set_neg(like.is_neg());
  return result;
}

Operator& copy_operator() {
  static Operator& op = Operator::intern("aten::copy_");
  return op;
}

bool copy_by_vendor(const Tensor& dst, const Tensor& src) {
  static const KernelSlot& slot = KernelRegistry::slot(runtime(), "copy");
  return copy_vendor(copy_operator(), slot, device_holding(dst), storage_view(dst), storage_view(src));
}

bool copy_by_kernel(const Tensor& dst, const Tensor& src);

// Converts to or from ComplexHalf. Kernels support only its real and imaginary parts, as Half.
bool copy_halves(const Tensor& dst, const Tensor& src) {
  const Tensor to = physical(dst), from = physical(src);
  if (!to.is_complex()) return copy_by_kernel(to, at::real(from));
  if (from.is_complex()) return copy_by_kernel(at::view_as_real(to), at::view_as_real(from));
  at::imag(to).zero_();
  return copy_by_kernel(at::real(to), from);
}

// Copies within one device, with any strides and dtypes; false if no kernel supports the copy.
bool copy_by_kernel(const Tensor& dst, const Tensor& src) {
  if (!same_bits(dst, src)) return false;
  if (dst.scalar_type() != src.scalar_type() &&
      (dst.scalar_type() == at::kComplexHalf || src.scalar_type() == at::kComplexHalf)) {
    return copy_halves(dst, src);
  }
  if (copy_by_vendor(dst, src)) return true;
  Operator& op = copy_operator();
  Device& device = device_holding(dst);
  const bool same_dtype = dst.scalar_type() == src.scalar_type();
  if (C10_UNLIKELY(observed())) notify({op, Tier::kPortable, true, nullptr});
  if (!(same_dtype ? copy_raw_portable(op, device, view(dst), view(src), static_cast<int>(dst.element_size()))
                   : copy_portable(op, device, storage_view(dst), storage_view(src)))) {
    return false;
  }
  op.count(Tier::kPortable);
  if (C10_UNLIKELY(observed())) notify({op, Tier::kPortable, false, nullptr});
  return true;
}

// Copies tensors whose lazy bits differ: resolves the bits during the copy, or in place after a dtype conversion.
bool copy_resolving(const Tensor& dst, const Tensor& src) {
  Tensor to = physical(dst);
  Tensor from = physical(src);
  // Real numbers have no conjugate, booleans no negative.
  const bool conjugate = dst.is_conj() != src.is_conj() && to.is_complex();
  const bool negate = dst.is_neg() != src.is_neg() && to.scalar_type() != at::kBool;
  if (from.scalar_type() != to.scalar_type()) {
    if (!copy_by_kernel(to, from)) return false;
    from = to;
  }
  if (conjugate) {
    at::conj_physical_out(to, from);
    from = to;
  }
  if (negate) {
    at::neg_out(to, from);
  } else if (!from.is_same(to)) {
    return copy_by_kernel(to, from);
  }
  return true;
}

// Writes a host tensor of the same dtype into device memory with gaps, one contiguous run at a time: the gaps stay
// intact.
void write_runs(const Tensor& dst, const Tensor& cpu, Stream& stream) {
  const Tensor source = cpu.contiguous();
  const int64_t item = static_cast<int64_t>(dst.element_size());
  int64_t run = 1;  // contiguous elements
  int outer = static_cast<int>(dst.dim());
  while (outer > 0 && (dst.size(outer - 1) == 1 || dst.stride(outer - 1) == run)) run *= dst.size(--outer);
  std::vector<int64_t> index(outer, 0);
  auto* to = static_cast<char*>(dst.data_ptr());
  const auto* from = static_cast<const char*>(source.const_data_ptr());
  for (int64_t done = 0; done < dst.numel(); done += run) {
    int64_t offset = 0;
    for (int i = 0; i < outer; ++i) offset += index[i] * dst.stride(i);
    stream.device.copy_to_device(to + offset * item, from + done * item, run * item, stream);
    for (int i = outer - 1; i >= 0 && ++index[i] == dst.size(i); --i) index[i] = 0;
  }
}

// `cpu` has dst's sizes, dtype and lazy bits.
void write_to_device(const Tensor& dst, const Tensor& cpu, bool non_blocking) {
  Device& device = device_holding(dst);
  Stream& stream = current_stream(device);
  if (same_layout(dst, cpu)) {
    queue_copy_from_cpu(dst, cpu);
    if (non_blocking && pinned_allocator().record_stream(cpu.const_data_ptr(), stream)) return;
  } else if (dst.is_non_overlapping_and_dense()) {
    Tensor staged = empty_cpu_like(dst);
    physical(staged).copy_(physical(cpu));
    queue_copy_from_cpu(dst, staged);
    synchronize_or_leak(stream, dst, staged);
    return;
  } else {
    Tensor dense = empty(dst.sizes(), dst.scalar_type(), device.index);
    const Tensor staged = physical(cpu).contiguous();
    queue_copy_from_cpu(dense, staged);
    if (!copy_by_kernel(physical(dst), dense)) write_runs(dst, staged, stream);
    synchronize_or_leak(stream, dst, dense, staged);
    return;
  }
  synchronize_or_leak(stream, dst, cpu);
}

void copy_to_device(const Tensor& dst, const Tensor& src, bool non_blocking) {
  at::assert_no_internal_overlap(dst);
  if (dst.scalar_type() == src.scalar_type() && same_bits(dst, src)) return write_to_device(dst, src, non_blocking);
  Tensor converted = empty_cpu_like(dst);
  converted.copy_(src);
  write_to_device(dst, converted, false);
}

void copy_to_host(const Tensor& dst, const Tensor& src, bool non_blocking) {
  Device& device = device_holding(src);
  Stream& stream = current_stream(device);
  if (same_layout(dst, src)) {
    device.copy_to_host(dst.data_ptr(), src.const_data_ptr(), src.numel() * src.element_size(), stream);
    if (non_blocking && pinned_allocator().record_stream(dst.const_data_ptr(), stream)) return;
    synchronize_or_leak(stream, dst, src);
    return;
  }
  const Tensor staged = queue_copy_to_cpu(src);
  synchronize_or_leak(stream, staged, src);
  dst.copy_(staged);
}

void copy_on_device(const Tensor& dst, const Tensor& src) {
  at::assert_no_internal_overlap(dst);
  at::assert_no_partial_overlap(dst, src);
  Device& device = device_holding(dst);
  if (same_layout(dst, src)) {
    if (dst.const_data_ptr() == src.const_data_ptr()) return;
    device.copy_on_device(dst.data_ptr(), src.const_data_ptr(), dst.numel() * dst.element_size(),
                          current_stream(device));
    return;
  }
  if (same_bits(dst, src) ? copy_by_kernel(dst, src) : copy_resolving(dst, src)) return;
  CpuTierCall call(copy_operator());
  const Tensor staged = queue_copy_to_cpu(src);
  synchronize_or_leak(current_stream(device), staged, src);
  copy_to_device(dst, staged, false);
  call.done(staged.nbytes() + dst.nbytes());
}

void copy_between_devices(const Tensor& dst, const Tensor& src) {
  at::assert_no_internal_overlap(dst);
  // Convert on the source's device to dst's dtype and, if dst is dense, its layout.
  Tensor ready = src;
  if (!same_layout(dst, src)) {
    ready = dst.is_non_overlapping_and_dense()
                ? empty_strided(dst.sizes(), dst.strides(), dst.scalar_type(), src.device().index())
                : empty(dst.sizes(), dst.scalar_type(), src.device().index());
    ready._set_conj(dst.is_conj());
    ready._set_neg(dst.is_neg());
    copy_on_device(ready, src);
  }
  Device &from = device_holding(src), &to = device_holding(dst);
  Stream &from_stream = current_stream(from), &to_stream = current_stream(to);
  Tensor target = same_layout(dst, ready) ? dst : empty(dst.sizes(), dst.scalar_type(), to.index);

  // The copy runs on the source's stream, after the pending work of the destination's stream.
  auto wait = [](Stream& waiting, Stream& running) {
    Event* event = running.device.acquire_event(false);
    event->record(running);
    event->block(waiting);
    running.device.release_event(event);
  };
  wait(from_stream, to_stream);
  runtime().copy_peer(to, target.data_ptr(), from, ready.const_data_ptr(), ready.numel() * ready.element_size(),
                      from_stream);
  wait(to_stream, from_stream);
  if (!target.is_same(dst)) copy_on_device(physical(dst), target);
}

Tensor& copy_(Tensor& self, const Tensor& src, bool non_blocking) {
  if (C10_UNLIKELY(copy_operator().intercepted()) && should_intercept(copy_operator())) {
    return at::native::call_fallback_fn<&intercept, at::_ops::copy_>::call(self, src, non_blocking);
  }
  copy_tensor(self, src, non_blocking);
  return self;
}
Tensor copy_from(const Tensor& self, const Tensor& dst, bool non_blocking) {
  copy_tensor(dst, self, non_blocking);
  return dst;
}
Tensor copy_from_and_resize(const Tensor& self, const Tensor& dst) {
  at::native::resize_output(dst, self.sizes());
  copy_tensor(dst, self, false);
  return dst;
}
at::Scalar local_scalar_dense(const Tensor& self) {
  TORCH_CHECK(self.numel() > 0, "_local_scalar_dense: Empty tensor not supported");
  if (GraphCapture* capture = current_stream(device_holding(self)).capture()) {
    capture->refuse("aten::_local_scalar_dense (Tensor.item)", "it copies to the host");
  }
  const Tensor value = queue_copy_to_cpu(self);
  synchronize_or_leak(current_stream(device_holding(self)), value, self);
  return value.item();
}

}  // namespace

size_t span_bytes(const Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return static_cast<size_t>(last + 1) * tensor.element_size();
}

Tensor queue_copy_to_cpu(const Tensor& tensor) {
  Device& device = device_holding(tensor);
  Tensor source = physical(tensor);
  // Gathering a sparse view on the device is cheaper than copying the gaps.
  if (span_bytes(source) > 4 * static_cast<size_t>(source.numel()) * source.element_size()) {
    const auto strides = at::infer_dense_strides(source.sizes(), source.strides());
    Tensor dense = empty_strided(source.sizes(), strides, source.scalar_type(), device.index);
    if (copy_by_kernel(dense, source)) source = dense;
  }
  const size_t bytes = span_bytes(source);
  const Tensor buffer = at::detail::empty_cpu({static_cast<int64_t>(bytes / source.element_size())},
                                              source.scalar_type(), false, std::nullopt);
  device.copy_to_host(buffer.data_ptr(), source.const_data_ptr(), bytes, current_stream(device));
  Tensor cpu = bytes == 0
                   ? Tensor(at::detail::empty_strided_cpu(source.sizes(), source.strides(), source.scalar_type()))
                   : buffer.as_strided(source.sizes(), source.strides(), 0);
  cpu._set_conj(tensor.is_conj());
  cpu._set_neg(tensor.is_neg());
  return cpu;
}

void queue_copy_from_cpu(const Tensor& dst, const Tensor& cpu) {
  Device& device = device_holding(dst);
  device.copy_to_device(dst.data_ptr(), cpu.const_data_ptr(), dst.numel() * dst.element_size(), current_stream(device));
}

void copy_tensor(const Tensor& dst, const Tensor& source, bool non_blocking) {
  TORCH_CHECK(dst.defined() && source.defined(), "copy_: undefined tensor");
  TORCH_CHECK(dst.layout() == c10::kStrided && source.layout() == c10::kStrided, runtime().name(),
              " holds dense tensors only: cannot copy ", source.layout(), " to ", dst.layout(),
              "; call .to_dense() first");
  if (dst.is_same(source)) return;
  if (C10_UNLIKELY(source._is_zerotensor())) {  // has no memory
    Tensor(dst).zero_();
    return;
  }
  if (!at::is_expandable_to(source.sizes(), dst.sizes())) {  // as torch: infer_size has an error of its own
    TORCH_CHECK(false, "output with shape ", dst.sizes(), " doesn't match the broadcast shape ",
                at::IntArrayRef(at::infer_size(dst.sizes(), source.sizes())));
  }
  // Borrowed if possible: a second reference to a tensor that Python owns acquires the GIL twice.
  const auto expanded = source.sizes() == dst.sizes() ? c10::MaybeOwned<Tensor>::borrowed(source)
                                                      : c10::MaybeOwned<Tensor>::owned(source.expand_as(dst));
  const Tensor& src = *expanded;
  if (dst.numel() == 0) return;
  const bool to_device = on_device(dst), from_device = on_device(src);
  if (to_device && from_device) {
    if (dst.device() == src.device()) {
      copy_on_device(dst, src);
    } else {
      copy_between_devices(dst, src);
    }
    return;
  }
  TORCH_CHECK(to_device ? src.is_cpu() : dst.is_cpu(), "cannot copy from ", src.device(), " to ", dst.device(),
              ": copy through the CPU with .cpu()");
  if (GraphCapture* capture = current_stream(device_holding(to_device ? dst : src)).capture()) {
    capture->refuse(copy_operator().name, to_device ? "it copies from the host" : "it copies to the host");
  }
  if (to_device) {
    copy_to_device(dst, src, non_blocking);
  } else {
    copy_to_host(dst, src, non_blocking);
  }
}

// Not in the operator tables: the entry points of torch's own copies.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
}

// Copies resolve the lazy bits themselves. Without the fallthrough, torch would clone first, which copies twice.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace hp::torch_adapter
