// The automaton of a terminal over bytes. A state is an expression (the code points that may still follow)
// and a position within the encoding of a code point: in its UTF-8, in a JSON escape, or between two
// surrogates. Internal to engine/grammar/.
//
// Example: the JSON string "é", its character as UTF-8 or as the escape \u00e9.
//
//   OPEN --"--> BETWEEN --C3--> UTF8 --A9--> BETWEEN --"--> CLOSED
//                  |                            ^
//                  +---\--> ESCAPE --u--> HEX --+ 00e9
#pragma once

#include "engine/regex/expression_parts.h"
#include "engine/grammar/rules.h"

enum byte_place {
    PLACE_BETWEEN, // before or after a whole code point
    PLACE_OPEN,    // before the opening quote
    PLACE_CLOSED,  // after the closing quote
    PLACE_UTF8,    // value: bits read so far; n: continuation bytes left; low: bytes in total, or 4 once any
                   // continuation is valid
    PLACE_ESCAPE,  // after a backslash
    PLACE_HEX,     // value: number spelled by the n digits after \u
    PLACE_LOW,     // value: the high surrogate; n: bytes of the second \uXXXX read; low: value of its digits
};

struct byte_state {
    uint32_t expression; // expression before the code point being read; with `uniform` the one after it
    uint32_t value, low;
    uint8_t encoding, place, n;
    bool uniform; // `expression` is the next one, no matter how the code point is completed
};

enum { HIGH_FIRST = 0xD800, LOW_FIRST = 0xDC00, LOW_LAST = 0xDFFF }; // surrogates
enum { BYTE_STATE_DEAD = 0, BYTE_STATE_UNKNOWN = UINT32_MAX };

struct byte_set {
    uint64_t words[4];
};

struct byte_automaton {
    struct expressions *pool;         // borrowed
    BLOCKS(struct byte_state) states; // indexed by id; the first is unused
    BLOCKS(uint32_t *) rows;          // [256] next states for each state; NULL: not computed yet
    BLOCKS(struct byte_set) classes;  // bytes that begin a class; without byte 0: not computed yet
    struct hash_index index;          // finds states; state 0 is never searched
    size_t n_bytes;
};

static inline enum spelling terminal_spelling(enum terminal_encoding encoding)
{
    return encoding == TERMINAL_JSON_STRING || encoding == TERMINAL_JSON_CONTENT ? SPELLED_IN_JSON
                                                                                 : SPELLED_AS_UTF8;
}

bool byte_state_equal(const struct byte_state *a, const struct byte_state *b);

// False: out of memory; the pool has failed.
bool byte_automaton_init(struct byte_automaton *automaton, struct expressions *pool);
void byte_automaton_finish(struct byte_automaton *automaton);

uint32_t byte_automaton_start(struct byte_automaton *automaton, uint32_t expression,
                              enum terminal_encoding encoding);
// Returns the state before or after a code point, without the opening quote. `expression` may follow.
uint32_t byte_automaton_between(struct byte_automaton *automaton, uint32_t expression,
                                enum terminal_encoding encoding);
uint32_t byte_automaton_closed(struct byte_automaton *automaton); // after a JSON string
// Returns the state after the byte. BYTE_STATE_DEAD: no text of the terminal has this prefix, or the pool has
// failed.
uint32_t byte_automaton_step(struct byte_automaton *automaton, uint32_t state, unsigned char byte);
// Returns the first byte >= `byte` that begins a class and has a live next state, stored in *next. 256: none,
// or the pool has failed; *next is then BYTE_STATE_DEAD.
unsigned byte_automaton_next(struct byte_automaton *automaton, uint32_t state, unsigned byte, uint32_t *next);
// Returns the state after the bytes. `state` may be BYTE_STATE_DEAD.
uint32_t byte_automaton_walk(struct byte_automaton *automaton, uint32_t state, struct text bytes);
// Adds to *starts each byte that may lead to another state than the preceding byte value does.
void byte_automaton_classes(struct byte_automaton *automaton, uint32_t state, struct byte_set *starts);
bool byte_automaton_accepts(const struct byte_automaton *automaton, uint32_t state);
// Returns the minimum number of bytes that end the terminal, at most UINT16_MAX. It is exact (*is_exact) or a
// lower bound. A step reduces it by at most 1.
uint32_t byte_automaton_least(struct byte_automaton *automaton, uint32_t state, bool *is_exact);
// Computes the code points that a PLACE_UTF8 state can become, unless it is `uniform`. If there are none,
// first > last.
void byte_state_utf8_range(const struct byte_state *state, uint32_t *first, uint32_t *last);
uint32_t surrogate_pair(uint32_t high, uint32_t low);                             // the code point
bool byte_automaton_ends(const struct byte_automaton *automaton, uint32_t state); // nothing can follow
