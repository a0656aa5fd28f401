// Opens a Paddle plug-in: its library, the Paddle libraries it may need, and its table.
#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>

#include "bridge.h"

namespace bridge {
namespace {

// sizeof(C_DeviceInterface) in Paddle 3.3, 3.2, 3.1, 3.0 and 2.6, and sizeof(CustomRuntimeParams) since and before 3.0.
// Plug-ins may accept only their own sizes, so all pairs are tried.
constexpr size_t kInterfaceSizes[] = {1128, 1032, 976, 920, 912};
constexpr size_t kParamsSizes[] = {96, 88};

// Plug-ins that ignore the size write the table of their own release: leave room for larger ones.
constexpr size_t kTableBytes = 8192;

void* open_library(const std::string& path, std::string* error) {
  const auto attempt = [&] { return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); };
  void* library = attempt();
  if (library != nullptr) return library;
  const char* message = dlerror();
  const std::string reason = message != nullptr ? message : "unknown reason";
  *error = path + ": cannot be loaded: " + reason;
  // Plug-ins with kernels link to Paddle's libraries, which Paddle itself has already opened.
  if (reason.find("cannot open shared object file") == std::string::npos &&
      reason.find("undefined symbol") == std::string::npos) {
    return nullptr;
  }
  const char* folder = std::getenv("HARDPOINT_PADDLE_LIBS");
  if (folder == nullptr || folder[0] == '\0') {
    *error +=
        "\nIf it contains Paddle kernels: install the Paddle it was built for, or set " +
        std::string("HARDPOINT_PADDLE_LIBS to the folder of libphi_core.so; a plug-in without kernels needs none");
    return nullptr;
  }
  const auto open_paddle = [&](int mode) {
    for (const char* name : {"/libcommon.so", "/libphi_core.so", "/libphi.so"}) {
      dlopen((folder + std::string(name)).c_str(), RTLD_NOW | mode);
    }
  };
  open_paddle(RTLD_LOCAL);
  if ((library = attempt()) != nullptr) return library;
  // Plug-ins that do not name these libraries as dependencies need their symbols to be global.
  open_paddle(RTLD_GLOBAL);
  if ((library = attempt()) != nullptr) return library;
  message = dlerror();
  *error = path + ": cannot be loaded: " + (message != nullptr ? message : reason) +
           "\nPaddle's libraries were loaded from " + folder +
           ": check that this is the Paddle the plug-in was built for";
  return nullptr;
}

// Hardpoint's device names are lower case: "CustomCPU" becomes "customcpu".
std::string device_name(const std::string& type) {
  const char* wanted = std::getenv("HARDPOINT_PADDLE_NAME");
  if (wanted != nullptr && wanted[0] != '\0') return wanted;
  std::string name;
  for (const char c : type) {
    const auto letter = static_cast<unsigned char>(c);
    name += std::isalnum(letter) != 0 ? static_cast<char>(std::tolower(letter)) : '_';
  }
  return !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) != 0 ? name : "paddle_" + name;
}

std::string missing_callbacks(const paddle::Interface& table) {
  const std::pair<const char*, bool> required[] = {
      {"set_device", table.set_device != nullptr},
      {"get_device", table.get_device != nullptr},
      {"create_event", table.create_event != nullptr},
      {"record_event", table.record_event != nullptr},
      {"destroy_event", table.destroy_event != nullptr},
      {"synchronize_event", table.synchronize_event != nullptr},
      {"device_memory_allocate", table.device_memory_allocate != nullptr},
      {"device_memory_deallocate", table.device_memory_deallocate != nullptr},
      {"get_device_count", table.get_device_count != nullptr},
      {"get_device_list", table.get_device_list != nullptr},
      {"memory_copy_h2d", table.memory_copy_h2d != nullptr},
      {"memory_copy_d2h", table.memory_copy_d2h != nullptr},
  };
  std::string missing;
  for (const auto& [name, present] : required) {
    if (!present) missing += (missing.empty() ? "" : ", ") + std::string(name);
  }
  return missing;
}

// Calls InitPlugin with each pair of sizes until it accepts one.
bool init_table(paddle::InitPlugin init, PaddlePlugin* opened) {
  for (const size_t params_size : kParamsSizes) {
    for (const size_t interface_size : kInterfaceSizes) {
      auto* table = static_cast<paddle::Interface*>(std::calloc(1, kTableBytes));
      auto* params = static_cast<paddle::Params*>(std::calloc(1, kTableBytes));
      table->size = interface_size;
      params->size = params_size;
      params->interface = table;
      init(params);
      if (params->device_type != nullptr) {
        // The plug-in may have kept the pointers: never freed.
        opened->table = params->interface;
        opened->device_type = params->device_type;
        opened->sub_device_type = params->sub_device_type != nullptr ? params->sub_device_type : "";
        return true;
      }
      std::free(table);
      std::free(params);
    }
  }
  return false;
}

}  // namespace

std::unique_ptr<PaddlePlugin> open(const std::string& path, std::string* error) {
  void* library = open_library(path, error);
  if (library == nullptr) return nullptr;
  auto init = reinterpret_cast<paddle::InitPlugin>(dlsym(library, "InitPlugin"));
  if (init == nullptr) {
    *error = path + ": does not export InitPlugin, so it is not a Paddle plug-in (put a Hardpoint plug-in " +
             "into HARDPOINT_PLUGIN_PATH instead)";
    return nullptr;
  }
  auto opened = std::make_unique<PaddlePlugin>();
  opened->path = path;
  if (!init_table(init, opened.get())) {
    *error = path +
             ": InitPlugin accepted none of the tables of Paddle 2.6 to 3.3 (1128, 1032, 976, 920 and 912 bytes) " +
             "and set no device_type: it was built for another Paddle";
    return nullptr;
  }
  const paddle::Interface& table = *opened->table;
  if (const std::string missing = missing_callbacks(table); !missing.empty()) {
    *error = path + ": Paddle plug-in '" + opened->device_type + "' lacks the required callback(s) " + missing;
    return nullptr;
  }
  opened->name = device_name(opened->device_type);
  if (table.initialize != nullptr && table.initialize() > paddle::kWarning) {
    *error = path + ": callback initialize failed";
    return nullptr;
  }
  size_t count = 0;
  if (table.get_device_count(&count) > paddle::kWarning) {
    *error = path + ": callback get_device_count failed";
    return nullptr;
  }
  std::vector<size_t> numbers(std::max<size_t>(count, 1));
  if (count != 0 && table.get_device_list(numbers.data()) > paddle::kWarning) {
    *error = path + ": callback get_device_list failed";
    return nullptr;
  }
  for (size_t i = 0; i < count; ++i) {
    opened->devices.push_back(std::make_unique<DeviceState>());
    opened->devices.back()->number.id = static_cast<int>(numbers[i]);
  }
  return opened;
}

}  // namespace bridge
