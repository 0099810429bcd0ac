// Memory of the backend's weights, in large mappings (schemas/base/memory_map.h).
#pragma once

#include "schemas/base/memory_map.h"

// A stack of weights, one after the other in a few mappings. A mapping per weight would leave up to 2 MB at
// its end in small pages: a third of a model with a billion parameters. A zeroed stack is empty. All memory
// is freed at once.
struct memory_stack {
    struct memory_chunk *chunks; // newest first
};

void *memory_stack_take(struct memory_stack *stack, size_t size); // page-aligned; NULL: out of memory
void memory_stack_finish(struct memory_stack *stack);
