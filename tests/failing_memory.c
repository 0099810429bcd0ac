#include "tests/failing_memory.h"

#include <stdint.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

struct failing_memory failing_memory = {.n_left = -1, .bytes_max = SIZE_MAX};

void failing_memory_after(long n_good)
{
    failing_memory.n_left = n_good;
    failing_memory.has_failed = false;
}

static bool may_allocate(size_t size)
{
    if (failing_memory.n_left == 0 || size > failing_memory.bytes_max) {
        failing_memory.has_failed = true;
        if (failing_memory.fails_alone)
            failing_memory.n_left = -1;
        return false;
    }
    if (failing_memory.n_left > 0)
        failing_memory.n_left--;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return may_allocate(size) ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return may_allocate(count * size) ? __real_calloc(count, size) : NULL;
}

void *__wrap_realloc(void *memory, size_t size)
{
    return may_allocate(size) ? __real_realloc(memory, size) : NULL;
}
