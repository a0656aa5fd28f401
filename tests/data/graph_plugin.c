/* plugin.c with a compiler of subgraphs: products and sums of float32 tensors of one shape become one loop. */
#include "plugin.c"

#define MOST 16

/* Registers: the inputs, then the nodes. */
typedef struct {
  int inputs, nodes, output;
  int from[MOST][2], product[MOST];
} Program;

static const char* text(const void* args) {
  const TVMFFIAny* arg = args;
  if (arg->type_index == kTVMFFIRawStr) return arg->v_c_str;
  return ((const TVMFFIByteArray*)((const char*)arg->v_obj + sizeof(TVMFFIObject)))->data;
}

/* The rest of the text behind a word, or null. */
static const char* behind(const char* at, const char* word) {
  at = at ? strstr(at, word) : NULL;
  return at ? at + strlen(word) : NULL;
}

/* The register of the name that the text begins with; -1 if there is none. */
static int find(const char* at, char names[][32], int count) {
  for (int i = 0; at && i < count; ++i) {
    const size_t length = strlen(names[i]);
    if (strncmp(at, names[i], length) == 0 && at[length] == '"') return i;
  }
  return -1;
}

static void keep(char* name, const char* at) {
  size_t length = strcspn(at, "\"");
  if (length > 31) length = 31;
  memcpy(name, at, length);
  name[length] = 0;
}

static int run(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  const Program* p = self;
  const DLTensor* out = args[0].v_ptr;
  int64_t count = 1;
  (void)result;
  if (num_args != p->inputs + 1) return host->raise("RuntimeError", "%d arguments", (int)num_args);
  for (int d = 0; d < out->ndim; ++d) count *= out->shape[d];
  for (int64_t i = 0; i < count; ++i) {
    float value[2 * MOST];
    for (int k = 0; k < p->inputs; ++k) value[k] = ((const float*)((const DLTensor*)args[k + 1].v_ptr)->data)[i];
    for (int k = 0; k < p->nodes; ++k) {
      const float a = value[p->from[k][0]], b = value[p->from[k][1]];
      value[p->inputs + k] = p->product[k] ? a * b : a + b;
    }
    ((float*)out->data)[i] = value[p->output];
  }
  return 0;
}

HP_EXPORT int __tvm_ffi_graph_supports(void* self, const void* args, int32_t num_args, void* result) {
  const char* node = text(args);
  TVMFFIAny* answer = result;
  (void)self, (void)num_args;
  answer->type_index = kTVMFFIBool;
  answer->zero_padding = 0;
  answer->v_int64 = (strstr(node, "\"operator\": \"aten::mul\", \"overload\": \"Tensor\"") ||
                     strstr(node, "\"operator\": \"aten::add\", \"overload\": \"Tensor\"")) &&
                    strstr(node, "\"other\": {\"node\"") && strstr(node, "float32") && !strstr(node, "null");
  return 0;
}

HP_EXPORT int __tvm_ffi_graph_compile(void* self, const void* args, int32_t num_args, void* result) {
  const char *at = behind(text(args), "\"inputs\": ["), *nodes = behind(at, "\"nodes\": ["),
             *outputs = behind(nodes, "\"outputs\": [");
  Program* p = calloc(1, sizeof(*p));
  char names[2 * MOST][32];
  TVMFFIAny* answer = result;
  (void)self, (void)num_args;
  if (getenv("TEST_GRAPH_FAILS")) return host->raise("RuntimeError", "out of tiles");
  while ((at = behind(at, "\"name\": \"")) && at < nodes && p->inputs < MOST) keep(names[p->inputs++], at);
  for (at = nodes; (at = behind(at, "\"name\": \"")) && at < outputs && p->nodes < MOST;) {
    const int k = p->nodes++;
    keep(names[p->inputs + k], at);
    p->product[k] = strncmp(behind(at, "\"operator\": \""), "aten::mul", 9) == 0;
    p->from[k][0] = find(behind(at, "\"self\": {\"node\": \""), names, p->inputs + k);
    p->from[k][1] = find(behind(at, "\"other\": {\"node\": \""), names, p->inputs + k);
    if (p->from[k][0] < 0 || p->from[k][1] < 0) return host->raise("NotImplementedError", "numbers");
  }
  p->output = find(behind(outputs, "\"node\": \""), names, p->inputs + p->nodes);
  if (strstr(outputs, "}, {")) return host->raise("NotImplementedError", "several outputs");
  answer->type_index = kTVMFFIFunction;
  answer->zero_padding = 0;
  return TVMFFIFunctionCreate(p, run, free, (TVMFFIObjectHandle*)&answer->v_obj);
}
