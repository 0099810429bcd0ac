// Changing from one stack to another, for the emulated threads of a block. The address sanitizer is told.
#pragma once

#include <stddef.h>

struct emulate_switch {
    void *stack_pointer; // where the saved registers are
    void *fake_stack;    // the sanitizer's
    const void *stack;
    size_t stack_bytes;
    void (*main)(void *argument);
    void *argument;
};

// The first switch to it calls main on the stack; main ends with emulate_switch_last.
void emulate_switch_prepare(struct emulate_switch *state, void *stack, size_t stack_bytes, void (*main)(void *argument),
                            void *argument);
// Goes on in `to` and returns when somebody switches back.
void emulate_switch_to(struct emulate_switch *from, struct emulate_switch *to);
// The same for a stack that is done with.
_Noreturn void emulate_switch_last(struct emulate_switch *to);
