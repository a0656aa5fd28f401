// copy: any strides and dtypes on both sides.
#include <cstring>

#include "kernels/strided_loop.h"

namespace sim {

namespace {

// Copies elements of `bytes` bytes without interpreting them.
template <int bytes>
struct Move {
  struct Element {
    unsigned char raw[bytes];
  };
  StridedLoop<2> loop;

  void operator()() const {
    loop.in_parallel([](const StridedLoop<2>& part) { Move{part}.move(); });
  }

 private:
  void move() const {
    const int64_t n = loop.size[0], out_stride = loop.stride[0][0], in_stride = loop.stride[1][0];
    if (out_stride == bytes && in_stride == bytes) {
      loop.for_each_row([&](char* const(&at)[2]) { memmove(at[0], at[1], static_cast<size_t>(n) * bytes); });
    } else {
      loop.for_each_row([&](char* const(&at)[2]) { run(at[0], out_stride, at[1], in_stride, n); });
    }
  }

  static void run(char* out, int64_t out_stride, const char* in, int64_t in_stride, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      *reinterpret_cast<Element*>(out + i * out_stride) = *reinterpret_cast<const Element*>(in + i * in_stride);
  }
};

// Converts n elements of a row.
using ConvertRow = void (*)(char* out, int64_t out_stride, const char* in, int64_t in_stride, int64_t n);

template <class To, class From>
inline __attribute__((always_inline)) void convert_each(char* out, int64_t out_stride, const char* in,
                                                        int64_t in_stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const From x = *reinterpret_cast<const From*>(in + i * in_stride);
    *reinterpret_cast<To*>(out + i * out_stride) = Arithmetic<To>::store(convert<Value<To>>(Arithmetic<From>::load(x)));
  }
}

template <class To, class From>
void convert_row(char* out, int64_t out_stride, const char* in, int64_t in_stride, int64_t n) {
  if (out_stride == sizeof(To) && in_stride == sizeof(From)) {
    convert_each<To, From>(out, sizeof(To), in, sizeof(From), n);  // constant strides: vectorized
  } else {
    convert_each<To, From>(out, out_stride, in, in_stride, n);
  }
}

// Not a template over the dtypes: there are many pairs, and each would take long to compile.
struct Convert {
  StridedLoop<2> loop;
  ConvertRow row;

  void operator()() const {
    loop.in_parallel([row = row](const StridedLoop<2>& part) {
      const int64_t n = part.size[0], out_stride = part.stride[0][0], in_stride = part.stride[1][0];
      part.for_each_row([&](char* const(&at)[2]) { row(at[0], out_stride, at[1], in_stride, n); });
    });
  }
};

template <class Work>
int launch(const Call& call, const DLTensor& out, const Work& work, size_t bytes) {
  return call.launch(out.device.device_id, static_cast<size_t>(work.loop.numel) * bytes, work);
}

int launch_move(const Call& call, const DLTensor& out, const StridedLoop<2>& loop) {
  switch (out.dtype.bits * out.dtype.lanes) {
    case 8:
      return launch(call, out, Move<1>{loop}, 2);
    case 16:
      return launch(call, out, Move<2>{loop}, 4);
    case 32:
      return launch(call, out, Move<4>{loop}, 8);
    case 64:
      return launch(call, out, Move<8>{loop}, 16);
    case 128:
      return launch(call, out, Move<16>{loop}, 32);
    default:
      return call.unsupported(out.dtype);
  }
}

bool is_transposed(const StridedLoop<2>& loop, DLDataType dtype) {
  const int64_t bytes = dtype.bits / 8;
  bool runs_elsewhere = false;
  for (int d = 1; d < loop.dims; ++d) runs_elsewhere |= loop.stride[1][d] == bytes;
  return runs_elsewhere && loop.stride[0][0] == bytes && loop.stride[1][0] != bytes;
}

bool converts_half(const DLTensor& out, const DLTensor& in) {
  return !same_dtype(out.dtype, in.dtype) && (is_half(out.dtype) || is_half(in.dtype)) &&
         out.dtype.code != kDLComplex && in.dtype.code != kDLComplex;
}

int copy(const Call& call) {
  const DLTensor *out, *in;
  StridedLoop<2> loop;
  if (int error = call.expect(2)) return error;
  if (int error = call.tensor(0, &out)) return error;
  if (int error = call.tensor(1, &in)) return error;
  if (out->dtype.lanes != 1) return call.unsupported(out->dtype);
  if (in->dtype.lanes != 1) return call.unsupported(in->dtype);
  const DLTensor* const tensors[2] = {out, in};
  if (int error = make_strided_loop(call, tensors, &loop)) return error;
  if (loop.numel == 0) return 0;
  if (loop.numel >= kPortableMinElements && (is_transposed(loop, in->dtype) || converts_half(*out, *in)))
    return call.defer_to_portable();
  if (same_dtype(out->dtype, in->dtype)) return launch_move(call, *out, loop);

  const auto unsupported = [&] {
    return host->raise("NotImplementedError", "sim: copy does not convert %s to %s", dtype_name(in->dtype).c_str(),
                       dtype_name(out->dtype).c_str());
  };
  const auto convert_to = [&](auto to) {
    const auto convert_from = [&](auto from) {
      using To = typename decltype(to)::Type;
      using From = typename decltype(from)::Type;
      if constexpr (std::is_same_v<To, From>) {
        return unsupported();  // unreachable: equal dtypes are moved above
      } else {
        return launch(call, *out, Convert{loop, convert_row<To, From>}, sizeof(To) + sizeof(From));
      }
    };
    return dispatch(in->dtype, convert_from, unsupported);
  };
  return dispatch(out->dtype, convert_to, unsupported);
}

}  // namespace

}  // namespace sim

SIM_KERNEL(copy, sim::copy)
