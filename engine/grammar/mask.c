// Masks: the trie of the vocabulary is walked with the parser's sets, each shared beginning of tokens once.
#include "engine/grammar/recognizer.h"

#include <string.h>

// Sets that one mask may come to are counted, each once: a measure of the state alone, not of what is known of it already.
static bool count_visit(struct recognizer *recognizer, uint32_t set, uint64_t *n_visits)
{
    struct item_set *visited = &recognizer->sets.items[set];
    if (visited->visit == recognizer->visit)
        return true;
    visited->visit = recognizer->visit;
    if (++*n_visits <= recognizer->pool->limits.values[GRAMMAR_LIMIT_MASK_SETS])
        return true;
    expressions_fail(recognizer->pool, GRAMMAR_LIMIT_MASK_SETS);
    return false;
}

static void set_tokens(const struct grammar_vocabulary *vocabulary, uint32_t token, uint32_t *bits)
{
    for (; token != NO_TOKEN; token = vocabulary->next_same[token])
        bits[token / 32] |= 1u << token % 32;
}

static void walk(struct recognizer *recognizer, const struct trie *trie, uint32_t set, uint32_t *bits)
{
    uint32_t *sets = recognizer->walk;
    uint64_t n_visits = 0;
    sets[0] = set;
    for (uint32_t at = 0; at < trie->n_nodes;) {
        const struct trie_node *node = &trie->nodes[at];
        uint32_t from = sets[node->depth], target = recognizer_step(recognizer, from, node->byte);
        if (target == SET_DEAD) {
            if (recognizer->pool->status != STATUS_OK)
                return;
            at = node->behind;
            continue;
        }
        if (target != from && !count_visit(recognizer, target, &n_visits))
            return;
        set_tokens(recognizer->vocabulary, node->token, bits);
        sets[node->depth + 1] = target;
        at++;
    }
}

// Whether every plain token may follow: a terminal is between two characters and anything may be the rest of it.
static bool allows_plain(const struct recognizer *recognizer, uint32_t set)
{
    const struct item_set *items = &recognizer->sets.items[set];
    for (uint32_t i = 0; i < items->n_scans; i++) {
        uint32_t id = recognizer->scans.items[items->first_scan + i].a;
        const struct byte_state *state = &recognizer->bytes.states.items[id];
        if (state->place == PLACE_BETWEEN && state->expression == EXPRESSION_ALL)
            return true;
    }
    return false;
}

const uint32_t *recognizer_mask(struct recognizer *recognizer, uint32_t set)
{
    const struct grammar_vocabulary *vocabulary = recognizer->vocabulary;
    size_t n_bytes = grammar_mask_words(vocabulary->n_tokens) * sizeof(uint32_t);
    if (recognizer->sets.items[set].mask)
        return recognizer->sets.items[set].mask;
    uint32_t *mask = calloc(1, n_bytes + sizeof *mask);
    if (!mask) {
        expressions_fail_memory(recognizer->pool);
        return NULL;
    }
    recognizer->visit++;
    bool plain = allows_plain(recognizer, set);
    if (plain)
        memcpy(mask, vocabulary->plain, n_bytes);
    walk(recognizer, plain ? &vocabulary->not_plain : &vocabulary->all, set, mask);
    if (recognizer->pool->status != STATUS_OK) {
        free(mask);
        return NULL;
    }
    for (size_t i = 0; i < vocabulary->n_ends; i++) {
        uint32_t end = vocabulary->ends[i], bit = 1u << end % 32;
        mask[end / 32] = (mask[end / 32] & ~bit) | (recognizer->sets.items[set].may_end ? bit : 0);
    }
    recognizer->n_bytes += n_bytes;
    return recognizer->sets.items[set].mask = mask;
}
