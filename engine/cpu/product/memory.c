#include "engine/cpu/product/memory.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>

// Size of a mapping. A mapping only reserves addresses; memory is committed on first touch. With a limit on
// the address space (ulimit -v), addresses are as scarce as memory, so mappings are smaller.
enum { CHUNK_BYTES = 256 << 20, CHUNK_BYTES_LIMITED = 2 << 20, TAKE_UNIT = 4096 };

static size_t chunk_bytes(void)
{
    struct rlimit limit;
    bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return limited ? CHUNK_BYTES_LIMITED : CHUNK_BYTES;
}

struct memory_chunk {
    struct memory_chunk *next;
    unsigned char *memory;
    size_t size, used;
};

static struct memory_chunk *chunk_add(struct memory_stack *stack, size_t size)
{
    struct memory_chunk *chunk = calloc(1, sizeof *chunk);
    if (!chunk)
        return NULL;
    size_t usual = chunk_bytes();
    chunk->size = size > usual ? size : usual;
    chunk->memory = memory_map(chunk->size);
    if (!chunk->memory && size < chunk->size) { // the address space may be limited: retry with the exact size
        chunk->size = size;
        chunk->memory = memory_map(size);
    }
    if (!chunk->memory) {
        free(chunk);
        return NULL;
    }
    chunk->next = stack->chunks;
    stack->chunks = chunk;
    return chunk;
}

void *memory_stack_take(struct memory_stack *stack, size_t size)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + TAKE_UNIT - 1) / TAKE_UNIT * TAKE_UNIT;
    struct memory_chunk *chunk = stack->chunks;
    if (!chunk || chunk->size - chunk->used < size)
        chunk = chunk_add(stack, size);
    if (!chunk)
        return NULL;
    void *taken = chunk->memory + chunk->used;
    chunk->used += size;
    return taken;
}

void memory_stack_finish(struct memory_stack *stack)
{
    while (stack->chunks) {
        struct memory_chunk *chunk = stack->chunks;
        stack->chunks = chunk->next;
        memory_unmap(chunk->memory, chunk->size);
        free(chunk);
    }
}
