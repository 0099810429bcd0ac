// Byte-pair merging (Sennrich et al. 2016, arxiv.org/abs/1508.07909): of all adjacent pairs of symbols the
// one of the lowest rank, of several the leftmost, is merged into one symbol, until no pair can be.
// SentencePiece's merging by scores is the same with ranks that fall with the score. Symbols are token ids,
// or numbers beyond the vocabulary.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MERGE_NO_SYMBOL = -1 }; // merges with nothing

struct merge_rule {
    uint64_t pair; // (left + 1) << 32 | (right + 1); 0: a free slot
    uint32_t rank;
    int32_t merged;
};

// A hash table of rules. Zeroed is valid and empty.
struct merge_table {
    struct merge_rule *rules;
    size_t mask; // slots less one
    size_t n_rules;
};

// Buffers of long words, kept from word to word. Zeroed is valid and empty.
struct merge_scratch {
    uint32_t *next, *previous, *ranks;
    size_t capacity;
    uint64_t *heap;
    size_t n_heap, heap_capacity;
};

// Room for that many rules: without it the table grows by steps, each of which touches new memory. False: no
// memory.
bool merge_table_reserve(struct merge_table *table, size_t n_rules);
// False: no memory. A pair that is there already keeps its rank.
bool merge_table_add(struct merge_table *table, int32_t left, int32_t right, uint32_t rank, int32_t merged);
void merge_table_finish(struct merge_table *table);

// Merges `symbols` in place and returns how many are left; SIZE_MAX: no memory. n log n in the number of
// symbols, which must be below 2^32.
size_t merge_symbols(const struct merge_table *table, struct merge_scratch *scratch, int32_t *symbols,
                     size_t n_symbols);
void merge_scratch_finish(struct merge_scratch *scratch);
