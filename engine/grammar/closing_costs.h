// The tokens that it takes to end a text, so that an answer can be complete when its tokens are used up. A
// cost is that of one way which is always open: for each terminal its shortest bytes (terminal_ends.h); no token
// spells parts of two terminals. So from each state some token leads to a cost that is one less, and costs are
// functions of grammar, vocabulary and text. Their work is counted, known or not: that of all terminals of a grammar
// against GRAMMAR_LIMIT_FIRST_WORK, that of one look against GRAMMAR_LIMIT_MASK_WORK. Internal to engine/grammar/.
#pragma once

#include "engine/grammar/recognizer.h"

struct closing_costs;

// Tokens that end the text from the set. CLOSING_NEVER (terminal_ends.h) also when the pool has failed.
uint32_t closing_costs_of(struct recognizer *recognizer, uint32_t set);
// Of the allowed tokens keeps those behind which n_left - 1 tokens end the text. n_left: at least the set's
// cost. Returns its work.
uint64_t closing_costs_filter(struct recognizer *recognizer, uint32_t set, uint32_t n_left, uint32_t *bits);
// The recognizer forgets its sets (closing_costs_destroy: is destroyed).
void closing_costs_forget(struct closing_costs *closing);
void closing_costs_destroy(struct closing_costs *closing);
