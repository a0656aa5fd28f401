#include "dispatch/call_stubs.h"

// Each stub is 16 bytes. Stubs jump rather than call, so only the trampoline has a stack frame and needs unwind
// information.
#if defined(__x86_64__)
asm(R"(
  .text
  .p2align 4
  .type hp_phi_trampoline, @function
hp_phi_trampoline:
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  subq $128, %rsp
  movq %rdi, 0(%rsp)
  movq %rsi, 8(%rsp)
  movq %rdx, 16(%rsp)
  movq %rcx, 24(%rsp)
  movq %r8, 32(%rsp)
  movq %r9, 40(%rsp)
  movsd %xmm0, 48(%rsp)
  movsd %xmm1, 56(%rsp)
  movsd %xmm2, 64(%rsp)
  movsd %xmm3, 72(%rsp)
  movsd %xmm4, 80(%rsp)
  movsd %xmm5, 88(%rsp)
  movsd %xmm6, 96(%rsp)
  movsd %xmm7, 104(%rsp)
  leaq 16(%rbp), %rax
  movq %rax, 112(%rsp)
  movl %r11d, %edi
  movq %rsp, %rsi
  call hp_phi_dispatch
  leave
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_endproc
  .size hp_phi_trampoline, .-hp_phi_trampoline

  .p2align 4
  .globl hp_phi_stubs
  .hidden hp_phi_stubs
  .type hp_phi_stubs, @function
hp_phi_stubs:
  .set hp_phi_index, 0
  .rept 8192
  .p2align 4
  endbr64
  movl $hp_phi_index, %r11d
  jmp hp_phi_trampoline
  .set hp_phi_index, hp_phi_index + 1
  .endr
  .size hp_phi_stubs, .-hp_phi_stubs
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .p2align 4
  .type hp_phi_trampoline, %function
hp_phi_trampoline:
  .cfi_startproc
  stp x29, x30, [sp, #-160]!
  .cfi_def_cfa_offset 160
  .cfi_offset 29, -160
  .cfi_offset 30, -152
  mov x29, sp
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  stp d0, d1, [sp, #80]
  stp d2, d3, [sp, #96]
  stp d4, d5, [sp, #112]
  stp d6, d7, [sp, #128]
  add x9, sp, #160
  str x9, [sp, #144]
  mov w0, w16
  add x1, sp, #16
  bl hp_phi_dispatch
  ldp x29, x30, [sp], #160
  .cfi_restore 29
  .cfi_restore 30
  .cfi_def_cfa_offset 0
  ret
  .cfi_endproc
  .size hp_phi_trampoline, .-hp_phi_trampoline

  .p2align 4
  .globl hp_phi_stubs
  .hidden hp_phi_stubs
  .type hp_phi_stubs, %function
hp_phi_stubs:
  .set hp_phi_index, 0
  .rept 8192
  .p2align 4
  hint #34
  mov w16, #hp_phi_index
  b hp_phi_trampoline
  .set hp_phi_index, hp_phi_index + 1
  .endr
  .size hp_phi_stubs, .-hp_phi_stubs
)");
#endif

extern "C" char hp_phi_stubs[];

namespace hp::paddle_adapter {

void* stub(int index) { return hp_phi_stubs + 16 * index; }

}  // namespace hp::paddle_adapter
