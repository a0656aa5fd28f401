#include "attention.h"

#include <algorithm>
#include <cmath>

#include "../core/copy_views.h"
#include "../core/template_call.h"

namespace hp::ops {
namespace {

// As kernels/attention.c declares them.
struct Shape {
  int64_t heads, key_heads, queries, keys, dim, value_dim, causal;
  int64_t query[3], key[3], value[3], out[3], mask[4];
};
struct Gradients {
  int64_t grad[3], out[3], grad_key[3], grad_value[3];
};
struct Dropping {
  int64_t below;
  double factor;
};
constexpr int64_t kQueries = 192;  // QUERIES there

void copy_strides(const View& view, int64_t* to, int count) {
  for (int d = 0; d < count; ++d) to[d] = view.defined() ? view.strides[d] : 0;
}

Shape shape_of(const Attention& given, const View& out) {
  const View &q = given.query, &k = given.key, &v = given.value;
  Shape shape{q.sizes[1], k.sizes[1], q.sizes[2], k.sizes[2], q.sizes[3], v.sizes[3], given.causal, {}, {}, {}, {}, {}};
  copy_strides(q, shape.query, 3);
  copy_strides(k, shape.key, 3);
  copy_strides(v, shape.value, 3);
  copy_strides(out, shape.out, 3);
  copy_strides(given.mask, shape.mask, 4);
  return shape;
}

// The last arguments of each kernel that knows weights.
void add_dropping(TemplateCall& call, const Attention& given) {
  const double p = given.dropout;
  if (p != 0) {
    call.state(given.random);
  } else {
    call.integer(0).integer(0);
  }
  call.value(Dropping{std::llround(p * 65536), p == 1 ? 0 : 1 / (1 - p)});
}

bool one_work_item(const Device& device) { return device.plugin.compiler.group_size == 1; }

}  // namespace

uint64_t dropout_blocks(const Attention& given) {
  const View& query = given.query;
  return static_cast<uint64_t>(query.sizes[0] * query.sizes[1] * query.sizes[2] * ((given.key.sizes[2] + 7) / 8));
}

bool attention(const Service& service, Device& device, const View& out, const View& lse, const Attention& given) {
  if (call_vendor(
          service, device,
          {output(out), output(lse), input(given.query), input(given.key), input(given.value), input(given.mask),
           attribute(given.causal), attribute(given.scale), attribute(given.dropout),
           attribute(static_cast<int64_t>(given.random.seed)), attribute(static_cast<int64_t>(given.random.offset))})) {
    return true;
  }
  static TemplateKernels kernels("attention:forward", {"T"}, {"MASKED", "DROPS"});
  if (!service.has_compiler) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {given.query.dtype}, {given.mask.defined(), given.dropout != 0});
  if (!call.available()) return false;
  const Shape shape = shape_of(given, out);
  call.arg(out).arg(lse).arg(given.query).arg(given.key).arg(given.value).arg(given.mask).value(shape);
  call.real(given.scale, given.query.dtype);
  add_dropping(call, given);
  const int64_t per_group = one_work_item(device) ? kQueries : 1;
  call.launch(service.op, given.query.sizes[0] * shape.heads * ((shape.queries + per_group - 1) / per_group));
  return scope.done();
}

bool attention_backward(const Service& service, Device& device, const View& grad_query, const View& grad_key,
                        const View& grad_value, const View& grad, const View& out, const View& lse,
                        const Attention& given) {
  if (call_vendor(
          service, device,
          {output(grad_query), output(grad_key), output(grad_value), input(grad), input(given.query), input(given.key),
           input(given.value), input(given.mask), input(out), input(lse), attribute(given.causal),
           attribute(given.scale), attribute(given.dropout), attribute(static_cast<int64_t>(given.random.seed)),
           attribute(static_cast<int64_t>(given.random.offset))})) {
    return true;
  }
  static TemplateKernels delta("attention:delta", {"T"}), blocks("attention:backward", {"T"}, {"MASKED", "DROPS"}),
      queries("attention:backward_queries", {"T"}, {"MASKED", "DROPS"}),
      keys("attention:backward_keys", {"T"}, {"MASKED", "DROPS"});
  if (!service.has_compiler) return false;
  PortableScope scope(service);
  const DType dtype = given.query.dtype, sums = accumulator(dtype);
  const Shape shape = shape_of(given, out);
  Gradients gradients;
  copy_strides(grad, gradients.grad, 3);
  copy_strides(out, gradients.out, 3);
  copy_strides(grad_key, gradients.grad_key, 3);
  copy_strides(grad_value, gradients.grad_value, 3);
  const int64_t batch = given.query.sizes[0], rows = batch * shape.heads * shape.queries;
  const Scratch deltas(device, rows * info(sums).bytes);
  // Queries' gradients are gathered from every block of keys.
  const Scratch wide(device, sums == dtype ? 0 : rows * shape.dim * info(sums).bytes);
  View gathered = grad_query;
  if (sums != dtype) gathered.data = wide.get(), gathered.dtype = sums;

  TemplateCall first(delta, device, {dtype});
  if (!first.available()) return false;
  first.pointer(deltas.get()).arg(grad).arg(out).value(shape).value(gradients).integer(rows);
  const auto add_inputs = [&](TemplateCall& call) {
    call.arg(grad).arg(given.query).arg(given.key).arg(given.value).arg(given.mask).arg(lse).pointer(deltas.get());
    call.value(shape).value(gradients).real(given.scale, dtype);
    add_dropping(call, given);
  };
  const int masked = given.mask.defined(), drops = given.dropout != 0;
  if (one_work_item(device)) {
    TemplateCall call(blocks, device, {dtype}, {masked, drops});
    if (!call.available()) return false;
    first.launch_elements(service.op, rows);
    call.arg(gathered).arg(grad_key).arg(grad_value);
    add_inputs(call);
    call.launch(service.op, batch * shape.key_heads);
  } else {
    TemplateCall of_queries(queries, device, {dtype}, {masked, drops}), of_keys(keys, device, {dtype}, {masked, drops});
    if (!of_queries.available() || !of_keys.available()) return false;
    first.launch_elements(service.op, rows);
    of_queries.arg(gathered);
    add_inputs(of_queries);
    of_queries.launch(service.op, rows);
    of_keys.arg(grad_key).arg(grad_value);
    add_inputs(of_keys);
    of_keys.launch(service.op, batch * shape.key_heads * shape.keys);
  }
  if (sums != dtype) copy_views(device, grad_query, gathered);
  return scope.done();
}

}  // namespace hp::ops
