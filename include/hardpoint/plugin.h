/* Hardpoint plug-in contract.
 *
 * A plug-in is a shared library that exports one function, hp_plugin_init, and optionally kernels. It provides a table
 * of C functions, which Hardpoint turns into a PyTorch and a PaddlePaddle device. This header is the whole contract:
 * C11, no framework, no C++. docs/reference/abi.md explains it and contains a complete example and the changelog.
 *
 * Rules that apply to everything below:
 *  - Every table starts with `size_t struct_size`, which the plug-in sets to the size it was compiled with. Tables only
 *    grow at their end; a field that is NULL or beyond struct_size means "not provided". The elements of arrays
 *    (HpKernel, HpLaunchArg) never change.
 *  - A plug-in has no current device: calls name theirs, except for pinned memory (any device) and communicators, which
 *    belong to one.
 *  - Functions may be called from any thread, concurrently.
 *  - No exception may cross this boundary: a function returns HP_OK, or host->fail(status, message).
 *  - Strings and tables that the plug-in returns must stay valid and unchanged until the process ends.
 *  - A child of fork() cannot use a device that its parent used. Functions return an error there, except `free`,
 *    `destroy`, `unload` and `release_binary`, which do nothing and return HP_OK.
 */
#ifndef HARDPOINT_PLUGIN_H_
#define HARDPOINT_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HP_ABI_MAJOR 1 /* must match the host's */
#define HP_ABI_MINOR 1 /* may be older or newer */

/* Required alignment of the pointers that `allocate` returns, in bytes. */
#define HP_ALIGNMENT 64

/* DLPack device type of the tensors passed to kernels (kDLExtDev). */
#define HP_DLPACK_DEVICE_TYPE 12

#if defined(_WIN32)
#define HP_EXPORT __declspec(dllexport)
#else
#define HP_EXPORT __attribute__((visibility("default")))
#endif

typedef enum HpStatus {
  HP_OK = 0,
  HP_ERROR = 1,            /* any other failure */
  HP_INVALID_ARGUMENT = 2, /* the caller made a mistake */
  HP_OUT_OF_MEMORY = 3,    /* Hardpoint returns its unused memory and retries */
  HP_NOT_SUPPORTED = 4,    /* declines this call: Hardpoint uses a fallback */
  HP_NOT_READY = 5,        /* still running; query functions only */
  HP_TIMEOUT = 6,          /* a wait exceeded its timeout */
  HP_DEVICE_LOST = 7       /* the device is unusable until the process restarts */
} HpStatus;

typedef enum HpLogLevel { HP_LOG_DEBUG = 0, HP_LOG_INFO = 1, HP_LOG_WARNING = 2, HP_LOG_ERROR = 3 } HpLogLevel;

/* Opaque handles, owned by the plug-in. A NULL stream is the device's default stream. */
typedef struct HpStream_* HpStream;
typedef struct HpEvent_* HpEvent;
typedef struct HpProgram_* HpProgram;
typedef struct HpFunction_* HpFunction;
typedef struct HpCommunicator_* HpCommunicator;

/* Functions that Hardpoint provides to the plug-in. The pointer stays valid until the process ends. */
typedef struct HpHost {
  size_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;

  void (*log)(HpLogLevel level, const char* message);

  /* Stores a printf-style message for this thread and returns `status`: `return host->fail(HP_ERROR, "bus %d", n);` */
  HpStatus (*fail)(HpStatus status, const char* format, ...);

  /* Raises a TVM-FFI error in a kernel and returns the error code that the kernel must return. The kind
   * "NotImplementedError", raised before anything was queued, hands the call to the next tier. */
  int (*raise)(const char* kind, const char* format, ...);

  /* The operator that this thread is launching, such as "aten::add.Tensor". Never NULL; valid until the process ends.
   * Store it with queued work, to name the operator if the work fails later. */
  const char* (*operator_name)(void);

  /* The current stream of this thread and device. Kernels queue their work on it. */
  HpStream (*current_stream)(int device);

  /* Scratch memory from Hardpoint's caching allocator, ordered on the current stream: free it as soon as the work that
   * uses it is queued. */
  HpStatus (*scratch_allocate)(int device, size_t bytes, void** ptr);
  void (*scratch_free)(int device, void* ptr);
} HpHost;

/* Streams (optional; default: one stream per device, and every call is synchronous). */
typedef struct HpStreams {
  size_t struct_size;
  /* `priority` is a hint: negative means more urgent. */
  HpStatus (*create)(int device, int priority, HpStream* stream);
  /* Does not wait: work that is still queued runs to its end. The caller does not use the handle again. */
  HpStatus (*destroy)(int device, HpStream stream);
  /* Waits until the work queued so far has finished. Returns and clears the first failure of that work, if any.
   * `timeout_ms` 0 means no timeout; a driver without a timed wait may ignore the timeout. */
  HpStatus (*synchronize)(int device, HpStream stream, uint32_t timeout_ms);
  /* HP_OK if all work is done, else HP_NOT_READY. (optional; default: synchronize) */
  HpStatus (*query)(int device, HpStream stream);
} HpStreams;

/* Events (optional; default: Hardpoint synchronizes streams instead). */
typedef struct HpEvents {
  size_t struct_size;
  HpStatus (*create)(int device, int with_timing, HpEvent* event);
  /* Does not wait, even if the latest record is pending. Streams that wait for the event still wait for the record. */
  HpStatus (*destroy)(int device, HpEvent event);
  /* An event may be recorded again, also while its latest record is pending. Later waits refer to the new record,
   * earlier ones to the old one. */
  HpStatus (*record)(int device, HpEvent event, HpStream stream);
  /* Makes work queued later on `stream`, a stream of `device`, wait for the event, which may belong to another device
   * of this plug-in. If work before the event failed and the failure has not been reported yet, `stream` fails too: the
   * program may never synchronize the other stream. */
  HpStatus (*wait)(int device, HpEvent event, HpStream stream);
  /* Blocks the calling thread until the latest record completes. `timeout_ms` as for streams. */
  HpStatus (*synchronize)(int device, HpEvent event, uint32_t timeout_ms);
  /* HP_OK or HP_NOT_READY. An event that was never recorded is done. */
  HpStatus (*query)(int device, HpEvent event);
  /* Milliseconds between two events created with_timing. (optional; default: timing raises an error) */
  HpStatus (*elapsed)(int device, HpEvent start, HpEvent end, double* milliseconds);
} HpEvents;

typedef struct HpProperties {
  size_t struct_size;    /* set by Hardpoint: write no more bytes than this. The rest is zero, which means unknown. */
  char name[128];        /* marketing name, zero-terminated */
  uint64_t total_memory; /* in bytes */
  int32_t compute_units;
  int32_t version_major; /* of the device's instruction set or generation, as the vendor counts */
  int32_t version_minor;
} HpProperties;

/* Device properties and memory usage (optional, as is each function; default: the plug-in's name, 0 bytes). */
typedef struct HpInfo {
  size_t struct_size;
  HpStatus (*properties)(int device, HpProperties* properties);
  HpStatus (*memory)(int device, uint64_t* free_bytes, uint64_t* total_bytes);
} HpInfo;

/* Page-locked host memory, for asynchronous copies (optional; default: pageable memory and synchronous copies). */
typedef struct HpPinned {
  size_t struct_size;
  HpStatus (*allocate)(size_t bytes, void** ptr);
  HpStatus (*free)(void* ptr);
} HpPinned;

/* Copies between two devices of this plug-in (optional; default: through the host). */
typedef struct HpPeer {
  size_t struct_size;
  /* Queued on `stream`, which belongs to src_device. HP_NOT_SUPPORTED: these two have no link, copy through the host.
   */
  HpStatus (*copy)(int dst_device, void* dst, int src_device, const void* src, size_t bytes, HpStream stream);
} HpPeer;

/* Memory shared between processes (optional; default: tensors are sent by copy). */
#define HP_IPC_HANDLE_BYTES 128
typedef struct HpInterprocess {
  size_t struct_size;
  /* `ptr` is an allocation of `bytes` bytes, from `allocate`. */
  HpStatus (*export_memory)(int device, void* ptr, size_t bytes, unsigned char handle[HP_IPC_HANDLE_BYTES]);
  HpStatus (*open_memory)(int device, const unsigned char handle[HP_IPC_HANDLE_BYTES], void** ptr);
  HpStatus (*close_memory)(int device, void* ptr);
} HpInterprocess;

/* Collectives between processes, one device per process (optional, as a whole and per function; default: through the
 * host). Every process of a group makes the same calls on its communicator in the same order; each send has a matching
 * receive. Calls queue work on `stream` and may return before it is done. A call may return HP_NOT_SUPPORTED before it
 * queues anything, to make Hardpoint use the fallback; this must depend only on arguments that are equal in all
 * processes. Work that the other processes do not join within the timeout fails: synchronizing the stream returns
 * HP_TIMEOUT, with a message that names the call and the missing rank. Sizes may be 0. */
#define HP_GROUP_ID_BYTES 128

typedef enum HpElement {
  HP_UINT8 = 0,
  HP_INT8 = 1,
  HP_INT16 = 2,
  HP_INT32 = 3,
  HP_INT64 = 4,
  HP_FLOAT16 = 5,
  HP_BFLOAT16 = 6,
  HP_FLOAT32 = 7,
  HP_FLOAT64 = 8
} HpElement;

typedef enum HpReduction { HP_SUM = 0, HP_PRODUCT = 1, HP_MIN = 2, HP_MAX = 3, HP_MEAN = 4 } HpReduction;

typedef struct HpCollectives {
  size_t struct_size;
  /* Called in one process of a group; Hardpoint distributes the id to the others. */
  HpStatus (*group_id)(unsigned char id[HP_GROUP_ID_BYTES]);
  /* HP_OK, or HP_NOT_SUPPORTED if this process cannot reach the others. Hardpoint calls `create` only if every process
   * can join. (optional; default: every process can) */
  HpStatus (*can_join)(int device, const unsigned char id[HP_GROUP_ID_BYTES]);
  /* Waits for the other processes. `timeout_ms` applies to this and to every later call; 0 means no timeout. */
  HpStatus (*create)(int device, const unsigned char id[HP_GROUP_ID_BYTES], int rank, int size, uint32_t timeout_ms,
                     HpCommunicator* communicator);
  /* Called when no work is queued on the communicator. */
  HpStatus (*destroy)(HpCommunicator communicator);
  /* Makes queued work fail, here and in the other processes. Callable from any thread. (optional; default: queued work
   * fails at its timeout) */
  HpStatus (*abort)(HpCommunicator communicator);

  /* Each is optional (default: through the host). `count` is in elements, `bytes` in bytes. `dst` may equal `src`; in
   * all_gather `src` may be this rank's part of `dst`, in reduce_scatter `dst` this rank's part of `src`. Buffers do
   * not overlap otherwise. */
  HpStatus (*all_reduce)(HpCommunicator communicator, void* dst, const void* src, size_t count, HpElement element,
                         HpReduction reduction, HpStream stream);
  HpStatus (*broadcast)(HpCommunicator communicator, void* data, size_t bytes, int root, HpStream stream);
  /* Writes `dst` on rank `root` only; it may be NULL on other ranks. */
  HpStatus (*reduce)(HpCommunicator communicator, void* dst, const void* src, size_t count, HpElement element,
                     HpReduction reduction, int root, HpStream stream);
  /* `bytes` and `count` are the size of one rank's part; the whole buffer has the parts in rank order. */
  HpStatus (*all_gather)(HpCommunicator communicator, void* dst, const void* src, size_t bytes, HpStream stream);
  HpStatus (*reduce_scatter)(HpCommunicator communicator, void* dst, const void* src, size_t count, HpElement element,
                             HpReduction reduction, HpStream stream);
  /* Part i of `src` goes to rank i; part i of `dst` comes from rank i. */
  HpStatus (*all_to_all)(HpCommunicator communicator, void* dst, const void* src, size_t bytes, HpStream stream);
  /* Sends and receives between two ranks are matched in order, per direction. Sends, receives and collectives may use
   * different streams, and must not wait for each other. */
  HpStatus (*send)(HpCommunicator communicator, const void* src, size_t bytes, int peer, HpStream stream);
  HpStatus (*receive)(HpCommunicator communicator, void* dst, size_t bytes, int peer, HpStream stream);
  /* Calls of this thread between group_start and group_end are collected. The outermost group_end queues them; calls on
   * the same stream run concurrently. (optional, both or neither; default: no collective is built from sends and
   * receives) */
  HpStatus (*group_start)(HpCommunicator communicator);
  HpStatus (*group_end)(HpCommunicator communicator);
} HpCollectives;

/* One kernel argument: a device pointer or a value. Owned by the caller; valid during the call. */
typedef struct HpLaunchArg {
  const void* value;   /* address of the pointer or of the value */
  uint32_t bytes;      /* size of the value */
  uint32_t is_pointer; /* 1 for a pointer into device memory */
} HpLaunchArg;

/* Compiles and launches Hardpoint's portable kernels (optional; default: vendor kernels, then the CPU). Hardpoint
 * generates the source in the device's dialect and caches the binaries in memory and on disk. */
typedef struct HpCompiler {
  size_t struct_size;
  /* "opencl", "cuda", or "c" (C11 with GNU extensions). A "c" kernel is a function
   *   void NAME(void *const *args, const uint32_t groups[3], uint64_t first, uint64_t last);
   * that runs groups first .. last-1, where groups[0] varies fastest; args[i] is the address of argument i. */
  const char* dialect;
  uint32_t group_size;   /* preferred work-items per group: 1 on a CPU, often 256 on a GPU */
  uint32_t local_memory; /* bytes of local memory per group */
  /* Identifies the compiler and the device model; the key of cached binaries. */
  const char* (*fingerprint)(int device);
  /* The plug-in owns the binary until release_binary. Returns HP_NOT_SUPPORTED if no compiler is installed. If the
   * source does not compile, the message contains the compiler's output. `options` are additional flags of the
   * dialect's compiler, separated by blanks; today always "". Floating-point contraction must be off: the kernels
   * round every product and sum separately. */
  HpStatus (*compile)(int device, const char* source, const char* options, void** binary, size_t* bytes);
  void (*release_binary)(void* binary);
  /* `binary` may be freed after the call. */
  HpStatus (*load)(int device, const void* binary, size_t bytes, HpProgram* program);
  HpStatus (*unload)(int device, HpProgram program);
  /* The function is valid until its program is unloaded. */
  HpStatus (*find)(int device, HpProgram program, const char* name, HpFunction* function);
  /* Queues groups[3] groups of group_size[3] work-items on `stream`. Must copy the arguments before it returns: at
   * most 224, with at most 4096 bytes of values and pointers. A launch cannot decline: any status but HP_OK, also
   * HP_NOT_SUPPORTED, is an error that reaches the user. */
  HpStatus (*launch)(int device, HpStream stream, HpFunction function, const uint32_t groups[3],
                     const uint32_t group_size[3], const HpLaunchArg* args, uint32_t num_args);
} HpCompiler;

/* A kernel is a TVM-FFI function (TVMFFISafeCallType) in destination-passing style: outputs, then inputs, then
 * attributes. Export it as `__tvm_ffi_<operator>`; list it in HpPlugin.kernels only to give it flags. */
typedef int (*HpKernelFunction)(void* self, const void* args, int32_t num_args, void* result);

enum {
  HP_KERNEL_STRIDED = 1 /* accepts any strides; without the flag, tensors are contiguous */
};

typedef struct HpKernel {
  const char* name; /* standard operator, such as "add" */
  HpKernelFunction function;
  uint64_t flags;
} HpKernel;

/* The plug-in: a static table, returned by hp_plugin_init. */
typedef struct HpPlugin {
  size_t struct_size;
  uint32_t abi_major; /* HP_ABI_MAJOR of the header it was compiled with */
  uint32_t abi_minor; /* HP_ABI_MINOR of that header */
  const char* name;   /* device name in the frameworks: [a-z][a-z0-9_]*, as in torch.device("name:0") */

  /* Required. */
  HpStatus (*device_count)(int* count);
  HpStatus (*allocate)(int device, size_t bytes, void** ptr); /* bytes > 0; HP_ALIGNMENT; HP_OUT_OF_MEMORY when full */
  HpStatus (*free)(int device, void* ptr);                    /* called when no queued work uses the memory */
  /* Copies are ordered on `stream` and may return before they are done; Hardpoint keeps both buffers alive and
   * synchronizes if needed. The ranges never overlap. */
  HpStatus (*copy_to_device)(int device, void* dst, const void* src, size_t bytes, HpStream stream);
  HpStatus (*copy_to_host)(int device, void* dst, const void* src, size_t bytes, HpStream stream);
  HpStatus (*copy_on_device)(int device, void* dst, const void* src, size_t bytes, HpStream stream);

  /* Optional: NULL selects the default given at the table. */
  const HpStreams* streams;
  const HpEvents* events;
  const HpInfo* info;
  const HpPinned* pinned;
  const HpPeer* peer;
  const HpInterprocess* interprocess;
  const HpCompiler* compiler;
  const HpKernel* kernels; /* array of num_kernels, in addition to exported kernels; default: none */
  size_t num_kernels;
  const HpCollectives* collectives; /* since 1.1 */
} HpPlugin;

/* The first three fields of HpPlugin: `static const HpPlugin plugin = {HP_PLUGIN_HEADER, .name = "mychip", ...};` */
#define HP_PLUGIN_HEADER .struct_size = sizeof(HpPlugin), .abi_major = HP_ABI_MAJOR, .abi_minor = HP_ABI_MINOR

/* The required export. Called once, before any other function. Sets *plugin, or returns host->fail(...). */
HP_EXPORT HpStatus hp_plugin_init(const HpHost* host, const HpPlugin** plugin);

#ifdef __cplusplus
}
#endif

#endif /* HARDPOINT_PLUGIN_H_ */
