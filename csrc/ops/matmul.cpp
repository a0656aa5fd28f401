#include "matmul.h"

#include <algorithm>

#include "../core/template_call.h"
#include "parts.h"

namespace hp::ops {
namespace {

// Declared the same way in kernels/matmul.c.
struct Geometry {
  int64_t m, n, k, rows, columns, row_blocks, column_blocks, batch, per_group, with_self;
  int64_t out[3], a[3], b[3], self[3];
};

// The largest block that the kernel takes on a CPU.
constexpr int64_t kMostRows = 144, kMostColumns = 512;

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

int64_t parts_of(int64_t size, int64_t part) { return (size + part - 1) / part; }

// The size of equal parts of something: a multiple of `unit`, `most` at most.
int64_t part_size(int64_t size, int64_t most, int64_t unit) {
  const int64_t parts = parts_of(size, most);
  return parts_of(parts_of(size, parts), unit) * unit;
}

// How the output is shared out among groups; says how many. Only shapes decide, so that results are the same whoever
// computes them.
int64_t share_out(const Device& device, Geometry& g) {
  g.per_group = 1;
  if (device.plugin.compiler.group_size != 1) {
    g.rows = g.columns = 64;
  } else {
    // Blocks as large as the kernel takes, to make up for packing the operands; smaller ones while there are too few
    // for many threads and each is still worth handing over. Multiples of a tile.
    constexpr int64_t kUnit = 12, kLane = 32, kWorth = 1 << 19, kEnough = 8;
    int64_t most_rows = kMostRows, most_columns = kMostColumns;
    for (;;) {
      g.rows = part_size(g.m, most_rows, kUnit);
      g.columns = part_size(g.n, most_columns, kLane);
      const int64_t blocks = g.batch * parts_of(g.m, g.rows) * parts_of(g.n, g.columns);
      const int64_t work = std::min(g.rows, g.m) * std::min(g.columns, g.n) * g.k;
      if (blocks >= kEnough || work <= kWorth) break;
      if (g.columns >= 2 * g.rows && g.columns > kLane) {
        most_columns = g.columns / 2;
      } else if (g.rows > 2 * kUnit) {
        most_rows = g.rows / 2;
      } else if (g.columns > kLane) {
        most_columns = g.columns / 2;
      } else {
        break;
      }
    }
    const int64_t work = std::min(g.rows, g.m) * std::min(g.columns, g.n) * std::max<int64_t>(g.k, 1);
    g.per_group = std::max<int64_t>(1, kWorth / work);
  }
  g.row_blocks = parts_of(g.m, g.rows);
  g.column_blocks = parts_of(g.n, g.columns);
  return parts_of(g.batch * g.row_blocks * g.column_blocks, g.per_group);
}

TemplateCall& factor(TemplateCall& call, DType dtype, Factor value) {
  if (dtype == DType::kF64) return call.value(value.real);
  if (is_float(dtype)) return call.value(static_cast<float>(value.real));
  return call.value(value.integer);
}

bool supported(DType dtype) { return is_float(dtype) || is_integer(dtype); }

// Four products of parts, two added to each part of the result.
bool complex_product(const Service& service, Device& device, const View& out, const View& a, const View& b) {
  if (a.dtype != out.dtype || b.dtype != out.dtype) return false;
  const Part re(out, 0), im(out, 1), a_re(a, 0), a_im(a, 1), b_re(b, 0), b_im(b, 1);
  const Factor plus, minus{-1, -1};
  return launch_product(service, device, re.view, {}, a_re.view, b_re.view, plus, plus) &&
         launch_product(service, device, re.view, re.view, a_im.view, b_im.view, plus, minus) &&
         launch_product(service, device, im.view, {}, a_re.view, b_im.view, plus, plus) &&
         launch_product(service, device, im.view, im.view, a_im.view, b_re.view, plus, plus);
}

bool product(const Service& service, Device& device, const View& out, const View& self, const View& a, const View& b,
             Factor beta, Factor alpha) {
  PortableScope scope(service);
  return launch_product(service, device, out, self, a, b, beta, alpha) && scope.done();
}

// out = alpha * out + beta * self.
bool scale(const Service& service, Device& device, const View& out, const View& self, Factor beta, Factor alpha) {
  static TemplateKernels kernels("matmul:scale", {"T", "R"});
  TemplateCall call(kernels, device, {out.dtype, out.dtype});
  if (!call.available()) return false;
  const int d = out.ndim - 2;
  Geometry g{};
  g.batch = d == 1 ? out.sizes[0] : 1;
  g.m = out.sizes[d];
  g.n = out.sizes[d + 1];
  g.per_group = call.rows_per_group(g.n);
  g.with_self = self.defined();
  strides(out, g.out);
  strides(self, g.self);
  call.arg(out).pointer(self.defined() ? self.data : out.data).value(g);
  factor(factor(call, out.dtype, alpha), out.dtype, beta).launch(service.op, parts_of(g.batch * g.m, g.per_group));
  return true;
}

bool overlap(const View& a, const View& b) { return a.defined() && b.defined() && a.data == b.data; }

}  // namespace

bool launch_product(const Service& service, Device& device, const View& out, const View& self, const View& a,
                    const View& b, Factor beta, Factor alpha) {
  static TemplateKernels kernels("matmul:product", {"T", "R"});
  if (is_complex(out.dtype)) return !self.defined() && complex_product(service, device, out, a, b);
  const bool dtypes = a.dtype == b.dtype && (out.dtype == a.dtype || out.dtype == accumulator(a.dtype));
  if (!service.has_compiler || !supported(out.dtype) || !dtypes) return false;
  TemplateCall call(kernels, device, {a.dtype, out.dtype});
  if (!call.available()) return false;
  const int d = out.ndim - 2;
  Geometry g;
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
  // Few columns leave lanes idle: then the product of the transposed matrices is made.
  constexpr int64_t kFew = 16;
  if (g.n < kFew && g.m > g.n) {
    std::swap(g.m, g.n);
    std::swap(g.a, g.b);
    std::swap(left, right);
    for (auto* s : {&g.out, &g.a, &g.b, &g.self}) std::swap((*s)[1], (*s)[2]);
  }
  const int64_t groups = share_out(device, g);
  call.arg(out).pointer(left).pointer(right).pointer(self.defined() ? self.data : out.data).value(g);
  factor(factor(call, out.dtype, alpha), out.dtype, beta).launch(service.op, groups);
  return true;
}

bool matmul(const Service& service, Device& device, const View& out, const View& a, const View& b) {
  if (call_vendor(service, device, {output(out), input(a), input(b)})) return true;
  return product(service, device, out, {}, a, b, {}, {});
}

bool addmm(const Service& service, const Kernel* vendor_product, Device& device, const View& out, const View& self,
           const View& a, const View& b, Factor beta, Factor alpha) {
  if (a.numel() == 0) return product(service, device, out, self, a, b, beta, alpha);
  const bool whole = is_integer(out.dtype);
  const auto number = [whole](Factor f) { return whole ? attribute(f.integer) : attribute(f.real); };
  if (call_vendor(service, device, {output(out), input(self), input(a), input(b), number(beta), number(alpha)}))
    return true;
  // In low precision the vendor's product would be rounded before the sum.
  const bool plain = !self.defined() && (whole ? alpha.integer == 1 : alpha.real == 1);
  const bool exact = out.dtype != DType::kF16 && out.dtype != DType::kBF16;
  // Products with few rows or columns are bound by memory: on a CPU our kernel, which makes the sum as well, is as
  // good.
  const int d = out.ndim - 2;
  constexpr int64_t kFew = 8;
  const bool ours = service.has_compiler && device.plugin.compiler.group_size == 1 &&
                    std::min(out.sizes[d], out.sizes[d + 1]) <= kFew;
  if (vendor_product != nullptr && !ours && supported(out.dtype) && !overlap(out, self) &&
      (plain || (exact && service.has_compiler)) &&
      call_vendor(service.op, vendor_product, device, {output(out), input(a), input(b)})) {
    return plain || scale(service, device, out, self, beta, alpha);
  }
  return product(service, device, out, self, a, b, beta, alpha);
}

bool dot(const Service& service, Device& device, const View& out, const View& a, const View& b) {
  if (call_vendor(service, device, {output(out), input(a), input(b)})) return true;
  if (!service.has_compiler || !supported(out.dtype)) return false;
  static TemplateKernels parts("matmul:dot", {"T", "R"}), totals("matmul:total", {"T", "R"});
  constexpr int64_t kChunk = 32768;
  const int64_t elements = a.sizes[0], chunks = (elements + kChunk - 1) / kChunk;
  const DType sum = is_float(out.dtype) ? accumulator(out.dtype) : out.dtype == DType::kI64 ? DType::kI64 : DType::kI32;
  PortableScope scope(service);
  TemplateCall call(parts, device, {a.dtype, chunks == 1 ? out.dtype : sum});
  TemplateCall last(totals, device, {sum, out.dtype});
  if (!call.available() || !last.available()) return false;
  const Scratch scratch(device, chunks == 1 ? 0 : chunks * info(sum).bytes);
  call.pointer(chunks == 1 ? out.data : scratch.get()).arg(a).arg(b).integer(elements).integer(kChunk);
  call.integer(a.strides[0]).integer(b.strides[0]).launch(service.op, chunks);
  if (chunks > 1) last.arg(out).pointer(scratch.get()).integer(chunks).launch(service.op, 1);
  return scope.done();
}

}  // namespace hp::ops
