// The kernels of `sim` itself: every dtype and layout against a reference, and what they decline.
#include "sim_tensor.h"

namespace {

struct Layout {
  const char* name;
  Shape shape, out, a, b;  // strides, empty for contiguous
};
const Layout kLayouts[] = {
    {"scalar", {}, {}, {}, {}},
    {"empty", {0, 3}, {}, {}, {}},
    {"2x3", {2, 3}, {}, {}, {}},
    {"long", {20011}, {}, {}, {}},
    {"no merging", {3, 5, 7}, {70, 14, 2}, {100, 17, 2}, {}},
    {"transposed input", {37, 41}, {}, {1, 37}, {}},
    {"transposed output", {37, 41}, {1, 37}, {}, {1, 37}},
    {"rows repeated", {9, 33}, {}, {}, {0, 1}},
    {"columns repeated", {9, 33}, {}, {1, 0}, {}},
    {"all repeated", {9, 33}, {}, {0, 0}, {0, 0}},
    {"channels last", {2, 3, 5, 7}, {105, 1, 21, 3}, {}, {105, 1, 21, 3}},
    {"permuted", {2, 3, 2, 5, 2, 3}, {}, {1, 2, 6, 12, 60, 120}, {180, 60, 1, 6, 30, 2}},
};

// Many 16-bit floats are left to the portable kernels.
bool is_declined(const Type& type, const Layout& layout) {
  return type.dtype.bits == 16 && type.dtype.code != kDLInt && strcmp(layout.name, "long") == 0;
}

void for_all_types(const std::function<void(const Type&, const Layout&, const std::string&)>& body) {
  for (const Type& type : kTypes)
    for (const Layout& layout : kLayouts)
      if (!is_declined(type, layout)) body(type, layout, std::string(type.name) + ", " + layout.name);
}

Reference bool_or(DLDataType t, Reference sum) { return t.code == kDLBool ? Reference(sum != 0.0) : sum; }

TEST(add) {
  for_all_types([](const Type& type, const Layout& layout, const std::string& what) {
    Tensor out(type.dtype, layout.shape, layout.out), a(type.dtype, layout.shape, layout.a),
        b(type.dtype, layout.shape, layout.b);
    a.pattern(1);
    b.pattern(4);
    for (int alpha : {1, 2}) {
      CALL("add", out, a, b, alpha);
      check_values(out, what, [&](int64_t i) { return bool_or(type.dtype, a.get(i) + double(alpha) * b.get(i)); });
    }
    CALL("add", out, a, 3, 1);
    check_values(out, what + ", number", [&](int64_t i) { return bool_or(type.dtype, a.get(i) + 3.0); });
    CALL("add", out, 3.0, b, 2);
    check_values(out, what + ", number first", [&](int64_t i) { return bool_or(type.dtype, 3.0 + 2.0 * b.get(i)); });
  });
}

TEST(mul) {
  for_all_types([](const Type& type, const Layout& layout, const std::string& what) {
    Tensor out(type.dtype, layout.shape, layout.out), a(type.dtype, layout.shape, layout.a),
        b(type.dtype, layout.shape, layout.b);
    a.pattern(2);
    b.pattern(3);
    CALL("mul", out, a, b);
    check_values(out, what, [&](int64_t i) { return a.get(i) * b.get(i); });
    CALL("mul", out, 2, b);
    check_values(out, what + ", number", [&](int64_t i) { return 2.0 * b.get(i); });
  });
}

TEST(relu) {
  for_all_types([](const Type& type, const Layout& layout, const std::string& what) {
    Tensor out(type.dtype, layout.shape, layout.out), a(type.dtype, layout.shape, layout.a);
    a.pattern(1);
    if (type.dtype.code == kDLBool || type.dtype.code == kDLComplex) {
      CHECK(call("relu", out, a) != 0);
      CHECK(raised == std::string("NotImplementedError: sim: relu does not support ") + type.name);
      return;
    }
    CALL("relu", out, a);
    check_values(out, what, [&](int64_t i) { return std::max(a.get(i).real(), 0.0); });
  });
  Tensor x(kFloat, {3});
  x.fill_host({-INFINITY, NAN, INFINITY});
  CALL("relu", x, x);
  synchronize();
  x.read();
  CHECK(x.get(0) == 0.0 && std::isnan(x.get(1).real()) && x.get(2) == Reference(INFINITY));
}

TEST(fill) {
  for_all_types([](const Type& type, const Layout& layout, const std::string& what) {
    Tensor out(type.dtype, layout.shape, layout.out);
    for (int value : {0, 1, -3}) {
      CALL("fill", out, value);
      check_values(out, what, [&](int64_t) { return value; });
    }
  });
  Tensor big(kTypes[7].dtype, {2});
  TVMFFIAny arguments[2] = {argument(big), argument(0)};
  arguments[1].v_int64 = INT64_MAX;
  CHECK(symbol<HpKernelFunction>("__tvm_ffi_fill")(nullptr, arguments, 2, nullptr) == 0);
  synchronize();
  big.read();
  int64_t stored;
  memcpy(&stored, big.storage.data(), 8);
  CHECK(stored == INT64_MAX);
}

TEST(copy) {
  for (const Type& to : kTypes) {
    for_all_types([&to](const Type& from, const Layout& layout, const std::string& what) {
      if (is_declined(to, layout)) return;
      Tensor out(to.dtype, layout.shape, layout.out), in(from.dtype, layout.shape, layout.a);
      in.pattern(5);
      CALL("copy", out, in);
      check_values(out, what + " to " + to.name, [&](int64_t i) { return in.get(i); });
    });
  }
  // Fractions are cut, and are true.
  Tensor real(kFloat, {4}), whole(kTypes[6].dtype, {4}), truth(kTypes[9].dtype, {4});
  real.fill_host({-1.75, 0.5, 0, 1e6});
  CALL("copy", whole, real);
  CALL("copy", truth, real);
  check_values(whole, "cut", [](int64_t i) { return std::vector<double>{-1, 0, 0, 1000000}[static_cast<size_t>(i)]; });
  check_values(truth, "truth", [](int64_t i) { return i != 2; });
}

TEST(many_16_bit_floats_are_declined) {
  for (const Type& type : {kTypes[2], kTypes[3]}) {
    Tensor half(type.dtype, {4096}), few(type.dtype, {4095}), wide(kFloat, {4096});
    const auto declined = [](const char* kernel, int status) {
      CHECK(status != 0);
      CHECK(raised == std::string("NotImplementedError: sim: the portable kernel is faster for this ") + kernel);
    };
    declined("add", call("add", half, half, half, 1));
    declined("mul", call("mul", half, half, 2));
    declined("relu", call("relu", half, half));
    declined("copy", call("copy", half, wide));
    declined("copy", call("copy", wide, half));
    CALL("add", few, few, few, 1);
    CALL("fill", half, 1);
    CALL("copy", half, half);
  }
  synchronize();
}

TEST(rounding_of_16_bit_floats) {
  std::vector<double> values = {
      0,       65504,   65519.99609375,       65520, 1e30, -1e30, 5.9604644775390625e-08, 2.98e-08, 3e-08,
      6.1e-05, 3.39e38, 3.3961775292304601e38};
  uint32_t state = 1;
  while (values.size() < 4000) {  // all exponents, and ties
    state = state * 1664525 + 1013904223;
    uint32_t bits = values.size() % 2 ? state : (state & 0xfffff000u);
    float value;
    memcpy(&value, &bits, sizeof value);
    if (std::isfinite(value)) values.push_back(value);
  }
  const int64_t n = static_cast<int64_t>(values.size());
  Tensor wide(kFloat, {n}), half(kTypes[2].dtype, {n}), bfloat(kTypes[3].dtype, {n});
  wide.fill_host(values);
  CALL("copy", half, wide);
  CALL("copy", bfloat, wide);
  check_values(half, "float16", [&](int64_t i) { return wide.get(i); });
  check_values(bfloat, "bfloat16", [&](int64_t i) { return wide.get(i); });
  // Computed in float, rounded once.
  Tensor sum(kTypes[2].dtype, {n});
  CALL("add", sum, half, 0.1, 1);
  half.read();
  check_values(sum, "float16 + 0.1", [&](int64_t i) { return static_cast<float>(half.get(i).real()) + 0.1f; });
}

TEST(integers_wrap) {
  Tensor a(kTypes[4].dtype, {3});
  a.fill_host({127, -128, 100});
  CALL("add", a, a, 1, 1);
  check_values(a, "int8", [](int64_t i) { return std::vector<double>{-128, -127, 101}[static_cast<size_t>(i)]; });
}

void check_matmul(DLDataType dtype, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool tout) {
  const auto tensor = [&](int64_t rows, int64_t columns, bool transposed) {
    Shape shape = {rows, columns}, strides = transposed ? Shape{1, rows} : Shape{columns, 1};
    if (batch > 0) {
      shape.insert(shape.begin(), batch);
      strides.insert(strides.begin(), rows * columns);
    }
    return std::make_unique<Tensor>(dtype, shape, strides);
  };
  const auto a = tensor(m, k, ta), b = tensor(k, n, tb), out = tensor(m, n, tout);
  a->pattern(1);
  b->pattern(3);
  CALL("matmul", *out, *a, *b);
  char what[128];
  snprintf(what, sizeof what, "matmul code %d bits %d: %lldx %lldx%lldx%lld %d%d%d", dtype.code, dtype.bits,
           (long long)batch, (long long)m, (long long)n, (long long)k, ta, tb, tout);
  check_values(*out, what, [&](int64_t index) {
    const int64_t i = index / n % m, j = index % n, at = index / (m * n);
    double sum = 0;
    for (int64_t p = 0; p < k; ++p) sum += a->get((at * m + i) * k + p).real() * b->get((at * k + p) * n + j).real();
    return sum;
  });
}
TEST(matmul) {
  for (const Type& type : kTypes) {
    if (!is_floating(type.dtype) && !(type.dtype.code == kDLInt && type.dtype.bits >= 32)) {
      Tensor x(type.dtype, {2, 2});
      CHECK(call("matmul", x, x, x) != 0);
      CHECK(raised == std::string("NotImplementedError: sim: matmul does not support ") + type.name);
      continue;
    }
    for (int variant = 0; variant < 8; ++variant) {
      const bool ta = variant & 1, tb = variant & 2, tout = variant & 4;
      check_matmul(type.dtype, 0, 2, 3, 4, ta, tb, tout);
      check_matmul(type.dtype, 0, 65, 47, 33, ta, tb, tout);
      check_matmul(type.dtype, 3, 17, 40, 19, ta, tb, tout);
    }
    check_matmul(type.dtype, 0, 1, 200, 300, false, true, false);
    check_matmul(type.dtype, 0, 4, 4, 0, false, false, false);  // an empty sum is 0
  }
  check_matmul(kFloat, 0, 150, 1100, 270, false, false, false);  // more than one block each way
  Tensor a(kFloat, {2, 3}), wrong(kFloat, {2, 3});
  CHECK(call("matmul", a, a, wrong) != 0);
  CHECK_TEXT(raised, "ValueError: sim: matmul: expected [m, n] = [m, k] x [k, n]");
}

TEST(unsupported_calls_are_handed_on) {
  Tensor a(kFloat, {2, 3}), b(kTypes[1].dtype, {2, 3}), c(kFloat, {3, 2}), odd({kDLUInt, 32, 1}, {2, 3});
  CHECK(call("add", a, a, b, 1) != 0);
  CHECK_TEXT(raised, "NotImplementedError: sim: the operands of add must have the same dtype, got float32 and float64");
  CHECK(call("add", odd, odd, odd, 1) != 0);
  CHECK_TEXT(raised, "NotImplementedError: sim: add does not support uint32");
  CHECK(call("copy", a, odd) != 0);
  CHECK_TEXT(raised, "NotImplementedError: sim: copy does not convert uint32 to float32");
  CHECK(call("mul", a, a, c) != 0);
  CHECK_TEXT(raised, "ValueError");
  CHECK(call("mul", a, a) != 0);
  CHECK_TEXT(raised, "TypeError: sim: mul takes 3 arguments, got 2");
  Tensor deep(kFloat, {2, 2, 2, 2, 2, 2, 2, 2, 2}, {3, 7, 17, 37, 79, 163, 331, 673, 1361}), flat(kFloat, deep.shape);
  CHECK(call("relu", flat, deep) != 0);
  CHECK_TEXT(raised, "NotImplementedError: sim: relu takes at most 8 dimensions");
}

}  // namespace

SIM_MAIN
