// Allocations that fail on purpose. The linker redirects malloc, calloc and realloc of a test program to
// failing_memory.c (--wrap, in the dependency of that name).
#pragma once

#include <stdbool.h>
#include <stddef.h>

// At first no allocation fails.
struct failing_memory {
    long n_left;      // allocations that still succeed; -1: no limit
    bool fails_alone; // after the one that failed all succeed
    bool has_failed;  // set by an allocation that failed
    size_t bytes_max; // of one allocation; larger ones fail
};

extern struct failing_memory failing_memory;

void failing_memory_after(long n_good); // sets n_left and clears has_failed

// Notes the call stack of each allocation from now on, until it is called with false.
void failing_memory_record(bool records);
// Whether the n-th of them (0: the first) need not fail as well as others: two before it and one after it have the
// same innermost calls. SHEAF_TEST_WIDE=1: none.
bool failing_memory_is_repeated(long n);
