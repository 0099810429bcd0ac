// An arena: many small allocations that are freed together. A job and everything it points to are in one
// arena. Memory is zeroed and aligned to 16 bytes. Not thread-safe; an arena moves with its owner.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks; // newest first
    size_t used_bytes;          // bytes used in the newest chunk
    size_t total_bytes;         // total bytes of all chunks
};

// A zeroed struct is a valid, empty arena. With arena_init_within its first chunk is memory of the caller,
// which is aligned to 16 bytes and outlives the arena; arena_finish does not free it.
void arena_init_within(struct arena *arena, void *memory, size_t size);
// Reserves memory for allocations of `size` bytes in total, including alignment and padding. Reservations of
// many megabytes use huge pages (schemas/base/memory_map.h). False: out of memory.
bool arena_reserve(struct arena *arena, size_t size);
// Allocates `size` zeroed bytes. Returns NULL only if the machine has no memory left, or size overflows.
void *arena_allocate(struct arena *arena, size_t size);
// Allocates `count` elements of `size` bytes; the product is overflow-checked.
void *arena_allocate_array(struct arena *arena, size_t count, size_t size);
// Copies `size` bytes and appends a NUL that is not counted.
char *arena_copy(struct arena *arena, const char *data, size_t size);
void arena_finish(struct arena *arena);
