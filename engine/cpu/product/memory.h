// Memory for the weights of the backend, in large mappings (schemas/base/memory_map.h).
#pragma once

#include "schemas/base/memory_map.h"

// A stack of weights, stored one after another in a few mappings. With one mapping per weight, up to 2 MB at
// the end of each would be in small pages: a third of a model with a billion parameters. A zeroed stack is
// empty. All memory is freed at once.
struct memory_stack {
    struct memory_chunk *chunks; // newest first
};

void *memory_stack_take(struct memory_stack *stack, size_t size); // page-aligned; NULL: out of memory
void memory_stack_finish(struct memory_stack *stack);
