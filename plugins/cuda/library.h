// Libraries that are opened at run time: the plug-in is built without CUDA, and says what is missing when it is used.
#pragma once

#include <string>

namespace nv {

// One function of a library, by its exported name. Found once, when the library is opened.
struct Symbol {
  const char* name;
  void** address;
};

// Opens the first of `names` (up to a null) that can be opened: what the process has loaded already, then the folders
// of HARDPOINT_CUDA_PATH (separated by ':'), then the system's. False, with the reason, where none can be or one of the
// symbols (up to a null name) is missing.
bool open_library(const char* const* names, const Symbol* symbols, std::string* reason);

}  // namespace nv
