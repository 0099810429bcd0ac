// Constraints of answers (engine/grammar), compiled once for all jobs that ask for the same. Entries stay for
// jobs to come until their place is needed.
//
// Thread: engine, but for constraint_compile, which runs on the pool.
#pragma once

#include "engine/grammar/grammar.h"
#include "engine/tokenizer/tokenizer.h"
#include "schemas/job.h"

enum {
    CONSTRAINTS_MAX = 64,            // entries without users that are kept
    CONSTRAINT_BYTES_MAX = 64 << 20, // of grammars without users that are kept
};

// One constraint. Its recognizer grows with the texts that it matches; it is the sequences' common cache.
struct compiled_constraint {
    struct constraint source; // own copy
    uint64_t hash;            // of the source
    struct grammar *grammar;  // NULL: not compiled, or refused
    struct recognizer *recognizer;
    struct error error; // STATUS_REJECT: refused; STATUS_RETRY: out of memory
    bool is_compiled;
    int32_t n_users; // prompts
    int64_t used;    // of the cache's clock, for eviction
    struct compiled_constraint *next;
};

struct constraint_cache {
    const struct tokenizer *tokenizer;
    int32_t n_vocab;
    struct grammar_vocabulary *vocabulary; // NULL: no job had a constraint yet
    struct compiled_constraint *first;
    int64_t clock;
};

void constraint_cache_finish(struct constraint_cache *cache); // no entry has users
// Makes the vocabulary when the first job comes. STATUS_RETRY: out of memory.
enum status constraint_cache_find(struct constraint_cache *cache, const struct constraint *constraint,
                                  struct compiled_constraint **found, struct error *error) WARN_UNUSED;
// Any thread, each entry by one. Sets entry->error.
void constraint_compile(struct compiled_constraint *entry, const struct grammar_vocabulary *vocabulary);
// A prompt is done with its entry, which may be NULL.
void constraint_cache_release(struct constraint_cache *cache, struct compiled_constraint *entry);
