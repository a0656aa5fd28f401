#include "program.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "host.h"
#include "memory.h"

namespace sim {

namespace {

constexpr char kSealMark[8] = {'H', 'P', 'S', 'E', 'A', 'L', '0', '1'};
struct Seal {
  char mark[8];
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

bool inside(uint64_t offset, uint64_t length, size_t bytes) { return offset <= bytes && length <= bytes - offset; }

// What is wrong with a binary, or null. The dynamic linker trusts the files that it maps: a file that is cut short
// raises SIGBUS, and one with wrong tables sends it anywhere.
const char* damage_of(const char* data, size_t bytes) {
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
      !inside(header.e_phoff, uint64_t{header.e_phnum} * sizeof(ElfW(Phdr)), bytes) ||
      !inside(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize, bytes))
    return "it is cut short";
  for (uint16_t i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) segment;
    memcpy(&segment, data + header.e_phoff + i * sizeof segment, sizeof segment);
    if (!inside(segment.p_offset, segment.p_filesz, bytes)) return "it is cut short";
  }
  // A library that was compiled by other means than `compile` has no seal.
  Seal seal;
  memcpy(&seal, data + bytes - sizeof seal, sizeof seal);
  if (memcmp(seal.mark, kSealMark, sizeof kSealMark) == 0 && seal.checksum != checksum(data, bytes - sizeof seal))
    return "its checksum is wrong";
  return nullptr;
}

// A descriptor's path, spelled as nobody spelled it before. The dynamic linker takes an equal path for the same
// library, and the numbers of closed descriptors come back; "//" and "/." in the path write a serial number in binary.
std::string unique_path(int fd) {
  static std::atomic<uint32_t> count{0};
  const uint32_t serial = count.fetch_add(1, std::memory_order_relaxed);
  std::string path = "/proc/self/fd";
  for (int bit = 31; bit >= 0; --bit) path += serial >> bit & 1 ? "/." : "//";
  return path + "/" + std::to_string(fd);
}

bool write_all(int fd, const char* data, size_t bytes) {
  for (ssize_t n; bytes > 0; data += n, bytes -= static_cast<size_t>(n)) {
    do n = write(fd, data, bytes);
    while (n < 0 && errno == EINTR);
    if (n <= 0) return false;
  }
  return true;
}

HpStatus no_memory_file(int device, int error) {
  return host->fail(HP_ERROR, "sim:%d cannot hold a program in memory: %s", device, strerror(error));
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

void seal(std::string* library) {
  Seal seal;
  memcpy(seal.mark, kSealMark, sizeof kSealMark);
  seal.checksum = checksum(library->data(), library->size());
  library->append(reinterpret_cast<const char*>(&seal), sizeof seal);
}

HpStatus load_program(int device, const void* binary, size_t bytes, HpProgram* program) {
  if (!valid_device(device)) return no_such_device(device);
  if (const char* const damage = damage_of(static_cast<const char*>(binary), bytes))
    return host->fail(HP_INVALID_ARGUMENT, "sim:%d cannot load a kernel binary of %zu bytes: %s; compile it again",
                      device, bytes, damage);
  const int fd = memfd_create("hardpoint-kernel", MFD_CLOEXEC);
  if (fd < 0) return no_memory_file(device, errno);
  if (!write_all(fd, static_cast<const char*>(binary), bytes)) {
    const int error = errno;
    close(fd);
    return no_memory_file(device, error);
  }
  const std::string path = unique_path(fd);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  close(fd);
  if (!library)
    return host->fail(HP_INVALID_ARGUMENT, "sim:%d cannot load a kernel binary of %zu bytes: %s", device, bytes,
                      dlerror());
  // The dynamic linker also takes an equal inode number for the same library; its answer then carries another path.
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
