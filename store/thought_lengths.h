// Lengths of thoughts in the most recently finished answers of a dataset. Thread: the store's.
#pragma once

#include "schemas/base/error.h"
#include "schemas/base/text.h"

#include <stdint.h>

struct store;

enum { THOUGHT_LENGTHS_MAX = 64 };

struct thought_lengths {
    int64_t tokens[THOUGHT_LENGTHS_MAX]; // [n] tokens of each answer's thoughts
    int32_t n;
    int64_t generated_tokens; // all tokens of these answers, including thoughts
};

enum status store_thought_lengths(struct store *store, struct text dataset, struct thought_lengths *lengths,
                                  struct error *error) WARN_UNUSED;
