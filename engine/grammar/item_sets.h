// Builds one Earley item set: builder_begin(), then builder_add() or builder_scan() for each item, then
// builder_finish(). Internal to engine/grammar/.
#pragma once

#include "engine/grammar/recognizer.h"

void builder_begin(struct recognizer *recognizer);
// Adds a kernel item, one that was not predicted, and everything that it completes.
void builder_add(struct recognizer *recognizer, struct item item);
// Adds the terminal in its new state after a byte. If the terminal may end there, completes it.
void builder_scan(struct recognizer *recognizer, uint32_t byte_state, uint32_t terminal, uint32_t origin);
// Returns the set, which is added if it is new. SET_DEAD: the set is empty, or the pool has failed.
uint32_t builder_finish(struct recognizer *recognizer);
// Returns the items of `set` that wait for the end of `symbol`; *n becomes their number. Valid until a set is
// added.
const struct waiter *recognizer_waiters(const struct recognizer *recognizer, uint32_t set, uint32_t symbol,
                                        size_t *n);
void builder_free(struct set_builder *builder);
