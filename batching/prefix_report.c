// Figures of the prefix cache for the store: counts, and the shared prefixes that saved the most tokens, with
// their text.
#include "batching/batcher_state.h"
#include "schemas/base/hash.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD_MAX = sizeof((struct prefix_top *)0)->head / sizeof(int32_t) };

// When the list is full, the prefix that saved the fewest tokens is replaced; the new one starts at zero.
static struct prefix_top *top_entry(struct prefix_tree *tree, uint64_t hash)
{
    struct prefix_top *least = &tree->top[0];
    for (int32_t i = 0; i < tree->n_top; i++) {
        if (tree->top[i].hash == hash)
            return &tree->top[i];
        if (tree->top[i].tokens_saved < least->tokens_saved)
            least = &tree->top[i];
    }
    if (tree->n_top < PREFIX_TOP_MAX)
        least = &tree->top[tree->n_top++];
    *least = (struct prefix_top){.hash = hash};
    return least;
}

// Hash of the first n_tokens of the path: page by page, with the hash of the preceding pages as seed.
static uint64_t hash_of(const struct prefix_tree *tree, struct prefix_node *node, int32_t n_tokens,
                        const int32_t *tokens)
{
    while (node->depth > n_tokens)
        node = node->parent;
    const struct prefix_node *known = node;
    while (!known->is_hashed)
        known = known->parent;
    uint64_t hash = known->hash;
    int32_t size = tree->page_positions, i = known->depth / size;
    for (; i < n_tokens / size; i++) {
        if (i == node->depth / size)
            node->hash = hash, node->is_hashed = true;
        hash = hash_bytes(tokens + (size_t)i * (size_t)size, (size_t)size * sizeof *tokens, hash);
    }
    if (i == node->depth / size)
        node->hash = hash, node->is_hashed = true;
    int32_t rest = n_tokens - i * size;
    return rest ? hash_bytes(tokens + (size_t)i * (size_t)size, (size_t)rest * sizeof *tokens, hash) : hash;
}

uint64_t prefix_count(struct prefix_tree *tree, struct prefix_node *node, int32_t n_cached,
                      const int32_t *tokens, int32_t n_tokens)
{
    tree->figures.n_lookups++;
    tree->figures.tokens_looked_up += n_tokens;
    if (n_cached == 0)
        return 0;
    tree->figures.n_hits++;
    tree->figures.tokens_saved += n_cached;
    if (n_cached < tree->page_positions)
        return 0;
    uint64_t hash = hash_of(tree, node, n_cached, tokens);
    struct prefix_top *top = top_entry(tree, hash);
    top->n_hits++;
    top->tokens_saved += n_cached;
    if (top->n_tokens)
        return hash;
    top->n_tokens = n_cached;
    top->n_head = n_cached < HEAD_MAX ? n_cached : HEAD_MAX;
    memcpy(top->head, tokens, (size_t)top->n_head * sizeof *tokens);
    return hash;
}

static void show_prefix(const struct batcher *b, const struct prefix_top *top,
                        struct prefix_report_entry *entry)
{
    *entry = (struct prefix_report_entry){.hash = top->hash,
                                          .n_tokens = top->n_tokens,
                                          .n_hits = top->n_hits,
                                          .tokens_saved = top->tokens_saved};
    struct buffer text = {0};
    for (int32_t i = 0; i < top->n_head; i++)
        tokenizer_decode(b->config.environment.tokenizer, top->head[i], true, &text);
    size_t n = 0;
    while (n < text.size) {
        uint32_t codepoint;
        size_t length = utf8_decode(text.data + n, text.size - n, &codepoint);
        if (length == 0 || n + length >= sizeof entry->text)
            break;
        n += length;
    }
    memcpy(entry->text, text.data ? text.data : "", n);
    buffer_finish(&text);
}

static int by_tokens_saved(const void *a, const void *b)
{
    const struct prefix_top *x = *(const struct prefix_top *const *)a,
                            *y = *(const struct prefix_top *const *)b;
    return (x->tokens_saved < y->tokens_saved) - (x->tokens_saved > y->tokens_saved);
}

void batcher_report_prefixes(const struct batcher *b, struct prefix_report *report)
{
    const struct prefix_figures *figures = &b->tree.figures;
    *report = (struct prefix_report){.n_lookups = figures->n_lookups,
                                     .n_hits = figures->n_hits,
                                     .tokens_looked_up = figures->tokens_looked_up,
                                     .tokens_saved = figures->tokens_saved,
                                     .n_evictions = figures->n_evictions,
                                     .pages_shared = figures->n_pages_shared,
                                     .pages_idle = figures->n_pages_idle};
    const struct prefix_top *order[PREFIX_TOP_MAX];
    for (int32_t i = 0; i < b->tree.n_top; i++)
        order[i] = &b->tree.top[i];
    qsort(order, (size_t)b->tree.n_top, sizeof order[0], by_tokens_saved);
    for (int32_t i = 0; i < b->tree.n_top && i < PREFIX_REPORT_MAX; i++)
        show_prefix(b, order[i], &report->entries[report->n_entries++]);
}
