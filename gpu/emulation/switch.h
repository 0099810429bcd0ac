// Context switch between the stacks of emulated threads, with the address sanitizer's annotations.
#pragma once

#include <stddef.h>

struct emulate_switch {
    void *stack_pointer; // address of the saved registers
    void *fake_stack;    // the sanitizer's fake stack
    const void *stack;
    size_t stack_bytes;
    void (*main)(void *argument);
    void *argument;
};

// Prepares a stack: the first switch to it calls main, which ends with emulate_switch_last.
void emulate_switch_prepare(struct emulate_switch *state, void *stack, size_t stack_bytes,
                            void (*main)(void *argument), void *argument);
// Continues in `to`; returns when another context switches back.
void emulate_switch_to(struct emulate_switch *from, struct emulate_switch *to);
// Like emulate_switch_to, but the calling stack is never used again.
_Noreturn void emulate_switch_last(struct emulate_switch *to);
