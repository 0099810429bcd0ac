// Byte-pair merging (Sennrich et al. 2016, arxiv.org/abs/1508.07909): repeatedly merges the adjacent pair of
// symbols with the lowest rank, the leftmost on a tie, until no pair has a rule. SentencePiece's merging by
// scores is the same, with ranks that fall as the score rises. Symbols are token ids, or numbers beyond the
// vocabulary.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MERGE_NO_SYMBOL = -1 }; // a symbol without any merge

struct merge_rule {
    uint64_t pair; // (left + 1) << 32 | (right + 1); 0: free slot
    uint32_t rank;
    int32_t merged;
};

// A hash table of rules. Zeroed is valid and empty.
struct merge_table {
    struct merge_rule *rules;
    size_t mask; // number of slots - 1
    size_t n_rules;
};

// Buffers for long words, reused from word to word. Zeroed is valid and empty.
struct merge_scratch {
    uint32_t *next, *previous, *ranks;
    size_t capacity;
    uint64_t *heap;
    size_t n_heap, heap_capacity;
};

// Reserves room for that many rules. Growing in steps would touch new memory at each step. False: out of
// memory.
bool merge_table_reserve(struct merge_table *table, size_t n_rules);
// Adds a rule. A pair that already has a rule keeps its rank. False: out of memory.
bool merge_table_add(struct merge_table *table, int32_t left, int32_t right, uint32_t rank, int32_t merged);
void merge_table_finish(struct merge_table *table);

// Merges `symbols` in place and returns how many remain; SIZE_MAX: out of memory. O(n log n) in the number of
// symbols, which must be below 2^32.
size_t merge_symbols(const struct merge_table *table, struct merge_scratch *scratch, int32_t *symbols,
                     size_t n_symbols);
void merge_scratch_finish(struct merge_scratch *scratch);
