// Replaces functions inside of Paddle's libraries that are no kernels, and that no callback of the device reaches.
//
// A library calls the functions that it exports through its jump table, so that other libraries can replace them.
#pragma once

#include <link.h>

#include <atomic>
#include <cstddef>
#include <string>

namespace hp::paddle_adapter {

class JumpTable {
 public:
  using Address = ElfW(Addr);
  using Relocation = ElfW(Rela);
  using Symbol = ElfW(Sym);

  // Of the loaded library whose path has this end. Empty if there is none.
  explicit JumpTable(const char* path_end);

  // Makes the library call `replacement` instead of its own function, which goes to `original`. Does nothing if the
  // library has no such function, by its mangled name, or does not call it through the table.
  template <class Function>
  void replace(const char* name, Function* replacement, std::atomic<Function*>& original) const {
    void** const entry = find(name);
    if (entry == nullptr) return;
    original = reinterpret_cast<Function*>(function_named(name));
    __atomic_store_n(entry, reinterpret_cast<void*>(replacement), __ATOMIC_RELEASE);
  }

 private:
  static int read(dl_phdr_info* info, size_t, void* found);
  void* function_named(const char* name) const;
  // The writable entry, or null.
  void** find(const char* name) const;

  const std::string path_end_;
  std::string path_;
  Address base_ = 0;
  const Relocation* entries_ = nullptr;
  size_t num_entries_ = 0;
  const Symbol* symbols_ = nullptr;
  const char* names_ = nullptr;
};

}  // namespace hp::paddle_adapter
