#include "schemas/base/arena.h"

#include "schemas/base/memory_map.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES_FIRST = 4096, CHUNK_BYTES_MAX = 1 << 20, ALIGNMENT = 16 };

// The address sanitizer reports accesses to unallocated memory, and to a gap after each allocation.
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
enum { GAP_BYTES = 1 };
#else
#define ASAN_POISON_MEMORY_REGION(memory, size)
#define ASAN_UNPOISON_MEMORY_REGION(memory, size)
enum { GAP_BYTES = 0 };
#endif

struct arena_chunk {
    struct arena_chunk *next;
    size_t capacity;
    bool is_callers;
    alignas(16) unsigned char data[];
};

static struct arena_chunk *chunk_create(size_t capacity)
{
    if (capacity > SIZE_MAX - sizeof(struct arena_chunk))
        return NULL;
    size_t size = sizeof(struct arena_chunk) + capacity;
    struct arena_chunk *chunk = size < MEMORY_MAP_HUGE_BYTES ? malloc(size) : memory_map(size);
    if (chunk) {
        *chunk = (struct arena_chunk){.capacity = capacity};
        ASAN_POISON_MEMORY_REGION(chunk->data, capacity);
    }
    return chunk;
}

static void chunk_destroy(struct arena_chunk *chunk)
{
    size_t size = sizeof *chunk + chunk->capacity;
    if (!chunk->is_callers && size < MEMORY_MAP_HUGE_BYTES)
        free(chunk);
    else if (!chunk->is_callers)
        memory_unmap(chunk, size);
}

static bool chunk_add(struct arena *arena, size_t capacity)
{
    struct arena_chunk *chunk = chunk_create(capacity);
    if (!chunk)
        return false;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    arena->used_bytes = 0;
    arena->total_bytes += chunk->capacity;
    return true;
}

bool arena_reserve(struct arena *arena, size_t size)
{
    if (arena->chunks && arena->chunks->capacity - arena->used_bytes >= size)
        return true;
    // Rounds up to whole huge pages.
    size_t whole = sizeof(struct arena_chunk) + size, rest = whole % MEMORY_MAP_HUGE_BYTES;
    bool is_huge = size < SIZE_MAX / 2 && whole >= MEMORY_MAP_HUGE_BYTES;
    return chunk_add(arena, is_huge && rest ? size + MEMORY_MAP_HUGE_BYTES - rest : size);
}

// Chunks double in size up to a limit, so that a small job needs one allocation and a large one few.
static size_t next_capacity(const struct arena *arena, size_t size)
{
    size_t capacity = arena->chunks ? arena->chunks->capacity * 2 : CHUNK_BYTES_FIRST;
    if (capacity > CHUNK_BYTES_MAX)
        capacity = CHUNK_BYTES_MAX;
    return capacity < size ? size : capacity;
}

void arena_init_within(struct arena *arena, void *memory, size_t size)
{
    struct arena_chunk *chunk = memory;
    *arena = (struct arena){0};
    if (size <= sizeof *chunk)
        return;
    *chunk = (struct arena_chunk){.capacity = size - sizeof *chunk, .is_callers = true};
    arena->chunks = chunk;
    arena->total_bytes = chunk->capacity;
    ASAN_POISON_MEMORY_REGION(chunk->data, chunk->capacity);
}

// Allocates a chunk whose memory is not zeroed.
static void *allocate_chunk(struct arena *arena, size_t size)
{
    if (size > SIZE_MAX - ALIGNMENT - GAP_BYTES)
        return NULL;
    size_t taken = (size + GAP_BYTES + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    bool fits = arena->chunks && arena->chunks->capacity - arena->used_bytes >= taken;
    if (!fits && !chunk_add(arena, next_capacity(arena, taken)))
        return NULL;
    void *memory = arena->chunks->data + arena->used_bytes;
    ASAN_UNPOISON_MEMORY_REGION(memory, size);
    arena->used_bytes += taken;
    return memory;
}

// Zeroes only the allocation, not the chunk: most of a small job's chunk is never touched.
void *arena_allocate(struct arena *arena, size_t size)
{
    void *memory = allocate_chunk(arena, size);
    return memory ? memset(memory, 0, size) : NULL;
}

void *arena_allocate_array(struct arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return arena_allocate(arena, bytes);
}

char *arena_copy(struct arena *arena, const char *data, size_t size)
{
    if (size == SIZE_MAX)
        return NULL;
    char *copy = allocate_chunk(arena, size + 1);
    if (copy && size)
        memcpy(copy, data, size);
    if (copy)
        copy[size] = '\0';
    return copy;
}

void arena_finish(struct arena *arena)
{
    for (struct arena_chunk *chunk = arena->chunks; chunk;) {
        struct arena_chunk *next = chunk->next;
        ASAN_UNPOISON_MEMORY_REGION(chunk->data, chunk->capacity);
        chunk_destroy(chunk);
        chunk = next;
    }
    *arena = (struct arena){0};
}
