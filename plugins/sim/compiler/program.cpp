#include "compiler/program.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "compiler/write_all.h"
#include "host.h"
#include "memory/device_memory.h"

namespace sim {

namespace {

constexpr char kTrailerMagic[8] = {'H', 'P', 'S', 'E', 'A', 'L', '0', '1'};
struct ChecksumTrailer {
  char magic[8];
  uint64_t checksum;
};

uint64_t checksum(const char* data, size_t bytes) {
  uint64_t sum = bytes;
  for (size_t at = 0; at < bytes; at += 8) {
    uint64_t word = 0;
    memcpy(&word, data + at, bytes - at < 8 ? bytes - at : 8);
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    sum ^= sum >> 29;
  }
  return sum;
}

bool in_bounds(uint64_t offset, uint64_t length, size_t bytes) { return offset <= bytes && length <= bytes - offset; }

// Describes what is wrong with a binary; null if it is valid. The dynamic linker trusts its files: a truncated one
// raises SIGBUS, and wrong tables lead to arbitrary accesses.
const char* find_damage(const char* data, size_t bytes) {
#if defined(__x86_64__)
  constexpr uint16_t kMachine = EM_X86_64;
#else
  constexpr uint16_t kMachine = EM_AARCH64;
#endif
  ElfW(Ehdr) header;
  if (bytes < sizeof header) return "it is too short";
  memcpy(&header, data, sizeof header);
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "it is not an ELF file";
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachine || header.e_type != ET_DYN)
    return "it is not a shared library for this machine";
  if (header.e_phentsize != sizeof(ElfW(Phdr)) ||
      !in_bounds(header.e_phoff, uint64_t{header.e_phnum} * sizeof(ElfW(Phdr)), bytes) ||
      !in_bounds(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize, bytes))
    return "it is cut short";
  for (uint16_t i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) segment;
    memcpy(&segment, data + header.e_phoff + i * sizeof segment, sizeof segment);
    if (!in_bounds(segment.p_offset, segment.p_filesz, bytes)) return "it is cut short";
  }
  // Libraries compiled by other means have no checksum.
  ChecksumTrailer trailer;
  memcpy(&trailer, data + bytes - sizeof trailer, sizeof trailer);
  if (memcmp(trailer.magic, kTrailerMagic, sizeof kTrailerMagic) == 0 &&
      trailer.checksum != checksum(data, bytes - sizeof trailer))
    return "its checksum is wrong";
  return nullptr;
}

// A path of the descriptor that was never used before. The dynamic linker identifies libraries by path, and descriptor
// numbers are reused; "//" and "/." encode a serial number in binary.
std::string unique_path(int fd) {
  static std::atomic<uint32_t> count{0};
  const uint32_t serial = count.fetch_add(1, std::memory_order_relaxed);
  std::string path = "/proc/self/fd";
  for (int bit = 31; bit >= 0; --bit) path += serial >> bit & 1 ? "/." : "//";
  return path + "/" + std::to_string(fd);
}

HpStatus memfd_error(int device, int error) {
  return host->fail(HP_ERROR, "sim:%d cannot store a program in memory: %s", device, strerror(error));
}

}  // namespace

Program::~Program() { dlclose(library_); }

void Program::release() {
  if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

Function* Program::find(const char* name) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& function : functions_)
    if (function->name == name) return function.get();
  void* const code = dlsym(library_, name);
  if (!code) return nullptr;
  functions_.emplace_back(new Function(this, name, reinterpret_cast<KernelCode>(code)));
  return functions_.back().get();
}

void append_checksum(std::string* library) {
  ChecksumTrailer trailer;
  memcpy(trailer.magic, kTrailerMagic, sizeof kTrailerMagic);
  trailer.checksum = checksum(library->data(), library->size());
  library->append(reinterpret_cast<const char*>(&trailer), sizeof trailer);
}

HpStatus load_program(int device, const void* binary, size_t bytes, HpProgram* program) {
  if (!valid_device(device)) return no_such_device(device);
  if (const char* const damage = find_damage(static_cast<const char*>(binary), bytes))
    return host->fail(HP_INVALID_ARGUMENT, "sim:%d cannot load a kernel binary of %zu bytes: %s; compile it again",
                      device, bytes, damage);
  const int fd = memfd_create("hardpoint-kernel", MFD_CLOEXEC);
  if (fd < 0) return memfd_error(device, errno);
  if (!write_all(fd, static_cast<const char*>(binary), bytes)) {
    const int error = errno;
    close(fd);
    return memfd_error(device, error);
  }
  const std::string path = unique_path(fd);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  close(fd);
  if (!library)
    return host->fail(HP_INVALID_ARGUMENT, "sim:%d cannot load a kernel binary of %zu bytes: %s", device, bytes,
                      dlerror());
  // The dynamic linker also identifies libraries by inode; it then returns a library with another path.
  const link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || path != map->l_name) {
    dlclose(library);
    return host->fail(HP_ERROR, "sim:%d: the dynamic linker mistook a kernel binary for another one; load it again",
                      device);
  }
  *program = reinterpret_cast<HpProgram>(new Program(device, library));
  return HP_OK;
}

}  // namespace sim
