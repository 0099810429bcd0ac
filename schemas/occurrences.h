// How often each hash was seen, of requests or names: 16 bytes a different one, in a table that is at most three
// quarters full. A zeroed struct is valid and empty. Thread: main.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct occurrence {
    uint64_t hash;
    uint64_t n; // 0: the place is free
};

struct occurrences {
    struct occurrence *places; // [n_places], a power of 2
    size_t n_places, n_used;
};

// *n: how often the hash occurred before. False: out of memory.
bool occurrences_count(struct occurrences *occurrences, uint64_t hash, uint64_t *n);
// How often the hash was counted so far.
uint64_t occurrences_of(const struct occurrences *occurrences, uint64_t hash);
void occurrences_finish(struct occurrences *occurrences);
