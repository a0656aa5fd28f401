#include "ops/attention.h"

#include <algorithm>
#include <cmath>

#include "core/dispatch/template_call.h"
#include "core/memory/scratch.h"
#include "core/tensor/copy_views.h"

namespace hp::ops {
namespace {

// Layouts shared with kernels/sources/attention.c.
struct Shape {
  int64_t heads, key_heads, queries, keys, dim, value_dim, causal;
  int64_t query[3], key[3], value[3], out[3], mask[4];
};
struct Gradients {
  int64_t grad[3], out[3], grad_key[3], grad_value[3];
};
struct DropoutArgs {
  int64_t below;
  double factor;
};
constexpr int64_t kQueries = 192;  // QUERIES in attention.c

void copy_strides(const View& view, int64_t* to, int count) {
  for (int d = 0; d < count; ++d) to[d] = view.defined() ? view.strides[d] : 0;
}

Shape shape_of(const AttentionArgs& args, const View& out) {
  const View &q = args.query, &k = args.key, &v = args.value;
  Shape shape{q.sizes[1], k.sizes[1], q.sizes[2], k.sizes[2], q.sizes[3], v.sizes[3], args.causal, {}, {}, {}, {}, {}};
  copy_strides(q, shape.query, 3);
  copy_strides(k, shape.key, 3);
  copy_strides(v, shape.value, 3);
  copy_strides(out, shape.out, 3);
  copy_strides(args.mask, shape.mask, 4);
  return shape;
}

// Adds the dropout arguments, the last ones of each kernel.
void add_dropout(TemplateCall& call, const AttentionArgs& args) {
  const double p = args.dropout;
  if (p != 0) {
    call.state(args.random);
  } else {
    call.integer(0).integer(0);
  }
  call.value(DropoutArgs{std::llround(p * 65536), p == 1 ? 0 : 1 / (1 - p)});
}

bool one_work_item(const Device& device) { return device.group_size() == 1; }

}  // namespace

uint64_t dropout_blocks(const AttentionArgs& args) {
  const View& query = args.query;
  return static_cast<uint64_t>(query.sizes[0] * query.sizes[1] * query.sizes[2] * ((args.key.sizes[2] + 7) / 8));
}

bool attention(const OpBinding& binding, Device& device, const View& out, const View& lse, const AttentionArgs& args) {
  if (call_vendor(
          binding, device,
          {output(out), output(lse), input(args.query), input(args.key), input(args.value), input(args.mask),
           attribute(args.causal), attribute(args.scale), attribute(args.dropout),
           attribute(static_cast<int64_t>(args.random.seed)), attribute(static_cast<int64_t>(args.random.offset))})) {
    return true;
  }
  static KernelTemplate kernels("attention:forward", {"T"}, {"MASKED", "DROPS"});
  if (!binding.portable_allowed) return false;
  TemplateCall call(kernels, device, {args.query.dtype}, {args.mask.defined(), args.dropout != 0});
  const Shape shape = shape_of(args, out);
  call.arg(out).arg(lse).arg(args.query).arg(args.key).arg(args.value).arg(args.mask).value(shape);
  call.real(args.scale, args.query.dtype);
  add_dropout(call, args);
  const int64_t per_group = one_work_item(device) ? kQueries : 1;
  return call.run(binding, args.query.sizes[0] * shape.heads * ceil_div(shape.queries, per_group));
}

bool attention_backward(const OpBinding& binding, Device& device, const View& grad_query, const View& grad_key,
                        const View& grad_value, const View& grad, const View& out, const View& lse,
                        const AttentionArgs& args) {
  if (call_vendor(binding, device,
                  {output(grad_query), output(grad_key), output(grad_value), input(grad), input(args.query),
                   input(args.key), input(args.value), input(args.mask), input(out), input(lse), attribute(args.causal),
                   attribute(args.scale), attribute(args.dropout), attribute(static_cast<int64_t>(args.random.seed)),
                   attribute(static_cast<int64_t>(args.random.offset))})) {
    return true;
  }
  static KernelTemplate delta("attention:delta", {"T"}), blocks("attention:backward", {"T"}, {"MASKED", "DROPS"}),
      queries("attention:backward_queries", {"T"}, {"MASKED", "DROPS"}),
      keys("attention:backward_keys", {"T"}, {"MASKED", "DROPS"});
  if (!binding.portable_allowed) return false;
  PortableScope scope(binding);
  const DType dtype = args.query.dtype, sums = accumulator(dtype);
  const Shape shape = shape_of(args, out);
  Gradients gradients;
  copy_strides(grad, gradients.grad, 3);
  copy_strides(out, gradients.out, 3);
  copy_strides(grad_key, gradients.grad_key, 3);
  copy_strides(grad_value, gradients.grad_value, 3);
  const int64_t batch = args.query.sizes[0], rows = batch * shape.heads * shape.queries;
  const Scratch deltas(device, rows * info(sums).bytes);
  // grad_query is a sum over all blocks of keys: accumulate it in the wider dtype.
  const Scratch wide(device, sums == dtype ? 0 : rows * shape.dim * info(sums).bytes);
  View accumulated = grad_query;
  if (sums != dtype) accumulated.data = wide.get(), accumulated.dtype = sums;

  TemplateCall first(delta, device, {dtype});
  if (!first.available()) return false;
  first.pointer(deltas.get()).arg(grad).arg(out).value(shape).value(gradients).integer(rows);
  const auto add_inputs = [&](TemplateCall& call) {
    call.arg(grad).arg(args.query).arg(args.key).arg(args.value).arg(args.mask).arg(lse).pointer(deltas.get());
    call.value(shape).value(gradients).real(args.scale, dtype);
    add_dropout(call, args);
  };
  const int masked = args.mask.defined(), drops = args.dropout != 0;
  if (one_work_item(device)) {
    TemplateCall call(blocks, device, {dtype}, {masked, drops});
    if (!call.available()) return false;
    first.launch_elements(binding.op, rows);
    call.arg(accumulated).arg(grad_key).arg(grad_value);
    add_inputs(call);
    call.launch(binding.op, batch * shape.key_heads);
  } else {
    TemplateCall of_queries(queries, device, {dtype}, {masked, drops}), of_keys(keys, device, {dtype}, {masked, drops});
    if (!of_queries.available() || !of_keys.available()) return false;
    first.launch_elements(binding.op, rows);
    of_queries.arg(accumulated);
    add_inputs(of_queries);
    of_queries.launch(binding.op, rows);
    of_keys.arg(grad_key).arg(grad_value);
    add_inputs(of_keys);
    of_keys.launch(binding.op, batch * shape.key_heads * shape.keys);
  }
  if (sums != dtype) copy_views(device, grad_query, accumulated);
  return scope.done();
}

}  // namespace hp::ops
