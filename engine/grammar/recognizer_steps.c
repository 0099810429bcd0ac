// Steps of a set by a byte, which are computed once and cached, and the count of their work.
#include "engine/grammar/item_sets.h"

#include <string.h>

static struct set_row *make_row(struct recognizer *recognizer, uint32_t set)
{
    struct set_row *row = malloc(sizeof *row);
    if (!row) {
        expressions_fail_memory(recognizer->pool);
        return NULL;
    }
    memset(row->sets, 0xFF, sizeof row->sets);
    row->starts = (struct byte_set){0};
    row->work = NULL;
    const struct item_set items = BLOCK_ITEM(&recognizer->sets, set);
    for (uint32_t i = 0; i < items.n_scans; i++)
        byte_automaton_classes(&recognizer->bytes, items.scans[i].a, &row->starts);
    if (recognizer->pool->status != STATUS_OK) { // some classes were not computed
        free(row);
        return NULL;
    }
    recognizer->cache.n_bytes += sizeof *row;
    return BLOCK_ITEM(&recognizer->sets, set).row = row;
}

static uint32_t make_step(struct recognizer *recognizer, uint32_t set, unsigned char byte)
{
    builder_begin(recognizer);
    const struct item *scans = BLOCK_ITEM(&recognizer->sets, set).scans;
    uint32_t n = BLOCK_ITEM(&recognizer->sets, set).n_scans;
    recognizer->visit.step_work = n;
    for (uint32_t i = 0; i < n; i++) {
        struct item scan = scans[i];
        uint32_t state = byte_automaton_step(&recognizer->bytes, scan.a, byte);
        if (state != BYTE_STATE_DEAD)
            builder_scan(recognizer, state, scan.b, scan.origin == ORIGIN_SELF ? set : scan.origin);
    }
    return builder_finish(recognizer);
}

static bool is_start(const struct set_row *row, unsigned byte)
{
    return row->starts.words[byte / 64] >> byte % 64 & 1;
}

// Finds the byte's class: bytes *first .. *stop - 1, which all lead to one set.
static void find_class(const struct set_row *row, unsigned byte, unsigned *first, unsigned *stop)
{
    *first = byte;
    *stop = byte + 1;
    while (*first > 0 && !is_start(row, *first))
        --*first;
    while (*stop < 256 && !is_start(row, *stop))
        ++*stop;
}

void recognizer_begin_visit(struct recognizer *recognizer, uint32_t set)
{
    recognizer->visit.id++;
    expressions_begin_visit(recognizer->pool, 0);
    recognizer->pool->visit.limit =
        set == recognizer->start ? GRAMMAR_LIMIT_FIRST_WORK : GRAMMAR_LIMIT_MASK_WORK;
}

bool recognizer_count_steps(struct recognizer *recognizer, uint32_t set,
                            bool (*count)(struct recognizer *recognizer, uint32_t state))
{
    struct item_set *items = &BLOCK_ITEM(&recognizer->sets, set);
    if (items->left == recognizer->visit.id)
        return true;
    items->left = recognizer->visit.id;
    bool is_counted = expressions_add_work(recognizer->pool, STATE_WORK);
    for (uint32_t i = 0; i < items->n_scans && is_counted; i++)
        is_counted = count(recognizer, items->scans[i].a);
    return is_counted;
}

static bool count_derivative(struct recognizer *recognizer, uint32_t state)
{
    const struct byte_state *of = &BLOCK_ITEM(&recognizer->bytes.states, state);
    return of->place != PLACE_BETWEEN || expression_count(recognizer->pool, of->expression);
}

bool recognizer_count_derivatives(struct recognizer *recognizer, uint32_t set)
{
    return recognizer_count_steps(recognizer, set, count_derivative);
}

bool recognizer_count_large(struct recognizer *recognizer, uint32_t set)
{
    const struct item_set *items = &BLOCK_ITEM(&recognizer->sets, set);
    for (uint32_t i = 0; i < items->n_scans; i++) {
        const struct byte_state *state = &BLOCK_ITEM(&recognizer->bytes.states, items->scans[i].a);
        if (state->place != PLACE_BETWEEN)
            continue;
        const struct expression_node *node = expression_node(recognizer->pool, state->expression);
        if (node->derivative == NO_DERIVATIVE || node->ahead != SEARCH_NONE ||
            node->work.all > STEP_DERIVATION_LARGE)
            return recognizer_count_derivatives(recognizer, set);
    }
    return true;
}

void recognizer_count_built(struct recognizer *recognizer)
{
    if (recognizer->visit.step_work >= STEP_WORK_COUNTED)
        expressions_add_work(recognizer->pool, recognizer->visit.step_work);
}

uint32_t recognizer_counted_step(struct recognizer *recognizer, struct set_row *row, unsigned char byte)
{
    struct step_work *work = row->work;
    if (work->visit != recognizer->visit.id) {
        work->visit = recognizer->visit.id;
        work->counted = (struct byte_set){0};
    }
    if (work->counted.words[byte / 64] >> byte % 64 & 1)
        return row->sets[byte];
    unsigned first, stop;
    find_class(row, byte, &first, &stop);
    for (; first < stop; first++)
        work->counted.words[first / 64] |= UINT64_C(1) << first % 64;
    return expressions_add_work(recognizer->pool, work->items[byte]) ? row->sets[byte] : SET_DEAD;
}

// All bytes of a class have the same step.
uint32_t recognizer_first_step(struct recognizer *recognizer, uint32_t set, unsigned char byte)
{
    struct set_row *row = BLOCK_ITEM(&recognizer->sets, set).row;
    if (!row && !(row = make_row(recognizer, set)))
        return SET_DEAD;
    if (row->sets[byte] == SET_UNKNOWN) {
        uint32_t target = make_step(recognizer, set, byte);
        uint64_t items = recognizer->visit.step_work;
        if (items >= STEP_WORK_COUNTED && !row->work && !(row->work = calloc(1, sizeof *row->work)))
            expressions_fail_memory(recognizer->pool);
        if (recognizer->pool->status != STATUS_OK)
            return SET_DEAD;
        unsigned first, stop;
        find_class(row, byte, &first, &stop);
        for (; first < stop; first++) {
            row->sets[first] = target;
            if (items >= STEP_WORK_COUNTED)
                row->work->items[first] = items < UINT32_MAX ? (uint32_t)items : UINT32_MAX;
        }
    }
    return row->work ? recognizer_counted_step(recognizer, row, byte) : row->sets[byte];
}
