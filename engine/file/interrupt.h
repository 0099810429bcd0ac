// A request to stop long work. It is checked while a model is hashed and its weights are loaded.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct interrupt {
    bool (*is_requested)(void *context); // called often, on the thread that started the work
    void *context;
};

// `interrupt` may be NULL: never requested.
static inline bool interrupt_requested(const struct interrupt *interrupt)
{
    return interrupt && interrupt->is_requested(interrupt->context);
}
