// Histograms, composed of other operators on the device.
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/le.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

using Edges = std::vector<Tensor>;
using Range = std::optional<at::ArrayRef<double>>;

// Equally spaced edges for points in rows; nothing if torch would raise an error.
std::optional<Edges> equal_edges(const Tensor& points, at::IntArrayRef bins, const Range& range) {
  const int64_t dims = points.size(1);
  if (static_cast<int64_t>(bins.size()) != dims || (range && static_cast<int64_t>(range->size()) != 2 * dims))
    return {};
  std::vector<double> low(dims, 0), high(dims, 1);  // without points
  for (int64_t d = 0; d < dims; ++d) {
    if (bins[d] < 1) return {};
    if (range) {
      low[d] = (*range)[2 * d];
      high[d] = (*range)[2 * d + 1];
    } else if (points.size(0) > 0) {
      low[d] = at::amin(points.select(1, d)).item<double>();
      high[d] = at::amax(points.select(1, d)).item<double>();
    }
    if (!std::isfinite(low[d]) || !std::isfinite(high[d]) || low[d] > high[d]) return {};
    if (low[d] == high[d]) low[d] -= 0.5, high[d] += 0.5;
  }
  Edges edges;
  for (int64_t d = 0; d < dims; ++d) {
    // On the host, bit-identical to torch's CPU: an element on an edge goes to the same bin everywhere.
    const Tensor host = at::linspace(low[d], high[d], bins[d] + 1, points.scalar_type());
    edges.push_back(empty(host.sizes(), points.scalar_type(), points.device().index()));
    copy_tensor(edges.back(), host, false);
  }
  return edges;
}

// A bin includes its lower edge, the last one both.
OptionalTensor counted(const Overload& overload, const Tensor& points, const Edges& edges, const Tensor& weight,
                       bool density) {
  const int64_t count = points.size(0);
  int64_t total = 1;
  std::vector<int64_t> shape;
  for (const Tensor& along : edges) {
    if (along.dim() != 1 || along.size(0) < 2 || along.scalar_type() != points.scalar_type()) return {};
    shape.push_back(along.size(0) - 1);
    total *= shape.back();
  }
  Tensor hist = at::zeros({total + 1}, points.options());
  if (count > 0) {
    Tensor flat_bin = at::zeros({count}, points.options().dtype(at::kLong));
    Tensor inside = at::ones({count}, points.options().dtype(at::kBool));
    for (size_t d = 0; d < edges.size(); ++d) {
      const Tensor x = points.select(1, static_cast<int64_t>(d)).contiguous(), along = edges[d].contiguous();
      const Tensor first = along.select(0, 0), last = along.select(0, shape[d]);
      inside = at::logical_and(inside, at::logical_and(at::ge(x, first), at::le(x, last)));
      Tensor bin = at::searchsorted(along, x, /*out_int32=*/false, /*right=*/true).sub_(1);
      bin = at::where(at::eq(x, last), at::full({}, shape[d] - 1, bin.options()), bin);
      flat_bin = flat_bin.mul_(shape[d]).add_(bin);
    }
    // An extra bin, cut off below, takes the points outside.
    flat_bin = at::where(inside, flat_bin, at::full({}, total, flat_bin.options()));
    hist.index_add_(0, flat_bin, weight.defined() ? weight : at::ones({1}, points.options()).expand({count}));
  }
  hist = hist.narrow(0, 0, total).clone().view(shape);
  if (density) {
    hist.div_(at::sum(hist));
    for (size_t d = 0; d < edges.size(); ++d) {
      std::vector<int64_t> spread(edges.size(), 1);
      spread[d] = shape[d];
      hist.div_(at::diff(edges[d]).view(spread));
    }
  }
  overload.op.count(Tier::kDecomposition);
  return hist;
}

// Flattened weights; nothing if they do not match.
OptionalTensor weights(const OptionalTensor& weight, const Tensor& self, at::IntArrayRef sizes) {
  if (!weight || !weight->defined()) return Tensor();
  if (weight->scalar_type() != self.scalar_type() || weight->sizes() != sizes) return {};
  return weight->reshape({-1});
}

using Histogram = std::optional<std::tuple<Tensor, Tensor>>;

Histogram over(const Overload& overload, const Tensor& self, const std::optional<Edges>& edges,
               const OptionalTensor& weight, bool density) {
  const OptionalTensor flat = weights(weight, self, self.sizes());
  if (!edges || !flat) return {};
  const OptionalTensor result = counted(overload, self.reshape({-1, 1}), *edges, *flat, density);
  if (!result) return {};
  return std::make_tuple(*result, edges->front());
}

Histogram histogram(const Overload& overload, const Tensor& self, const Tensor& bins, const OptionalTensor& weight,
                    bool density) {
  if (!is_single_or_double(self)) return {};
  return over(overload, self, Edges{bins.clone()}, weight, density);
}
Histogram histogram(const Overload& overload, const Tensor& self, int64_t bins, const Range& range,
                    const OptionalTensor& weight, bool density) {
  if (!is_single_or_double(self)) return {};
  return over(overload, self, equal_edges(self.reshape({-1, 1}), {bins}, range), weight, density);
}

bool write_outputs(const Tensor& hist, const Tensor& bin_edges, const Histogram& result) {
  if (!result || hist.scalar_type() != std::get<0>(*result).scalar_type() ||
      bin_edges.scalar_type() != std::get<1>(*result).scalar_type())
    return false;
  return resize_and_copy(hist, std::get<0>(*result)) && resize_and_copy(bin_edges, std::get<1>(*result));
}
bool histogram(const Overload& overload, const Tensor& self, const Tensor& bins, const OptionalTensor& weight,
               bool density, const Tensor& hist, const Tensor& bin_edges) {
  return write_outputs(hist, bin_edges, histogram(overload, self, bins, weight, density));
}
bool histogram(const Overload& overload, const Tensor& self, int64_t bins, const Range& range,
               const OptionalTensor& weight, bool density, const Tensor& hist, const Tensor& bin_edges) {
  return write_outputs(hist, bin_edges, histogram(overload, self, bins, range, weight, density));
}

bool takes_points(const Tensor& self) { return is_single_or_double(self) && self.dim() >= 2 && self.size(-1) > 0; }

std::optional<Edges> histogramdd_bin_edges(const Overload& overload, const Tensor& self, at::IntArrayRef bins,
                                           const Range& range, const OptionalTensor& /*weight*/, bool /*density*/) {
  if (!takes_points(self)) return {};
  auto edges = equal_edges(self.reshape({-1, self.size(-1)}), bins, range);
  if (edges) overload.op.count(Tier::kDecomposition);
  return edges;
}

OptionalTensor points_over(const Overload& overload, const Tensor& self, const std::optional<Edges>& edges,
                           const OptionalTensor& weight, bool density) {
  const OptionalTensor flat = weights(weight, self, self.sizes().slice(0, self.dim() - 1));
  if (!edges || !flat || static_cast<int64_t>(edges->size()) != self.size(-1)) return {};
  return counted(overload, self.reshape({-1, self.size(-1)}), *edges, *flat, density);
}
OptionalTensor histogramdd(const Overload& overload, const Tensor& self, at::IntArrayRef bins, const Range& range,
                           const OptionalTensor& weight, bool density) {
  if (!takes_points(self)) return {};
  return points_over(overload, self, equal_edges(self.reshape({-1, self.size(-1)}), bins, range), weight, density);
}
OptionalTensor histogramdd(const Overload& overload, const Tensor& self, at::TensorList bins,
                           const OptionalTensor& weight, bool density) {
  if (!takes_points(self)) return {};
  return points_over(overload, self, Edges(bins.begin(), bins.end()), weight, density);
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/histogram.inc"
