// Closing cost: how many tokens end the text from a set, so that an answer can be complete within its token
// limit. The cost is an upper bound: the length of one closing that is always possible. It ends each terminal
// by its shortest bytes (terminal_ends.h), and no token spells parts of two terminals. Internal to
// engine/grammar/.
//
//   grammar: JSON object of numbers       cost   closing
//   text so far   {"a":1                     1   }
//                 {"a":                      2   0 }
//                 {"a                        4   " : 0 }
//
// From each set some token leads to a cost lower by 1. Costs depend on the grammar, the vocabulary and the
// text only. Their work counts, cached or not: the work of all terminals of a grammar against
// GRAMMAR_LIMIT_FIRST_WORK, the work of one computation from a set against GRAMMAR_LIMIT_MASK_WORK.
#pragma once

#include "engine/grammar/recognizer.h"

struct closing_costs;

// Returns the number of tokens that end the text from the set. CLOSING_NEVER (terminal_ends.h): no such
// tokens are known, or the pool has failed.
uint32_t closing_costs_of(struct recognizer *recognizer, uint32_t set);
// Clears the allowed tokens after which n_left - 1 more tokens do not end the text. n_left is at least the
// set's cost. Returns the work.
uint64_t closing_costs_filter(struct recognizer *recognizer, uint32_t set, uint32_t n_left, uint32_t *bits);
// Call when the recognizer drops its sets.
void closing_costs_forget(struct closing_costs *closing);
void closing_costs_destroy(struct closing_costs *closing);
