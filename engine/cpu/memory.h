// Memory of a backend: large pieces (schemas/memory_map.h), and the stack of its weights.
#pragma once

#include "schemas/memory_map.h"

// Weights one behind another in few mappings: each by itself would leave up to 2 MB at its end in small
// pages, a third of a model of a billion parameters. Zeroed is empty. Memory is freed all at once.
struct memory_stack {
    struct memory_chunk *chunks; // the newest first
};

void *memory_stack_take(struct memory_stack *stack, size_t size); // from a page's border; NULL: none left
void memory_stack_finish(struct memory_stack *stack);
