#include "engine/grammar/string_masks.h"
#include "engine/grammar/string_tokens.h"

#include <string.h>

enum {
    SEARCH_EXPRESSIONS = 256, // of a search whether any characters may follow
    SEARCH_POSITIONS = 4096,  // an expression with more is derived too slowly for it
    SEARCH_LEVELS = 32,       // more than STRING_PLAIN_LETTERS
};

bool string_masks_inside(const struct byte_automaton *automaton, uint32_t id)
{
    const struct byte_state *state = &automaton->states.items[id];
    return state->encoding == TERMINAL_JSON_STRING && state->place != PLACE_OPEN &&
           state->place != PLACE_CLOSED;
}

// The stamp of an id, which is 0 before its first.
static uint64_t *stamp_of(struct string_masks *masks, uint64_t **items, size_t *n, size_t *capacity,
                          uint32_t id)
{
    if (id >= *n) {
        size_t wanted = (size_t)id + 1;
        if (!vector_reserve((void **)items, capacity, wanted, sizeof **items)) {
            expressions_fail_memory(masks->automaton->pool);
            return NULL;
        }
        memset(*items + *n, 0, (*capacity - *n) * sizeof **items);
        *n = *capacity;
    }
    return *items + id;
}

#define STAMP_OF(masks, vector, id)                                                                          \
    stamp_of(masks, &(masks)->vector.items, &(masks)->vector.n, &(masks)->vector.capacity, id)

static bool is_live(struct expressions *pool, uint32_t expression)
{
    return expression != EXPRESSION_NOTHING && !expression_is_empty_language(pool, expression);
}

// Adds what plain characters lead to, as found at the level; false: some lead nowhere.
static bool expand_plain(struct string_masks *masks, uint32_t id, unsigned level)
{
    struct expressions *pool = masks->automaton->pool;
    if (!expression_derive(pool, id))
        return false;
    const struct expression_node node = *expression_node(pool, id);
    for (uint32_t i = 0; i < node.n_derivative; i++) {
        struct expression_piece piece = pool->pieces.items[node.derivative + i];
        uint32_t last = CODE_POINT_MAX;
        if (i + 1 < node.n_derivative)
            last = pool->pieces.items[node.derivative + i + 1].first - 1;
        if (!string_tokens_has_plain(piece.first, last))
            continue;
        uint64_t *seen = STAMP_OF(masks, seen, piece.target);
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

// Finds how many plain characters may follow, whichever they are, up to STRING_PLAIN_LETTERS, in the order of
// their number.
static unsigned search_plain(struct string_masks *masks, const struct byte_state *state)
{
    struct expressions *pool = masks->automaton->pool;
    masks->search++;
    masks->queue.n = 0;
    if (state->place != PLACE_BETWEEN ||
        expression_node(pool, state->expression)->positions > SEARCH_POSITIONS)
        return 0;
    uint64_t *seen = STAMP_OF(masks, seen, state->expression);
    if (!seen || !VECTOR_ADD(&masks->queue, state->expression)) {
        expressions_fail_memory(pool);
        return 0;
    }
    *seen = masks->search * SEARCH_LEVELS;
    size_t at = 0;
    for (unsigned n = 0; n < STRING_PLAIN_LETTERS; n++)
        for (size_t behind = masks->queue.n; at < behind; at++)
            if (!expand_plain(masks, masks->queue.items[at], n + 1))
                return n;
    return STRING_PLAIN_LETTERS;
}

// How many plain characters may follow the expression, whichever they are, as far as the last search knows.
static uint32_t plain_behind(const struct string_masks *masks, uint32_t expression)
{
    uint64_t seen = expression < masks->seen.n ? masks->seen.items[expression] : 0;
    uint64_t level = seen % SEARCH_LEVELS;
    return seen / SEARCH_LEVELS == masks->search && level < masks->n_plain ? masks->n_plain - (uint32_t)level
                                                                           : 0;
}

// Sets the bits of tokens that need no walk; the rest are in the trie that is walked.
static void take_known(struct string_masks *masks, struct string_mask *mask)
{
    const struct grammar_vocabulary *vocabulary = masks->vocabulary;
    const struct byte_state state = masks->automaton->states.items[mask->state];
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

static bool add_exit(struct string_masks *masks, struct string_mask *mask, uint32_t at)
{
    if (masks->vocabulary->all.nodes[at].behind == at + 1 || VECTOR_ADD(&mask->exits, at))
        return true;
    expressions_fail_memory(masks->automaton->pool);
    return false;
}

// Counts a state that a token leads to, each once.
static bool count_state(struct string_masks *masks, uint32_t state, struct string_mask *mask)
{
    struct expressions *pool = masks->automaton->pool;
    uint64_t *visit = STAMP_OF(masks, visits, state);
    if (!visit || *visit == masks->visit)
        return visit;
    *visit = masks->visit;
    if (++mask->n_states <= pool->limits.values[GRAMMAR_LIMIT_MASK_SETS])
        return true;
    expressions_fail(pool, GRAMMAR_LIMIT_MASK_SETS);
    return false;
}

// Where the state is one of any characters: its place among string_tokens.states, else 0.
static uint8_t open_state(const struct string_masks *masks, uint32_t id)
{
    const struct string_tokens *tokens = masks->vocabulary->strings;
    const struct byte_state *state = &masks->automaton->states.items[id];
    if (state->expression != EXPRESSION_ALL)
        return 0;
    size_t at = 1;
    while (at < tokens->states.n && !byte_state_equal(&tokens->states.items[at], state))
        at++;
    return at < tokens->states.n ? (uint8_t)at : 0;
}

// Takes the tokens at and below a node of vocabulary.all that stay inside a string: their bits are set behind
// the walk.
static bool take_inside(struct string_masks *masks, uint32_t at)
{
    const struct grammar_vocabulary *vocabulary = masks->vocabulary;
    const uint32_t *n_inside = vocabulary->strings->n_inside;
    uint32_t first = n_inside[at], behind = n_inside[vocabulary->all.nodes[at].behind];
    struct token_run *last = masks->runs.n ? &masks->runs.items[masks->runs.n - 1] : NULL;
    masks->n_taken += behind - first;
    if (last && last->behind == first) {
        last->behind = behind;
        return true;
    }
    if (VECTOR_ADD(&masks->runs, ((struct token_run){first, behind})))
        return true;
    expressions_fail_memory(masks->automaton->pool);
    return false;
}

// Sets the bits of the runs, or where they are most of the tokens, all bits but those between the runs.
static void set_runs(struct string_masks *masks, uint32_t *bits)
{
    const struct string_tokens *tokens = masks->vocabulary->strings;
    size_t n_words = grammar_mask_words(masks->vocabulary->n_tokens);
    if (masks->n_taken < tokens->inside.n / 2) {
        for (size_t i = 0; i < masks->runs.n; i++)
            string_tokens_set(tokens, masks->runs.items[i].first, masks->runs.items[i].behind, true, bits);
        return;
    }
    memcpy(masks->taken, tokens->all, n_words * sizeof *bits);
    uint32_t at = 0;
    for (size_t i = 0; i < masks->runs.n; at = masks->runs.items[i++].behind)
        string_tokens_set(tokens, at, masks->runs.items[i].first, false, masks->taken);
    string_tokens_set(tokens, at, (uint32_t)tokens->inside.n, false, masks->taken);
    for (size_t i = 0; i < n_words; i++)
        bits[i] |= masks->taken[i];
}

// All below a node of vocabulary.all behind which the string may have any characters.
static bool take_below(struct string_masks *masks, uint32_t at, struct string_mask *mask)
{
    const struct grammar_vocabulary *vocabulary = masks->vocabulary;
    const struct string_tokens *tokens = vocabulary->strings;
    uint32_t behind = vocabulary->all.nodes[at].behind;
    if (!take_inside(masks, at))
        return false;
    for (size_t i = string_tokens_first(tokens->closing.items, tokens->closing.n, at);
         i < tokens->closing.n && tokens->closing.items[i].node < behind; i++)
        mask->bits[tokens->closing.items[i].id / 32] |= 1u << tokens->closing.items[i].id % 32;
    for (size_t i = string_tokens_first(tokens->exits.items, tokens->exits.n, at);
         i < tokens->exits.n && tokens->exits.items[i].node < behind; i++)
        if (!add_exit(masks, mask, tokens->exits.items[i].node))
            return false;
    return true;
}

// The node of vocabulary.all of the same bytes as a node of the trie that is walked.
static uint32_t node_of_all(const struct string_masks *masks, uint32_t at)
{
    return masks->walked.nodes ? masks->walked.nodes[at] : at;
}

// Whether all tokens below a node of the trie that is walked stay inside, because they have letters alone
// that may all follow, or that the string treats alike; they are then taken, and with them those that are
// known.
static bool take_letters(struct string_masks *masks, uint32_t at, uint32_t id)
{
    const struct string_tokens *tokens = masks->vocabulary->strings;
    const struct string_letters *letters = masks->walked.letters;
    const struct byte_state *state = &masks->automaton->states.items[id];
    uint8_t open = masks->walked.trie->nodes[at].string_state;
    if (!letters->index[at] || !open || tokens->states.items[open].place != PLACE_BETWEEN ||
        state->place != PLACE_BETWEEN)
        return false;
    const struct letter_summary *summary = &letters->summaries.items[letters->index[at]];
    bool are_plain = summary->n_letters <= plain_behind(masks, state->expression) &&
                     letters_within(&summary->letters, &tokens->plain_letters);
    if (!are_plain && !letters_follow(&masks->letters, masks->automaton->pool, state->expression, summary))
        return false;
    return take_inside(masks, node_of_all(masks, at));
}

static void walk_trie(struct string_masks *masks, struct string_mask *mask)
{
    struct byte_automaton *automaton = masks->automaton;
    const struct trie *trie = masks->walked.trie;
    const uint32_t closed = byte_automaton_closed(automaton);
    uint32_t *states = masks->walk;
    states[0] = mask->state;
    for (uint32_t at = 0; at < trie->n_nodes;) {
        const struct trie_node *node = &trie->nodes[at];
        uint32_t from = states[node->depth];
        const uint32_t *row = automaton->rows.items[from];
        uint32_t to = row ? row[node->byte] : BYTE_STATE_UNKNOWN;
        if (to == BYTE_STATE_UNKNOWN)
            to = byte_automaton_step(automaton, from, node->byte);
        bool is_open = node->string_state && to != from && open_state(masks, to) == node->string_state;
        if (automaton->pool->status != STATUS_OK ||
            (is_open && !take_below(masks, node_of_all(masks, at), mask)))
            return;
        if (to == BYTE_STATE_DEAD || is_open) {
            at = node->behind;
            continue;
        }
        vocabulary_set_tokens(masks->vocabulary, node, mask->bits);
        if (to == closed) {
            if (!add_exit(masks, mask, node_of_all(masks, at)))
                return;
            at = node->behind;
            continue;
        }
        if (to != from && !count_state(masks, to, mask))
            return;
        states[node->depth + 1] = to;
        at = take_letters(masks, at, to) ? node->behind : at + 1;
    }
}

static bool prepare_masks(struct string_masks *masks)
{
    if (!masks->kept)
        masks->kept = calloc(STRING_MASKS_KEPT, sizeof *masks->kept);
    if (!masks->taken)
        masks->taken = malloc((grammar_mask_words(masks->vocabulary->n_tokens) + 1) * sizeof *masks->taken);
    if (!masks->walk)
        masks->walk = malloc((masks->vocabulary->depth_max + 2) * sizeof *masks->walk);
    return masks->kept && masks->walk && masks->taken;
}

// min to max characters of one set: a repetition of it, or that within limits of the length.
struct counted_set {
    uint32_t set, min, max;
};

static bool add_count(const struct expressions *pool, uint32_t expression, struct counted_set *counted)
{
    const struct expression_node *node = expression_node(pool, expression);
    if (node->kind != KIND_REPEAT || expression_node(pool, node->a)->kind != KIND_SET)
        return false;
    if (node->a != EXPRESSION_ANY && counted->set != EXPRESSION_ANY && node->a != counted->set)
        return false;
    counted->set = node->a != EXPRESSION_ANY ? node->a : counted->set;
    counted->min = node->b > counted->min ? node->b : counted->min;
    counted->max = node->c < counted->max ? node->c : counted->max;
    return true;
}

static bool is_counted_set(const struct expressions *pool, const struct byte_state *state,
                           struct counted_set *counted)
{
    const struct expression_node *node = expression_node(pool, state->expression);
    *counted = (struct counted_set){EXPRESSION_ANY, 0, EXPRESSION_UNBOUNDED};
    if (state->place != PLACE_BETWEEN)
        return false;
    bool is_count = node->kind == KIND_REPEAT && add_count(pool, state->expression, counted);
    if (node->kind == KIND_BOTH && node->b == 2)
        is_count = add_count(pool, pool->links.items[node->a], counted) &&
                   add_count(pool, pool->links.items[node->a + 1], counted);
    return is_count && counted->set != EXPRESSION_ANY && counted->max != EXPRESSION_UNBOUNDED &&
           counted->min <= counted->max;
}

// The tokens of any number of the set's characters, of which those are taken that have not too many or, where
// they close the string, too few.
static void take_counted(struct string_masks *masks, const struct counted_set *counted,
                         const struct string_mask *any, struct string_mask *mask)
{
    const struct string_tokens *tokens = masks->vocabulary->strings;
    size_t n_words = grammar_mask_words(masks->vocabulary->n_tokens);
    string_tokens_inside(tokens, n_words, counted->max, mask->bits);
    for (size_t i = 0; i < n_words; i++)
        mask->bits[i] &= any->bits[i];
    for (size_t i = 0; i < tokens->closing.n; i++) {
        struct string_token token = tokens->closing.items[i];
        if (token.n_letters >= counted->min && token.n_letters <= counted->max)
            mask->bits[token.id / 32] |= any->bits[token.id / 32] & 1u << token.id % 32;
    }
    for (size_t i = 0; i < any->exits.n; i++) {
        uint32_t node = any->exits.items[i];
        uint32_t n =
            tokens->exits.items[string_tokens_first(tokens->exits.items, tokens->exits.n, node)].n_letters;
        if (n >= counted->min && n <= counted->max && !add_exit(masks, mask, node))
            return;
    }
    mask->n_states = any->n_states;
}

static const struct string_mask *find_in_slot(struct string_masks *masks, uint32_t state, size_t slot);

// The mask of any number of the set's characters, in another slot than the state's; NULL: the pool has failed.
static const struct string_mask *find_any_number(struct string_masks *masks, uint32_t state, uint32_t set)
{
    uint32_t any = expression_repeat(masks->automaton->pool, set, 0, EXPRESSION_UNBOUNDED);
    uint32_t between = byte_automaton_between(masks->automaton, any, TERMINAL_JSON_STRING);
    bool is_same_slot = between % STRING_MASKS_KEPT == state % STRING_MASKS_KEPT;
    return between == BYTE_STATE_DEAD
               ? NULL
               : find_in_slot(masks, between, (between + is_same_slot) % STRING_MASKS_KEPT);
}

static void make_mask(struct string_masks *masks, struct string_mask *mask)
{
    const struct byte_state state = masks->automaton->states.items[mask->state];
    struct counted_set counted;
    if (is_counted_set(masks->automaton->pool, &state, &counted)) {
        const struct string_mask *any = find_any_number(masks, mask->state, counted.set);
        if (any)
            take_counted(masks, &counted, any, mask);
        return;
    }
    masks->visit++;
    masks->runs.n = masks->n_taken = 0;
    take_known(masks, mask);
    walk_trie(masks, mask);
    set_runs(masks, mask->bits);
}

static const struct string_mask *find_in_slot(struct string_masks *masks, uint32_t state, size_t slot)
{
    size_t n_bytes = grammar_mask_words(masks->vocabulary->n_tokens) * sizeof(uint32_t);
    struct string_mask *mask = &masks->kept[slot];
    if (mask->state == state)
        return mask;
    if (!mask->bits) {
        masks->n_bytes += n_bytes;
        if (!(mask->bits = malloc(n_bytes + sizeof *mask->bits))) {
            expressions_fail_memory(masks->automaton->pool);
            return NULL;
        }
    }
    memset(mask->bits, 0, n_bytes);
    mask->exits.n = mask->n_states = 0;
    mask->state = state;
    make_mask(masks, mask);
    if (masks->automaton->pool->status == STATUS_OK)
        return mask;
    mask->state = BYTE_STATE_DEAD;
    return NULL;
}

const struct string_mask *string_masks_find(struct string_masks *masks, uint32_t state)
{
    if (prepare_masks(masks))
        return find_in_slot(masks, state, state % STRING_MASKS_KEPT);
    expressions_fail_memory(masks->automaton->pool);
    return NULL;
}

void string_masks_finish(struct string_masks *masks)
{
    for (size_t i = 0; masks->kept && i < STRING_MASKS_KEPT; i++) {
        free(masks->kept[i].bits);
        VECTOR_FINISH(&masks->kept[i].exits);
    }
    free(masks->kept);
    free(masks->walk);
    free(masks->taken);
    VECTOR_FINISH(&masks->runs);
    VECTOR_FINISH(&masks->visits);
    VECTOR_FINISH(&masks->seen);
    VECTOR_FINISH(&masks->queue);
    letter_steps_finish(&masks->letters);
    *masks = (struct string_masks){0};
}
