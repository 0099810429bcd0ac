// Building one Earley set. Internal to engine/grammar/.
#pragma once

#include "engine/grammar/recognizer.h"

void builder_begin(struct recognizer *recognizer);
// Adds an item that is not predicted, with all that completes because of it.
void builder_add(struct recognizer *recognizer, struct item item);
void builder_scan(struct recognizer *recognizer, uint32_t byte_state, uint32_t terminal, uint32_t origin);
// The set, new or found; SET_DEAD for an empty one, or when the pool has failed.
uint32_t builder_finish(struct recognizer *recognizer);
// The items that wait in the set for the end of the symbol. *n: how many. Valid until a set is added.
const struct waiter *recognizer_waiters(const struct recognizer *recognizer, uint32_t set, uint32_t symbol,
                                        size_t *n);
void builder_free(struct set_builder *builder);
