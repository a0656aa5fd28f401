/* The library that `import paddle` finds (in the package folder paddle_custom_device, or by CUSTOM_DEVICE_ROOT) and
 * opens. It depends on libc only, because a library that fails to open aborts `import paddle`. Python code decides
 * which plug-in to mount, by the same rule as for torch, and only then loads the adapter. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* The first fields of Paddle's CustomRuntimeParams, the same in all versions. */
typedef struct RuntimeParams {
  size_t size;
  const size_t* interface; /* its first field is its size in bytes */
} RuntimeParams;

/* Weak: Paddle's C++ inference library opens this library in processes without Python. */
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

static void warn(const char* reason) { fprintf(stderr, "[hardpoint] no device was mounted on Paddle: %s\n", reason); }

/* Paddle warns about a library that leaves the interface empty, which this one does on purpose if no device is to be
 * mounted. Raises glog's threshold to errors until the interpreter next runs pending calls, after all libraries are
 * loaded. */
static int* log_level;
static int saved_log_level;
static int restore_log(void* unused) {
  (void)unused;
  *log_level = saved_log_level;
  return 0;
}
static void silence_log(void) {
  void* paddle = dlopen("libpaddle.so", RTLD_NOLOAD | RTLD_LAZY);
  if (paddle == NULL) return;
  log_level = dlsym(paddle, "_ZN3fLI17FLAGS_minloglevelE"); /* glog's int FLAGS_minloglevel */
  dlclose(paddle);
  if (log_level == NULL || *log_level >= 2 || Py_AddPendingCall(restore_log, NULL) != 0) return;
  saved_log_level = *log_level;
  *log_level = 2;
}

/* Called by Paddle. Leaves the interface empty, so that Paddle continues without the device, if none is to be mounted
 * or mounting failed. */
__attribute__((visibility("default"))) void InitPlugin(RuntimeParams* params) {
  if (Py_IsInitialized == NULL || !Py_IsInitialized()) {
    const char* wanted = getenv("HARDPOINT_DEVICE");
    if (wanted != NULL && *wanted != '\0') warn("HARDPOINT_DEVICE is set, but finding plug-ins needs a Python process");
    return;
  }
  const int state = PyGILState_Ensure();
  PyObject* module = PyImport_ImportModule("hardpoint_autoload");
  PyObject* suppress_warning = NULL;
  if (module != NULL)
    suppress_warning = PyObject_CallMethod(module, "paddle_backend", "K", (unsigned long long)(size_t)params);
  if (suppress_warning == NULL) {
    warn("the Python module hardpoint_autoload failed (traceback below): reinstall hardpoint in this environment");
    PyErr_Print();
  } else {
    if (PyObject_IsTrue(suppress_warning) == 1) silence_log();
    Py_DecRef(suppress_warning);
  }
  if (module != NULL) Py_DecRef(module);
  PyGILState_Release(state);
}
