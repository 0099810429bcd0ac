// The walk of the trie that computes a mask inside one JSON string, with the terminal's automaton alone.
#include "engine/grammar/string_masks.h"
#include "engine/grammar/string_tokens.h"

#include <string.h>

enum {
    SEARCH_EXPRESSIONS = 256, // limit on the expressions of a search for plain characters that may follow
    SEARCH_WORK = 1 << 15,    // limit on the work of its derivatives
    SEARCH_LEVELS = 32,       // more than STRING_PLAIN_LETTERS
};

// Returns the stamp of an expression, which is 0 at first.
static uint64_t *stamp_of(struct string_masks *masks, uint32_t id)
{
    if (id >= masks->seen.n) {
        if (!VECTOR_RESERVE(&masks->seen, (size_t)id + 1)) {
            expressions_fail_memory(masks->automaton->pool);
            return NULL;
        }
        memset(masks->seen.items + masks->seen.n, 0,
               (masks->seen.capacity - masks->seen.n) * sizeof *masks->seen.items);
        masks->seen.n = masks->seen.capacity;
    }
    return masks->seen.items + id;
}

static bool is_live(struct expressions *pool, uint32_t expression)
{
    return expression != EXPRESSION_NOTHING && !expression_is_empty_language(pool, expression);
}

// Adds the expressions to which plain characters lead, with the level. False: some characters lead to a dead
// end.
static bool expand_plain(struct string_masks *masks, uint32_t id, unsigned level)
{
    struct expressions *pool = masks->automaton->pool;
    if (!expression_count(pool, id))
        return false;
    const struct expression_node node = *expression_node(pool, id);
    for (uint32_t i = 0; i < node.n_derivative; i++) {
        struct expression_piece piece = pool->pieces.items[node.derivative + i];
        uint32_t last = CODE_POINT_MAX;
        if (i + 1 < node.n_derivative)
            last = pool->pieces.items[node.derivative + i + 1].first - 1;
        if (!string_tokens_has_plain(piece.first, last))
            continue;
        uint64_t *seen = stamp_of(masks, piece.target);
        if (!seen)
            return false;
        if (*seen / SEARCH_LEVELS == masks->search)
            continue;
        *seen = masks->search * SEARCH_LEVELS + level;
        if (!is_live(pool, piece.target) || masks->queue.n == SEARCH_EXPRESSIONS)
            return false;
        if (!VECTOR_ADD(&masks->queue, piece.target)) {
            expressions_fail_memory(pool);
            return false;
        }
    }
    return true;
}

// Computes how many plain characters may follow in any order, up to STRING_PLAIN_LETTERS, by a breadth-first
// search.
static unsigned search_plain(struct string_masks *masks, const struct byte_state *state)
{
    struct expressions *pool = masks->automaton->pool;
    masks->search++;
    masks->queue.n = 0;
    if (state->place != PLACE_BETWEEN)
        return 0;
    uint64_t *seen = stamp_of(masks, state->expression);
    if (!seen || !VECTOR_ADD(&masks->queue, state->expression)) {
        expressions_fail_memory(pool);
        return 0;
    }
    *seen = masks->search * SEARCH_LEVELS;
    size_t at = 0;
    uint64_t work = 0;
    for (unsigned n = 0; n < STRING_PLAIN_LETTERS; n++)
        for (size_t stop = masks->queue.n; at < stop; at++) {
            if (!expand_plain(masks, masks->queue.items[at], n + 1))
                return n;
            work += expression_derived_work(pool, masks->queue.items[at]);
            if (work > SEARCH_WORK)
                return n;
        }
    return STRING_PLAIN_LETTERS;
}

// The same for an expression that the last search reached. 0: unknown.
static uint32_t plain_after(const struct string_masks *masks, uint32_t expression)
{
    uint64_t seen = expression < masks->seen.n ? masks->seen.items[expression] : 0;
    uint64_t level = seen % SEARCH_LEVELS;
    return seen / SEARCH_LEVELS == masks->search && level < masks->n_plain ? masks->n_plain - (uint32_t)level
                                                                           : 0;
}

// Takes tokens that need no walk. The others are in the trie that is walked.
static void take_known(struct string_masks *masks, struct string_mask *mask)
{
    const struct grammar_vocabulary *vocabulary = masks->vocabulary;
    const struct byte_state state = BLOCK_ITEM(&masks->automaton->states, mask->state);
    const uint32_t *known = NULL;
    const struct string_tokens *tokens = vocabulary->strings;
    masks->walked = (struct walked_trie){&vocabulary->all, NULL, &tokens->letters};
    masks->n_plain = search_plain(masks, &state);
    if (masks->n_plain == STRING_PLAIN_LETTERS) {
        known = tokens->plain;
        masks->walked =
            (struct walked_trie){&tokens->not_plain, tokens->not_plain_nodes, &tokens->not_plain_letters};
    }
    for (size_t i = 0; known && i < grammar_mask_words(vocabulary->n_tokens); i++)
        mask->bits[i] |= known[i];
}

bool string_mask_add_exit(struct string_masks *masks, struct string_mask *mask, uint32_t at)
{
    if (masks->vocabulary->all.nodes[at].stop == at + 1 || VECTOR_ADD(&mask->exits, at))
        return true;
    expressions_fail_memory(masks->automaton->pool);
    return false;
}

// If any characters may follow the state, returns its index in string_tokens.states; else 0.
static uint8_t open_state(const struct string_masks *masks, uint32_t id)
{
    const struct string_tokens *tokens = masks->vocabulary->strings;
    const struct byte_state *state = &BLOCK_ITEM(&masks->automaton->states, id);
    if (state->expression != EXPRESSION_ALL)
        return 0;
    size_t at = 1;
    while (at < tokens->states.n && !byte_state_equal(&tokens->states.items[at], state))
        at++;
    return at < tokens->states.n ? (uint8_t)at : 0;
}

// Takes the tokens at and below a node of vocabulary.all that stay inside a string. set_runs() sets their
// bits after the walk.
static bool take_inside(struct string_masks *masks, uint32_t at)
{
    const struct grammar_vocabulary *vocabulary = masks->vocabulary;
    const uint32_t *n_inside = vocabulary->strings->n_inside;
    uint32_t first = n_inside[at], stop = n_inside[vocabulary->all.nodes[at].stop];
    struct token_run *last = masks->runs.n ? &masks->runs.items[masks->runs.n - 1] : NULL;
    masks->n_taken += stop - first;
    if (last && last->stop == first) {
        last->stop = stop;
        return true;
    }
    if (VECTOR_ADD(&masks->runs, ((struct token_run){first, stop})))
        return true;
    expressions_fail_memory(masks->automaton->pool);
    return false;
}

// Sets the bits of the runs. If the runs cover most tokens, sets all bits and clears the gaps.
static void set_runs(struct string_masks *masks, uint32_t *bits)
{
    const struct string_tokens *tokens = masks->vocabulary->strings;
    size_t n_words = grammar_mask_words(masks->vocabulary->n_tokens);
    if (masks->n_taken < tokens->inside.n / 2) {
        for (size_t i = 0; i < masks->runs.n; i++)
            string_tokens_set(tokens, masks->runs.items[i].first, masks->runs.items[i].stop, true, bits);
        return;
    }
    memcpy(masks->taken, tokens->all, n_words * sizeof *bits);
    uint32_t at = 0;
    for (size_t i = 0; i < masks->runs.n; at = masks->runs.items[i++].stop)
        string_tokens_set(tokens, at, masks->runs.items[i].first, false, masks->taken);
    string_tokens_set(tokens, at, (uint32_t)tokens->inside.n, false, masks->taken);
    for (size_t i = 0; i < n_words; i++)
        bits[i] |= masks->taken[i];
}

// Takes all tokens at and below a node of vocabulary.all after which the string may have arbitrary
// characters.
static bool take_below(struct string_masks *masks, uint32_t at, struct string_mask *mask)
{
    const struct grammar_vocabulary *vocabulary = masks->vocabulary;
    const struct string_tokens *tokens = vocabulary->strings;
    uint32_t stop = vocabulary->all.nodes[at].stop;
    if (!take_inside(masks, at))
        return false;
    for (size_t i = string_tokens_first(tokens->closing.items, tokens->closing.n, at);
         i < tokens->closing.n && tokens->closing.items[i].node < stop; i++)
        mask->bits[tokens->closing.items[i].id / 32] |= 1u << tokens->closing.items[i].id % 32;
    for (size_t i = string_tokens_first(tokens->exits.items, tokens->exits.n, at);
         i < tokens->exits.n && tokens->exits.items[i].node < stop; i++)
        if (!string_mask_add_exit(masks, mask, tokens->exits.items[i].node))
            return false;
    return true;
}

// Returns the node of vocabulary.all with the same bytes as a node of the trie that is walked.
static uint32_t node_of_all(const struct string_masks *masks, uint32_t at)
{
    return masks->walked.nodes ? masks->walked.nodes[at] : at;
}

static bool reserve_state(struct string_masks *masks, uint32_t id)
{
    while (masks->states.n <= id) {
        if (!BLOCKS_ADD(&masks->states, (struct walked_state){0})) {
            expressions_fail_memory(masks->automaton->pool);
            return false;
        }
    }
    return true;
}

static void describe_state(struct string_masks *masks, uint32_t id)
{
    const struct byte_state *state = &BLOCK_ITEM(&masks->automaton->states, id);
    BLOCK_ITEM(&masks->states, id) = (struct walked_state){.visit = masks->visit,
                                                           .is_between = state->place == PLACE_BETWEEN,
                                                           .open = open_state(masks, id),
                                                           .expression = state->expression,
                                                           .n_plain = plain_after(masks, state->expression)};
}

// Counts a state to which a token leads, once per mask. False: the pool has failed.
static bool enter_state(struct string_masks *masks, uint32_t id, struct string_mask *mask)
{
    struct expressions *pool = masks->automaton->pool;
    if (!reserve_state(masks, id))
        return false;
    if (BLOCK_ITEM(&masks->states, id).visit == masks->visit)
        return true;
    describe_state(masks, id);
    if (++mask->n_states <= pool->limits.values[GRAMMAR_LIMIT_MASK_SETS])
        return true;
    expressions_fail(pool, GRAMMAR_LIMIT_MASK_SETS);
    return false;
}

static void find_letters(struct string_masks *masks, struct walked_state *state)
{
    const struct letter_step *step = letters_step(&masks->letters, masks->automaton->pool, state->expression);
    state->has_letters = true;
    if (step) {
        state->letters = step->letters;
        state->next = step->next;
    }
}

// True if all tokens below a node stay inside because of their letters: either all letters are plain, or the
// string treats them alike.
static bool are_letters_alike(struct string_masks *masks, const struct letter_summary *summary,
                              struct walked_state *state)
{
    if (summary->n_letters <= state->n_plain &&
        letters_within(&summary->letters, &masks->vocabulary->strings->plain_letters))
        return true;
    if (!state->has_letters)
        find_letters(masks, state);
    if (!letters_within(&summary->letters, &state->letters))
        return false;
    return state->next == state->expression ||
           letters_follow(&masks->letters, masks->automaton->pool, state->expression, summary);
}

// Takes the tokens below a node if all stay inside because of their letters.
static bool take_letters(struct string_masks *masks, uint32_t at, struct walked_state *state)
{
    const struct string_letters *letters = masks->walked.letters;
    const struct string_tokens *tokens = masks->vocabulary->strings;
    uint8_t open = masks->walked.trie->nodes[at].string_state;
    return state->is_between && masks->walked.trie->nodes[at].stop - at > LETTERS_NODES_MIN && open &&
           tokens->states.items[open].place == PLACE_BETWEEN &&
           are_letters_alike(masks, &letters->summaries.items[letters->index[at]], state) &&
           take_inside(masks, node_of_all(masks, at));
}

// Returns the state after a byte, and caches the row of the state in the place. BYTE_STATE_DEAD also if the
// pool has failed.
static inline uint32_t step_from(struct byte_automaton *automaton, struct walk_place *place,
                                 unsigned char byte)
{
    uint32_t to = place->row ? place->row[byte] : BYTE_STATE_UNKNOWN;
    if (to == BYTE_STATE_UNKNOWN) {
        to = byte_automaton_step(automaton, place->state, byte);
        place->row = BLOCK_ITEM(&automaton->rows, place->state);
    }
    return to;
}

uint32_t string_walk_step(struct string_masks *masks, uint32_t id, unsigned char byte)
{
    const struct byte_state *state = &BLOCK_ITEM(&masks->automaton->states, id);
    if (state->place == PLACE_BETWEEN && !expression_count(masks->automaton->pool, state->expression))
        return BYTE_STATE_DEAD;
    return byte_automaton_step(masks->automaton, id, byte);
}

uint32_t string_walk_bytes(struct string_masks *masks, uint32_t state, struct text bytes)
{
    for (size_t at = 0; at < bytes.size && state != BYTE_STATE_DEAD; at++)
        state = string_walk_step(masks, state, (unsigned char)bytes.data[at]);
    return state;
}

// Counts the derivatives of steps from a state, once. False: the pool has failed.
static bool count_leaving(struct string_masks *masks, struct walked_state *state)
{
    if (state->is_left)
        return true;
    state->is_left = true;
    return expressions_add_work(masks->automaton->pool, STATE_WORK) &&
           (!state->is_between || expression_count(masks->automaton->pool, state->expression));
}

static void walk_trie(struct string_masks *masks, struct string_mask *mask)
{
    struct byte_automaton *automaton = masks->automaton;
    const struct trie *trie = masks->walked.trie;
    const uint32_t closed = byte_automaton_closed(automaton);
    struct walk_place *places = masks->places;
    if (!reserve_state(masks, mask->state))
        return;
    describe_state(masks, mask->state);
    BLOCK_ITEM(&masks->states, mask->state).visit = 0; // counted only if a token leads to it
    if (!count_leaving(masks, &BLOCK_ITEM(&masks->states, mask->state)))
        return;
    places[0] = (struct walk_place){.state = mask->state};
    for (uint32_t at = 0; at < trie->n_nodes && automaton->pool->status == STATUS_OK;) {
        const struct trie_node *node = &trie->nodes[at];
        struct walk_place *from = &places[node->depth];
        uint32_t to = step_from(automaton, from, node->byte);
        if (to == BYTE_STATE_DEAD) {
            at = node->stop;
            continue;
        }
        if (to != from->state && !enter_state(masks, to, mask))
            return;
        struct walked_state *state = &BLOCK_ITEM(&masks->states, to);
        if (state->open && state->open == node->string_state && to != from->state) {
            if (!take_below(masks, node_of_all(masks, at), mask))
                return;
            at = node->stop;
            continue;
        }
        vocabulary_set_tokens(masks->vocabulary, node, mask->bits);
        if (to == closed && !string_mask_add_exit(masks, mask, node_of_all(masks, at)))
            return;
        if (to == closed || take_letters(masks, at, state)) {
            at = node->stop;
            continue;
        }
        if (!count_leaving(masks, state))
            return;
        from[1] = (struct walk_place){to, BLOCK_ITEM(&automaton->rows, to)};
        at++;
    }
}

void string_walk(struct string_masks *masks, struct string_mask *mask)
{
    masks->visit++;
    masks->runs.n = masks->n_taken = 0;
    take_known(masks, mask);
    walk_trie(masks, mask);
    set_runs(masks, mask->bits);
}
