#include "engine/grammar/recognizer.h"
#include "engine/grammar/closing_costs.h"
#include "engine/grammar/item_sets.h"

#include <string.h>

enum { NODES_MORE = 4000000 };

static void forget_sets(struct recognizer *recognizer)
{
    for (size_t i = 0; i < recognizer->sets.n; i++) {
        if (BLOCK_ITEM(&recognizer->sets, i).row)
            free(BLOCK_ITEM(&recognizer->sets, i).row->work);
        free(BLOCK_ITEM(&recognizer->sets, i).row);
        free(BLOCK_ITEM(&recognizer->sets, i).mask);
    }
    BLOCKS_FINISH(&recognizer->sets);
    for (size_t i = 0; i < recognizer->blocks.blocks.n; i++)
        free(recognizer->blocks.blocks.items[i]);
    VECTOR_FINISH(&recognizer->blocks.blocks);
    recognizer->blocks = (struct set_blocks){0};
    hash_index_finish(&recognizer->index);
    free(recognizer->cache.masks.sets);
    recognizer->cache.masks = (struct kept_masks){0};
    string_masks_finish(&recognizer->cache.strings);
    byte_automaton_finish(&recognizer->bytes);
    closing_costs_forget(recognizer->closing);
    expressions_destroy(recognizer->pool);
    recognizer->pool = NULL;
    recognizer->cache.n_bytes = 0;
    recognizer->visit = (struct recognizer_visit){0};
}

void recognizer_forgive(struct recognizer *recognizer)
{
    struct expressions *pool = recognizer->pool;
    if (pool->status == STATUS_REJECT &&
        (pool->limit == GRAMMAR_LIMIT_FIRST_WORK || pool->limit == GRAMMAR_LIMIT_MASK_WORK ||
         pool->limit == GRAMMAR_LIMIT_MASK_SETS || pool->limit == GRAMMAR_LIMIT_STATE_ITEMS))
        pool->status = STATUS_OK;
}

static uint32_t make_start(struct recognizer *recognizer)
{
    struct item_set dead = {0};
    if (!BLOCKS_ADD(&recognizer->sets, dead)) {
        expressions_fail_memory(recognizer->pool);
        return SET_DEAD;
    }
    recognizer_begin_visit(recognizer, SET_UNKNOWN);
    builder_begin(recognizer);
    builder_add(recognizer, (struct item){ITEM_TAIL, recognizer->grammar->start, SYMBOL_ROOT, ORIGIN_ROOT});
    return builder_finish(recognizer);
}

enum status recognizer_restart(struct recognizer *recognizer, struct error *error)
{
    forget_sets(recognizer);
    recognizer->cache.generation++;
    recognizer->pool = expressions_copy(recognizer->grammar->rules->expressions);
    if (!recognizer->pool)
        return error_memory(error, STATUS_RETRY, "a grammar's recognizer");
    // While matching, limits apply to one state or mask, not to the total over all texts.
    recognizer->pool->limits.values[GRAMMAR_LIMIT_WORK] = UINT64_MAX;
    recognizer->pool->visit.limit = GRAMMAR_LIMIT_MASK_WORK;
    recognizer->pool->limits.values[GRAMMAR_LIMIT_NODES] = recognizer->pool->nodes.n + NODES_MORE;
    recognizer->cache.strings =
        (struct string_masks){.automaton = &recognizer->bytes, .vocabulary = recognizer->vocabulary};
    if (byte_automaton_init(&recognizer->bytes, recognizer->pool))
        recognizer->start = make_start(recognizer);
    return expressions_status(recognizer->pool, error);
}

size_t recognizer_bytes(const struct recognizer *recognizer)
{
    const struct expressions *pool = recognizer->pool;
    return recognizer->cache.n_bytes + recognizer->cache.strings.n_bytes + recognizer->bytes.n_bytes +
           recognizer->sets.n * sizeof(struct item_set) + recognizer->blocks.n_bytes +
           pool->nodes.n * sizeof(struct expression_node) + pool->pieces.n * sizeof(struct expression_piece) +
           pool->links.n * sizeof(uint32_t);
}

enum status recognizer_create(struct recognizer **out, const struct grammar *grammar,
                              const struct grammar_vocabulary *vocabulary, struct error *error)
{
    struct recognizer *recognizer = *out = calloc(1, sizeof *recognizer);
    if (recognizer) {
        recognizer->grammar = grammar;
        recognizer->vocabulary = vocabulary;
        recognizer->walk = malloc((vocabulary ? vocabulary->depth_max + 2 : 1) * sizeof *recognizer->walk);
    }
    enum status status = STATUS_RETRY;
    if (recognizer && recognizer->walk)
        status = recognizer_restart(recognizer, error);
    else
        error_memory(error, STATUS_RETRY, "a grammar's recognizer");
    if (status != STATUS_OK) {
        recognizer_destroy(recognizer);
        *out = NULL;
    }
    return status;
}

void recognizer_destroy(struct recognizer *recognizer)
{
    if (!recognizer)
        return;
    forget_sets(recognizer);
    builder_free(&recognizer->builder);
    closing_costs_destroy(recognizer->closing);
    free(recognizer->walk);
    free(recognizer);
}
