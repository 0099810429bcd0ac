// Merges symbols of equal structure, and replaces a choice with one alternative by the alternative.
// Alternatives with a common prefix, such as the objects of a oneOf, then share Earley items while the parser
// is in several of them.
#include "engine/grammar/rules_parts.h"
#include "schemas/base/hash.h"

#include <string.h>

enum { SYMBOL_UNSEEN = UINT32_MAX };

// A symbol on the stack, and the index of its next child to visit.
struct visited_symbol {
    uint32_t symbol, next;
};

struct merge {
    struct rules *rules;
    uint32_t *merged;             // replacement by symbol; itself while its children are visited
    struct visited_symbol *stack; // a symbol is on the stack at most once
    size_t n_stack;
    uint32_t *table; // hash table of kept symbols; 0: free (SYMBOL_NOTHING is never searched)
    size_t mask;
};

static const uint32_t *children_of(const struct rules *rules, const struct rule_node *node)
{
    return node->n_children ? rules->children.items + node->first_child : NULL;
}

static uint64_t hash_rule(const struct rules *rules, const struct rule_node *node)
{
    const uint32_t words[] = {node->kind, node->encoding, node->expression, node->min, node->max};
    return hash_bytes(children_of(rules, node), node->n_children * sizeof(uint32_t),
                      hash_bytes(words, sizeof words, 0));
}

static bool rule_equal(const struct rules *rules, const struct rule_node *a, const struct rule_node *b)
{
    return a->kind == b->kind && a->encoding == b->encoding && a->expression == b->expression &&
           a->min == b->min && a->max == b->max && a->n_children == b->n_children &&
           (!a->n_children ||
            memcmp(children_of(rules, a), children_of(rules, b), a->n_children * sizeof(uint32_t)) == 0);
}

static int compare_symbols(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

// Replaces the children of the node by the symbols they were merged into. Sorts the children of a choice and
// removes duplicates.
static void rewrite_children(struct merge *merge, struct rule_node *node)
{
    uint32_t *children = node->n_children ? merge->rules->children.items + node->first_child : NULL, n = 0;
    for (uint32_t i = 0; i < node->n_children; i++)
        children[i] = merge->merged[children[i]];
    if (node->kind != RULE_CHOICE || node->n_children < 2)
        return;
    qsort(children, node->n_children, sizeof *children, compare_symbols);
    for (uint32_t i = 0; i < node->n_children; i++)
        if (n == 0 || children[n - 1] != children[i])
            children[n++] = children[i];
    node->n_children = n;
}

// Returns the replacement of a symbol whose children are done.
static uint32_t find_merged(struct merge *merge, uint32_t symbol)
{
    const struct rules *rules = merge->rules;
    struct rule_node *node = &merge->rules->nodes.items[symbol];
    rewrite_children(merge, node);
    if (node->kind == RULE_CHOICE && node->n_children == 1)
        return *children_of(rules, node);
    uint64_t at = hash_rule(rules, node);
    for (; merge->table[at & merge->mask]; at++)
        if (rule_equal(rules, &rules->nodes.items[merge->table[at & merge->mask]], node))
            return merge->table[at & merge->mask];
    return merge->table[at & merge->mask] = symbol;
}

static void visit_symbol(struct merge *merge, uint32_t symbol)
{
    if (merge->merged[symbol] != SYMBOL_UNSEEN)
        return;
    merge->merged[symbol] = symbol;
    merge->stack[merge->n_stack++] = (struct visited_symbol){symbol, 0};
}

// Replaces symbols below `start`. A symbol that is reached again below itself is not replaced there.
static void merge_below(struct merge *merge, uint32_t start)
{
    visit_symbol(merge, start);
    while (merge->n_stack) {
        struct visited_symbol *top = &merge->stack[merge->n_stack - 1];
        const struct rule_node *node = &merge->rules->nodes.items[top->symbol];
        if (top->next < node->n_children) {
            visit_symbol(merge, children_of(merge->rules, node)[top->next++]);
            continue;
        }
        merge->n_stack--;
        merge->merged[top->symbol] = find_merged(merge, top->symbol);
    }
}

bool rules_merge(struct rules *rules, uint32_t *start)
{
    size_t n = rules->nodes.n, size = 64;
    while (size < 2 * n)
        size *= 2;
    struct merge merge = {.rules = rules,
                          .merged = malloc(n * sizeof *merge.merged),
                          .stack = malloc(n * sizeof *merge.stack),
                          .table = calloc(size, sizeof *merge.table),
                          .mask = size - 1};
    bool whole = merge.merged && merge.stack && merge.table;
    if (whole) {
        memset(merge.merged, 0xFF, n * sizeof *merge.merged);
        merge.merged[SYMBOL_NOTHING] = SYMBOL_NOTHING;
        merge_below(&merge, *start);
        *start = merge.merged[*start];
    }
    free(merge.merged);
    free(merge.stack);
    free(merge.table);
    return whole;
}
