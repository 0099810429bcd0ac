#include "engine/grammar/string_tokens.h"
#include "engine/grammar/byte_automaton.h"

#include <string.h>

struct place {
    uint32_t state, n_letters;
};

static void set_bit(uint32_t *bits, uint32_t token)
{
    bits[token / 32] |= 1u << token % 32;
}

static bool add_inside(struct string_tokens *tokens, const struct grammar_vocabulary *vocabulary,
                       uint32_t token, uint32_t n_letters)
{
    size_t n_words = grammar_mask_words(vocabulary->n_tokens);
    for (; token != NO_TOKEN; token = vocabulary->next_same[token]) {
        set_bit(tokens->all, token);
        for (uint32_t k = n_letters; k < STRING_TOKENS_MASKS; k++)
            set_bit(tokens->masks + k * n_words, token);
        if (n_letters >= STRING_TOKENS_MASKS &&
            !VECTOR_ADD(&tokens->longer, ((struct string_token){token, n_letters})))
            return false;
    }
    return true;
}

static bool add_closing(struct string_tokens *tokens, const struct grammar_vocabulary *vocabulary,
                        uint32_t at, uint32_t n_letters)
{
    const struct trie_node *node = &vocabulary->all.nodes[at];
    for (uint32_t token = node->token; token != NO_TOKEN; token = vocabulary->next_same[token])
        if (!VECTOR_ADD(&tokens->closing, ((struct string_token){token, n_letters})))
            return false;
    return node->behind == at + 1 || VECTOR_ADD(&tokens->exits, ((struct string_token){at, n_letters}));
}

static bool walk(struct string_tokens *tokens, const struct grammar_vocabulary *vocabulary,
                 struct byte_automaton *automaton, struct place *places)
{
    uint32_t start = byte_automaton_start(automaton, EXPRESSION_ALL, TERMINAL_JSON_STRING);
    uint32_t between = places[0].state = byte_automaton_step(automaton, start, '"');
    places[0].n_letters = 0;
    for (uint32_t at = 0; at < vocabulary->all.n_nodes;) {
        const struct trie_node *node = &vocabulary->all.nodes[at];
        struct place from = places[node->depth],
                     to = {byte_automaton_step(automaton, from.state, node->byte), from.n_letters};
        bool closes = to.state != BYTE_STATE_DEAD && byte_automaton_ends(automaton, to.state);
        if (to.state == BYTE_STATE_DEAD || closes) {
            if (closes && !add_closing(tokens, vocabulary, at, to.n_letters))
                return false;
            at = node->behind;
            continue;
        }
        to.n_letters += from.state == between;
        if (node->token != NO_TOKEN && !add_inside(tokens, vocabulary, node->token, to.n_letters))
            return false;
        places[node->depth + 1] = to;
        at++;
    }
    return automaton->pool->status == STATUS_OK;
}

bool string_tokens_create(struct string_tokens **out, const struct grammar_vocabulary *vocabulary)
{
    size_t n_words = grammar_mask_words(vocabulary->n_tokens) + 1;
    struct string_tokens *tokens = *out = calloc(1, sizeof *tokens);
    struct expressions *pool = expressions_create(NULL);
    struct byte_automaton automaton = {0};
    struct place *places = malloc((vocabulary->depth_max + 1) * sizeof *places);
    bool whole = tokens && pool && places && byte_automaton_init(&automaton, pool);
    if (whole) {
        tokens->masks = calloc(n_words * STRING_TOKENS_MASKS, sizeof *tokens->masks);
        tokens->all = calloc(n_words, sizeof *tokens->all);
        whole = tokens->masks && tokens->all && walk(tokens, vocabulary, &automaton, places);
    }
    byte_automaton_finish(&automaton);
    expressions_destroy(pool);
    free(places);
    return whole;
}

void string_tokens_destroy(struct string_tokens *tokens)
{
    if (!tokens)
        return;
    free(tokens->masks);
    free(tokens->all);
    VECTOR_FINISH(&tokens->longer);
    VECTOR_FINISH(&tokens->closing);
    VECTOR_FINISH(&tokens->exits);
    free(tokens);
}

void string_tokens_inside(const struct string_tokens *tokens, size_t n_words, uint32_t max, uint32_t *bits)
{
    if (max < STRING_TOKENS_MASKS) {
        const uint32_t *mask = tokens->masks + max * n_words;
        for (size_t i = 0; i < n_words; i++)
            bits[i] |= mask[i];
        return;
    }
    for (size_t i = 0; i < n_words; i++)
        bits[i] |= tokens->all[i];
    for (size_t i = 0; i < tokens->longer.n && max != EXPRESSION_UNBOUNDED; i++)
        if (tokens->longer.items[i].n_letters > max)
            bits[tokens->longer.items[i].id / 32] &= ~(1u << tokens->longer.items[i].id % 32);
}
