#include "host_copy.h"

#include <cstring>
#include <vector>

#include "error.h"

namespace hp {
namespace {

// Calls `visit(offset)` for the elements of a view in order; offsets count elements.
template <class Visit>
void for_each_run(const View& view, int outer, Visit visit) {
  std::vector<int64_t> index(outer, 0);
  int64_t runs = 1, offset = 0;
  for (int d = 0; d < outer; ++d) runs *= view.sizes[d];
  for (int64_t run = 0; run < runs; ++run) {
    visit(offset);
    for (int d = outer - 1; d >= 0; --d) {
      offset += view.strides[d];
      if (++index[d] < view.sizes[d]) break;
      offset -= view.strides[d] * view.sizes[d];
      index[d] = 0;
    }
  }
}

// The elements of a view from the device, one after another.
std::vector<char> read_dense(Device& device, const View& from, Stream& stream) {
  const int64_t item = info(from.dtype).bytes;
  int64_t first = 0, last = 0;
  for (int d = 0; d < from.ndim; ++d) {
    (from.strides[d] < 0 ? first : last) += (from.sizes[d] - 1) * from.strides[d];
  }
  std::vector<char> span((last - first + 1) * item), dense(from.numel() * item);
  device.copy_to_host(span.data(), static_cast<const char*>(from.data) + first * item, span.size(), stream);
  stream.synchronize();
  char* to = dense.data();
  for_each_run(from, from.ndim, [&](int64_t offset) {
    std::memcpy(to, span.data() + (offset - first) * item, item);
    to += item;
  });
  return dense;
}

}  // namespace

void copy_through_host(Device& device, const View& to, const View& from) {
  if (to.dtype != from.dtype) {
    throw Error(HP_NOT_SUPPORTED,
                device.name() + " has no kernel that converts " + info(from.dtype).name + " to " + info(to.dtype).name);
  }
  if (to.numel() == 0) return;
  Stream& stream = current_stream(device);
  const std::vector<char> dense = read_dense(device, from, stream);
  // Run by run: the bytes between belong to others.
  const int64_t item = info(to.dtype).bytes;
  int outer = to.ndim;
  int64_t run = 1;
  while (outer > 0 && (to.sizes[outer - 1] == 1 || to.strides[outer - 1] == run)) run *= to.sizes[--outer];
  const char* next = dense.data();
  for_each_run(to, outer, [&](int64_t offset) {
    device.copy_to_device(static_cast<char*>(to.data) + offset * item, next, run * item, stream);
    next += run * item;
  });
  stream.synchronize();
}

}  // namespace hp
