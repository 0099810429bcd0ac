// How many tokens end a terminal from a state of the byte automaton. A terminal with few texts (choices,
// labels) has its exact minimum (finite_ends.c). Any other terminal has the count of its shortest rest, split
// greedily into the longest tokens; among rests of equal length the first in byte order. Internal to
// engine/grammar/.
//
//   terminal [0-9]{4}-[0-9]{2}, read "20"
//   shortest rest    00-00              5 bytes
//   longest tokens   00  -  00          cost 3 (if no token is "-0")
//
// The expression gives the length of the shortest rest (expression_measure.c for intersections and
// complements). Only an expression too large to be measured needs a search.
#pragma once

#include "engine/grammar/recognizer.h"

enum {
    CLOSING_NEVER = INT32_MAX, // no tokens spell the shortest rest
    CLOSING_BYTES_MAX = 1024,  // of a terminal's shortest rest; above: CLOSING_NEVER
    // States searched in an intersection or complement; above: CLOSING_NEVER.
    CLOSING_STATES_MAX = 20000,
};

// The shortest end from a state of the byte automaton, as far as computed.
struct terminal_end {
    uint64_t visit;       // last visit that counted the state
    uint64_t search_work; // work of the search from the state
    uint32_t cost;
    uint32_t step; // state after the first token of the rest; BYTE_STATE_DEAD: none
    // State after the first byte of the rest; BYTE_STATE_UNKNOWN: not computed, or found by a search.
    uint32_t next;
    uint16_t least;     // bytes of the rest, if `next` is known
    unsigned char byte; // first byte of the rest
    bool has_step, has_cost;
    bool is_final; // `cost` is the exact minimum of a terminal with few texts
    bool is_open;  // on the path of the enumeration
};

// A state found by the breadth-first search, in order of discovery.
struct found_state {
    // `before`: index of the state that it was reached from.
    uint32_t state, before;
    uint16_t depth;
    unsigned char byte;
};

struct terminal_ends {
    BLOCKS(struct terminal_end) states; // by state of the byte automaton
    VECTOR(struct found_state) found;   // scratch
    BLOCKS(uint32_t) searches;          // by state of the byte automaton: the last search that reached it
    uint32_t n_searches;
    VECTOR(uint32_t) path; // scratch
};

// Returns tokens; CLOSING_NEVER also if the pool has failed. Counts the work, cached or not, once per visit.
uint32_t terminal_ends_cost(struct terminal_ends *ends, struct recognizer *recognizer, uint32_t state);
// Computes the minimum token count of every state reachable from `start`, if they are few and acyclic; else
// returns false. The work counts toward the current visit.
bool terminal_ends_enumerate(struct terminal_ends *ends, struct recognizer *recognizer, uint32_t start);
// The entry of a state, created if necessary. NULL: no memory.
struct terminal_end *terminal_ends_of(struct terminal_ends *ends, struct recognizer *recognizer,
                                      uint32_t state);
// Counts the derivative that steps from the state need, once per visit. Where the least bytes are not exact
// it also counts the searches whether the targets match anything; else the mask has made these searches.
// False: the pool has failed.
bool terminal_ends_count_step(struct recognizer *recognizer, uint32_t state);
void terminal_ends_forget(struct terminal_ends *ends);
