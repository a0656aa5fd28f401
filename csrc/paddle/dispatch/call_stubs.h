// The function pointers that Paddle calls in dygraph mode, for signatures known only at run time.
//
// Paddle casts a kernel's function pointer to the type of the kernel's signature and calls it, so each kernel needs its
// own address and code that accepts any signature. A table of assembly stubs provides both: each stub loads its index
// into a scratch register and jumps to a shared trampoline, which saves the argument registers and calls
// `hp_phi_dispatch`.
#pragma once

#include <cstdint>

namespace hp::paddle_adapter {

constexpr int kNumStubs = 8192;

// Saved by the trampoline. The assembly in call_stubs.cpp relies on this layout.
struct ArgumentRegisters {
#if defined(__x86_64__)
  static constexpr int kIntegers = 6;
#elif defined(__aarch64__)
  static constexpr int kIntegers = 8;
#else
#error "Paddle call stubs support x86-64 and AArch64 only"
#endif
  static constexpr int kReals = 8;
  uint64_t integers[kIntegers];
  double reals[kReals];   // a float is in the low half
  const uint64_t* stack;  // the caller's stack arguments
};

void* stub(int index);

// Reads the arguments of a call in order, following the ABI. Every argument of a Phi kernel is a reference, a pointer,
// an integer or enum of up to 8 bytes, a float or double, a Place (16 bytes), or an object with a destructor, which is
// passed by reference.
class ArgumentReader {
 public:
  explicit ArgumentReader(const ArgumentRegisters& registers) : registers_(registers) {}

  uint64_t word() {
    return integers_ < ArgumentRegisters::kIntegers ? registers_.integers[integers_++] : registers_.stack[stack_++];
  }
  template <class T>
  T* pointer() {
    return reinterpret_cast<T*>(word());
  }
  // A double, or a float in the low four bytes.
  double real() {
    if (reals_ < ArgumentRegisters::kReals) return registers_.reals[reals_++];
    return reinterpret_cast<const double*>(registers_.stack)[stack_++];
  }
  // A 16-byte struct: in two registers, or entirely on the stack.
  void pair(uint64_t words[2]) {
    if (integers_ + 2 > ArgumentRegisters::kIntegers) {
#if defined(__aarch64__)
      integers_ = ArgumentRegisters::kIntegers;  // AArch64 then leaves the remaining registers unused; x86-64 does not
#endif
      words[0] = registers_.stack[stack_++];
      words[1] = registers_.stack[stack_++];
      return;
    }
    words[0] = word();
    words[1] = word();
  }

 private:
  const ArgumentRegisters& registers_;
  int integers_ = 0, reals_ = 0, stack_ = 0;
};

}  // namespace hp::paddle_adapter

// Called by the trampoline. Exceptions propagate through it.
extern "C" __attribute__((visibility("hidden"))) void hp_phi_dispatch(
    uint32_t index, const hp::paddle_adapter::ArgumentRegisters* registers);
