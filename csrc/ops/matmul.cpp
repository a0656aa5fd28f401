#include "ops/matmul.h"

#include <algorithm>

#include "core/dispatch/template_call.h"
#include "core/memory/scratch.h"
#include "ops/detail/complex_view.h"

namespace hp::ops {
namespace {

// Layout shared with kernels/sources/matmul.c.
struct MatmulShape {
  int64_t m, n, k, rows, columns, row_blocks, column_blocks, batch, per_group, with_self;
  int64_t out[3], a[3], b[3], self[3];
};

// The largest block of the CPU kernel.
constexpr int64_t kMaxRows = 144, kMaxColumns = 512;

void strides(const View& view, int64_t (&to)[3]) {
  if (!view.defined()) {
    to[0] = to[1] = to[2] = 0;
    return;
  }
  const int d = view.ndim - 2;
  to[0] = d == 1 ? view.strides[0] : 0;
  to[1] = view.strides[d];
  to[2] = view.strides[d + 1];
}

// Splits `size` into equal parts of at most `max` and returns the part size, rounded up to a multiple of `unit`.
int64_t part_size(int64_t size, int64_t max, int64_t unit) {
  const int64_t parts = ceil_div(size, max);
  return ceil_div(ceil_div(size, parts), unit) * unit;
}

// Splits the output among work-groups and returns their number, which depends on shapes only, so that results do not
// depend on the number of threads.
int64_t partition(const Device& device, MatmulShape& g) {
  g.per_group = 1;
  if (device.group_size() != 1) {
    g.rows = g.columns = 64;
  } else {
    // Use the largest blocks, to amortize packing the operands. Halve them while there are too few blocks for many
    // threads and each still has enough work. Block sizes are multiples of a tile.
    constexpr int64_t kUnit = 12, kLane = 32, kWorth = 1 << 19, kEnough = 8;
    int64_t max_rows = kMaxRows, max_columns = kMaxColumns;
    for (;;) {
      g.rows = part_size(g.m, max_rows, kUnit);
      g.columns = part_size(g.n, max_columns, kLane);
      const int64_t blocks = g.batch * ceil_div(g.m, g.rows) * ceil_div(g.n, g.columns);
      const int64_t work = std::min(g.rows, g.m) * std::min(g.columns, g.n) * g.k;
      if (blocks >= kEnough || work <= kWorth) break;
      if (g.columns >= 2 * g.rows && g.columns > kLane) {
        max_columns = g.columns / 2;
      } else if (g.rows > 2 * kUnit) {
        max_rows = g.rows / 2;
      } else if (g.columns > kLane) {
        max_columns = g.columns / 2;
      } else {
        break;
      }
    }
    const int64_t work = std::min(g.rows, g.m) * std::min(g.columns, g.n) * std::max<int64_t>(g.k, 1);
    g.per_group = std::max<int64_t>(1, kWorth / work);
  }
  g.row_blocks = ceil_div(g.m, g.rows);
  g.column_blocks = ceil_div(g.n, g.columns);
  return ceil_div(g.batch * g.row_blocks * g.column_blocks, g.per_group);
}

TemplateCall& factor(TemplateCall& call, DType dtype, Factor value) {
  if (dtype == DType::kF64) return call.value(value.real);
  if (is_float(dtype)) return call.value(static_cast<float>(value.real));
  return call.value(value.integer);
}

bool supported(DType dtype) { return is_float(dtype) || is_integer(dtype); }

// Complex product as four real products of the real and imaginary parts.
bool complex_product(const OpBinding& binding, Device& device, const View& out, const View& a, const View& b) {
  if (a.dtype != out.dtype || b.dtype != out.dtype) return false;
  const ComplexPart re(out, 0), im(out, 1), a_re(a, 0), a_im(a, 1), b_re(b, 0), b_im(b, 1);
  const Factor plus, minus{-1, -1};
  return launch_matmul(binding, device, re.view, {}, a_re.view, b_re.view, plus, plus) &&
         launch_matmul(binding, device, re.view, re.view, a_im.view, b_im.view, plus, minus) &&
         launch_matmul(binding, device, im.view, {}, a_re.view, b_im.view, plus, plus) &&
         launch_matmul(binding, device, im.view, im.view, a_im.view, b_re.view, plus, plus);
}

bool product(const OpBinding& binding, Device& device, const View& out, const View& self, const View& a, const View& b,
             Factor beta, Factor alpha) {
  PortableScope scope(binding);
  return launch_matmul(binding, device, out, self, a, b, beta, alpha) && scope.done();
}

// out = alpha * out + beta * self.
bool scale(const OpBinding& binding, Device& device, const View& out, const View& self, Factor beta, Factor alpha) {
  static KernelTemplate kernels("matmul:scale", {"T", "R"});
  TemplateCall call(kernels, device, {out.dtype, out.dtype});
  const int d = out.ndim - 2;
  MatmulShape g{};
  g.batch = d == 1 ? out.sizes[0] : 1;
  g.m = out.sizes[d];
  g.n = out.sizes[d + 1];
  g.per_group = call.rows_per_group(g.n);
  g.with_self = self.defined();
  strides(out, g.out);
  strides(self, g.self);
  call.arg(out).pointer(self.defined() ? self.data : out.data).value(g);
  return factor(factor(call, out.dtype, alpha), out.dtype, beta)
      .launch(binding.op, ceil_div(g.batch * g.m, g.per_group));
}

bool overlap(const View& a, const View& b) { return a.defined() && b.defined() && a.data == b.data; }

}  // namespace

bool launch_matmul(const OpBinding& binding, Device& device, const View& out, const View& self, const View& a,
                   const View& b, Factor beta, Factor alpha) {
  static KernelTemplate kernels("matmul:product", {"T", "R"});
  if (is_complex(out.dtype)) return !self.defined() && complex_product(binding, device, out, a, b);
  const bool sums_bytes = a.dtype == DType::kI8 && out.dtype == DType::kI32;
  const bool known_output = out.dtype == a.dtype || out.dtype == accumulator(a.dtype) || sums_bytes;
  if (!binding.portable_allowed || !supported(out.dtype) || a.dtype != b.dtype || !known_output) return false;
  TemplateCall call(kernels, device, {a.dtype, out.dtype});
  const int d = out.ndim - 2;
  MatmulShape g;
  g.batch = d == 1 ? out.sizes[0] : 1;
  g.m = out.sizes[d];
  g.n = out.sizes[d + 1];
  g.k = a.sizes[d + 1];
  g.with_self = self.defined();
  strides(out, g.out);
  strides(a, g.a);
  strides(b, g.b);
  strides(self, g.self);
  const void *left = a.data, *right = b.data;
  // Few columns leave vector lanes idle: compute the transposed product instead.
  constexpr int64_t kFew = 16;
  if (g.n < kFew && g.m > g.n) {
    std::swap(g.m, g.n);
    std::swap(g.a, g.b);
    std::swap(left, right);
    for (auto* s : {&g.out, &g.a, &g.b, &g.self}) std::swap((*s)[1], (*s)[2]);
  }
  const int64_t groups = partition(device, g);
  call.arg(out).pointer(left).pointer(right).pointer(self.defined() ? self.data : out.data).value(g);
  return factor(factor(call, out.dtype, alpha), out.dtype, beta).launch(binding.op, groups);
}

bool matmul(const OpBinding& binding, Device& device, const View& out, const View& a, const View& b) {
  if (call_vendor(binding, device, {output(out), input(a), input(b)})) return true;
  return product(binding, device, out, {}, a, b, {}, {});
}

bool addmm(const OpBinding& binding, const Kernel* vendor_product, Device& device, const View& out, const View& self,
           const View& a, const View& b, Factor beta, Factor alpha) {
  if (a.numel() == 0) return product(binding, device, out, self, a, b, beta, alpha);
  const bool integral = is_integer(out.dtype);
  const auto number = [integral](Factor f) { return integral ? attribute(f.integer) : attribute(f.real); };
  if (call_vendor(binding, device, {output(out), input(self), input(a), input(b), number(beta), number(alpha)}))
    return true;
  // In 16-bit dtypes the vendor's product would be rounded before the sum.
  const bool plain = !self.defined() && (integral ? alpha.integer == 1 : alpha.real == 1);
  const bool exact = out.dtype != DType::kF16 && out.dtype != DType::kBF16;
  // Products with few rows or columns are memory-bound: on a CPU the portable kernel, which fuses the sum, is as fast.
  const int d = out.ndim - 2;
  constexpr int64_t kFew = 8;
  const bool prefer_portable =
      binding.portable_allowed && device.group_size() == 1 && std::min(out.sizes[d], out.sizes[d + 1]) <= kFew;
  if (vendor_product != nullptr && !prefer_portable && supported(out.dtype) && !overlap(out, self) &&
      (plain || (exact && binding.portable_allowed)) &&
      call_vendor(binding.op, vendor_product, device, {output(out), input(a), input(b)})) {
    return plain || scale(binding, device, out, self, beta, alpha);
  }
  return product(binding, device, out, self, a, b, beta, alpha);
}

bool dot(const OpBinding& binding, Device& device, const View& out, const View& a, const View& b) {
  if (call_vendor(binding, device, {output(out), input(a), input(b)})) return true;
  if (!binding.portable_allowed || !supported(out.dtype)) return false;
  static KernelTemplate parts("matmul:dot", {"T", "R"}), totals("matmul:total", {"T", "R"});
  constexpr int64_t kChunk = 32768;
  const int64_t elements = a.sizes[0], chunks = ceil_div(elements, kChunk);
  const DType sum = is_float(out.dtype) ? accumulator(out.dtype) : out.dtype == DType::kI64 ? DType::kI64 : DType::kI32;
  PortableScope scope(binding);
  TemplateCall call(parts, device, {a.dtype, chunks == 1 ? out.dtype : sum});
  TemplateCall last(totals, device, {sum, out.dtype});
  if (!call.available() || !last.available()) return false;
  const Scratch scratch(device, chunks == 1 ? 0 : chunks * info(sum).bytes);
  call.pointer(chunks == 1 ? out.data : scratch.get()).arg(a).arg(b).integer(elements).integer(kChunk);
  call.integer(a.strides[0]).integer(b.strides[0]).launch(binding.op, chunks);
  if (chunks > 1) last.arg(out).pointer(scratch.get()).integer(chunks).launch(binding.op, 1);
  return scope.done();
}

}  // namespace hp::ops
