// Saves the callee-saved registers by hand (System V ABI, AMD64 supplement, 3.2.1), on x86-64 only, because
// swapcontext makes two system calls and one mma needs 32 switches.
#include "gpu/emulation/switch.h"

#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#include <sanitizer/common_interface_defs.h>
#endif
#endif

#ifndef __SANITIZE_ADDRESS__
#define __sanitizer_start_switch_fiber(save, bottom, size)   ((void)(save))
#define __sanitizer_finish_switch_fiber(saved, bottom, size) ((void)(saved))
#endif

static struct emulate_switch *arrived, *left; // target and origin of the current switch

// Called on the new stack after a switch. Stores the bounds of the stack that was left, because the bounds of
// the caller's stack are not known before.
static void arrive_in_fiber(void)
{
    const void *bottom = left->stack;
    size_t size = left->stack_bytes;
    __sanitizer_finish_switch_fiber(arrived->fake_stack, &bottom, &size);
    left->stack = bottom;
    left->stack_bytes = size;
}

#if defined(__x86_64__)

void emulate_switch_registers(void **save, void *load);
void emulate_switch_enter(void);

__asm__(".text\n"
        ".globl emulate_switch_registers\n"
        ".hidden emulate_switch_registers\n"
        ".type emulate_switch_registers, @function\n"
        "emulate_switch_registers:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size emulate_switch_registers, . - emulate_switch_registers\n");

static void enter_fiber(void)
{
    arrive_in_fiber();
    arrived->main(arrived->argument);
    __builtin_unreachable();
}

void emulate_switch_prepare(struct emulate_switch *state, void *stack, size_t stack_bytes,
                            void (*main)(void *argument), void *argument)
{
    void **top = (void **)((char *)stack + stack_bytes);
    *--top = NULL; // stands for a return address: functions begin with the stack 8 bytes off a multiple of 16
    *--top = (void *)(uintptr_t)enter_fiber;
    top -= 6;
    *state = (struct emulate_switch){top, NULL, stack, stack_bytes, main, argument};
}

static void switch_stacks(struct emulate_switch *from, struct emulate_switch *to)
{
    emulate_switch_registers(&from->stack_pointer, to->stack_pointer);
}

#else
#error "write the registers' switch for this processor, or build with -Dgpu=disabled"
#endif

void emulate_switch_to(struct emulate_switch *from, struct emulate_switch *to)
{
    arrived = to;
    left = from;
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->stack_bytes);
    switch_stacks(from, to);
    arrive_in_fiber();
}

void emulate_switch_last(struct emulate_switch *to)
{
    static struct emulate_switch gone; // receives the state of a stack that is not used again
    arrived = to;
    left = &gone;
    __sanitizer_start_switch_fiber(NULL, to->stack, to->stack_bytes);
    switch_stacks(&gone, to);
    __builtin_unreachable();
}
