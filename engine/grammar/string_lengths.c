#include "engine/grammar/string_lengths.h"

#include <string.h>

enum {
    FOUND_MAX = 256,
    FOUND_BITS = 16,         // bits of a stamp that hold the index
    LEVELS_MAX = 16,         // characters
    POSITIONS_MAX = 1 << 14, // positions of all derived expressions, a measure of time
    PASSES_MAX = 8,
};

// Returns the stamp of an expression, which is 0 at first. NULL: out of memory.
static uint64_t *stamp_of(struct length_stamps *stamps, uint32_t expression)
{
    if (expression >= stamps->n) {
        if (!VECTOR_RESERVE(stamps, (size_t)expression + 1))
            return NULL;
        memset(stamps->items + stamps->n, 0, (stamps->capacity - stamps->n) * sizeof *stamps->items);
        stamps->n = stamps->capacity;
    }
    return stamps->items + expression;
}

// Adds an expression. False: too many expressions, or out of memory.
static bool add_found(struct length_search *search, const struct expressions *pool, uint32_t expression)
{
    uint64_t *place = stamp_of(&search->places, expression);
    if (!place)
        return false;
    if (*place >> FOUND_BITS == search->search)
        return true;
    *place = search->search << FOUND_BITS | search->found.n;
    bool is_end = expression_node(pool, expression)->nullable;
    return search->found.n < FOUND_MAX &&
           VECTOR_ADD(&search->found,
                      ((struct length_state){expression, is_end ? 0 : EXPRESSION_UNBOUNDED, false}));
}

static bool expand(struct length_search *search, struct expressions *pool, uint32_t expression)
{
    if (!expression_derive(pool, expression))
        return false;
    const struct expression_node *node = expression_node(pool, expression);
    for (uint32_t i = 0; i < node->n_derivative; i++) {
        uint32_t target = pool->pieces.items[node->derivative + i].target;
        if (target != EXPRESSION_NOTHING && !add_found(search, pool, target))
            return false;
    }
    return true;
}

// Finds the expressions that texts lead to, breadth first by the length of the texts. Texts of at most
// *n_letters characters lead to one of the first *n_known expressions. Returns the number of expressions that
// were expanded.
static size_t find_states(struct length_search *search, struct expressions *pool, uint32_t *n_letters,
                          size_t *n_known, uint64_t *work)
{
    size_t at = 0;
    uint64_t positions = 0;
    for (*n_letters = 0; at < search->found.n; ++*n_letters) {
        if (*n_letters > LEVELS_MAX) { // the last level is expanded too
            *n_letters = LEVELS_MAX;
            return at;
        }
        *n_known = search->found.n;
        for (; at < *n_known; at++) {
            uint32_t expression = search->found.items[at].expression;
            positions += expression_node(pool, expression)->positions;
            if (positions > POSITIONS_MAX || !expand(search, pool, expression))
                return at;
            *work += expression_node(pool, expression)->work.own;
        }
    }
    *n_letters = UINT32_MAX;
    return at;
}

// Computes the lengths of the state from its expanded successors.
static struct length_state look_ahead(const struct length_search *search, const struct expressions *pool,
                                      size_t at)
{
    struct length_state state = search->found.items[at];
    const struct expression_node *node = expression_node(pool, state.expression);
    bool extends = false;
    for (uint32_t i = 0; i < node->n_derivative; i++) {
        uint32_t target = pool->pieces.items[node->derivative + i].target;
        uint64_t place = target < search->places.n ? search->places.items[target] : 0;
        size_t next_at = place & ((1u << FOUND_BITS) - 1);
        if (target == EXPRESSION_NOTHING || place >> FOUND_BITS != search->search ||
            next_at >= search->found.n)
            continue;
        const struct length_state *next = &search->found.items[next_at];
        if (next->to_end != EXPRESSION_UNBOUNDED && next->to_end + 1 < state.to_end)
            state.to_end = next->to_end + 1;
        extends |= next->extends && next->to_end <= state.to_end;
    }
    state.extends &= extends;
    return state;
}

// Repeats passes until nothing changes: first computes the ends, then which states extend. False: too many
// passes.
static bool settle(struct length_search *search, const struct expressions *pool, size_t n_expanded)
{
    bool changed = true;
    for (int pass = 0; changed && pass < PASSES_MAX; pass++) {
        changed = false;
        for (size_t at = n_expanded; at-- > 0;) {
            struct length_state *state = &search->found.items[at], next = look_ahead(search, pool, at);
            changed |= next.to_end != state->to_end || next.extends != state->extends;
            *state = next;
        }
    }
    return !changed;
}

// A state is `extends` unless no successor is both `extends` and one step nearer to its end. This is the
// greatest fixed point, so all states start as `extends`.
static bool find_ends(struct length_search *search, const struct expressions *pool, size_t n_expanded)
{
    if (!settle(search, pool, n_expanded))
        return false;
    for (size_t at = 0; at < n_expanded; at++)
        search->found.items[at].extends = search->found.items[at].to_end != EXPRESSION_UNBOUNDED;
    return settle(search, pool, n_expanded);
}

static void summarize(struct length_search *search, struct expressions *pool, struct string_lengths *lengths)
{
    size_t n_known = 0, n_expanded = find_states(search, pool, &lengths->n_letters, &n_known, &lengths->work);
    if (pool->status != STATUS_OK || !find_ends(search, pool, n_expanded))
        return;
    lengths->exact = lengths->n_letters == UINT32_MAX;
    lengths->to_end_first = search->found.items[0].to_end;
    lengths->known = lengths->extends = true;
    for (size_t at = 0; at < n_known; at++) {
        const struct length_state *state = &search->found.items[at];
        if (state->to_end == EXPRESSION_UNBOUNDED && lengths->exact)
            continue; // matches nothing
        lengths->known &= state->to_end != EXPRESSION_UNBOUNDED;
        lengths->extends &= state->extends;
        lengths->to_end = state->to_end > lengths->to_end ? state->to_end : lengths->to_end;
    }
}

// Counts the work of the derivatives. False: the pool has failed.
static bool count_work(struct length_search *search, struct expressions *pool,
                       const struct string_lengths *lengths)
{
    uint64_t *counted = stamp_of(&search->counted, lengths->expression);
    if (!counted)
        expressions_fail_memory(pool);
    else if (*counted != search->visit)
        expressions_add_work(pool, lengths->work);
    if (counted)
        *counted = search->visit;
    return pool->status == STATUS_OK;
}

const struct string_lengths *string_lengths_find(struct length_search *search, struct expressions *pool,
                                                 uint32_t expression)
{
    if (!search->kept && !(search->kept = calloc(STRING_LENGTHS_KEPT, sizeof *search->kept))) {
        expressions_fail_memory(pool);
        return NULL;
    }
    struct string_lengths *lengths = &search->kept[expression % STRING_LENGTHS_KEPT];
    if (lengths->expression == expression)
        return count_work(search, pool, lengths) ? lengths : NULL;
    *lengths = (struct string_lengths){.to_end_first = EXPRESSION_UNBOUNDED};
    search->search++;
    search->found.n = 0;
    if (add_found(search, pool, expression))
        summarize(search, pool, lengths);
    if (pool->status == STATUS_REJECT && pool->limit != GRAMMAR_LIMIT_NODES &&
        pool->limit != pool->visit.limit)
        pool->status = STATUS_OK;
    lengths->expression = pool->status == STATUS_OK ? expression : EXPRESSION_NOTHING;
    return pool->status == STATUS_OK && count_work(search, pool, lengths) ? lengths : NULL;
}

void length_search_finish(struct length_search *search)
{
    free(search->kept);
    VECTOR_FINISH(&search->found);
    VECTOR_FINISH(&search->places);
    VECTOR_FINISH(&search->counted);
    *search = (struct length_search){0};
}
