// An arena: many small allocations, one free. A job and everything it points to lives in one.
// Memory is zeroed and aligned to 16 bytes. Not thread-safe; moves with its owner.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks; // newest first
    size_t used_bytes;          // in the newest chunk
    size_t total_bytes;         // of all chunks
};

// A zeroed struct is a valid, empty arena. With arena_init_within its first chunk is memory of the caller,
// which is aligned to 16 bytes and outlives the arena; arena_finish does not free it.
void arena_init_within(struct arena *arena, void *memory, size_t size);
// Reserves memory for allocations of `size` bytes in total, alignment and padding included. Many megabytes
// are in huge pages (schemas/base/memory_map.h). False: out of memory.
bool arena_reserve(struct arena *arena, size_t size);
// Zeroed memory of `size` bytes. NULL only when the machine has no memory left (or size overflows).
void *arena_allocate(struct arena *arena, size_t size);
// `count` elements of `size` bytes; the product is overflow-checked.
void *arena_allocate_array(struct arena *arena, size_t count, size_t size);
// A copy of `size` bytes followed by a NUL that is not counted.
char *arena_copy(struct arena *arena, const char *data, size_t size);
void arena_finish(struct arena *arena);
