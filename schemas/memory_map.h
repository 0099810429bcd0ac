// Large zeroed memory, in huge pages where the system offers them: one page fault instead of 512 when it is first touched, and
// fewer misses of the address cache.
#pragma once

#include <stddef.h>

enum { MEMORY_MAP_HUGE_BYTES = 2 << 20 }; // from this size on; smaller memory has pages of the usual size

void *memory_map(size_t size);                // NULL: none left. size > 0
void memory_unmap(void *memory, size_t size); // NULL is fine
