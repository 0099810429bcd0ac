// A set of datasets' names, by their hashes (hash.h): 8 bytes each, so that the names of all submissions of a
// topic fit into memory. Two names of one hash would be one; of 10 million names that is one set in 300,000.
#pragma once

#include "schemas/text.h"

#include <stdint.h>

// A zeroed struct is valid and empty.
struct dataset_set {
    uint64_t *slots; // [capacity], open addressing; 0: free
    size_t n, capacity;
    bool failed; // memory ran out
};

bool dataset_set_has(const struct dataset_set *set, struct text dataset);
// Whether it is new.
bool dataset_set_add(struct dataset_set *set, struct text dataset);
void dataset_set_finish(struct dataset_set *set);
