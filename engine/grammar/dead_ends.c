#include "engine/grammar/dead_ends.h"
#include "engine/grammar/string_tokens.h"

#include <string.h>

enum {
    FOUND_MAX = 256,
    FOUND_BITS = 16,    // of a stamp, for the index
    WORK_MAX = 1 << 16, // of the derivatives
    PASSES_MAX = 32,
    RARE = 4,         // a set is rare if at most 1/RARE of the tokens contain one of its letters
    FEW_LETTERS = 12, // most tokens contain a letter of a larger set
};

uint32_t dead_ends_place(const struct dead_ends *ends, uint32_t expression)
{
    uint64_t place = expression < ends->places.n ? ends->places.items[expression] : 0;
    uint32_t at = place & ((1u << FOUND_BITS) - 1);
    return place >> FOUND_BITS == ends->search && at < ends->found.n ? at : DEAD_ENDS_NONE;
}

// Index of an expression, found or added; DEAD_ENDS_NONE: too many, or no memory.
static uint32_t add_found(struct dead_ends *ends, const struct expressions *pool, uint32_t expression)
{
    uint32_t place = dead_ends_place(ends, expression);
    if (place != DEAD_ENDS_NONE)
        return place;
    if (ends->found.n == FOUND_MAX || !VECTOR_RESERVE(&ends->places, (size_t)expression + 1))
        return DEAD_ENDS_NONE;
    if (expression >= ends->places.n) {
        memset(ends->places.items + ends->places.n, 0,
               (ends->places.capacity - ends->places.n) * sizeof *ends->places.items);
        ends->places.n = ends->places.capacity;
    }
    struct dead_ends_state state = {.expression = expression,
                                    .is_live = expression_node(pool, expression)->nullable};
    if (!VECTOR_ADD(&ends->found, state))
        return DEAD_ENDS_NONE;
    place = (uint32_t)ends->found.n - 1;
    ends->places.items[expression] = ends->search << FOUND_BITS | place;
    return place;
}

// Upper bound of the tokens that contain a letter of the set.
static uint64_t count_tokens(const struct string_tokens *tokens, const struct letter_set *set)
{
    uint64_t n = 0;
    for (unsigned letter = 0; letter < LETTERS; letter++)
        n += set->words[letter / 64] >> letter % 64 & 1 ? tokens->n_with_letter[letter] : 0;
    return n;
}

static bool letters_equal(const struct letter_set *a, const struct letter_set *b)
{
    return a->words[0] == b->words[0] && a->words[1] == b->words[1] && a->words[2] == b->words[2];
}

// Index of the set, found or added; DEAD_ENDS_NONE: too many.
static uint32_t add_set(struct dead_ends *ends, const struct string_tokens *tokens,
                        const struct letter_set *letters)
{
    uint32_t at = 0;
    while (at < ends->n_sets && !letters_equal(&ends->sets[at], letters))
        at++;
    if (at == DEAD_ENDS_SETS_MAX)
        return DEAD_ENDS_NONE;
    if (at == ends->n_sets) {
        ends->is_rare[at] = count_tokens(tokens, letters) <= tokens->inside.n / RARE;
        ends->sets[ends->n_sets++] = *letters;
    }
    return at;
}

// The letters of all pieces, from index `first` on, that have its target.
static struct letter_set letters_to(const struct expressions *pool, const struct expression_node *node,
                                    uint32_t first)
{
    const struct expression_piece *pieces = pool->pieces.items + node->derivative;
    struct letter_set letters = {0};
    for (uint32_t i = first; i < node->n_derivative; i++)
        if (pieces[i].target == pieces[first].target)
            letters_add_touched(&letters, pieces[i].first,
                                i + 1 < node->n_derivative ? pieces[i + 1].first - 1 : CODE_POINT_MAX);
    return letters;
}

static bool is_first_of_target(const struct expressions *pool, const struct expression_node *node,
                               uint32_t at)
{
    const struct expression_piece *pieces = pool->pieces.items + node->derivative;
    for (uint32_t i = 0; i < at; i++)
        if (pieces[i].target == pieces[at].target)
            return false;
    return true;
}

// Adds a step. False: too many steps, or a dead end that many tokens reach.
static bool add_step(struct dead_ends *ends, const struct expressions *pool,
                     const struct string_tokens *tokens, uint32_t at, uint32_t target,
                     const struct letter_set *letters)
{
    struct dead_ends_step step = {add_set(ends, tokens, letters), DEAD_ENDS_NONE};
    if (step.set == DEAD_ENDS_NONE)
        return false;
    bool is_near = ends->found.items[at].is_near && !ends->is_rare[step.set];
    if (target == EXPRESSION_NOTHING)
        return !is_near && VECTOR_ADD(&ends->steps, step);
    step.to = add_found(ends, pool, target);
    if (step.to == DEAD_ENDS_NONE)
        return false;
    ends->found.items[step.to].is_near |= is_near;
    return VECTOR_ADD(&ends->steps, step);
}

static bool expand(struct dead_ends *ends, struct expressions *pool, const struct string_tokens *tokens,
                   uint32_t at)
{
    uint32_t expression = ends->found.items[at].expression, first = (uint32_t)ends->steps.n;
    if (!expression_count(pool, expression))
        return false;
    const struct expression_node *node = expression_node(pool, expression);
    for (uint32_t i = 0; i < node->n_derivative; i++) {
        uint32_t target = pool->pieces.items[node->derivative + i].target;
        if (!is_first_of_target(pool, node, i))
            continue;
        struct letter_set letters = letters_to(pool, node, i);
        if (!add_step(ends, pool, tokens, at, target, &letters))
            return false;
    }
    ends->found.items[at].first_step = first;
    ends->found.items[at].n_steps = (uint32_t)ends->steps.n - first;
    return true;
}

static bool find_states(struct dead_ends *ends, struct expressions *pool, uint32_t expression,
                        const struct string_tokens *tokens)
{
    uint64_t work = 0;
    if (add_found(ends, pool, expression) == DEAD_ENDS_NONE)
        return false;
    ends->found.items[0].is_near = true;
    for (uint32_t at = 0; at < ends->found.n; at++) {
        if (!expand(ends, pool, tokens, at))
            return false;
        work += expression_derived_work(pool, ends->found.items[at].expression);
        if (work > WORK_MAX)
            return false;
    }
    return true;
}

// Finds the states that match something. False: too many passes.
static bool find_live(struct dead_ends *ends)
{
    bool changed = true;
    for (int pass = 0; changed && pass < PASSES_MAX; pass++) {
        changed = false;
        for (size_t at = ends->found.n; at-- > 0;) {
            struct dead_ends_state *state = &ends->found.items[at];
            for (uint32_t i = 0; i < state->n_steps && !state->is_live; i++) {
                uint32_t to = ends->steps.items[state->first_step + i].to;
                changed |= state->is_live = to != DEAD_ENDS_NONE && ends->found.items[to].is_live;
            }
        }
    }
    return !changed;
}

static bool is_part(const struct dead_ends_way *part, const struct dead_ends_way *of)
{
    uint64_t more = 0;
    for (int i = 0; i < DEAD_ENDS_SETS_MAX / 64; i++)
        more |= part->words[i] & ~of->words[i];
    return !more;
}

// Adds a way unless a subset of it is known, and drops supersets of it. Too many ways are replaced by the
// empty way: any text may end dead. Returns whether anything changed.
static bool add_way(struct dead_ends_state *state, struct dead_ends_way way)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < state->n_ways; i++)
        if (is_part(&state->ways[i], &way))
            return false;
    for (uint32_t i = 0; i < state->n_ways; i++)
        if (!is_part(&way, &state->ways[i]))
            state->ways[n++] = state->ways[i];
    if (n == DEAD_ENDS_WAYS_MAX) {
        way = (struct dead_ends_way){0};
        n = 0;
    }
    state->ways[n++] = way;
    state->n_ways = n;
    return true;
}

static bool add_ways_of(struct dead_ends *ends, struct dead_ends_state *state, struct dead_ends_step step)
{
    const uint64_t bit = UINT64_C(1) << step.set % 64;
    if (step.to == DEAD_ENDS_NONE || !ends->found.items[step.to].is_live) {
        struct dead_ends_way way = {0};
        way.words[step.set / 64] = bit;
        return add_way(state, way);
    }
    const struct dead_ends_state *next = &ends->found.items[step.to];
    bool changed = false;
    for (uint32_t i = 0; i < next->n_ways && next != state; i++) {
        struct dead_ends_way way = next->ways[i];
        way.words[step.set / 64] |= bit;
        changed |= add_way(state, way);
    }
    return changed;
}

static bool find_ways(struct dead_ends *ends)
{
    bool changed = true;
    for (int pass = 0; changed && pass < PASSES_MAX; pass++) {
        changed = false;
        for (size_t at = ends->found.n; at-- > 0;) {
            struct dead_ends_state *state = &ends->found.items[at];
            for (uint32_t i = 0; i < state->n_steps && state->is_live; i++)
                changed |= add_ways_of(ends, state, ends->steps.items[state->first_step + i]);
        }
    }
    return !changed;
}

void dead_ends_find(struct dead_ends *ends, struct expressions *pool, uint32_t expression,
                    const struct string_tokens *tokens)
{
    ends->search++;
    ends->found.n = ends->steps.n = 0;
    ends->n_sets = 0;
    ends->regular = (struct letter_set){0};
    letters_add(&ends->regular, 0, CODE_POINT_MAX);
    ends->known = find_states(ends, pool, expression, tokens) && find_live(ends) && find_ways(ends);
    if (pool->status == STATUS_REJECT && pool->limit != GRAMMAR_LIMIT_NODES)
        pool->status = STATUS_OK;
}

static bool have_common(const struct letter_set *a, const struct letter_set *b)
{
    return (a->words[0] & b->words[0]) || (a->words[1] & b->words[1]) || (a->words[2] & b->words[2]);
}

// The way's first set >= `set`; DEAD_ENDS_SETS_MAX: none.
static uint32_t next_set(const struct dead_ends_way *way, uint32_t set)
{
    while (set < DEAD_ENDS_SETS_MAX) {
        uint64_t rest = way->words[set / 64] >> set % 64;
        if (rest)
            return set + (uint32_t)__builtin_ctzll(rest);
        set = (set / 64 + 1) * 64;
    }
    return DEAD_ENDS_SETS_MAX;
}

bool dead_ends_avoided(const struct dead_ends *ends, uint32_t place, const struct letter_set *letters)
{
    const struct dead_ends_state *state = &ends->found.items[place];
    if (!state->is_live || !letters_within(letters, &ends->regular))
        return false;
    for (uint32_t i = 0; i < state->n_ways; i++) {
        uint32_t set = next_set(&state->ways[i], 0);
        while (set < DEAD_ENDS_SETS_MAX && have_common(&ends->sets[set], letters))
            set = next_set(&state->ways[i], set + 1);
        if (set == DEAD_ENDS_SETS_MAX)
            return false;
    }
    return true;
}

// Whether a set of the way is rare.
static bool has_rare_set(const struct dead_ends *ends, const struct dead_ends_way *way)
{
    uint32_t set = next_set(way, 0);
    while (set < DEAD_ENDS_SETS_MAX && !ends->is_rare[set])
        set = next_set(way, set + 1);
    return set < DEAD_ENDS_SETS_MAX;
}

static void add_tokens_with(const struct string_tokens *tokens, const struct letter_set *set, size_t n_words,
                            uint32_t *bits)
{
    for (unsigned letter = 0; letter < LETTERS; letter++) {
        const uint32_t *mask = tokens->with_letter + letter * n_words;
        if (!(set->words[letter / 64] >> letter % 64 & 1) || !tokens->n_with_letter[letter])
            continue;
        for (size_t i = 0; i < n_words; i++)
            bits[i] |= mask[i];
    }
}

// Clears the bits of the tokens without a letter of the set.
static void keep_tokens_with(const struct string_tokens *tokens, const struct letter_set *set, size_t n_words,
                             uint32_t *bits)
{
    const uint32_t *masks[FEW_LETTERS];
    unsigned n = 0;
    for (unsigned letter = 0; letter < LETTERS; letter++) {
        if (!(set->words[letter / 64] >> letter % 64 & 1) || !tokens->n_with_letter[letter])
            continue;
        if (n == FEW_LETTERS)
            return; // most tokens contain one: keep all
        masks[n++] = tokens->with_letter + letter * n_words;
    }
    if (n == 1) {
        for (size_t i = 0; i < n_words; i++)
            bits[i] &= masks[0][i];
        return;
    }
    for (size_t i = 0; i < n_words; i++) {
        uint32_t any = 0;
        for (unsigned k = 0; k < n; k++)
            any |= masks[k][i];
        bits[i] &= any;
    }
}

bool dead_ends_tokens(const struct dead_ends *ends, uint32_t place, const struct string_tokens *tokens,
                      size_t n_words, uint32_t *room, uint32_t *bits)
{
    const struct dead_ends_state *state = &ends->found.items[place];
    struct letter_set others;
    for (int i = 0; i < LETTERS / 64; i++)
        others.words[i] = ~ends->regular.words[i];
    for (uint32_t i = 0; i < state->n_ways; i++)
        if (!has_rare_set(ends, &state->ways[i]))
            return false;
    memset(bits, 0, n_words * sizeof *bits);
    add_tokens_with(tokens, &others, n_words, bits);
    for (uint32_t i = 0; i < state->n_ways; i++) {
        const struct dead_ends_way *way = &state->ways[i];
        memcpy(room, tokens->all, n_words * sizeof *room);
        for (uint32_t set = next_set(way, 0); set < DEAD_ENDS_SETS_MAX; set = next_set(way, set + 1))
            keep_tokens_with(tokens, &ends->sets[set], n_words, room);
        for (size_t k = 0; k < n_words; k++)
            bits[k] |= room[k];
    }
    return state->is_live;
}

void dead_ends_finish(struct dead_ends *ends)
{
    VECTOR_FINISH(&ends->found);
    VECTOR_FINISH(&ends->steps);
    VECTOR_FINISH(&ends->places);
}
