// The minimum number of bytes from a state of the byte automaton to the end of its terminal.
#include "engine/grammar/byte_automaton.h"

// A range of code points that a state inside a code point can become, and the number of bytes that complete
// any of them.
struct spelled_range {
    uint32_t first, last;
    unsigned n_bytes;
};

enum { SPELLED_RANGES_MAX = 12, HEX_DIGITS = 4, LOW_BYTES = 6, ESCAPE_BYTES = 5 /* after the backslash */ };

static size_t add_range(struct spelled_range *ranges, size_t n, uint32_t first, uint32_t last,
                        unsigned n_bytes)
{
    if (first <= last)
        ranges[n++] = (struct spelled_range){first, last, n_bytes};
    return n;
}

// Adds the code points spelled by \u escapes whose first unit is in first..last: single escapes and surrogate
// pairs.
static size_t add_escaped(struct spelled_range *ranges, size_t n, uint32_t first, uint32_t last,
                          unsigned n_bytes)
{
    uint32_t high_first = first > HIGH_FIRST ? first : HIGH_FIRST;
    uint32_t high_last = last < LOW_FIRST - 1 ? last : LOW_FIRST - 1;
    n = add_range(ranges, n, first, last < HIGH_FIRST ? last : HIGH_FIRST - 1, n_bytes);
    n = add_range(ranges, n, first > LOW_LAST ? first : LOW_LAST + 1, last, n_bytes);
    if (high_first <= high_last)
        n = add_range(ranges, n, surrogate_pair(high_first, LOW_FIRST), surrogate_pair(high_last, LOW_LAST),
                      n_bytes + LOW_BYTES);
    return n;
}

static size_t find_ranges(const struct byte_state *state, struct spelled_range ranges[SPELLED_RANGES_MAX])
{
    static const unsigned char escaped[] = {'"', '\\', '/', '\b', '\f', '\n', '\r', '\t'};
    uint32_t first, last, shift;
    size_t n = 0;
    switch ((enum byte_place)state->place) {
    case PLACE_UTF8:
        byte_state_utf8_range(state, &first, &last);
        return add_range(ranges, n, first, last, state->n);
    case PLACE_ESCAPE:
        for (size_t i = 0; i < sizeof escaped; i++)
            n = add_range(ranges, n, escaped[i], escaped[i], 1);
        return add_escaped(ranges, n, 0, 0xFFFF, ESCAPE_BYTES);
    case PLACE_HEX:
        shift = 4u * (HEX_DIGITS - state->n);
        first = state->value << shift;
        return add_escaped(ranges, n, first, first + (1u << shift) - 1, HEX_DIGITS - state->n);
    case PLACE_LOW:
        shift = state->n < HEX_DIGITS ? 10 : 4u * (LOW_BYTES - state->n);
        first = surrogate_pair(state->value, state->n < HEX_DIGITS ? LOW_FIRST : state->low << shift);
        return add_range(ranges, n, first, first + (1u << shift) - 1, LOW_BYTES - state->n);
    case PLACE_BETWEEN:
    case PLACE_OPEN:
    case PLACE_CLOSED:
        break;
    }
    return n;
}

static uint32_t least_within(struct byte_automaton *automaton, const struct byte_state *state,
                             enum spelling spelling)
{
    struct spelled_range ranges[SPELLED_RANGES_MAX];
    size_t n_ranges = find_ranges(state, ranges);
    uint32_t least = UINT16_MAX;
    if (!expression_derive(automaton->pool, state->expression))
        return least;
    const struct expression_node *node = expression_node(automaton->pool, state->expression);
    const struct expression_piece *pieces = automaton->pool->pieces.items + node->derivative;
    for (uint32_t i = 0; i < node->n_derivative; i++) {
        uint32_t end = i + 1 < node->n_derivative ? pieces[i + 1].first - 1 : CODE_POINT_MAX;
        bool is_exact;
        uint32_t rest =
            expression_least(expression_node(automaton->pool, pieces[i].target), spelling, &is_exact);
        for (size_t k = 0; k < n_ranges; k++)
            if (pieces[i].first <= ranges[k].last && end >= ranges[k].first &&
                ranges[k].n_bytes + rest < least)
                least = ranges[k].n_bytes + rest;
    }
    return least;
}

// Returns the number of bytes that complete the code point being read, if it is the same for all code points.
static unsigned bytes_to_complete(const struct byte_state *state)
{
    return state->place == PLACE_UTF8  ? state->n
           : state->place == PLACE_HEX ? HEX_DIGITS - (unsigned)state->n
           : state->place == PLACE_LOW ? LOW_BYTES - (unsigned)state->n
                                       : 0;
}

uint32_t byte_automaton_least(struct byte_automaton *automaton, uint32_t id, bool *is_exact)
{
    const struct byte_state state = BLOCK_ITEM(&automaton->states, id);
    const enum spelling spelling = terminal_spelling((enum terminal_encoding)state.encoding);
    const struct expression_node *node = expression_node(automaton->pool, state.expression);
    const uint32_t n_quotes = state.encoding != TERMINAL_JSON_STRING && state.encoding != TERMINAL_SPECIAL ? 0
                              : state.place == PLACE_OPEN                                                  ? 2
                                                          : 1;
    const uint32_t of_expression = expression_least(node, spelling, is_exact);
    if (state.place == PLACE_CLOSED)
        return 0;
    uint32_t least = state.place == PLACE_BETWEEN || state.place == PLACE_OPEN || state.uniform
                         ? bytes_to_complete(&state) + of_expression
                         : least_within(automaton, &state, spelling);
    return least + n_quotes < UINT16_MAX ? least + n_quotes : UINT16_MAX;
}
