// The shared prefixes that saved the most tokens, with their text, for the store.
#include "batching/batcher_state.h"

#include <stdlib.h>
#include <string.h>

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
