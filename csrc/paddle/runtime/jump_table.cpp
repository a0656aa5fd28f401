#include "runtime/jump_table.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace hp::paddle_adapter {
namespace {

// The page is read-only if the library's functions were bound when it was loaded.
bool make_writable(void** entry) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t start = reinterpret_cast<uintptr_t>(entry) / page * page;
  return mprotect(reinterpret_cast<void*>(start), page, PROT_READ | PROT_WRITE) == 0;
}

}  // namespace

JumpTable::JumpTable(const char* path_end) : path_end_(path_end) { dl_iterate_phdr(&JumpTable::read, this); }

int JumpTable::read(dl_phdr_info* info, size_t, void* found) {
  auto& table = *static_cast<JumpTable*>(found);
  const std::string path(info->dlpi_name), &end = table.path_end_;
  if (path.size() < end.size() || path.compare(path.size() - end.size(), end.size(), end) != 0) return 0;
  table.path_ = path;
  table.base_ = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    // The C library has made the addresses in it absolute.
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(table.base_ + info->dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      const auto address = entry->d_un.d_ptr;
      if (entry->d_tag == DT_JMPREL) table.entries_ = reinterpret_cast<const Relocation*>(address);
      if (entry->d_tag == DT_PLTRELSZ) table.num_entries_ = entry->d_un.d_val / sizeof(Relocation);
      if (entry->d_tag == DT_SYMTAB) table.symbols_ = reinterpret_cast<const Symbol*>(address);
      if (entry->d_tag == DT_STRTAB) table.names_ = reinterpret_cast<const char*>(address);
    }
  }
  return 1;
}

void* JumpTable::function_named(const char* name) const {
  void* const handle = path_.empty() ? nullptr : dlopen(path_.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* const function = dlsym(handle, name);
  dlclose(handle);  // Paddle keeps it open
  return function;
}

void** JumpTable::find(const char* name) const {
  const auto address = reinterpret_cast<Address>(function_named(name));
  if (address == 0 || entries_ == nullptr || symbols_ == nullptr || names_ == nullptr) return nullptr;
  for (size_t i = 0; i < num_entries_; ++i) {
    const Symbol& symbol = symbols_[ELF64_R_SYM(entries_[i].r_info)];
    if (base_ + symbol.st_value != address || std::strcmp(names_ + symbol.st_name, name) != 0) continue;
    auto** const entry = reinterpret_cast<void**>(base_ + entries_[i].r_offset);
    return make_writable(entry) ? entry : nullptr;
  }
  return nullptr;
}

}  // namespace hp::paddle_adapter
