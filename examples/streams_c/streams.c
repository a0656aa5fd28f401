/* A device `streams` with asynchronous streams, events and a compiler: host memory, one thread per stream, and the
 * machine's C compiler. It has no kernel of its own: the compiler runs all of Hardpoint's portable kernels.
 * README.md explains it; docs/reference/abi.md has the contract. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <hardpoint/plugin.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef void (*Kernel)(void* const* args, const uint32_t groups[3], uint64_t first, uint64_t last);

/* One record of an event. Waits refer to the record, not to the event, which may be recorded again or destroyed. */
typedef struct Point {
  int users;
  bool reached;
  struct timespec time;
} Point;

typedef struct Work {
  struct Work* next;
  enum { COPY, LAUNCH, RECORD, WAIT } kind;
  void* dst;
  const void* src;
  size_t bytes;
  Point* point;
  Kernel kernel;
  uint32_t groups[3];
  void* args[]; /* of a launch: addresses of the values, which follow */
} Work;

struct HpStream_ {
  Work *head, **tail;
  uint64_t queued, done;
  bool ended;
};
struct HpEvent_ {
  Point* latest;
};

static const HpHost* host;
/* One lock and one condition for everything: simple, and correct. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static HpStatus no_memory(void) { return host->fail(HP_OUT_OF_MEMORY, "streams: the host is out of memory"); }

static void drop(Point* point) { /* under the lock */
  if (point && --point->users == 0) free(point);
}

/* ---- Streams */

static void run(Work* work) {
  if (work->kind == COPY) memcpy(work->dst, work->src, work->bytes);
  if (work->kind == LAUNCH) {
    const uint64_t total = (uint64_t)work->groups[0] * work->groups[1] * work->groups[2];
    work->kernel(work->args, work->groups, 0, total);
  }
}

static void* serve(void* given) {
  HpStream stream = given;
  pthread_mutex_lock(&lock);
  while (stream->head || !stream->ended) {
    Work* const work = stream->head;
    if (!work) {
      pthread_cond_wait(&changed, &lock);
      continue;
    }
    while (work->kind == WAIT && !work->point->reached) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    run(work);
    pthread_mutex_lock(&lock);
    if (work->kind == RECORD) {
      work->point->reached = true;
      clock_gettime(CLOCK_MONOTONIC, &work->point->time);
    }
    drop(work->point);
    stream->head = work->next;
    if (!stream->head) stream->tail = &stream->head;
    ++stream->done;
    free(work);
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&lock);
  free(stream);
  return NULL;
}

/* A child of fork() has no threads, so its work would never run. */
static bool forked;
static void note_fork(void) { forked = true; }
static void watch_forks(void) { pthread_atfork(NULL, NULL, note_fork); }

static HpStatus create_stream(int device, int priority, HpStream* result) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  HpStream stream = calloc(1, sizeof *stream);
  if (!stream) return no_memory();
  stream->tail = &stream->head;
  pthread_t thread;
  const int error = pthread_create(&thread, NULL, serve, stream);
  if (error) return free(stream), host->fail(HP_ERROR, "streams: cannot start a thread: %s", strerror(error));
  pthread_detach(thread);
  *result = stream;
  return HP_OK;
}

/* The default stream is created on first use, so that a program may fork before. */
static HpStream default_stream;
static void create_default_stream(void) { create_stream(0, 0, &default_stream); }
static HpStream resolve(HpStream stream) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (!stream) pthread_once(&once, create_default_stream);
  return forked ? NULL : stream ? stream : default_stream;
}
static HpStatus unusable(void) {
  return forked ? host->fail(HP_ERROR, "streams: used before fork(); use the start method spawn") : no_memory();
}

/* The work drops the point; `values` bytes follow it. */
static Work* new_work(int kind, Point* point, size_t values) {
  Work* const work = calloc(1, sizeof *work + values);
  if (work) work->kind = kind, work->point = point;
  return work;
}
static HpStatus enqueue(HpStream stream, Work* work) {
  stream = resolve(stream);
  if (!stream || !work) return free(work), unusable();
  pthread_mutex_lock(&lock);
  *stream->tail = work;
  stream->tail = &work->next;
  ++stream->queued;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return HP_OK;
}

/* Work that is still queued runs; the thread frees the stream after it. */
static HpStatus destroy_stream(int device, HpStream stream) {
  pthread_mutex_lock(&lock);
  stream->ended = true;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return HP_OK;
}
/* A wait without a time limit may ignore the timeout. */
static HpStatus synchronize_stream(int device, HpStream stream, uint32_t timeout_ms) {
  if (!(stream = resolve(stream))) return unusable();
  pthread_mutex_lock(&lock);
  for (const uint64_t target = stream->queued; stream->done < target;) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  return HP_OK;
}

/* ---- Events */

static HpStatus create_event(int device, int with_timing, HpEvent* event) {
  *event = calloc(1, sizeof **event);
  return *event ? HP_OK : no_memory();
}
static Point* latest_point(HpEvent event) { /* the caller drops it */
  pthread_mutex_lock(&lock);
  Point* const point = event->latest;
  if (point) ++point->users;
  pthread_mutex_unlock(&lock);
  return point;
}
static void replace_point(HpEvent event, Point* point) {
  pthread_mutex_lock(&lock);
  drop(event->latest);
  event->latest = point;
  pthread_mutex_unlock(&lock);
}
/* Pending waits keep the point that they wait for. */
static HpStatus destroy_event(int device, HpEvent event) {
  replace_point(event, NULL);
  free(event);
  return HP_OK;
}
static HpStatus record_event(int device, HpEvent event, HpStream stream) {
  Point* const point = calloc(1, sizeof *point);
  if (!point) return no_memory();
  point->users = 2; /* the event and the work */
  replace_point(event, point);
  return enqueue(stream, new_work(RECORD, point, 0));
}
static HpStatus wait_event(int device, HpEvent event, HpStream stream) {
  Point* const point = latest_point(event);
  return point ? enqueue(stream, new_work(WAIT, point, 0)) : HP_OK;
}
static HpStatus query_event(int device, HpEvent event) {
  pthread_mutex_lock(&lock);
  const bool done = !event->latest || event->latest->reached;
  pthread_mutex_unlock(&lock);
  return done ? HP_OK : HP_NOT_READY;
}
static HpStatus synchronize_event(int device, HpEvent event, uint32_t timeout_ms) {
  Point* const point = latest_point(event);
  pthread_mutex_lock(&lock);
  while (point && !point->reached) pthread_cond_wait(&changed, &lock);
  drop(point);
  pthread_mutex_unlock(&lock);
  return HP_OK;
}
static HpStatus elapsed(int device, HpEvent start, HpEvent end, double* milliseconds) {
  const struct timespec *from = &start->latest->time, *to = &end->latest->time;
  *milliseconds = (double)(to->tv_sec - from->tv_sec) * 1e3 + (double)(to->tv_nsec - from->tv_nsec) * 1e-6;
  return HP_OK;
}

/* ---- Memory and copies */

static HpStatus device_count(int* count) {
  *count = 1;
  return HP_OK;
}
static HpStatus allocate(int device, size_t bytes, void** ptr) {
  *ptr = aligned_alloc(HP_ALIGNMENT, (bytes + HP_ALIGNMENT - 1) / HP_ALIGNMENT * HP_ALIGNMENT);
  return *ptr ? HP_OK : no_memory();
}
static HpStatus release(int device, void* ptr) {
  free(ptr);
  return HP_OK;
}
static HpStatus copy(int device, void* dst, const void* src, size_t bytes, HpStream stream) {
  Work* const work = new_work(COPY, NULL, 0);
  if (work) work->dst = dst, work->src = src, work->bytes = bytes;
  return enqueue(stream, work);
}

/* ---- Compiler */

/* Contraction is off: Hardpoint's kernels round products and sums separately. */
#define COMPILE "cc -std=gnu11 -O2 -shared -fPIC -ffp-contract=off -fno-math-errno -w -x c"

/* The key of Hardpoint's kernel cache: everything that the binaries depend on. */
static const char* fingerprint(int device) { return "streams, " __VERSION__ ", " COMPILE; }

/* Reads a whole file; the caller frees it. */
static char* read_file(const char* path, size_t* bytes) {
  FILE* const file = fopen(path, "rb");
  char* data = NULL;
  *bytes = 0;
  if (file && fseek(file, 0, SEEK_END) == 0 && (data = calloc(1, (size_t)ftell(file) + 1))) {
    const size_t size = (size_t)ftell(file);
    rewind(file);
    *bytes = fread(data, 1, size, file);
  }
  if (file) fclose(file);
  return data;
}

static HpStatus compile(int device, const char* source, const char* options, void** binary, size_t* bytes) {
  char folder[] = "/tmp/streams-XXXXXX", output[64], log[64], command[1024];
  if (!mkdtemp(folder)) return host->fail(HP_ERROR, "streams: cannot write to /tmp");
  snprintf(output, sizeof output, "%s/kernel.so", folder);
  snprintf(log, sizeof log, "%s/log", folder);
  snprintf(command, sizeof command, COMPILE " %s - -o %s -lm 2>%s", options, output, log);
  FILE* const compiler = popen(command, "w");
  if (compiler) fputs(source, compiler);
  const int status = compiler ? pclose(compiler) : -1;
  *binary = read_file(status == 0 ? output : log, bytes);
  unlink(output), unlink(log), rmdir(folder);
  if (status == 0 && *binary) return HP_OK;
  /* A shell ends with 127 if there is no such program. */
  const HpStatus result = WIFEXITED(status) && WEXITSTATUS(status) == 127 ? HP_NOT_SUPPORTED : HP_ERROR;
  host->fail(result, "streams: cc failed: %.1500s", *binary ? (char*)*binary : "");
  free(*binary);
  return result;
}

static HpStatus load(int device, const void* binary, size_t bytes, HpProgram* program) {
  char path[] = "/tmp/streams-XXXXXX";
  const int file = mkstemp(path);
  const bool written = file >= 0 && write(file, binary, bytes) == (ssize_t)bytes;
  if (file >= 0) close(file);
  *program = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  unlink(path); /* the mapping stays */
  return *program ? HP_OK : host->fail(HP_ERROR, "streams: cannot load a kernel: %s", written ? dlerror() : "no file");
}
static HpStatus unload(int device, HpProgram program) {
  dlclose(program);
  return HP_OK;
}
static HpStatus find(int device, HpProgram program, const char* name, HpFunction* function) {
  *function = dlsym(program, name);
  return *function ? HP_OK : host->fail(HP_ERROR, "streams: a program has no kernel %s", name);
}
static HpStatus launch(int device, HpStream stream, HpFunction function, const uint32_t groups[3],
                       const uint32_t group_size[3], const HpLaunchArg* args, uint32_t num_args) {
  const size_t table = (num_args * sizeof(void*) + 15) / 16 * 16;
  size_t bytes = table + 16;
  for (uint32_t i = 0; i < num_args; ++i) bytes += (args[i].bytes + 15) / 16 * 16;
  Work* const work = new_work(LAUNCH, NULL, bytes);
  if (!work) return no_memory();
  memcpy(&work->kernel, &function, sizeof function);
  memcpy(work->groups, groups, sizeof work->groups);
  char* value = (char*)(((uintptr_t)work->args + table + 15) / 16 * 16); /* aligned for every type */
  for (uint32_t i = 0; i < num_args; ++i) {
    work->args[i] = memcpy(value, args[i].value, args[i].bytes);
    value += (args[i].bytes + 15) / 16 * 16;
  }
  return enqueue(stream, work);
}

/* ---- Tables */

static const HpStreams streams = {.struct_size = sizeof streams,
                                  .create = create_stream,
                                  .destroy = destroy_stream,
                                  .synchronize = synchronize_stream};
static const HpEvents events = {.struct_size = sizeof events,
                                .create = create_event,
                                .destroy = destroy_event,
                                .record = record_event,
                                .wait = wait_event,
                                .synchronize = synchronize_event,
                                .query = query_event,
                                .elapsed = elapsed};
static const HpCompiler compiler = {.struct_size = sizeof compiler,
                                    .dialect = "c",
                                    .group_size = 1,
                                    .local_memory = 1 << 20,
                                    .fingerprint = fingerprint,
                                    .compile = compile,
                                    .release_binary = free,
                                    .load = load,
                                    .unload = unload,
                                    .find = find,
                                    .launch = launch};
static const HpPlugin plugin = {
    HP_PLUGIN_HEADER,    .name = "streams",      .device_count = device_count, .allocate = allocate,
    .free = release,     .copy_to_device = copy, .copy_to_host = copy,         .copy_on_device = copy,
    .streams = &streams, .events = &events,      .compiler = &compiler,
};

HP_EXPORT HpStatus hp_plugin_init(const HpHost* given, const HpPlugin** result) {
  host = given;
  *result = &plugin;
  return HP_OK;
}
