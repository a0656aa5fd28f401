// add, mul, relu and fill, as one binary loop: relu is a maximum with 0, fill ignores its second operand.
#include <type_traits>

#include "kernels/strided_loop.h"

namespace sim {

namespace {

// Integers must wrap around, which only unsigned types guarantee.
template <class T>
auto wrapping(T x) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    return static_cast<std::common_type_t<std::make_unsigned_t<T>, unsigned>>(x);
  } else {
    return x;
  }
}

template <class T>
T sum(T a, T b) {
  if constexpr (IsComplex<T>::value) {
    return {a.re + b.re, a.im + b.im};
  } else if constexpr (std::is_same_v<T, bool>) {
    return a | b;
  } else {
    return static_cast<T>(wrapping(a) + wrapping(b));
  }
}

template <class T>
T product(T a, T b) {
  if constexpr (IsComplex<T>::value) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  } else if constexpr (std::is_same_v<T, bool>) {
    return a & b;
  } else {
    return static_cast<T>(wrapping(a) * wrapping(b));
  }
}

template <class T>
struct Add {
  T operator()(T a, T b) const { return sum(a, b); }
};
template <class T>
struct AddScaled {
  T alpha;
  T operator()(T a, T b) const { return sum(a, product(alpha, b)); }
};
template <class T>
struct Multiply {
  T operator()(T a, T b) const { return product(a, b); }
};
template <class T>
struct Maximum {
  T operator()(T a, T b) const { return a < b ? b : a; }  // keeps a NaN in `a`
};
template <class T>
struct First {
  T operator()(T a, T) const { return a; }
};

template <class T>
struct Array {
  const T* data;
  Value<T> operator[](int64_t i) const { return Arithmetic<T>::load(data[i]); }
};
template <class T>
struct Constant {
  Value<T> value;
  Value<T> operator[](int64_t) const { return value; }
};
template <class T>
struct Strided {
  const char* data;  // null for a number
  int64_t stride;
  Value<T> value;
  Value<T> operator[](int64_t i) const {
    return data ? Arithmetic<T>::load(*reinterpret_cast<const T*>(data + i * stride)) : value;
  }
};

// ivdep: in-place operators pass the same address twice, but iterations are independent. The AVX2 version avoids FMA,
// so both versions round the same way.
template <class T, class Op, class A, class B>
void dense_row_baseline(Op op, T* out, A a, B b, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = Arithmetic<T>::store(op(a[i], b[i]));
}

#if defined(__x86_64__)
template <class T, class Op, class A, class B>
__attribute__((target("avx2"))) void dense_row_avx2(Op op, T* out, A a, B b, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = Arithmetic<T>::store(op(a[i], b[i]));
}
const bool has_avx2 = __builtin_cpu_supports("avx2");
#endif

template <class T, class Op, class A, class B>
void dense_row(Op op, char* out, A a, B b, int64_t n) {
#if defined(__x86_64__)
  if (has_avx2) return dense_row_avx2<T>(op, reinterpret_cast<T*>(out), a, b, n);
#endif
  dense_row_baseline<T>(op, reinterpret_cast<T*>(out), a, b, n);
}

template <class T, class Op>
struct Pointwise {
  StridedLoop<3> loop;
  Op op;
  Value<T> numbers[2];  // for operands without data

  void operator()() const {
    loop.in_parallel([this](const StridedLoop<3>& part) {
      const Pointwise piece{part, op, {numbers[0], numbers[1]}};
      part.for_each_row([&piece](char* const(&at)[3]) { piece.row(at[0], at[1], at[2]); });
    });
  }

 private:
  // An operand with stride 0 along the row.
  Constant<T> constant(int operand, const char* at) const {
    return {at ? Arithmetic<T>::load(*reinterpret_cast<const T*>(at)) : numbers[operand]};
  }

  void row(char* out, const char* a, const char* b) const {
    constexpr int64_t kDense = sizeof(T);
    const int64_t n = loop.size[0], out_stride = loop.stride[0][0];
    const int64_t a_stride = loop.stride[1][0], b_stride = loop.stride[2][0];
    if (out_stride == kDense) {
      const Array<T> a_array{reinterpret_cast<const T*>(a)}, b_array{reinterpret_cast<const T*>(b)};
      if (a_stride == kDense && b_stride == kDense) return dense_row<T>(op, out, a_array, b_array, n);
      if (a_stride == kDense && b_stride == 0) return dense_row<T>(op, out, a_array, constant(1, b), n);
      if (a_stride == 0 && b_stride == kDense) return dense_row<T>(op, out, constant(0, a), b_array, n);
      if (a_stride == 0 && b_stride == 0) return dense_row<T>(op, out, constant(0, a), constant(1, b), n);
    }
    const Strided<T> a_strided{a, a_stride, numbers[0]}, b_strided{b, b_stride, numbers[1]};
    for (int64_t i = 0; i < n; ++i)
      *reinterpret_cast<T*>(out + i * out_stride) = Arithmetic<T>::store(op(a_strided[i], b_strided[i]));
  }
};

struct Operands {
  const DLTensor *out, *a = nullptr, *b = nullptr;
  Number a_number, b_number;
};

template <class T, class Op>
int launch(const Call& call, const Operands& operands, Op op) {
  Pointwise<T, Op> work;
  work.op = op;
  const DLTensor* const tensors[3] = {operands.out, operands.a, operands.b};
  if (int error = make_strided_loop(call, tensors, &work.loop)) return error;
  if (work.loop.numel == 0) return 0;
  if (work.loop.numel >= kPortableMinElements && operands.a && is_half(operands.out->dtype))
    return call.defer_to_portable();
  work.numbers[0] = operands.a_number.as<Value<T>>();
  work.numbers[1] = operands.b_number.as<Value<T>>();
  const size_t bytes = static_cast<size_t>(work.loop.numel) * (1 + !!operands.a + !!operands.b) * sizeof(T);
  return call.launch(operands.out->device.device_id, bytes, work);
}

int read_operands(const Call& call, Operands* operands) {
  if (int error = call.tensor(0, &operands->out)) return error;
  if (int error = call.operand(1, &operands->a, &operands->a_number)) return error;
  if (int error = call.operand(2, &operands->b, &operands->b_number)) return error;
  for (const DLTensor* input : {operands->a, operands->b})
    if (input && !same_dtype(input->dtype, operands->out->dtype))
      return call.wrong_dtype(operands->out->dtype, input->dtype);
  return 0;
}

// Calls f(Tag<T>{}) for the dtype of the output.
template <class F>
int for_dtype(const Call& call, const Operands& operands, F&& f) {
  const DLDataType dtype = operands.out->dtype;
  return dispatch(dtype, f, [&] { return call.unsupported(dtype); });
}

int add(const Call& call) {
  Operands operands;
  Number alpha;
  if (int error = call.expect(4)) return error;
  if (int error = read_operands(call, &operands)) return error;
  if (int error = call.number(3, &alpha)) return error;
  return for_dtype(call, operands, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using V = Value<T>;
    if (alpha.is_one()) return launch<T>(call, operands, Add<V>{});
    return launch<T>(call, operands, AddScaled<V>{alpha.as<V>()});
  });
}

int mul(const Call& call) {
  Operands operands;
  if (int error = call.expect(3)) return error;
  if (int error = read_operands(call, &operands)) return error;
  return for_dtype(call, operands, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return launch<T>(call, operands, Multiply<Value<T>>{});
  });
}

int relu(const Call& call) {
  Operands operands;
  if (int error = call.expect(2)) return error;
  if (int error = call.tensor(0, &operands.out)) return error;
  if (int error = call.tensor(1, &operands.a)) return error;
  if (!same_dtype(operands.a->dtype, operands.out->dtype))
    return call.wrong_dtype(operands.out->dtype, operands.a->dtype);
  return for_dtype(call, operands, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (IsComplex<T>::value || std::is_same_v<T, Bool>) {
      return call.unsupported(operands.out->dtype);
    } else {
      return launch<T>(call, operands, Maximum<Value<T>>{});
    }
  });
}

int fill(const Call& call) {
  Operands operands;
  if (int error = call.expect(2)) return error;
  if (int error = call.tensor(0, &operands.out)) return error;
  if (int error = call.number(1, &operands.a_number)) return error;
  return for_dtype(call, operands, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return launch<T>(call, operands, First<Value<T>>{});
  });
}

}  // namespace

}  // namespace sim

SIM_KERNEL(add, sim::add)
SIM_KERNEL(mul, sim::mul)
SIM_KERNEL(relu, sim::relu)
SIM_KERNEL(fill, sim::fill)
