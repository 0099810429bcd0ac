// Large zeroed memory, in huge pages if the system offers them: one page fault instead of 512 on first use,
// and fewer TLB misses.
#pragma once

#include <stddef.h>

enum { MEMORY_MAP_HUGE_BYTES = 2 << 20 }; // smaller mappings use ordinary pages

void *memory_map(size_t size);                // NULL: out of memory. size > 0
void memory_unmap(void *memory, size_t size); // memory may be NULL
