#include "engine/grammar/forced.h"

#include <stdio.h>

// ---- bytes ----

// True if no byte but `a` or `b` can follow, and at least one of them can. *next becomes the set after it.
static bool leads_only(struct recognizer *recognizer, uint32_t set, unsigned a, unsigned b, uint32_t *next)
{
    *next = SET_DEAD;
    for (unsigned byte = 0; byte < 256; byte++) {
        uint32_t target = recognizer_step(recognizer, set, (unsigned char)byte);
        if (target == SET_DEAD)
            continue;
        if (byte != a && byte != b)
            return false;
        *next = target;
    }
    return *next != SET_DEAD;
}

// True if only the \uXXXX escapes of these UTF-16 units can follow the backslash that has been read.
static bool spells_units(struct recognizer *recognizer, uint32_t set, const unsigned units[2], int n_units)
{
    char digits[8];
    for (int unit = 0; unit < n_units; unit++) {
        snprintf(digits, sizeof digits, "%04x", units[unit]);
        if ((unit > 0 && !leads_only(recognizer, set, '\\', '\\', &set)) ||
            !leads_only(recognizer, set, 'u', 'u', &set))
            return false;
        for (int i = 0; i < 4; i++) {
            unsigned lower = (unsigned char)digits[i], upper = lower >= 'a' ? lower - 32 : lower;
            if (!leads_only(recognizer, set, lower, upper, &set))
                return false;
        }
    }
    return true;
}

// Returns the character that begins with the byte `first`, if all of its bytes are forced; else 0. `next` is
// the set after `first`.
static uint32_t only_character(struct recognizer *recognizer, unsigned first, uint32_t next)
{
    char bytes[4] = {(char)first};
    uint32_t character = 0;
    size_t n = 1, size = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    for (; n < size; n++) {
        unsigned byte = 0x80;
        while (byte < 0xC0 && recognizer_step(recognizer, next, (unsigned char)byte) == SET_DEAD)
            byte++;
        if (byte == 0xC0 || !leads_only(recognizer, next, byte, byte, &next))
            return 0;
        bytes[n] = (char)byte;
    }
    return utf8_decode(bytes, n, &character) == n ? character : 0;
}

static bool is_in_json_strings(const struct recognizer *recognizer, uint32_t id)
{
    const struct item_set *set = &BLOCK_ITEM(&recognizer->sets, id);
    for (uint32_t i = 0; i < set->n_scans; i++) {
        uint32_t state = set->scans[i].a;
        const struct byte_state *bytes = &BLOCK_ITEM(&recognizer->bytes.states, state);
        if (bytes->encoding != TERMINAL_JSON_STRING || bytes->place != PLACE_BETWEEN)
            return false;
    }
    return true;
}

// True if a backslash could only begin the escape of the same character that `byte` begins.
static bool is_same_character(struct recognizer *recognizer, uint32_t set, unsigned byte)
{
    uint32_t next = recognizer_step(recognizer, set, (unsigned char)byte);
    uint32_t escape = recognizer_step(recognizer, set, '\\');
    uint32_t character = byte < 0xF8 && byte != '/' ? only_character(recognizer, byte, next) : 0;
    unsigned units[2] = {character, 0};
    if (character == 0 || !is_in_json_strings(recognizer, set))
        return false;
    if (character >= 0x10000) {
        units[0] = 0xD800 + ((character - 0x10000) >> 10);
        units[1] = 0xDC00 + ((character - 0x10000) & 0x3FF);
    }
    return spells_units(recognizer, escape, units, character >= 0x10000 ? 2 : 1);
}

static uint16_t find_forced(struct recognizer *recognizer, uint32_t set)
{
    unsigned n = 0, first = 0;
    bool may_end = BLOCK_ITEM(&recognizer->sets, set).may_end, is_escaped = false;
    for (unsigned byte = 0; byte < 256; byte++) {
        if (recognizer_step(recognizer, set, (unsigned char)byte) == SET_DEAD)
            continue;
        if (may_end || n == 2)
            return FORCED_NOTHING;
        if (n == 0 || first == '\\') {
            is_escaped |= n > 0;
            first = byte;
        } else if (byte == '\\') {
            is_escaped = true;
        } else {
            return FORCED_NOTHING;
        }
        n++;
    }
    if (n == 0)
        return may_end ? FORCED_END : FORCED_NOTHING;
    return n == 1 || (is_escaped && is_same_character(recognizer, set, first))
               ? (uint16_t)(FORCED_BYTE | first)
               : FORCED_NOTHING;
}

uint16_t recognizer_forced(struct recognizer *recognizer, uint32_t set)
{
    uint16_t forced = BLOCK_ITEM(&recognizer->sets, set).forced;
    if (forced == FORCED_UNKNOWN) {
        recognizer_begin_visit(recognizer, set);
        if (recognizer_count_derivatives(recognizer, set))
            forced = find_forced(recognizer, set);
        if (recognizer->pool->status != STATUS_OK)
            return FORCED_UNKNOWN;
        BLOCK_ITEM(&recognizer->sets, set).forced = forced;
    }
    return forced;
}

// ---- tokens ----

// True if one of the nodes first..stop - 1 (siblings and their subtrees) completes a token that is allowed
// after `set`.
static bool has_token(struct recognizer *recognizer, uint32_t first, uint32_t stop, uint32_t set)
{
    const struct trie_node *nodes = recognizer->vocabulary->all.nodes;
    struct walk_level *levels = recognizer->walk;
    if (first < stop)
        levels[nodes[first].depth].set = set;
    for (uint32_t at = first; at < stop;) {
        const struct trie_node *node = &nodes[at];
        uint32_t target = recognizer_step(recognizer, levels[node->depth].set, node->byte);
        if (target == SET_DEAD) {
            at = node->stop;
            continue;
        }
        if (node->token != NO_TOKEN)
            return true;
        levels[node->depth + 1].set = target;
        at++;
    }
    return false;
}

bool recognizer_goes_on(struct recognizer *recognizer, uint32_t set, struct text bytes)
{
    const struct trie *trie = &recognizer->vocabulary->all;
    uint32_t first = 0, stop = (uint32_t)trie->n_nodes;
    recognizer_begin_visit(recognizer, set);
    for (size_t i = 0; i < bytes.size; i++) {
        uint32_t at = first;
        while (at < stop && trie->nodes[at].byte != (unsigned char)bytes.data[i])
            at = trie->nodes[at].stop;
        if (at >= stop)
            return false;
        first = at + 1;
        stop = trie->nodes[at].stop;
    }
    return has_token(recognizer, first, stop, set);
}
