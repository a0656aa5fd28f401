#include "dynamic_library.h"

#include <dlfcn.h>

#include <cstdlib>

namespace nv {
namespace {

void* open_by_name(const char* name) {
  if (void* loaded = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return loaded;
  const char* folders = getenv("HARDPOINT_CUDA_PATH");
  std::string rest = folders ? folders : "";
  while (!rest.empty()) {
    const size_t end = rest.find(':');
    const std::string folder = rest.substr(0, end);
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
    if (folder.empty()) continue;
    if (void* opened = dlopen((folder + "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL)) return opened;
  }
  return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

bool open_library(const char* const* names, const Symbol* symbols, std::string* reason) {
  void* library = nullptr;
  const char* name = nullptr;
  reason->clear();
  for (; *names && !library; ++names) {
    name = *names;
    library = open_by_name(name);
    if (library) break;
    const char* const error = dlerror();
    *reason += (reason->empty() ? "" : "; ") + std::string(error ? error : name);
  }
  if (!library) return false;
  for (; symbols->name; ++symbols) {
    *symbols->address = dlsym(library, symbols->name);
    if (!*symbols->address) {
      *reason = std::string(name) + " has no function " + symbols->name;
      return false;
    }
  }
  return true;
}

}  // namespace nv
