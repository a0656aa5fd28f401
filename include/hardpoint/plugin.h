/* Hardpoint plug-in contract.
 *
 * A plug-in is a shared library that exports one function, hp_plugin_init, and, if it likes, kernels. It fills in a
 * table of C functions; Hardpoint turns the table into a PyTorch and a PaddlePaddle device. This header is the whole
 * contract: C11, no framework, no C++. docs/abi.md explains it with a complete example and keeps the changelog.
 *
 * Rules that hold everywhere below:
 *  - Every table starts with `size_t struct_size`, which the plug-in sets to sizeof of the table it was compiled with.
 *    Tables only ever grow at their end; a field beyond struct_size, or NULL, means "not provided". The elements of
 * arrays (HpKernel, HpLaunchArg) never change.
 *  - The device index is explicit on every call. There is no current device inside a plug-in.
 *  - Functions may be called from any thread, several at a time.
 *  - No exception crosses this boundary: a function returns HP_OK, or host->fail(status, message).
 *  - Strings and tables that the plug-in hands out stay alive, unchanged, until the process ends.
 */
#ifndef HARDPOINT_PLUGIN_H_
#define HARDPOINT_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HP_ABI_MAJOR 1 /* another major is refused */
#define HP_ABI_MINOR 1 /* an older or newer minor is accepted */

/* Every pointer that `allocate` returns must be a multiple of this. */
#define HP_ALIGNMENT 64

/* DLPack device type of the tensors that kernels receive (kDLExtDev). */
#define HP_DLPACK_DEVICE_TYPE 12

#if defined(_WIN32)
#define HP_EXPORT __declspec(dllexport)
#else
#define HP_EXPORT __attribute__((visibility("default")))
#endif

typedef enum HpStatus {
  HP_OK = 0,
  HP_ERROR = 1,            /* anything without a code of its own */
  HP_INVALID_ARGUMENT = 2, /* the caller's mistake */
  HP_OUT_OF_MEMORY = 3,    /* Hardpoint frees its cache and tries once more */
  HP_NOT_SUPPORTED = 4,    /* not this call: Hardpoint takes another way */
  HP_NOT_READY = 5,        /* from the query functions only: still running */
  HP_TIMEOUT = 6,          /* a wait ran out of time */
  HP_DEVICE_LOST = 7       /* the device needs a new process */
} HpStatus;

typedef enum HpLogLevel { HP_LOG_DEBUG = 0, HP_LOG_INFO = 1, HP_LOG_WARNING = 2, HP_LOG_ERROR = 3 } HpLogLevel;

/* Handles belong to the plug-in; Hardpoint never looks inside. A NULL stream is the device's default stream. */
typedef struct HpStream_* HpStream;
typedef struct HpEvent_* HpEvent;
typedef struct HpProgram_* HpProgram;
typedef struct HpFunction_* HpFunction;
typedef struct HpCommunicator_* HpCommunicator;

/* What Hardpoint offers to a plug-in. Lives until the process ends: keep the pointer. */
typedef struct HpHost {
  size_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;

  void (*log)(HpLogLevel level, const char* message);

  /* Stores a printf-style message for this thread and returns `status`: `return host->fail(HP_ERROR, "bus %d", n);` */
  HpStatus (*fail)(HpStatus status, const char* format, ...);

  /* Raises a TVM-FFI error from inside a kernel and returns the kernel's error code. The kind "NotImplementedError",
   * raised before anything was launched, hands the call to the next tier. */
  int (*raise)(const char* kind, const char* format, ...);

  /* The operator that this thread is launching, such as "aten::add.Tensor"; never NULL; valid until the process ends.
   * An asynchronous plug-in keeps it beside the work it queues, to name the operator when the work fails later. */
  const char* (*operator_name)(void);

  /* The stream that Hardpoint launches on, for this thread and device. Kernels queue their work there. */
  HpStream (*current_stream)(int device);

  /* Scratch memory from Hardpoint's caching allocator, ordered on the current stream: it may be freed as soon as the
   * work that uses it is queued. */
  HpStatus (*scratch_allocate)(int device, size_t bytes, void** ptr);
  void (*scratch_free)(int device, void* ptr);
} HpHost;

/* Streams (optional; without them every call is synchronous and there is one stream a device). */
typedef struct HpStreams {
  size_t struct_size;
  /* `priority` is a hint: negative means more urgent. */
  HpStatus (*create)(int device, int priority, HpStream* stream);
  HpStatus (*destroy)(int device, HpStream stream);
  /* Waits until the work queued so far has finished. Returns the first failure of that work, if there was one, and
   * clears it. `timeout_ms` 0 waits for ever; a driver that has no timed wait may ignore it. */
  HpStatus (*synchronize)(int device, HpStream stream, uint32_t timeout_ms);
  /* HP_OK when all is done, HP_NOT_READY when not. (optional; without it: synchronize) */
  HpStatus (*query)(int device, HpStream stream);
} HpStreams;

/* Events (optional; without them Hardpoint synchronises streams instead). */
typedef struct HpEvents {
  size_t struct_size;
  HpStatus (*create)(int device, int with_timing, HpEvent* event);
  HpStatus (*destroy)(int device, HpEvent event);
  /* An event may be recorded again; waits refer to the latest record. */
  HpStatus (*record)(int device, HpEvent event, HpStream stream);
  /* Makes later work of `stream` wait. The event may belong to another device of this plug-in. If work before the event
   * failed and nobody has been told, `stream` has failed as well: a program may never wait for the other stream. */
  HpStatus (*wait)(int device, HpEvent event, HpStream stream);
  HpStatus (*synchronize)(int device, HpEvent event, uint32_t timeout_ms);
  /* HP_OK or HP_NOT_READY. An event that was never recorded is done. */
  HpStatus (*query)(int device, HpEvent event);
  /* Milliseconds between two events made with_timing. (optional; without it: an error when asked) */
  HpStatus (*elapsed)(int device, HpEvent start, HpEvent end, double* milliseconds);
} HpEvents;

typedef struct HpProperties {
  size_t struct_size; /* set by Hardpoint: fill in no more than this */
  char name[128];     /* marketing name, zero-terminated */
  uint64_t total_memory;
  int32_t compute_units;
  int32_t version_major;
  int32_t version_minor;
} HpProperties;

/* Properties and memory figures (optional; without them: the plug-in's name, and what the allocator itself holds). */
typedef struct HpInfo {
  size_t struct_size;
  HpStatus (*properties)(int device, HpProperties* properties);
  HpStatus (*memory)(int device, uint64_t* free_bytes, uint64_t* total_bytes);
} HpInfo;

/* Page-locked host memory, which copies reach asynchronously (optional; without it: plain memory, synchronous copies).
 */
typedef struct HpPinned {
  size_t struct_size;
  HpStatus (*allocate)(size_t bytes, void** ptr);
  HpStatus (*free)(void* ptr);
} HpPinned;

/* Copies between two devices of this plug-in (optional; without them: through the host). */
typedef struct HpPeer {
  size_t struct_size;
  /* Queued on `stream`, which belongs to src_device. */
  HpStatus (*copy)(int dst_device, void* dst, int src_device, const void* src, size_t bytes, HpStream stream);
} HpPeer;

/* Memory shared between processes (optional; without it: tensors are sent by copy). */
#define HP_IPC_HANDLE_BYTES 128
typedef struct HpInterprocess {
  size_t struct_size;
  /* `ptr` is one that `allocate` returned, of `bytes` bytes. */
  HpStatus (*export_memory)(int device, void* ptr, size_t bytes, unsigned char handle[HP_IPC_HANDLE_BYTES]);
  HpStatus (*open_memory)(int device, const unsigned char handle[HP_IPC_HANDLE_BYTES], void** ptr);
  HpStatus (*close_memory)(int device, void* ptr);
} HpInterprocess;

/* Collectives between processes, one device each (optional; without the table, or without one of its functions: through
 * the host). Every process of a group makes the same calls on its communicator in the same order; send and receive come
 * in pairs. Work is queued on `stream` and the call may return before it is done. HP_NOT_SUPPORTED, returned before
 * anything was queued, makes Hardpoint take another way: it must follow from arguments that are the same in every
 * process. What is queued but not joined by the others in time fails: the stream's synchronize returns HP_TIMEOUT, with
 * a message that names the call and the rank that is missing. Sizes may be 0. */
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
  /* Called in one process of a group; Hardpoint carries the id to the others. */
  HpStatus (*group_id)(unsigned char id[HP_GROUP_ID_BYTES]);
  /* Whether a process can join the group: HP_NOT_SUPPORTED where the others are out of reach. Called before `create`,
   * which follows only when every process can. (optional; without it: every process can) */
  HpStatus (*can_join)(int device, const unsigned char id[HP_GROUP_ID_BYTES]);
  /* Waits for the other processes. `timeout_ms` limits this wait and that of every later call; 0 waits for ever. */
  HpStatus (*create)(int device, const unsigned char id[HP_GROUP_ID_BYTES], int rank, int size, uint32_t timeout_ms,
                     HpCommunicator* communicator);
  /* Called when nothing is queued on it any more. */
  HpStatus (*destroy)(HpCommunicator communicator);
  /* Ends what is queued, here and in the other processes, with a failure; from any thread. (optional) */
  HpStatus (*abort)(HpCommunicator communicator);

  /* Each is optional. `count` is in elements, `bytes` in bytes. `dst` may be `src`; in all_gather `src` may be the
   * process's own part of `dst`, in reduce_scatter the other way round. Other overlaps do not occur. */
  HpStatus (*all_reduce)(HpCommunicator communicator, void* dst, const void* src, size_t count, HpElement element,
                         HpReduction reduction, HpStream stream);
  HpStatus (*broadcast)(HpCommunicator communicator, void* data, size_t bytes, int root, HpStream stream);
  /* `dst` is written in the process `root` only, and may be NULL elsewhere. */
  HpStatus (*reduce)(HpCommunicator communicator, void* dst, const void* src, size_t count, HpElement element,
                     HpReduction reduction, int root, HpStream stream);
  /* `bytes` and `count`: of one process's part; the whole has the parts in the order of ranks. */
  HpStatus (*all_gather)(HpCommunicator communicator, void* dst, const void* src, size_t bytes, HpStream stream);
  HpStatus (*reduce_scatter)(HpCommunicator communicator, void* dst, const void* src, size_t count, HpElement element,
                             HpReduction reduction, HpStream stream);
  /* Part i of `src` goes to process i; part i of `dst` comes from it. */
  HpStatus (*all_to_all)(HpCommunicator communicator, void* dst, const void* src, size_t bytes, HpStream stream);
  /* Those of one pair of processes and one direction are matched in order. Sends may be queued on one stream and
   * receives on another, and on others than the collectives: none waits for a call of another kind. */
  HpStatus (*send)(HpCommunicator communicator, const void* src, size_t bytes, int peer, HpStream stream);
  HpStatus (*receive)(HpCommunicator communicator, void* dst, size_t bytes, int peer, HpStream stream);
  /* Between the two, calls of this thread on one stream are collected; they are queued by group_end, the outermost one
   * where groups are nested, and run at the same time. (optional, both or none) */
  HpStatus (*group_start)(HpCommunicator communicator);
  HpStatus (*group_end)(HpCommunicator communicator);
} HpCollectives;

/* One kernel argument: a device pointer, or `bytes` bytes by value. */
typedef struct HpLaunchArg {
  const void* value;   /* address of the pointer, or of the value */
  uint32_t bytes;      /* size of the value */
  uint32_t is_pointer; /* 1 for a pointer into device memory */
} HpLaunchArg;

/* Compiles and launches Hardpoint's portable kernels (optional; without it: vendor kernels, then the CPU). Hardpoint
 * writes the source in the device's dialect and keeps the compiled binaries, in memory and on disk. */
typedef struct HpCompiler {
  size_t struct_size;
  /* "opencl", "cuda", or "c" (C11 with GNU extensions). A "c" kernel is a function
   *   void NAME(void *const *args, const uint32_t groups[3], uint64_t first, uint64_t last);
   * that runs the groups first .. last-1, counted with groups[0] fastest; args[i] is the address of argument i. */
  const char* dialect;
  uint32_t group_size;   /* work-items in a group that suit the device: 1 on a CPU, often 256 on a GPU */
  uint32_t local_memory; /* bytes that a group shares */
  /* Names the compiler and the kind of device: binaries are kept under this text. */
  const char* (*fingerprint)(int device);
  /* The binary belongs to the plug-in until release_binary. HP_NOT_SUPPORTED where no compiler is installed; a message
   * with the compiler's own words when the source does not compile. */
  HpStatus (*compile)(int device, const char* source, const char* options, void** binary, size_t* bytes);
  void (*release_binary)(void* binary);
  HpStatus (*load)(int device, const void* binary, size_t bytes, HpProgram* program);
  HpStatus (*unload)(int device, HpProgram program);
  /* The function lives as long as its program. */
  HpStatus (*find)(int device, HpProgram program, const char* name, HpFunction* function);
  /* Queues groups[3] groups of group_size[3] work-items on `stream`. Arguments are copied before it returns. */
  HpStatus (*launch)(int device, HpStream stream, HpFunction function, const uint32_t groups[3],
                     const uint32_t group_size[3], const HpLaunchArg* args, uint32_t num_args);
} HpCompiler;

/* A kernel is a TVM-FFI function (TVMFFISafeCallType) in destination-passing style: outputs, then inputs, then
 * attributes. Exporting it as `__tvm_ffi_<operator>` is enough; list it here to give it flags. */
typedef int (*HpKernelFunction)(void* self, const void* args, int32_t num_args, void* result);

enum {
  HP_KERNEL_STRIDED = 1 /* takes any strides; without the flag tensors arrive contiguous */
};

typedef struct HpKernel {
  const char* name; /* standard operator, such as "add" */
  HpKernelFunction function;
  uint64_t flags;
} HpKernel;

/* The plug-in itself: a static table that hp_plugin_init points to. */
typedef struct HpPlugin {
  size_t struct_size;
  uint32_t abi_major; /* HP_ABI_MAJOR of the header it was compiled with */
  uint32_t abi_minor; /* HP_ABI_MINOR, likewise */
  const char* name;   /* device name in the frameworks: [a-z][a-z0-9_]*, as in torch.device("name:0") */

  /* Required. */
  HpStatus (*device_count)(int* count);
  HpStatus (*allocate)(int device, size_t bytes, void** ptr); /* bytes > 0; HP_ALIGNMENT; HP_OUT_OF_MEMORY when full */
  HpStatus (*free)(int device, void* ptr);                    /* called when no queued work uses the memory any more */
  /* Copies are ordered on `stream` and may return before they are done; Hardpoint keeps both sides alive and waits
   * where its caller needs that. Ranges never overlap. */
  HpStatus (*copy_to_device)(int device, void* dst, const void* src, size_t bytes, HpStream stream);
  HpStatus (*copy_to_host)(int device, void* dst, const void* src, size_t bytes, HpStream stream);
  HpStatus (*copy_on_device)(int device, void* dst, const void* src, size_t bytes, HpStream stream);

  /* Optional, each may be NULL. */
  const HpStreams* streams;
  const HpEvents* events;
  const HpInfo* info;
  const HpPinned* pinned;
  const HpPeer* peer;
  const HpInterprocess* interprocess;
  const HpCompiler* compiler;
  const HpKernel* kernels; /* num_kernels of them, besides the exported ones */
  size_t num_kernels;
  const HpCollectives* collectives; /* since 1.1 */
} HpPlugin;

/* The first three fields of HpPlugin: `static const HpPlugin plugin = {HP_PLUGIN_HEADER, .name = "mychip", ...};` */
#define HP_PLUGIN_HEADER .struct_size = sizeof(HpPlugin), .abi_major = HP_ABI_MAJOR, .abi_minor = HP_ABI_MINOR

/* The one exported function. Called once, before any other; sets *plugin, or returns host->fail(...). */
HP_EXPORT HpStatus hp_plugin_init(const HpHost* host, const HpPlugin** plugin);

#ifdef __cplusplus
}
#endif

#endif /* HARDPOINT_PLUGIN_H_ */
