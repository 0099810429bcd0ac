#include "engine/grammar/string_masks.h"
#include "engine/grammar/string_tokens.h"

#include <string.h>

enum {
    LIMITED_LETTERS_MIN = 4,  // with fewer characters left the states are few, and a walk is short
    NEAR_LIMIT_MAX = 1 << 14, // tokens that are walked one by one
};

bool string_masks_inside(const struct byte_automaton *automaton, uint32_t id)
{
    const struct byte_state *state = &BLOCK_ITEM(&automaton->states, id);
    return state->encoding == TERMINAL_JSON_STRING && state->place != PLACE_OPEN &&
           state->place != PLACE_CLOSED;
}

static bool prepare_masks(struct string_masks *masks)
{
    if (!masks->kept)
        masks->kept = calloc(STRING_MASKS_KEPT, sizeof *masks->kept);
    if (!masks->taken)
        masks->taken = malloc((grammar_mask_words(masks->vocabulary->n_tokens) + 1) * sizeof *masks->taken);
    if (!masks->walk)
        masks->walk = malloc((masks->vocabulary->depth_max + 2) * sizeof *masks->walk);
    if (!masks->places)
        masks->places = malloc((masks->vocabulary->depth_max + 2) * sizeof *masks->places);
    return masks->kept && masks->walk && masks->places && masks->taken;
}

// min to max characters of one set: a repetition of the set, or the intersection of a repetition with a
// length limit.
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

// Takes the tokens of the unlimited string that close it and have min to max characters.
static bool take_closing(struct string_masks *masks, uint32_t min, uint32_t max,
                         const struct string_mask *unlimited, struct string_mask *mask)
{
    const struct string_tokens *tokens = masks->vocabulary->strings;
    for (size_t i = 0; i < tokens->closing.n; i++) {
        struct string_token token = tokens->closing.items[i];
        if (token.n_letters >= min && token.n_letters <= max)
            mask->bits[token.id / 32] |= unlimited->bits[token.id / 32] & 1u << token.id % 32;
    }
    for (size_t i = 0; i < unlimited->exits.n; i++) {
        uint32_t node = unlimited->exits.items[i];
        uint32_t n =
            tokens->exits.items[string_tokens_first(tokens->exits.items, tokens->exits.n, node)].n_letters;
        if (n >= min && n <= max && !string_mask_add_exit(masks, mask, node))
            return false;
    }
    mask->n_states = unlimited->n_states;
    return true;
}

// Takes the tokens of the unlimited string that stay inside it and begin at most `max` characters.
static void take_shorter(const struct string_masks *masks, uint32_t max, const struct string_mask *unlimited,
                         uint32_t *bits)
{
    size_t n_words = grammar_mask_words(masks->vocabulary->n_tokens);
    string_tokens_inside(masks->vocabulary->strings, n_words, max, bits);
    for (size_t i = 0; i < n_words; i++)
        bits[i] &= unlimited->bits[i];
}

static const struct string_mask *find_in_slot(struct string_masks *masks, uint32_t state, size_t slot);

// Returns the mask of another string, which is needed to compute a mask. Its work counts for both. NULL: the
// pool has failed.
static const struct string_mask *find_unlimited(struct string_masks *masks, uint32_t expression)
{
    uint32_t state = byte_automaton_between(masks->automaton, expression, TERMINAL_JSON_STRING);
    size_t slot = state % STRING_MASKS_KEPT;
    while (masks->kept[slot].in_making)
        slot = (slot + 1) % STRING_MASKS_KEPT;
    return state == BYTE_STATE_DEAD ? NULL : find_in_slot(masks, state, slot);
}

// Takes the tokens for any number of the set's characters, except those that have too many characters or
// close the string with too few.
static void take_counted(struct string_masks *masks, const struct counted_set *counted,
                         struct string_mask *mask)
{
    struct expressions *pool = masks->automaton->pool;
    uint32_t any = expression_repeat(pool, counted->set, 0, EXPRESSION_UNBOUNDED);
    const struct string_mask *unlimited = find_unlimited(masks, any);
    if (!unlimited)
        return;
    take_shorter(masks, counted->max, unlimited, mask->bits);
    take_closing(masks, counted->min, counted->max, unlimited, mask);
}

// A string of min to max characters that must also match `unlimited`.
struct limited_string {
    uint32_t unlimited, min, max;
};

static bool is_limited_string(struct string_masks *masks, const struct byte_state *state,
                              struct limited_string *limited)
{
    struct expressions *pool = masks->automaton->pool;
    const struct expression_node *node = expression_node(pool, state->expression);
    *limited = (struct limited_string){.max = EXPRESSION_UNBOUNDED};
    if (state->place != PLACE_BETWEEN || node->kind != KIND_BOTH)
        return false;
    masks->queue.n = 0;
    uint32_t first = node->a, n = node->b;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t id = pool->links.items[first + i];
        const struct expression_node *part = expression_node(pool, id);
        bool is_length = part->kind == KIND_REPEAT && part->a == EXPRESSION_ANY;
        if (is_length && part->b > limited->min)
            limited->min = part->b;
        if (is_length && part->c < limited->max)
            limited->max = part->c;
        if (!is_length && !VECTOR_ADD(&masks->queue, id))
            return false;
    }
    if (masks->queue.n == 0 || masks->queue.n == n)
        return false;
    limited->unlimited = expression_both_many(pool, masks->queue.items, masks->queue.n);
    return pool->status == STATUS_OK;
}

// True if few more characters end the string from any state. Tokens that begin at most *n_letters characters
// can end within the limits.
static bool ends_soon(struct string_masks *masks, const struct limited_string *limited, uint32_t *n_letters)
{
    const struct string_lengths *lengths =
        string_lengths_find(&masks->lengths, masks->automaton->pool, limited->unlimited);
    if (!lengths || !lengths->known || (limited->min > 1 && !lengths->extends) ||
        (lengths->n_letters < STRING_PLAIN_LETTERS && lengths->n_letters < limited->max) ||
        limited->max < lengths->to_end + LIMITED_LETTERS_MIN)
        return false;
    *n_letters = limited->max == EXPRESSION_UNBOUNDED ? EXPRESSION_UNBOUNDED : limited->max - lengths->to_end;
    *n_letters = lengths->n_letters < *n_letters ? lengths->n_letters : *n_letters;
    return true;
}

// Walks tokens one by one, in trie order, without repeating the prefix shared with the previous token.
struct token_walk {
    struct text before; // the previous token
    size_t n_bytes;     // leading bytes of it whose states are known
};

static bool walk_token(struct string_masks *masks, struct token_walk *walk, uint32_t token)
{
    struct text text = masks->vocabulary->tokens[token];
    uint32_t *states = masks->walk;
    size_t at = 0;
    while (at < walk->n_bytes && at < text.size && text.data[at] == walk->before.data[at])
        at++;
    for (; at < text.size && states[at] != BYTE_STATE_DEAD; at++)
        states[at + 1] = string_walk_step(masks, states[at], (unsigned char)text.data[at]);
    *walk = (struct token_walk){text, at};
    return states[at] != BYTE_STATE_DEAD;
}

// True if a text of n_letters characters that leads the unlimited string to this state can end within the
// limits. *unknown becomes true if this cannot be decided here.
static bool ends_within(struct string_masks *masks, uint32_t state_id, uint32_t n_letters,
                        const struct limited_string *limited, bool *unknown)
{
    const struct byte_state *state = &BLOCK_ITEM(&masks->automaton->states, state_id);
    *unknown = true;
    if (state->place != PLACE_BETWEEN || n_letters < limited->min)
        return false;
    const struct string_lengths *lengths =
        string_lengths_find(&masks->lengths, masks->automaton->pool, state->expression);
    bool fits = lengths && lengths->to_end_first <= limited->max - n_letters;
    *unknown = !fits && !(lengths && lengths->exact);
    return fits;
}

// Takes tokens that are longer than the masks of string_tokens cover and have more than n_letters characters.
static void take_long(struct string_masks *masks, uint32_t n_letters, const struct limited_string *limited,
                      const struct string_mask *unlimited, struct string_mask *mask)
{
    const struct string_tokens *tokens = masks->vocabulary->strings;
    struct token_walk walk = {0};
    masks->walk[0] = mask->state;
    for (size_t i = 0; i < tokens->longer.n; i++) {
        struct string_token token = tokens->longer.items[i];
        uint32_t bit = 1u << token.id % 32;
        if (token.n_letters <= n_letters || token.n_letters > limited->max ||
            !(unlimited->bits[token.id / 32] & bit))
            continue;
        uint32_t state = string_walk_bytes(masks, unlimited->state, masks->vocabulary->tokens[token.id]);
        bool unknown, fits = ends_within(masks, state, token.n_letters, limited, &unknown);
        if (unknown ? walk_token(masks, &walk, token.id) : fits)
            mask->bits[token.id / 32] |= bit;
    }
}

// Takes tokens with more than n_letters characters. False: too many to walk one by one.
static bool take_near_limit(struct string_masks *masks, uint32_t n_letters,
                            const struct limited_string *limited, const struct string_mask *unlimited,
                            struct string_mask *mask)
{
    const struct string_tokens *tokens = masks->vocabulary->strings;
    size_t n_words = grammar_mask_words(masks->vocabulary->n_tokens), n = 0;
    struct token_walk walk = {0};
    if (n_letters >= STRING_PLAIN_LETTERS) {
        take_long(masks, n_letters, limited, unlimited, mask);
        return true;
    }
    memset(masks->taken, 0, n_words * sizeof *masks->taken);
    take_shorter(masks, limited->max, unlimited, masks->taken);
    for (size_t i = 0; i < n_words; i++)
        n += (size_t)__builtin_popcount(masks->taken[i] &= ~mask->bits[i]);
    masks->walk[0] = mask->state;
    for (size_t i = 0; i < tokens->inside.n && n && n <= NEAR_LIMIT_MAX; i++) {
        uint32_t token = tokens->inside.items[i], bit = 1u << token % 32;
        if (masks->taken[token / 32] & bit && walk_token(masks, &walk, token))
            mask->bits[token / 32] |= bit;
    }
    return n <= NEAR_LIMIT_MAX;
}

// Takes a string with length limits: the tokens of the unlimited string, except near a limit. False: nothing
// was taken; the pool may have failed.
static bool take_limited(struct string_masks *masks, struct string_mask *mask)
{
    struct expressions *pool = masks->automaton->pool;
    const struct byte_state state = BLOCK_ITEM(&masks->automaton->states, mask->state);
    struct limited_string limited;
    const struct string_mask *unlimited = NULL;
    uint32_t n_letters;
    bool taken = false;
    if (is_limited_string(masks, &state, &limited) && ends_soon(masks, &limited, &n_letters))
        unlimited = find_unlimited(masks, limited.unlimited);
    if (unlimited) {
        take_shorter(masks, n_letters, unlimited, mask->bits);
        taken = take_near_limit(masks, n_letters, &limited, unlimited, mask) &&
                take_closing(masks, limited.min, limited.max, unlimited, mask);
    }
    if (!taken) {
        if (pool->status == STATUS_REJECT && pool->limit != GRAMMAR_LIMIT_NODES)
            pool->status = STATUS_OK;
        expressions_begin_visit(pool, 0);
        memset(mask->bits, 0, grammar_mask_words(masks->vocabulary->n_tokens) * sizeof *mask->bits);
    }
    return taken;
}

static void make_mask(struct string_masks *masks, struct string_mask *mask)
{
    const struct byte_state state = BLOCK_ITEM(&masks->automaton->states, mask->state);
    struct counted_set counted;
    if (is_counted_set(masks->automaton->pool, &state, &counted)) {
        take_counted(masks, &counted, mask);
        return;
    }
    if (take_limited(masks, mask) || masks->automaton->pool->status != STATUS_OK)
        return;
    string_walk(masks, mask);
}

// Computes the mask in a separate visit, so that its work does not depend on earlier computations.
static const struct string_mask *make_in_slot(struct string_masks *masks, uint32_t state, size_t slot)
{
    size_t n_bytes = grammar_mask_words(masks->vocabulary->n_tokens) * sizeof(uint32_t);
    struct string_mask *mask = &masks->kept[slot];
    if (!mask->bits) {
        masks->n_bytes += n_bytes;
        if (!(mask->bits = malloc(n_bytes + sizeof *mask->bits))) {
            expressions_fail_memory(masks->automaton->pool);
            return NULL;
        }
    }
    memset(mask->bits, 0, n_bytes);
    mask->exits.n = mask->n_states = 0;
    expressions_begin_visit(masks->automaton->pool, 0);
    mask->state = state;
    const uint64_t visit = masks->lengths.visit;
    masks->lengths.visit = ++masks->n_made;
    mask->in_making = true;
    make_mask(masks, mask);
    mask->in_making = false;
    masks->lengths.visit = visit;
    mask->work = masks->automaton->pool->visit.work;
    if (masks->automaton->pool->status == STATUS_OK)
        return mask;
    mask->state = BYTE_STATE_DEAD;
    return NULL;
}

static const struct string_mask *find_in_slot(struct string_masks *masks, uint32_t state, size_t slot)
{
    struct expressions *pool = masks->automaton->pool;
    const uint64_t work = pool->visit.work;
    const struct string_mask *mask = &masks->kept[slot];
    if (mask->state != state)
        mask = make_in_slot(masks, state, slot);
    expressions_begin_visit(pool, work);
    return mask && expressions_add_work(pool, mask->work) ? mask : NULL;
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
    free(masks->places);
    BLOCKS_FINISH(&masks->states);
    VECTOR_FINISH(&masks->seen);
    VECTOR_FINISH(&masks->queue);
    letter_steps_finish(&masks->letters);
    length_search_finish(&masks->lengths);
    *masks = (struct string_masks){0};
}
