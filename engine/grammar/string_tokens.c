#include "engine/grammar/string_tokens.h"
#include "engine/grammar/byte_automaton.h"
#include "schemas/base/text.h"

#include <string.h>

struct string_place {
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
            !VECTOR_ADD(&tokens->longer, ((struct string_token){token, n_letters, 0})))
            return false;
        if (!VECTOR_ADD(&tokens->inside, token))
            return false;
    }
    return true;
}

static bool add_closing(struct string_tokens *tokens, const struct grammar_vocabulary *vocabulary,
                        uint32_t at, uint32_t n_letters)
{
    const struct trie_node *node = &vocabulary->all.nodes[at];
    for (uint32_t token = node->token; token != NO_TOKEN; token = vocabulary->next_same[token])
        if (!VECTOR_ADD(&tokens->closing, ((struct string_token){token, n_letters, at})))
            return false;
    return node->stop == at + 1 || VECTOR_ADD(&tokens->exits, ((struct string_token){at, n_letters, at}));
}

// Returns the index of the state in tokens->states, and adds it if necessary. 0: no room or memory is left.
static uint8_t state_number(struct string_tokens *tokens, const struct byte_state *state)
{
    size_t at = 1;
    while (at < tokens->states.n && !byte_state_equal(&tokens->states.items[at], state))
        at++;
    if (at > STRING_STATES_MAX || (at == tokens->states.n && !VECTOR_ADD(&tokens->states, *state)))
        return 0;
    return (uint8_t)at;
}

static void skip_subtrees(struct string_tokens *tokens, uint32_t first, uint32_t stop)
{
    for (; first < stop; first++)
        tokens->n_inside[first] = (uint32_t)tokens->inside.n;
}

static bool walk_vocabulary(struct string_tokens *tokens, struct grammar_vocabulary *vocabulary,
                            struct byte_automaton *automaton, struct string_place *places)
{
    uint32_t start = byte_automaton_start(automaton, EXPRESSION_ALL, TERMINAL_JSON_STRING);
    uint32_t between = places[0].state = byte_automaton_step(automaton, start, '"');
    places[0].n_letters = 0;
    for (uint32_t at = 0; at < vocabulary->all.n_nodes;) {
        struct trie_node *node = &vocabulary->all.nodes[at];
        struct string_place from = places[node->depth],
                            to = {byte_automaton_step(automaton, from.state, node->byte), from.n_letters};
        bool closes = to.state != BYTE_STATE_DEAD && byte_automaton_ends(automaton, to.state);
        if (to.state == BYTE_STATE_DEAD || closes) {
            if (closes && !add_closing(tokens, vocabulary, at, to.n_letters))
                return false;
            skip_subtrees(tokens, at, node->stop);
            at = node->stop;
            continue;
        }
        skip_subtrees(tokens, at, at + 1);
        node->string_state = state_number(tokens, &BLOCK_ITEM(&automaton->states, to.state));
        to.n_letters += from.state == between;
        if (node->token != NO_TOKEN && !add_inside(tokens, vocabulary, node->token, to.n_letters))
            return false;
        places[node->depth + 1] = to;
        at++;
    }
    skip_subtrees(tokens, (uint32_t)vocabulary->all.n_nodes, (uint32_t)vocabulary->all.n_nodes + 1);
    return automaton->pool->status == STATUS_OK;
}

static void set_inside(const struct string_tokens *tokens, uint32_t first, uint32_t stop, uint32_t *bits)
{
    for (uint32_t i = first; i < stop; i++)
        set_bit(bits, tokens->inside.items[i]);
}

static bool make_blocks(struct string_tokens *tokens, const struct trie *trie, size_t n_words)
{
    tokens->block_tokens = 1 + tokens->inside.n / STRING_BLOCKS_LEVEL;
    for (uint32_t at = 0; at < trie->n_nodes; at++) {
        uint32_t first = tokens->n_inside[at], stop = tokens->n_inside[trie->nodes[at].stop];
        if (stop - first < tokens->block_tokens || !trie->nodes[at].string_state)
            continue;
        uint32_t *mask = calloc(n_words, sizeof *mask);
        if (!mask || !VECTOR_ADD(&tokens->blocks, ((struct string_block){at, mask}))) {
            free(mask);
            return false;
        }
        set_inside(tokens, first, stop, mask);
    }
    return true;
}

bool string_tokens_create(struct string_tokens **out, struct grammar_vocabulary *vocabulary)
{
    size_t n_words = grammar_mask_words(vocabulary->n_tokens) + 1;
    struct string_tokens *tokens = *out = calloc(1, sizeof *tokens);
    struct expressions *pool = expressions_create(NULL);
    struct byte_automaton automaton = {0};
    struct string_place *places = malloc((vocabulary->depth_max + 1) * sizeof *places);
    bool whole = tokens && pool && places && byte_automaton_init(&automaton, pool);
    if (whole) {
        tokens->masks = calloc(n_words * STRING_TOKENS_MASKS, sizeof *tokens->masks);
        tokens->all = calloc(n_words, sizeof *tokens->all);
        tokens->n_inside = malloc((vocabulary->all.n_nodes + 1) * sizeof *tokens->n_inside);
        whole = tokens->masks && tokens->all && tokens->n_inside &&
                VECTOR_ADD(&tokens->states, (struct byte_state){0}) &&
                walk_vocabulary(tokens, vocabulary, &automaton, places) &&
                string_letters_create(&tokens->letters, &vocabulary->all) &&
                make_blocks(tokens, &vocabulary->all, n_words);
    }
    byte_automaton_finish(&automaton);
    expressions_destroy(pool);
    free(places);
    return whole;
}

// Ranges of plain characters.
static const struct code_range plain[] = {
    {' ', '!'}, {'#', '['}, {']', '~'}, {0xA0, 0x2027}, {0x202A, CODE_POINT_MAX}};
enum { N_PLAIN = sizeof plain / sizeof *plain };

bool string_tokens_has_plain(uint32_t first, uint32_t last)
{
    for (int i = 0; i < N_PLAIN; i++)
        if (plain[i].first <= last && plain[i].last >= first)
            return true;
    return false;
}

// True if all characters of a token are plain. An incomplete last character counts as plain, because it can
// be completed to a plain one.
static bool is_plain(struct text token)
{
    for (size_t at = 0; at < token.size;) {
        uint32_t code = 0;
        size_t size = utf8_decode(token.data + at, token.size - at, &code);
        if (!size)
            return (unsigned char)token.data[at] >= 0x80;
        if (!string_tokens_has_plain(code, code))
            return false;
        at += size;
    }
    return true;
}

static bool get_bit(const uint32_t *bits, uint32_t token)
{
    return bits[token / 32] >> token % 32 & 1;
}

// Sets the bits of the tokens at the nodes first..stop - 1.
static void set_below(const struct grammar_vocabulary *vocabulary, uint32_t first, uint32_t stop,
                      uint32_t *bits)
{
    for (; first < stop; first++)
        for (uint32_t token = vocabulary->all.nodes[first].token; token != NO_TOKEN;
             token = vocabulary->next_same[token])
            set_bit(bits, token);
}

// Builds the trie of the ids whose bit is set. `room` has space for n ids.
static bool build_trie_of(struct grammar_vocabulary *vocabulary, const uint32_t *ids, size_t n,
                          const uint32_t *bits, uint32_t *room, struct trie *trie)
{
    size_t n_taken = 0;
    for (size_t i = 0; i < n; i++)
        if (get_bit(bits, ids[i]))
            room[n_taken++] = ids[i];
    return trie_build(vocabulary, room, n_taken, trie);
}

static bool build_continuing(struct string_tokens *tokens, struct grammar_vocabulary *vocabulary,
                             const uint32_t *ids, size_t n, uint32_t *bits, uint32_t *room)
{
    for (size_t i = 0; i < tokens->exits.n; i++) {
        uint32_t at = tokens->exits.items[i].node;
        set_below(vocabulary, at + 1, vocabulary->all.nodes[at].stop, bits);
    }
    return build_trie_of(vocabulary, ids, n, bits, room, &tokens->continuing);
}

// Finds the node of vocabulary.all for each node of the trie. Both are in the same order, so the search for a
// child continues after the sibling found last.
static bool match_nodes(const struct grammar_vocabulary *vocabulary, const struct trie *trie,
                        uint32_t **matches)
{
    const struct trie_node *all = vocabulary->all.nodes;
    uint32_t *found = malloc((trie->n_nodes + 1) * sizeof *found);
    uint32_t *next = calloc(vocabulary->depth_max + 2, sizeof *next); // where to continue, by depth
    for (uint32_t at = 0; at < trie->n_nodes && found && next; at++) {
        struct trie_node *node = &trie->nodes[at];
        uint32_t match = next[node->depth];
        while (all[match].byte != node->byte)
            match = all[match].stop;
        found[at] = match;
        next[node->depth] = all[match].stop;
        next[node->depth + 1] = match + 1;
        node->string_state = all[match].string_state;
    }
    bool whole = found && next;
    free(next);
    *matches = found;
    return whole;
}

// Divides the tokens that can follow inside a string into `plain` and the others. `bits` marks the tokens
// that continue after the string.
static bool build_not_plain(struct string_tokens *tokens, struct grammar_vocabulary *vocabulary,
                            const uint32_t *ids, size_t n, uint32_t *bits, uint32_t *room)
{
    size_t n_words = grammar_mask_words(vocabulary->n_tokens) + 1;
    const uint32_t *short_ones =
        tokens->masks + STRING_PLAIN_LETTERS * grammar_mask_words(vocabulary->n_tokens);
    for (size_t i = 0; i < n_words; i++)
        bits[i] |= tokens->all[i];
    for (size_t i = 0; i < tokens->closing.n; i++)
        set_bit(bits, tokens->closing.items[i].id);
    for (size_t i = 0; i < n; i++)
        if (get_bit(short_ones, ids[i]) && is_plain(vocabulary->tokens[ids[i]])) {
            set_bit(tokens->plain, ids[i]);
            bits[ids[i] / 32] &= ~(1u << ids[i] % 32);
        }
    return build_trie_of(vocabulary, ids, n, bits, room, &tokens->not_plain) &&
           match_nodes(vocabulary, &tokens->not_plain, &tokens->not_plain_nodes) &&
           string_letters_create(&tokens->not_plain_letters, &tokens->not_plain);
}

bool string_tokens_divide(struct string_tokens *tokens, struct grammar_vocabulary *vocabulary,
                          const uint32_t *ids, size_t n)
{
    size_t n_words = grammar_mask_words(vocabulary->n_tokens) + 1;
    uint32_t *bits = calloc(n_words, sizeof *bits), *room = malloc((n + 1) * sizeof *room);
    tokens->plain = calloc(n_words, sizeof *tokens->plain);
    for (int i = 0; i < N_PLAIN; i++)
        letters_add(&tokens->plain_letters, plain[i].first, plain[i].last);
    bool whole = bits && room && tokens->plain && build_continuing(tokens, vocabulary, ids, n, bits, room) &&
                 build_not_plain(tokens, vocabulary, ids, n, bits, room);
    free(bits);
    free(room);
    return whole;
}

void string_tokens_destroy(struct string_tokens *tokens)
{
    if (!tokens)
        return;
    free(tokens->masks);
    free(tokens->all);
    free(tokens->plain);
    free(tokens->not_plain.nodes);
    free(tokens->not_plain_nodes);
    string_letters_finish(&tokens->not_plain_letters);
    free(tokens->continuing.nodes);
    string_letters_finish(&tokens->letters);
    VECTOR_FINISH(&tokens->longer);
    VECTOR_FINISH(&tokens->closing);
    VECTOR_FINISH(&tokens->exits);
    VECTOR_FINISH(&tokens->states);
    VECTOR_FINISH(&tokens->inside);
    for (size_t i = 0; i < tokens->blocks.n; i++)
        free(tokens->blocks.items[i].mask);
    VECTOR_FINISH(&tokens->blocks);
    free(tokens->n_inside);
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

void string_tokens_set(const struct string_tokens *tokens, uint32_t first, uint32_t stop, bool value,
                       uint32_t *bits)
{
    for (uint32_t i = first; i < stop; i++) {
        uint32_t token = tokens->inside.items[i], bit = 1u << token % 32;
        bits[token / 32] = value ? bits[token / 32] | bit : bits[token / 32] & ~bit;
    }
}

void string_tokens_below(const struct string_tokens *tokens, const struct trie *trie, size_t n_words,
                         uint32_t node, bool value, uint32_t *bits)
{
    uint32_t first = tokens->n_inside[node], stop = tokens->n_inside[trie->nodes[node].stop];
    if (stop - first < tokens->block_tokens || !trie->nodes[node].string_state) {
        string_tokens_set(tokens, first, stop, value, bits);
        return;
    }
    size_t low = 0, high = tokens->blocks.n;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (tokens->blocks.items[middle].node <= node)
            low = middle;
        else
            high = middle;
    }
    const uint32_t *mask = tokens->blocks.items[low].mask;
    for (size_t i = 0; i < n_words; i++)
        bits[i] = value ? bits[i] | mask[i] : bits[i] & ~mask[i];
}

size_t string_tokens_first(const struct string_token *list, size_t n, uint32_t node)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list[middle].node < node)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
