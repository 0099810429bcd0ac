// Computes how many tokens end a terminal from a state of the byte automaton. For a terminal that matches few
// texts (choices, labels) the number is the exact minimum (finite_ends.c). For other terminals it is the
// number of tokens of the shortest rest, split greedily into the longest tokens. Among rests of equal length
// the first in byte order is used. Internal to engine/grammar/.
//
//   terminal [0-9]{4}-[0-9]{2}, read "20"
//   shortest rest    00-00              5 bytes
//   longest tokens   00  -  00          cost 3 (if no token is "-0")
//
// The expression gives the length of the shortest rest; expression_measure.c computes it for intersections
// and complements. Only an expression too large to be measured needs a search.
#pragma once

#include "engine/grammar/recognizer.h"

enum {
    CLOSING_NEVER = INT32_MAX, // no tokens spell the shortest rest
    CLOSING_BYTES_MAX = 1024,  // maximum bytes of a terminal's shortest rest; above it: CLOSING_NEVER
    // Maximum states searched in an intersection or complement; above it: CLOSING_NEVER.
    CLOSING_STATES_MAX = 20000,
};

// The shortest end from a state of the byte automaton, as far as it was computed.
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

// A state that the breadth-first search found, in order of discovery.
struct found_state {
    // `before` is the index of the state from which it was reached.
    uint32_t state, before;
    uint16_t depth;
    unsigned char byte;
};

struct terminal_ends {
    BLOCKS(struct terminal_end) states; // indexed by state of the byte automaton
    VECTOR(struct found_state) found;   // scratch
    BLOCKS(uint32_t) searches;          // last search that reached each state of the byte automaton
    uint32_t n_searches;
    VECTOR(uint32_t) path; // scratch
};

// Returns the number of tokens. CLOSING_NEVER also if the pool has failed. Counts the work, cached or not,
// once per visit.
uint32_t terminal_ends_cost(struct terminal_ends *ends, struct recognizer *recognizer, uint32_t state);
// Computes the minimum token count of every state reachable from `start`, if they are few and acyclic; else
// returns false. The work counts toward the current visit.
bool terminal_ends_enumerate(struct terminal_ends *ends, struct recognizer *recognizer, uint32_t start);
// Returns the entry of a state, created if necessary. NULL: out of memory.
struct terminal_end *terminal_ends_of(struct terminal_ends *ends, struct recognizer *recognizer,
                                      uint32_t state);
// Counts, once per visit, the derivative that steps from the state need. If the minimum bytes are not exact,
// also counts the searches that decide whether the targets match anything; otherwise the mask has already
// made them. False: the pool has failed.
bool terminal_ends_count_step(struct recognizer *recognizer, uint32_t state);
void terminal_ends_forget(struct terminal_ends *ends);
