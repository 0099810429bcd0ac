// Terminals byte by byte. A state is an expression (what the rest of the terminal's code points may be) and
// where in the spelling of a code point the bytes are: in its UTF-8, in a JSON escape, in half a surrogate
// pair. Internal to engine/grammar/.
#pragma once

#include "engine/regex/expression_parts.h"
#include "engine/grammar/rules.h"

enum byte_place {
    PLACE_BETWEEN, // before or behind a whole code point
    PLACE_OPEN,    // before the opening quote
    PLACE_CLOSED,  // behind the closing quote
    PLACE_UTF8,    // value: the code point's bits so far; n: continuation bytes to come; low: bytes in all
    PLACE_ESCAPE,  // behind a backslash
    PLACE_HEX,     // value: of the n digits behind \u
    PLACE_LOW,     // value: the high surrogate; n: bytes of the second \uXXXX so far; low: its digits' value
};

struct byte_state {
    uint32_t expression; // before the code point that is being spelled; with `uniform` behind it
    uint32_t value, low;
    uint8_t encoding, place, n;
    bool uniform; // however the code point is completed, `expression` follows
};

enum { HIGH_FIRST = 0xD800, LOW_FIRST = 0xDC00, LOW_LAST = 0xDFFF }; // surrogates
enum { BYTE_STATE_DEAD = 0, BYTE_STATE_UNKNOWN = UINT32_MAX };

struct byte_set {
    uint64_t words[4];
};

struct byte_automaton {
    struct expressions *pool;         // borrowed
    BLOCKS(struct byte_state) states; // by id; the first is unused
    BLOCKS(uint32_t *) rows;          // 256 ids of states; NULL: not asked for yet
    BLOCKS(struct byte_set) classes;  // where they begin; without byte 0, which begins one: not asked for yet
    uint32_t *table;
    size_t table_size, n_bytes;
};

static inline enum spelling terminal_spelling(enum terminal_encoding encoding)
{
    return encoding == TERMINAL_JSON_STRING || encoding == TERMINAL_JSON_CONTENT ? SPELLED_IN_JSON
                                                                                 : SPELLED_AS_UTF8;
}

bool byte_state_equal(const struct byte_state *a, const struct byte_state *b);

// False: no memory; the pool has failed.
bool byte_automaton_init(struct byte_automaton *automaton, struct expressions *pool);
void byte_automaton_finish(struct byte_automaton *automaton);

uint32_t byte_automaton_start(struct byte_automaton *automaton, uint32_t expression,
                              enum terminal_encoding encoding);
// Between two code points, the first of which may be the terminal's.
uint32_t byte_automaton_between(struct byte_automaton *automaton, uint32_t expression,
                                enum terminal_encoding encoding);
uint32_t byte_automaton_closed(struct byte_automaton *automaton); // behind any JSON string
// BYTE_STATE_DEAD: no text of the terminal begins like this, or the pool has failed.
uint32_t byte_automaton_step(struct byte_automaton *automaton, uint32_t state, unsigned char byte);
// The next byte from `byte` on that begins a class and leads on: *next is behind it. 256: there is none, or the pool has
// failed; *next is then BYTE_STATE_DEAD.
unsigned byte_automaton_next(struct byte_automaton *automaton, uint32_t state, unsigned byte, uint32_t *next);
// The state behind the bytes, from a state or from BYTE_STATE_DEAD.
uint32_t byte_automaton_walk(struct byte_automaton *automaton, uint32_t state, struct text bytes);
// Adds to the set of bytes those that may lead elsewhere than the byte before them.
void byte_automaton_classes(struct byte_automaton *automaton, uint32_t state, struct byte_set *starts);
bool byte_automaton_accepts(const struct byte_automaton *automaton, uint32_t state);
// The least bytes behind which the terminal may end, at most UINT16_MAX; exact (*is_exact) or a lower bound. A step
// takes one of them at most.
uint32_t byte_automaton_least(struct byte_automaton *automaton, uint32_t state, bool *is_exact);
// The code points that a state of PLACE_UTF8, not uniform, can become; none: first > last.
void byte_state_utf8_range(const struct byte_state *state, uint32_t *first, uint32_t *last);
uint32_t surrogate_pair(uint32_t high, uint32_t low);                             // the code point
bool byte_automaton_ends(const struct byte_automaton *automaton, uint32_t state); // nothing can follow
