// Large zeroed memory, in huge pages where the system offers them: fewer misses of the address cache when a
// step streams through weights and pages.
#pragma once

#include <stddef.h>

void *memory_map(size_t size);                // NULL: none left. size > 0
void memory_unmap(void *memory, size_t size); // NULL is fine
