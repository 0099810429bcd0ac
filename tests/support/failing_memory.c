#include "tests/support/failing_memory.h"

#include "tests/support/wide.h"

#include <assert.h>
#include <execinfo.h>
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

enum { STACKS_MAX = 1 << 20, CALLS_MAX = 10 }; // of which the first two are this file's

static struct {
    uint64_t stacks[STACKS_MAX]; // hashed
    long n;
    bool records;
} recorded;

void failing_memory_record(bool records)
{
    recorded.records = records;
    if (records)
        recorded.n = 0;
}

static void note_stack(void)
{
    void *calls[CALLS_MAX];
    uint64_t hash = 0xcbf29ce484222325;
    recorded.records = false; // backtrace() may allocate
    int n_calls = backtrace(calls, CALLS_MAX);
    recorded.records = true;
    for (int i = 2; i < n_calls; i++)
        hash = (hash ^ (uintptr_t)calls[i]) * 0x100000001b3;
    assert(recorded.n < STACKS_MAX);
    recorded.stacks[recorded.n++] = hash;
}

bool failing_memory_is_repeated(long n)
{
    long n_before = 0, later = n + 1;
    if (tests_are_wide() || n >= recorded.n)
        return false;
    for (long i = 0; i < n; i++)
        n_before += recorded.stacks[i] == recorded.stacks[n];
    while (later < recorded.n && recorded.stacks[later] != recorded.stacks[n])
        later++;
    return n_before >= 2 && later < recorded.n;
}

static bool may_allocate(size_t size)
{
    if (recorded.records)
        note_stack();
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
