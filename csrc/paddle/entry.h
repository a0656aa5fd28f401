// The C++ functions that Paddle calls in dygraph mode, for signatures that are known at run time only.
//
// Paddle casts a kernel's function pointer to the kernel's own type and calls it. So each kernel needs an address of
// its own, behind which any signature is understood: a table of stubs, written in assembly, that put their number into
// a scratch register and jump to one trampoline. That saves the registers which hold arguments, and calls `called`.
#pragma once

#include <cstdint>

namespace hp::paddle_adapter {

constexpr int kStubs = 8192;

// What the trampoline saves; its layout is the assembly's.
struct Registers {
#if defined(__x86_64__)
  static constexpr int kIntegers = 6;
#elif defined(__aarch64__)
  static constexpr int kIntegers = 8;
#else
#error "the stubs are written for x86-64 and AArch64"
#endif
  static constexpr int kReals = 8;
  uint64_t integers[kIntegers];
  double reals[kReals];  // a float is in the lower half
  const uint64_t* stack;
};

void* stub(int index);

// Reads the arguments of a call one after another, as the ABI hands them out. Every argument of a Phi kernel is a
// reference, a pointer, a whole number or an enumeration of up to 8 bytes, a float or a double, a Place, or an object
// with a destructor, which travels by reference.
class ArgumentReader {
 public:
  explicit ArgumentReader(const Registers& registers) : registers_(registers) {}

  uint64_t word() {
    return integers_ < Registers::kIntegers ? registers_.integers[integers_++] : registers_.stack[stack_++];
  }
  template <class T>
  T* pointer() {
    return reinterpret_cast<T*>(word());
  }
  // The bytes of a float or double, in the lower part.
  double real() {
    if (reals_ < Registers::kReals) return registers_.reals[reals_++];
    return reinterpret_cast<const double*>(registers_.stack)[stack_++];
  }
  // A struct of two words: in two registers, or whole on the stack.
  void pair(uint64_t words[2]) {
    if (integers_ + 2 > Registers::kIntegers) {
#if defined(__aarch64__)
      integers_ = Registers::kIntegers;  // none of those left is used any more; x86-64 goes on with them
#endif
      words[0] = registers_.stack[stack_++];
      words[1] = registers_.stack[stack_++];
      return;
    }
    words[0] = word();
    words[1] = word();
  }

 private:
  const Registers& registers_;
  int integers_ = 0, reals_ = 0, stack_ = 0;
};

}  // namespace hp::paddle_adapter

// The trampoline's target. Exceptions pass through.
extern "C" __attribute__((visibility("hidden"))) void hp_phi_called(uint32_t index,
                                                                    const hp::paddle_adapter::Registers* registers);
