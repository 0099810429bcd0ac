// Counts how often each hash (of a request or a name) occurred: 16 bytes per distinct hash, in a hash table
// that is at most three quarters full. A zeroed struct is valid and empty. Thread: main.
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

// Counts the hash. *n becomes the number of times it was counted before. False: out of memory.
bool occurrences_count(struct occurrences *occurrences, uint64_t hash, uint64_t *n);
// Returns the number of times the hash was counted.
uint64_t occurrences_of(const struct occurrences *occurrences, uint64_t hash);
void occurrences_finish(struct occurrences *occurrences);
