#include "engine/tokenizer/merge.h"

#include "schemas/base/memory_map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Up to this number of symbols, a linear scan for the lowest rank before each merge is faster than a heap.
enum { SHORT_WORD = 48 };

static const uint32_t no_rank = UINT32_MAX;

static uint64_t pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)(left + 1) << 32 | (uint32_t)(right + 1);
}

static size_t slot_of(const struct merge_table *table, uint64_t pair)
{
    uint64_t hash = pair * 0x9E3779B97F4A7C15u; // Fibonacci hashing: 2^64 / golden ratio
    return (size_t)(hash ^ hash >> 32) & table->mask;
}

static struct merge_rule *find_slot(const struct merge_table *table, uint64_t pair)
{
    size_t i = slot_of(table, pair);
    while (table->rules[i].pair && table->rules[i].pair != pair)
        i = (i + 1) & table->mask;
    return &table->rules[i];
}

// Keeps the table at most half full.
bool merge_table_reserve(struct merge_table *table, size_t n_rules)
{
    size_t n_slots = table->rules ? table->mask + 1 : 1024;
    while (n_slots / 2 < n_rules)
        n_slots *= 2;
    if (table->rules && n_slots == table->mask + 1)
        return true;
    struct merge_table grown = {memory_map(n_slots * sizeof *grown.rules), n_slots - 1, table->n_rules};
    if (!grown.rules)
        return false;
    for (size_t i = 0; table->rules && i <= table->mask; i++)
        if (table->rules[i].pair)
            *find_slot(&grown, table->rules[i].pair) = table->rules[i];
    merge_table_finish(table);
    *table = grown;
    return true;
}

bool merge_table_add(struct merge_table *table, int32_t left, int32_t right, uint32_t rank, int32_t merged)
{
    assert(left >= 0 && right >= 0 && merged >= 0 && rank < no_rank);
    if (!merge_table_reserve(table, table->n_rules + 1))
        return false;
    struct merge_rule *rule = find_slot(table, pair_of(left, right));
    if (rule->pair)
        return true;
    *rule = (struct merge_rule){pair_of(left, right), rank, merged};
    table->n_rules++;
    return true;
}

void merge_table_finish(struct merge_table *table)
{
    if (table->rules)
        memory_unmap(table->rules, (table->mask + 1) * sizeof *table->rules);
    *table = (struct merge_table){0};
}

// Finds the rule for a pair. rank no_rank: the pair does not merge.
static struct merge_rule rule_of(const struct merge_table *table, int32_t left, int32_t right)
{
    static const struct merge_rule none = {0, UINT32_MAX, MERGE_NO_SYMBOL};
    if (left < 0 || right < 0)
        return none;
    const struct merge_rule *rule = find_slot(table, pair_of(left, right));
    return rule->pair ? *rule : none;
}

static size_t merge_short(const struct merge_table *table, int32_t *symbols, size_t n_symbols)
{
    struct merge_rule rules[SHORT_WORD]; // rules[i]: for symbols i and i + 1
    for (size_t i = 0; i + 1 < n_symbols; i++)
        rules[i] = rule_of(table, symbols[i], symbols[i + 1]);
    while (n_symbols > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n_symbols; i++)
            if (rules[i].rank < rules[best].rank)
                best = i;
        if (rules[best].rank == no_rank)
            break;
        symbols[best] = rules[best].merged;
        memmove(&symbols[best + 1], &symbols[best + 2], (n_symbols - best - 2) * sizeof *symbols);
        memmove(&rules[best], &rules[best + 1], (n_symbols - best - 2) * sizeof *rules);
        n_symbols--;
        if (best > 0)
            rules[best - 1] = rule_of(table, symbols[best - 1], symbols[best]);
        if (best + 1 < n_symbols)
            rules[best] = rule_of(table, symbols[best], symbols[best + 1]);
    }
    return n_symbols;
}

// --- Long words: a linked list of symbols and a heap of rank << 32 | position of the left symbol ---

static bool reserve_scratch(struct merge_scratch *scratch, size_t n_symbols)
{
    if (n_symbols <= scratch->capacity)
        return true;
    merge_scratch_finish(scratch);
    scratch->next = malloc(n_symbols * sizeof *scratch->next);
    scratch->previous = malloc(n_symbols * sizeof *scratch->previous);
    scratch->ranks = malloc(n_symbols * sizeof *scratch->ranks);
    // Each merge removes one heap entry and adds at most two, and there are fewer merges than symbols.
    scratch->heap_capacity = 2 * n_symbols;
    scratch->heap = malloc(scratch->heap_capacity * sizeof *scratch->heap);
    if (!scratch->next || !scratch->previous || !scratch->ranks || !scratch->heap) {
        merge_scratch_finish(scratch);
        return false;
    }
    scratch->capacity = n_symbols;
    return true;
}

static void sift_up(uint64_t *heap, size_t at)
{
    uint64_t entry = heap[at];
    for (; at > 0 && heap[(at - 1) / 2] > entry; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = entry;
}

static void heap_push(struct merge_scratch *scratch, uint64_t entry)
{
    assert(scratch->n_heap < scratch->heap_capacity);
    scratch->heap[scratch->n_heap++] = entry;
    sift_up(scratch->heap, scratch->n_heap - 1);
}

static uint64_t heap_pop(struct merge_scratch *scratch)
{
    uint64_t *heap = scratch->heap;
    uint64_t top = heap[0];
    uint64_t entry = heap[--scratch->n_heap];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < scratch->n_heap; at = child) {
        if (child + 1 < scratch->n_heap && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= entry)
            break;
        heap[at] = heap[child];
    }
    heap[at] = entry;
    return top;
}

// Stores the rank of the pair that starts at `left` and pushes it onto the heap.
static void note_pair(const struct merge_table *table, struct merge_scratch *scratch, const int32_t *symbols,
                      uint32_t left, size_t n_symbols)
{
    uint32_t right = scratch->next[left];
    scratch->ranks[left] = no_rank;
    if (right == n_symbols)
        return;
    struct merge_rule rule = rule_of(table, symbols[left], symbols[right]);
    scratch->ranks[left] = rule.rank;
    if (rule.rank != no_rank)
        heap_push(scratch, (uint64_t)rule.rank << 32 | left);
}

static void merge_queued(const struct merge_table *table, struct merge_scratch *scratch, int32_t *symbols,
                         size_t n_symbols)
{
    while (scratch->n_heap) {
        uint64_t entry = heap_pop(scratch);
        uint32_t left = (uint32_t)entry;
        if (scratch->ranks[left] != (uint32_t)(entry >> 32)) // stale: the pair has changed since
            continue;
        uint32_t right = scratch->next[left];
        symbols[left] = rule_of(table, symbols[left], symbols[right]).merged;
        scratch->ranks[right] = no_rank;
        scratch->next[left] = scratch->next[right];
        if (scratch->next[left] < n_symbols)
            scratch->previous[scratch->next[left]] = left;
        note_pair(table, scratch, symbols, left, n_symbols);
        if (left > 0)
            note_pair(table, scratch, symbols, scratch->previous[left], n_symbols);
    }
}

static size_t merge_long(const struct merge_table *table, struct merge_scratch *scratch, int32_t *symbols,
                         size_t n_symbols)
{
    assert(n_symbols < UINT32_MAX);
    if (!reserve_scratch(scratch, n_symbols))
        return SIZE_MAX;
    scratch->n_heap = 0;
    for (uint32_t i = 0; i < n_symbols; i++) {
        scratch->next[i] = i + 1;
        scratch->previous[i] = i - 1; // previous[0] is never read
    }
    for (uint32_t i = 0; i < n_symbols; i++)
        note_pair(table, scratch, symbols, i, n_symbols);
    merge_queued(table, scratch, symbols, n_symbols);
    size_t n_left = 0;
    for (uint32_t i = 0; i < n_symbols; i = scratch->next[i])
        symbols[n_left++] = symbols[i];
    return n_left;
}

size_t merge_symbols(const struct merge_table *table, struct merge_scratch *scratch, int32_t *symbols,
                     size_t n_symbols)
{
    if (!table->rules || n_symbols < 2)
        return n_symbols;
    return n_symbols <= SHORT_WORD ? merge_short(table, symbols, n_symbols)
                                   : merge_long(table, scratch, symbols, n_symbols);
}

void merge_scratch_finish(struct merge_scratch *scratch)
{
    free(scratch->next);
    free(scratch->previous);
    free(scratch->ranks);
    free(scratch->heap);
    *scratch = (struct merge_scratch){0};
}
