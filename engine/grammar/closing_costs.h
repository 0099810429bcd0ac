// The tokens that it takes to end a text, so that an answer can be complete when its tokens are used up. A
// cost is that of one way which is always open: for each terminal its shortest bytes, in the longest tokens
// of the vocabulary, one after the other; no token spells parts of two terminals. So from each state some
// token leads to a cost that is one less, and costs are functions of grammar, vocabulary and text. Internal
// to engine/grammar/.
#pragma once

#include "engine/grammar/recognizer.h"

struct closing_costs;

enum {
    CLOSING_NEVER = INT32_MAX,  // no tokens spell the shortest bytes
    CLOSING_BYTES_MAX = 1024,   // of the shortest text of a terminal; beyond: CLOSING_NEVER
    CLOSING_STATES_MAX = 20000, // of a terminal, looked at to find it; likewise
};

// Tokens that end the text from the set. CLOSING_NEVER also when the pool has failed.
uint32_t closing_costs_of(struct recognizer *recognizer, uint32_t set);
// Of the allowed tokens keeps those behind which n_left - 1 tokens end the text. n_left: at least the set's
// cost.
void closing_costs_filter(struct recognizer *recognizer, uint32_t set, uint32_t n_left, uint32_t *bits);
// The recognizer forgets its sets (closing_costs_destroy: is destroyed).
void closing_costs_forget(struct closing_costs *closing);
void closing_costs_destroy(struct closing_costs *closing);
