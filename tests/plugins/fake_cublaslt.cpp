// cuBLASLt for a machine that has none: products of float32 and bfloat16 on the host.
#include <cstddef>
#include <cstdint>
#include <cstring>

#define API extern "C" __attribute__((visibility("default"))) int

namespace {

enum { kFloat = 0, kBfloat = 14, kNotSupported = 15 };

// Of a product, a matrix or a preference.
struct Descriptor {
  int type = 0;
  uint64_t rows = 0, columns = 0;  // columns lie side by side
  int64_t ld = 0, step = 0;
  int32_t batch = 1, transposed[2] = {0, 0}, epilogue = 0;
  const void* bias = nullptr;
};

float get(const Descriptor& d, const void* data, int64_t index) {
  if (d.type == kFloat) return static_cast<const float*>(data)[index];
  const uint32_t bits = uint32_t{static_cast<const uint16_t*>(data)[index]} << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
void put(const Descriptor& d, void* data, int64_t index, float value) {
  if (d.type == kFloat) {
    static_cast<float*>(data)[index] = value;
    return;
  }
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  static_cast<uint16_t*>(data)[index] = static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
bool known(const Descriptor* d) { return d->type == kFloat || d->type == kBfloat; }

}  // namespace

API cublasLtCreate(void** handle) { return *handle = new int, 0; }
API cublasLtMatmulDescCreate(Descriptor** made, int, int) { return *made = new Descriptor, 0; }
API cublasLtMatmulDescSetAttribute(Descriptor* d, int attribute, const void* from, size_t size) {
  void* const to = attribute == 3   ? &d->transposed[0]
                   : attribute == 4 ? &d->transposed[1]
                   : attribute == 7 ? &d->epilogue
                   : attribute == 8 ? static_cast<void*>(&d->bias)
                                    : nullptr;
  return to ? (memcpy(to, from, size), 0) : kNotSupported;
}
API cublasLtMatrixLayoutCreate(Descriptor** made, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  if (ld < static_cast<int64_t>(rows)) return 7;
  *made = new Descriptor;
  (*made)->type = type;
  (*made)->rows = rows;
  (*made)->columns = columns;
  (*made)->ld = ld;
  return 0;
}
API cublasLtMatrixLayoutSetAttribute(Descriptor* d, int attribute, const void* from, size_t size) {
  if (attribute == 5) memcpy(&d->batch, from, size);
  if (attribute == 6) memcpy(&d->step, from, size);
  return 0;
}
API cublasLtMatmulPreferenceCreate(Descriptor** made) { return *made = new Descriptor, 0; }
API cublasLtMatmulPreferenceSetAttribute(Descriptor*, int, const void*, size_t) { return 0; }
API cublasLtMatmulPreferenceDestroy(Descriptor* d) { return delete d, 0; }
API cublasLtMatmulAlgoGetHeuristic(void*, Descriptor*, Descriptor* a, Descriptor* b, Descriptor*, Descriptor* out,
                                   Descriptor*, int, void* best, int* count) {
  memset(best, 0, 96);  // no workspace, status 0
  *count = known(a) && known(b) && known(out);
  return *count ? 0 : kNotSupported;
}
API cublasLtMatmul(void*, Descriptor* product, const float* alpha, const void* a_data, Descriptor* a,
                   const void* b_data, Descriptor* b, const float* beta, const void* c_data, Descriptor* c, void* data,
                   Descriptor* out, const void*, void*, size_t, void*) {
  const bool turned_a = product->transposed[0] != 0, turned_b = product->transposed[1] != 0;
  const int64_t inner = static_cast<int64_t>(turned_a ? a->rows : a->columns);
  for (int64_t at = 0; at < out->batch; ++at) {
    for (int64_t j = 0; j < static_cast<int64_t>(out->columns); ++j) {
      for (int64_t i = 0; i < static_cast<int64_t>(out->rows); ++i) {
        float sum = 0;
        for (int64_t k = 0; k < inner; ++k) {
          sum += get(*a, a_data, at * a->step + (turned_a ? i * a->ld + k : k * a->ld + i)) *
                 get(*b, b_data, at * b->step + (turned_b ? k * b->ld + j : j * b->ld + k));
        }
        sum *= *alpha;
        if (*beta != 0) sum += *beta * get(*c, c_data, at * c->step + j * c->ld + i);
        if (product->epilogue == 4) sum += get(*out, product->bias, i);
        put(*out, data, at * out->step + j * out->ld + i, sum);
      }
    }
  }
  return 0;
}
