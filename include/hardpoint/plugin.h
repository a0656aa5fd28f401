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
 *  - A plug-in has no current device: a call names its device first. Exceptions are `device_count`, pinned memory and
 *    tracing (for all devices), `group_id`, communicators (they belong to one), `release_binary`, `shutdown` and
 *    `private_function`.
 *  - Functions may be called from any thread, concurrently. The plug-in's own threads may call host->log and a trace's
 *    `record`, and nothing else of the host: the rest refers to the thread that makes a contract call.
 *  - No exception may cross this boundary: a function returns HP_OK, or host->fail(status, message).
 *  - Strings and tables that the plug-in returns must stay valid and unchanged until the process ends.
 *  - A child of fork() cannot use a device that its parent used. Functions return an error there, except `free`,
 *    `destroy`, `unload`, `release_binary` and `HpTracing.stop`, which do nothing and return HP_OK. `shutdown` is not
 *    called there.
 */
#ifndef HARDPOINT_PLUGIN_H_
#define HARDPOINT_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HP_ABI_MAJOR 1 /* must match the host's */
#define HP_ABI_MINOR 2 /* may be older or newer */

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
typedef struct HpGraph_* HpGraph;

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

  /* The number of the launch, copy or fill that this thread is making, for HpTraceRecord.correlation; 0 while no trace
   * runs. Store it with the queued work. (since 1.2: NULL or beyond struct_size in older hosts) */
  uint64_t (*correlation)(void);
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
  /* Calls function(data) on any thread once the work queued so far is done, also if it failed; a lost device may drop
   * the call. Later work on `stream` waits for it. The function does not call the plug-in. (since 1.2; optional;
   * default: Hardpoint synchronizes the stream and calls the function itself) */
  HpStatus (*call_host)(int device, HpStream stream, void (*function)(void* data), void* data);
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

typedef struct HpProperties {
  size_t struct_size;    /* set by Hardpoint: write no more bytes than this. The rest is zero, which means unknown. */
  char name[128];        /* marketing name, zero-terminated */
  uint64_t total_memory; /* in bytes */
  int32_t compute_units;
  int32_t version_major; /* of the device's instruction set or generation, as the vendor counts */
  int32_t version_minor;
  /* Since 1.2. */
  unsigned char uuid[16];
  char pci_id[16];          /* "0000:3b:00.0" */
  uint64_t max_allocation;  /* largest `allocate`, in bytes */
  uint64_t native_elements; /* bits 1 << HpElement: types that the device computes in */
  uint64_t cache_bytes;     /* last-level cache */
  uint32_t clock_khz;       /* compute units, at most */
  uint32_t memory_clock_khz;
  uint32_t memory_bus_bits;
  uint32_t simd_width;       /* work-items that run in lockstep: warp, wavefront, sub-group */
  uint32_t group_size;       /* of this device; replaces HpCompiler.group_size */
  uint32_t max_group_size;   /* work-items of the largest group */
  uint32_t local_memory;     /* of this device; replaces HpCompiler.local_memory */
  uint32_t max_local_memory; /* bytes per group that HpLaunch.local_bytes can reach, static part included */
  uint32_t unit_registers;   /* 32-bit registers of a compute unit */
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
  /* Sets *yes to 1 if the two devices have a direct link, else to 0. (since 1.2; optional; default: yes) */
  HpStatus (*can_access)(int dst_device, int src_device, int* yes);
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

/* How to launch a function. (since 1.2) */
enum {
  HP_LAUNCH_COOPERATIVE = 1, /* all groups run at the same time and may wait for each other */
  HP_LAUNCH_OVERLAP = 2      /* may start before the previous kernel of the stream ends; the kernel itself waits */
};
typedef struct HpLaunch {
  size_t struct_size; /* set by Hardpoint, as in HpProperties */
  uint32_t groups[3];
  uint32_t group_size[3];
  uint32_t local_bytes; /* dynamic local memory per group */
  uint32_t cluster[3];  /* groups that share local memory; 0, 0, 0: no clusters */
  uint32_t flags;       /* HP_LAUNCH_... */
} HpLaunch;

/* What the compiler made of a function; 0 means unknown. (since 1.2) */
typedef struct HpAttributes {
  size_t struct_size;      /* set by Hardpoint, as in HpProperties */
  uint32_t registers;      /* per work-item */
  uint32_t spilled_bytes;  /* per work-item */
  uint32_t local_bytes;    /* static local memory per group */
  uint32_t max_group_size; /* work-items */
} HpAttributes;

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

  /* Since 1.2, each optional. */
  /* Binaries that `load` takes besides its own, separated by blanks: "cubin ptx". (default: none) */
  const char* binary_kinds;
  /* Launches a function of any binary with options. HP_NOT_SUPPORTED: not with these options. (default: `launch`;
   * local_bytes, cluster and flags are an error) */
  HpStatus (*launch_with)(int device, HpStream stream, HpFunction function, const HpLaunch* launch,
                          const HpLaunchArg* args, uint32_t num_args);
  /* (default: all unknown) */
  HpStatus (*attributes)(int device, HpFunction function, HpAttributes* attributes);
} HpCompiler;

/* Reports what the devices did, and when (since 1.2; optional; default: Hardpoint times launches with a pair of events,
 * or with the host's clock if there are no timed events). */
typedef enum HpTraceKind {
  HP_TRACE_KERNEL = 0,
  HP_TRACE_COPY = 1,
  HP_TRACE_FILL = 2,
  HP_TRACE_COLLECTIVE = 3
} HpTraceKind;

typedef struct HpTraceRecord {
  size_t struct_size; /* set by the plug-in */
  HpTraceKind kind;
  int32_t device;
  HpStream stream;
  const char* name; /* read during the call only. NULL: the name of the launch */
  int64_t start_ns; /* on the host's clock: clock_gettime(CLOCK_REALTIME) */
  int64_t end_ns;
  uint64_t bytes;       /* copied or filled; else 0 */
  uint64_t correlation; /* host->correlation() at the launch, which may leave several records; 0: of no launch */
} HpTraceRecord;

typedef struct HpTracing {
  size_t struct_size;
  /* From now on, work of all devices leaves records: call record(context, ...) for each, from any thread, until `stop`
   * returns. One trace runs at a time. HP_NOT_SUPPORTED: cannot trace now, use the default. */
  HpStatus (*start)(void (*record)(void* context, const HpTraceRecord* record), void* context);
  /* Delivers what is left and returns. Hardpoint has waited for the traced work; other work may still run. */
  HpStatus (*stop)(void);
} HpTracing;

/* Graphs: work that is captured once and launched many times by one call (optional; default: Hardpoint records the
 * launches itself and repeats them one by one). During a capture, whatever any thread queues on the stream is stored
 * instead of run: kernel launches, copies on the device and fills. Hardpoint does not synchronize, query or destroy the
 * stream meanwhile, records and waits for no events on it, and queues no other copies; it may allocate memory and load
 * programs. It keeps the memory, functions and kernels that the graph uses until `destroy`. */
typedef struct HpGraphs {
  size_t struct_size;
  /* `stream` is idle and never NULL. No other capture is active on it. */
  HpStatus (*begin_capture)(int device, HpStream stream);
  /* Ends the capture, also if it fails: the stream runs its work again. The caller owns *graph. */
  HpStatus (*end_capture)(int device, HpStream stream, HpGraph* graph);
  /* Queues the captured work on `stream`, any stream of the device that is not capturing. Launches of one graph never
   * overlap: Hardpoint orders them. */
  HpStatus (*launch)(int device, HpGraph graph, HpStream stream);
  /* Called when no launch of the graph is queued or running. */
  HpStatus (*destroy)(int device, HpGraph graph);
} HpGraphs;

/* A kernel is a TVM-FFI function (TVMFFISafeCallType) in destination-passing style: outputs, then inputs, then
 * attributes. Export it as `__tvm_ffi_<operator>`; list it in HpPlugin.kernels only to give it flags. */
typedef int (*HpKernelFunction)(void* self, const void* args, int32_t num_args, void* result);

enum {
  HP_KERNEL_STRIDED = 1, /* accepts any strides; without the flag, tensors are contiguous */
  /* Besides contiguous tensors, accepts channels last: then all tensors of 4 or 5 dimensions N, C, [D,] H, W are dense
   * with C varying fastest. Declined calls come again with contiguous tensors. (since 1.2) */
  HP_KERNEL_CHANNELS_LAST = 2
};

typedef struct HpKernel {
  const char* name; /* standard operator, such as "add" */
  HpKernelFunction function;
  uint64_t flags;
} HpKernel;

typedef void (*HpPrivateFunction)(void); /* cast to the function's real type */

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
  const HpTracing* tracing;         /* since 1.2, like all fields below */

  /* Sets `bytes` bytes to `value`, ordered on `stream`. (default: copies of a pattern) */
  HpStatus (*fill_memory)(int device, void* dst, uint8_t value, size_t bytes, HpStream stream);
  /* The plug-in's own state, passed to the two functions below; Hardpoint does not look at it. The other functions
   * have their state in static variables: a library is initialized once per process. */
  void* context;
  /* Called once when the program ends, after all work is done: the place to close a driver or write a log. Threads that
   * the program left running may still call other functions, which return an error then. (default: nothing) */
  void (*shutdown)(void* context);
  /* A function beside the contract, for the vendor's own tools, or NULL if `name` is unknown. Kernels and
   * hp_plugin_init are the only symbols to export. (default: none) */
  HpPrivateFunction (*private_function)(void* context, const char* name);
  const HpGraphs* graphs;
} HpPlugin;

/* The first three fields, where the language has designators (C, C++20, GNU dialects):
 * `static const HpPlugin plugin = {HP_PLUGIN_HEADER, .name = "mychip", ...};` */
#define HP_PLUGIN_HEADER .struct_size = sizeof(HpPlugin), .abi_major = HP_ABI_MAJOR, .abi_minor = HP_ABI_MINOR
#ifdef __cplusplus
/* For any C++: `HpPlugin plugin = hp_plugin_header(); plugin.name = "mychip"; ...` */
static inline HpPlugin hp_plugin_header() {
  HpPlugin plugin = HpPlugin();
  plugin.struct_size = sizeof(HpPlugin);
  plugin.abi_major = HP_ABI_MAJOR;
  plugin.abi_minor = HP_ABI_MINOR;
  return plugin;
}
#endif

/* The required export. Called once, before any other function. Sets *plugin, or returns host->fail(...). */
HP_EXPORT HpStatus hp_plugin_init(const HpHost* host, const HpPlugin** plugin);

#ifdef __cplusplus
}
#endif

#endif /* HARDPOINT_PLUGIN_H_ */
