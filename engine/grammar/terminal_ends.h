// The tokens that it takes to end a terminal from a state of the byte automaton. A terminal with few texts (choices,
// labels): the fewest (finite_ends.c). Any other: its shortest bytes, in the longest tokens of the vocabulary, one
// after the other; of equally many bytes the first in the order of their values. The expression says how many bytes are
// left (expression_measure.c for intersections and complements); only of those that are too large to be measured a search
// finds the end. Internal to engine/grammar/.
#pragma once

#include "engine/grammar/recognizer.h"

enum {
    CLOSING_NEVER = INT32_MAX,  // no tokens spell the shortest bytes
    CLOSING_BYTES_MAX = 1024,   // of the shortest text of a terminal; beyond: CLOSING_NEVER
    CLOSING_STATES_MAX = 20000, // of an intersection or complement, looked at to find it; likewise
};

// A state of the byte automaton: how it ends, as far as that was computed.
struct terminal_end {
    uint64_t visit;       // the last that counted it
    uint64_t search_work; // of the search from it
    uint32_t cost;
    uint32_t step;  // the state behind the first token on its way; BYTE_STATE_DEAD: there is none
    uint32_t next;  // behind the first byte; BYTE_STATE_UNKNOWN: not asked for, or found by a search
    uint16_t least; // bytes, where `next` is known
    unsigned char byte;
    bool has_step, has_cost;
    bool is_final; // `cost` is that of a terminal with few texts
    bool is_open;  // on the way of the search whether they are few
};

// A state that a search found, in the order of the search.
struct found_state {
    uint32_t state, before; // `before`: place of the state that it was found from
    uint16_t depth;
    unsigned char byte;
};

struct terminal_ends {
    BLOCKS(struct terminal_end) states; // by state of the byte automaton
    VECTOR(struct found_state) found;   // scratch
    BLOCKS(uint32_t) searches;          // by state of the byte automaton: the search that reached it last
    uint32_t n_searches;
    VECTOR(uint32_t) path; // scratch
};

// Tokens; CLOSING_NEVER too when the pool has failed. Counts the work of finding it, known or not, once a visit of
// the recognizer.
uint32_t terminal_ends_cost(struct terminal_ends *ends, struct recognizer *recognizer, uint32_t state);
// Finds the costs of all states that follow from this one, the fewest tokens, if there are few and none comes again.
// Work of the visit. Returns whether it did.
bool terminal_ends_enumerate(struct terminal_ends *ends, struct recognizer *recognizer, uint32_t start);
// The entry of a state, new or found. NULL: no memory.
struct terminal_end *terminal_ends_of(struct terminal_ends *ends, struct recognizer *recognizer,
                                      uint32_t state);
// Counts the derivative that steps from the state need, once a visit. Searches whether what follows matches anything
// count only where the least bytes are not known: the mask has made them. False: the pool has failed.
bool terminal_ends_count_step(struct recognizer *recognizer, uint32_t state);
void terminal_ends_forget(struct terminal_ends *ends);
