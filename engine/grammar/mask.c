// Masks: a walk over the vocabulary's trie with one item set per depth, so that tokens with a common prefix
// share its steps.
#include "engine/grammar/item_sets.h"
#include "engine/grammar/recognizer.h"
#include "engine/grammar/string_tokens.h"

#include <string.h>

// Limit on the terms of a union of several strings whose masks are computed together.
enum { UNION_TERMS_MAX = 1024 };

struct mask_making {
    uint32_t *bits;
    uint64_t n_visits;
    bool has_inside; // the tokens that stay inside a string are already set
    // A cache: the last set inside a string, and the set after its closing quote. SET_DEAD: none yet.
    uint32_t string, closed;
};

// Counts the distinct item sets of one mask; large sets count more. The count depends on the state only, not
// on the cache.
static bool count_visit(struct recognizer *recognizer, uint32_t set, uint64_t *n_visits)
{
    struct item_set *visited = &BLOCK_ITEM(&recognizer->sets, set);
    if (visited->visit == recognizer->visit.id)
        return true;
    visited->visit = recognizer->visit.id;
    *n_visits += 1 + visited->n_items / 16;
    if (*n_visits <= recognizer->pool->limits.values[GRAMMAR_LIMIT_MASK_SETS])
        return true;
    expressions_fail(recognizer->pool, GRAMMAR_LIMIT_MASK_SETS);
    return false;
}

static void walk_trie(struct recognizer *recognizer, const struct trie *trie, uint32_t first, uint32_t stop,
                      uint32_t set, struct mask_making *making);

// Returns the set after the string's closing quote.
static uint32_t close_string(struct recognizer *recognizer, uint32_t set, const struct item *scan)
{
    builder_begin(recognizer);
    uint32_t closed = byte_automaton_closed(&recognizer->bytes);
    if (closed != BYTE_STATE_DEAD)
        builder_scan(recognizer, closed, scan->b, scan->origin == ORIGIN_SELF ? set : scan->origin);
    uint32_t stop = builder_finish(recognizer);
    recognizer_count_built(recognizer);
    return stop;
}

// If the set is inside a JSON string of arbitrary characters and in nothing else, returns the index of its
// state in string_tokens.states; otherwise SET_STATE_NONE.
static uint16_t string_state(struct recognizer *recognizer, uint32_t id)
{
    const struct string_tokens *tokens = recognizer->vocabulary->strings;
    struct item_set *set = &BLOCK_ITEM(&recognizer->sets, id);
    if (set->string_state != SET_STATE_UNKNOWN)
        return set->string_state;
    set->string_state = SET_STATE_NONE;
    if (set->n_scans != 1)
        return SET_STATE_NONE;
    uint32_t scan = set->scans[0].a;
    for (uint16_t i = 1; i < tokens->states.n; i++)
        if (byte_state_equal(&tokens->states.items[i], &BLOCK_ITEM(&recognizer->bytes.states, scan)))
            set->string_state = i;
    return set->string_state;
}

// Adds the tokens at a node and below, at which any JSON string may continue. Uses precomputed lists instead
// of a walk.
static void take_below(struct recognizer *recognizer, uint32_t at, uint32_t set, struct mask_making *making)
{
    const struct grammar_vocabulary *vocabulary = recognizer->vocabulary;
    const struct string_tokens *tokens = vocabulary->strings;
    uint32_t stop = vocabulary->all.nodes[at].stop;
    if (!making->has_inside)
        string_tokens_below(tokens, &vocabulary->all, grammar_mask_words(vocabulary->n_tokens), at, true,
                            making->bits);
    for (size_t i = string_tokens_first(tokens->closing.items, tokens->closing.n, at);
         i < tokens->closing.n && tokens->closing.items[i].node < stop; i++)
        making->bits[tokens->closing.items[i].id / 32] |= 1u << tokens->closing.items[i].id % 32;
    size_t exit = string_tokens_first(tokens->exits.items, tokens->exits.n, at);
    if (exit == tokens->exits.n || tokens->exits.items[exit].node >= stop)
        return;
    if (making->string != set) {
        const struct item scan = BLOCK_ITEM(&recognizer->sets, set).scans[0];
        making->string = set;
        making->closed = close_string(recognizer, set, &scan);
    }
    for (; exit < tokens->exits.n && tokens->exits.items[exit].node < stop && making->closed != SET_DEAD;
         exit++)
        walk_trie(recognizer, &vocabulary->all, tokens->exits.items[exit].node + 1,
                  vocabulary->all.nodes[tokens->exits.items[exit].node].stop, making->closed, making);
}

static struct walk_level level_of(const struct recognizer *recognizer, uint32_t set)
{
    return (struct walk_level){.set = set, .row = BLOCK_ITEM(&recognizer->sets, set).row};
}

// Walks the nodes first..stop - 1, siblings with their subtrees.
static void walk_trie(struct recognizer *recognizer, const struct trie *trie, uint32_t first, uint32_t stop,
                      uint32_t set, struct mask_making *making)
{
    struct walk_level *levels = recognizer->walk;
    if (first >= stop || !recognizer_count_derivatives(recognizer, set))
        return;
    levels[trie->nodes[first].depth] = level_of(recognizer, set);
    for (uint32_t at = first; at < stop;) {
        const struct trie_node *node = &trie->nodes[at];
        struct walk_level *level = &levels[node->depth];
        uint32_t target = level->row ? level->row->sets[node->byte] : SET_UNKNOWN;
        if (target == SET_UNKNOWN || level->row->work) {
            target = recognizer_step(recognizer, level->set, node->byte);
            level->row = BLOCK_ITEM(&recognizer->sets, level->set).row;
        }
        if (target == SET_DEAD) {
            if (recognizer->pool->status != STATUS_OK)
                return;
            at = node->stop;
            continue;
        }
        if (target != level->set && !count_visit(recognizer, target, &making->n_visits))
            return;
        if (node->string_state && string_state(recognizer, target) == node->string_state) {
            take_below(recognizer, at, target, making);
            at = node->stop;
            continue;
        }
        vocabulary_set_tokens(recognizer->vocabulary, node, making->bits);
        if (node->stop > at + 1) {
            if (!recognizer_count_derivatives(recognizer, target))
                return;
            level[1] = level_of(recognizer, target);
        }
        at++;
    }
}

// A JSON string terminal in a state in which min to max arbitrary characters may follow.
struct open_string {
    uint32_t min, max;
};

static bool is_open_string(const struct recognizer *recognizer, uint32_t id, struct open_string *string)
{
    const struct byte_state *state = &BLOCK_ITEM(&recognizer->bytes.states, id);
    const struct expression_node *node = expression_node(recognizer->pool, state->expression);
    *string = (struct open_string){0, 0};
    if (state->place != PLACE_BETWEEN || state->encoding != TERMINAL_JSON_STRING)
        return false;
    if (node->kind == KIND_REPEAT && node->a == EXPRESSION_ANY) {
        string->min = node->b;
        string->max = node->c;
    } else if (state->expression == EXPRESSION_ANY) {
        string->min = string->max = 1;
    } else if (node->kind == KIND_EITHER && node->b == 2 && node->nullable &&
               recognizer->pool->links.items[node->a + 1] == EXPRESSION_ANY) {
        string->max = 1; // an empty string or any character
    } else {
        return false;
    }
    return true;
}

// Adds the tokens that stay inside the string or end with its closing quote.
static void take_open_string(const struct grammar_vocabulary *vocabulary, const struct open_string *string,
                             struct mask_making *making)
{
    const struct string_tokens *tokens = vocabulary->strings;
    string_tokens_inside(tokens, grammar_mask_words(vocabulary->n_tokens), string->max, making->bits);
    for (size_t i = 0; i < tokens->closing.n; i++) {
        struct string_token token = tokens->closing.items[i];
        if (token.n_letters >= string->min && token.n_letters <= string->max)
            making->bits[token.id / 32] |= 1u << token.id % 32;
    }
}

static void mask_string(struct recognizer *recognizer, uint32_t set, const struct item *scan,
                        const struct open_string *string, struct mask_making *making)
{
    const struct grammar_vocabulary *vocabulary = recognizer->vocabulary;
    const struct string_tokens *tokens = vocabulary->strings;
    take_open_string(vocabulary, string, making);
    uint32_t closed = close_string(recognizer, set, scan);
    for (size_t i = 0; i < tokens->exits.n && closed != SET_DEAD; i++) {
        struct string_token exit = tokens->exits.items[i];
        if (exit.n_letters >= string->min && exit.n_letters <= string->max)
            walk_trie(recognizer, &vocabulary->all, exit.id + 1, vocabulary->all.nodes[exit.id].stop, closed,
                      making);
    }
}

static bool is_open_after(struct recognizer *recognizer, uint32_t set, const struct trie_node *node)
{
    uint32_t target = recognizer_step(recognizer, set, node->byte);
    return target != SET_DEAD && node->string_state && string_state(recognizer, target) == node->string_state;
}

// True if most subtrees of first bytes lead to a state in which any string may continue. A walk then visits
// few nodes.
static bool is_nearly_open(struct recognizer *recognizer, uint32_t set)
{
    const struct trie *trie = &recognizer->vocabulary->all;
    uint32_t n_open = 0;
    if (!recognizer_count_derivatives(recognizer, set))
        return false;
    for (uint32_t at = 0; at < trie->n_nodes; at = trie->nodes[at].stop)
        if (is_open_after(recognizer, set, &trie->nodes[at]))
            n_open += trie->nodes[at].stop - at;
    return n_open > trie->n_nodes / 2;
}

// Sets all tokens that stay inside a string, except below first bytes that lead to other states: these
// subtrees are walked.
static void walk_nearly_open(struct recognizer *recognizer, uint32_t set, struct mask_making *making)
{
    const struct grammar_vocabulary *vocabulary = recognizer->vocabulary;
    const struct string_tokens *tokens = vocabulary->strings;
    const struct trie *trie = &vocabulary->all;
    size_t n_words = grammar_mask_words(vocabulary->n_tokens);
    string_tokens_inside(tokens, n_words, EXPRESSION_UNBOUNDED, making->bits);
    for (uint32_t at = 0; at < trie->n_nodes; at = trie->nodes[at].stop)
        if (!is_open_after(recognizer, set, &trie->nodes[at]))
            string_tokens_below(tokens, trie, n_words, at, false, making->bits);
    for (uint32_t at = 0; at < trie->n_nodes; at = trie->nodes[at].stop) {
        making->has_inside = is_open_after(recognizer, set, &trie->nodes[at]);
        walk_trie(recognizer, trie, at, trie->nodes[at].stop, set, making);
    }
}

// Adds the string's mask, and counts its work whether it was cached or not. NULL: the pool has failed.
static const struct string_mask *take_string_mask(struct recognizer *recognizer, uint32_t state,
                                                  struct mask_making *making)
{
    const struct string_mask *mask = string_masks_find(&recognizer->cache.strings, state);
    for (size_t i = 0; mask && i < grammar_mask_words(recognizer->vocabulary->n_tokens); i++)
        making->bits[i] |= mask->bits[i];
    making->n_visits += mask ? mask->n_states : 0;
    return mask;
}

// Computes the mask of a set that is inside one string and in nothing else: the string's mask, plus a walk
// from each exit.
static void mask_inside(struct recognizer *recognizer, uint32_t set, const struct item *scan,
                        struct mask_making *making)
{
    const struct string_mask *mask = take_string_mask(recognizer, scan->a, making);
    if (!mask)
        return;
    const struct trie *trie = &recognizer->vocabulary->all;
    uint32_t closed = mask->exits.n ? close_string(recognizer, set, scan) : SET_DEAD;
    for (size_t i = 0; i < mask->exits.n && closed != SET_DEAD; i++)
        walk_trie(recognizer, trie, mask->exits.items[i] + 1, trie->nodes[mask->exits.items[i]].stop, closed,
                  making);
}

// True if the set is inside several JSON strings and in nothing else, between two characters. *parts becomes
// their n_parts distinct expressions, which have at most UNION_TERMS_MAX terms in total.
static bool is_inside_strings(const struct recognizer *recognizer, const struct item_set *set,
                              uint32_t parts[UNION_TERMS_MAX], uint32_t *n_parts)
{
    uint32_t n_terms = 0, n = 0;
    for (uint32_t i = 0; i < set->n_scans; i++) {
        uint32_t id = set->scans[i].a, at = 0;
        const struct byte_state *state = &BLOCK_ITEM(&recognizer->bytes.states, id);
        if (state->encoding != TERMINAL_JSON_STRING || state->place != PLACE_BETWEEN)
            return false;
        while (at < n && parts[at] != state->expression)
            at++;
        if (at < n)
            continue;
        const struct expression_node *node = expression_node(recognizer->pool, state->expression);
        n_terms += node->kind == KIND_EITHER ? node->b : 1;
        if (n_terms > UNION_TERMS_MAX)
            return false;
        parts[n++] = state->expression;
    }
    *n_parts = n;
    return set->n_scans > 1;
}

// Adds the tokens that stay inside one of the strings or end with its closing quote. They are the tokens of
// the union of the strings, whose state becomes *state. False: a limit is reached, which each string alone
// may not reach.
static bool take_union(struct recognizer *recognizer, const uint32_t *parts, uint32_t n, uint32_t *state,
                       struct mask_making *making)
{
    uint32_t either = expression_either_many(recognizer->pool, parts, n);
    *state = byte_automaton_between(&recognizer->bytes, either, TERMINAL_JSON_STRING);
    struct open_string string;
    if (*state == BYTE_STATE_DEAD)
        return false;
    if (!is_open_string(recognizer, *state, &string))
        return take_string_mask(recognizer, *state, making);
    take_open_string(recognizer->vocabulary, &string, making);
    return true;
}

// Walks the tokens that continue after a closing quote, from a set inside several strings. `string` is the
// state of the union of the strings. It is dead if no string continues.
static void walk_continuing(struct recognizer *recognizer, uint32_t set, uint32_t string,
                            struct mask_making *making)
{
    const struct trie *trie = &recognizer->vocabulary->strings->continuing;
    uint32_t closed = byte_automaton_closed(&recognizer->bytes);
    struct walk_level *levels = recognizer->walk;
    levels[0] = (struct walk_level){.set = set, .string = string};
    for (uint32_t at = 0; at < trie->n_nodes;) {
        const struct trie_node *node = &trie->nodes[at];
        struct walk_level from = levels[node->depth];
        if (!recognizer_count_derivatives(recognizer, from.set))
            return;
        uint32_t state = byte_automaton_step(&recognizer->bytes, from.string, node->byte);
        uint32_t target = SET_DEAD;
        if (state != BYTE_STATE_DEAD)
            target = recognizer_step(recognizer, from.set, node->byte);
        if (recognizer->pool->status != STATUS_OK ||
            (target != SET_DEAD && !count_visit(recognizer, target, &making->n_visits)))
            return;
        if (target != SET_DEAD && state == closed)
            walk_trie(recognizer, trie, at + 1, node->stop, target, making);
        else if (target != SET_DEAD)
            levels[node->depth + 1] = (struct walk_level){.set = target, .string = state};
        at = target == SET_DEAD || state == closed ? node->stop : at + 1;
    }
}

// Computes the mask of a set inside several strings. Walks only tokens that continue after a closing quote.
// False: nothing was added.
static bool mask_union(struct recognizer *recognizer, uint32_t set, const struct item_set *items,
                       struct mask_making *making)
{
    struct expressions *pool = recognizer->pool;
    uint32_t parts[UNION_TERMS_MAX], n_parts, state;
    const uint64_t work = pool->visit.work;
    if (!is_inside_strings(recognizer, items, parts, &n_parts))
        return false;
    if (take_union(recognizer, parts, n_parts, &state, making)) {
        walk_continuing(recognizer, set, state, making);
        return true;
    }
    bool goes_on = pool->status == STATUS_REJECT && pool->limit != GRAMMAR_LIMIT_NODES;
    if (goes_on) {
        pool->status = STATUS_OK;
        expressions_begin_visit(pool, work);
    }
    return !goes_on;
}

static void make_mask(struct recognizer *recognizer, uint32_t set, struct mask_making *making)
{
    const struct grammar_vocabulary *vocabulary = recognizer->vocabulary;
    const struct item_set items = BLOCK_ITEM(&recognizer->sets, set);
    const struct trie *trie = &vocabulary->all;
    struct open_string string;
    if (mask_union(recognizer, set, &items, making))
        return;
    for (uint32_t i = 0; i < items.n_scans; i++) {
        const struct item scan = items.scans[i];
        if (!is_open_string(recognizer, scan.a, &string))
            continue;
        if (items.n_scans == 1) {
            mask_string(recognizer, set, &scan, &string, making);
            return;
        }
        // Other terminals may follow too, so add the tokens that stay inside and walk the others.
        if (string.max == EXPRESSION_UNBOUNDED) {
            string_tokens_inside(vocabulary->strings, grammar_mask_words(vocabulary->n_tokens), string.max,
                                 making->bits);
            trie = &vocabulary->not_inside;
        }
    }
    struct item first = items.n_scans ? items.scans[0] : (struct item){0};
    if (items.n_scans == 1 && string_masks_inside(&recognizer->bytes, first.a)) {
        mask_inside(recognizer, set, &first, making);
        return;
    }
    if (trie == &vocabulary->all && is_nearly_open(recognizer, set)) {
        walk_nearly_open(recognizer, set, making);
        return;
    }
    walk_trie(recognizer, trie, 0, (uint32_t)trie->n_nodes, set, making);
}

// Returns zeroed memory for a mask: new, or the memory of the mask computed MASKS_KEPT masks ago.
static uint32_t *take_memory(struct recognizer *recognizer, size_t n_bytes)
{
    struct kept_masks *kept = &recognizer->cache.masks;
    if (!kept->sets && !(kept->sets = calloc(MASKS_KEPT, sizeof *kept->sets)))
        return NULL;
    struct item_set *oldest = &BLOCK_ITEM(&recognizer->sets, kept->sets[kept->n % MASKS_KEPT]);
    uint32_t *mask = oldest->mask;
    oldest->mask = NULL;
    if (!mask) {
        recognizer->cache.n_bytes += n_bytes;
        return calloc(1, n_bytes);
    }
    kept->sets[kept->n % MASKS_KEPT] = SET_DEAD;
    return memset(mask, 0, n_bytes);
}

const uint32_t *recognizer_mask(struct recognizer *recognizer, uint32_t set)
{
    const struct grammar_vocabulary *vocabulary = recognizer->vocabulary;
    size_t n_bytes = grammar_mask_words(vocabulary->n_tokens) * sizeof(uint32_t) + sizeof(uint32_t);
    if (BLOCK_ITEM(&recognizer->sets, set).mask)
        return BLOCK_ITEM(&recognizer->sets, set).mask;
    uint32_t *mask = take_memory(recognizer, n_bytes);
    if (!mask) {
        expressions_fail_memory(recognizer->pool);
        return NULL;
    }
    struct mask_making making = {.bits = mask};
    recognizer_begin_visit(recognizer, set);
    make_mask(recognizer, set, &making);
    if (recognizer->pool->status != STATUS_OK) {
        recognizer->cache.n_bytes -= n_bytes;
        free(mask);
        return NULL;
    }
    for (size_t i = 0; i < vocabulary->n_ends; i++) {
        uint32_t end = vocabulary->ends[i], bit = 1u << end % 32;
        mask[end / 32] = (mask[end / 32] & ~bit) | (BLOCK_ITEM(&recognizer->sets, set).may_end ? bit : 0);
    }
    recognizer->cache.masks.sets[recognizer->cache.masks.n++ % MASKS_KEPT] = set;
    BLOCK_ITEM(&recognizer->sets, set).mask_work =
        recognizer->pool->visit.work + MASK_WORK_OF_SET * making.n_visits;
    return BLOCK_ITEM(&recognizer->sets, set).mask = mask;
}
