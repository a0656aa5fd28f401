// Libraries opened at run time: the plug-in is built without CUDA and reports missing libraries when it needs them.
#pragma once

#include <string>

namespace nv {

// A function of a library. `address` is set when the library is opened.
struct Symbol {
  const char* name;
  void** address;
};

// Opens the first available of `names` (null-terminated): already loaded ones, then the folders in HARDPOINT_CUDA_PATH
// (separated by ':'), then the system's. Returns false and sets `reason` if none can be opened or one of `symbols`
// (terminated by a null name) is missing.
bool open_library(const char* const* names, const Symbol* symbols, std::string* reason);

}  // namespace nv
