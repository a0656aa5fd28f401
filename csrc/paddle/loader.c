/* The library that Paddle finds (in the package folder paddle_custom_device, or by CUSTOM_DEVICE_ROOT) and opens while
 * it is imported. It needs nothing but libc, so that it always opens: one that does not would end `import paddle`. What
 * to mount is decided in Python, by the same rule as for torch; the adapter itself is loaded only then. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* The first fields of Paddle's CustomRuntimeParams, alike in all its versions. */
typedef struct RuntimeParams {
  size_t size;
  const size_t* interface; /* starts with its own size */
} RuntimeParams;

/* Python's, where there is a Python: Paddle's inference library is used from C++ as well. */
typedef struct _object PyObject;
#define WEAK __attribute__((weak))
extern WEAK int Py_IsInitialized(void);
extern WEAK int PyGILState_Ensure(void);
extern WEAK void PyGILState_Release(int);
extern WEAK PyObject* PyImport_ImportModule(const char*);
extern WEAK PyObject* PyObject_CallMethod(PyObject*, const char*, const char*, ...);
extern WEAK int PyObject_IsTrue(PyObject*);
extern WEAK int Py_AddPendingCall(int (*)(void*), void*);
extern WEAK void PyErr_Print(void);
extern WEAK void Py_DecRef(PyObject*);

static void say(const char* what) { fprintf(stderr, "[hardpoint] no device was mounted on Paddle: %s\n", what); }

/* Paddle warns that a library failed when it leaves the interface empty, which ours does on purpose where nobody asked.
 * Its log shows errors only, until the interpreter goes on: right after all libraries are loaded. */
static int* log_level;
static int usual_log_level;
static int restore_log(void* unused) {
  (void)unused;
  *log_level = usual_log_level;
  return 0;
}
static void hush_log(void) {
  void* paddle = dlopen("libpaddle.so", RTLD_NOLOAD | RTLD_LAZY);
  if (paddle == NULL) return;
  log_level = dlsym(paddle, "_ZN3fLI17FLAGS_minloglevelE"); /* an int of glog */
  dlclose(paddle);
  if (log_level == NULL || *log_level >= 2 || Py_AddPendingCall(restore_log, NULL) != 0) return;
  usual_log_level = *log_level;
  *log_level = 2;
}

/* Leaves the interface empty, and Paddle goes on without us, where nobody asked or something is wrong. */
__attribute__((visibility("default"))) void InitPlugin(RuntimeParams* params) {
  if (Py_IsInitialized == NULL || !Py_IsInitialized()) {
    const char* wanted = getenv("HARDPOINT_DEVICE");
    if (wanted != NULL && *wanted != '\0') say("this program has no Python, which Hardpoint needs to find plug-ins");
    return;
  }
  const int state = PyGILState_Ensure();
  PyObject* module = PyImport_ImportModule("hardpoint_autoload");
  PyObject* done = NULL;
  if (module != NULL) done = PyObject_CallMethod(module, "paddle_backend", "K", (unsigned long long)(size_t)params);
  if (done == NULL) {
    say("the Python package hardpoint cannot be imported");
    PyErr_Print();
  } else {
    if (PyObject_IsTrue(done) == 1) hush_log();
    Py_DecRef(done);
  }
  if (module != NULL) Py_DecRef(module);
  PyGILState_Release(state);
}
