// Constraints of answers (engine/grammar, engine/answer), compiled once for all jobs with the same
// constraint. Entries without users stay cached until the cache is full. They are compiled on separate
// threads (constraint_threads.h), so that a step never waits for a compile; a job waits for its own
// constraint.
//
// Thread: engine, except constraint_compile.
#pragma once

#include "batching/forced_runs.h"
#include "batching/lists/list.h"
#include "engine/answer/answer_format.h"
#include "engine/grammar/grammar.h"
#include "engine/tokenizer/tokenizer.h"
#include "schemas/job.h"

enum {
    CONSTRAINTS_MAX = 64,             // cached entries without users
    CONSTRAINT_BYTES_MAX = 256 << 20, // bytes of the grammars and recognizers of cached entries without users
};

// The constraints on an answer: its content, tool calls, and the reasoning before it.
struct answer_rules {
    struct constraint constraint;
    struct value tools_value; // the request's tools: null or an array
    struct tools tools;       // tools_value, decoded
    struct answer_format format;
    enum thinking_state thinking;
    bool closes; // an answer must be complete when its max_tokens are used up (close_at_max_tokens)
};

// During the compile, all members but `n_users`, `used`, `state` and `next` belong to the compile thread.
enum constraint_state { CONSTRAINT_WAITING, CONSTRAINT_COMPILING, CONSTRAINT_COMPILED };

// One constraint. The sequences share its recognizer, a cache that grows with the texts it matches.
struct compiled_constraint {
    struct answer_rules source; // the entry's own copy
    struct arena arena;         // holds the copy
    uint64_t hash;              // hash of the source
    struct grammar *grammar;    // NULL: not compiled, or refused
    struct recognizer *recognizer;
    struct forced_runs forced; // keyed by the recognizer's state; engine thread only
    struct error error;        // STATUS_REJECT: refused; STATUS_RETRY: out of memory
    uint32_t n_tokens_min;     // with `closes`: tokens of the shortest answer
    int32_t function;          // index of the tool that the error is about; -1: none
    enum constraint_state state;
    int32_t n_users;       // number of prompts that use the entry
    int64_t used;          // the cache's clock at the last use, for eviction
    struct list_link link; // link in the cache's list
};

struct constraint_cache {
    const struct tokenizer *tokenizer;
    int32_t n_vocab;
    // The vocabulary is built by a compile thread for the first job with a constraint; `making` is its entry
    // in the threads' queue. Until that entry is collected, `vocabulary` and `specials` belong to the thread.
    struct compiled_constraint making;
    struct grammar_vocabulary *vocabulary;
    struct text *specials; // [n_specials] names of special tokens, sorted
    size_t n_specials;
    struct list entries; // newest first
    int64_t clock;
    struct constraint_threads *threads; // NULL: no job had a constraint yet
    int32_t n_waiting, n_compiling;     // numbers of entries
    // NULL: constraint_compile. Tests pass a function that blocks.
    void (*compile)(struct compiled_constraint *entry, struct constraint_cache *cache);
};

// No entry may have users. Waits for compiles in progress.
void constraint_cache_finish(struct constraint_cache *cache);
// Finds or creates the entry and adds a user. A new entry is queued for compiling; the first one also starts
// the threads and the vocabulary. STATUS_RETRY: out of memory.
enum status constraint_cache_find(struct constraint_cache *cache, const struct answer_rules *rules,
                                  struct compiled_constraint **found, struct error *error) WARN_UNUSED;
// Collects compiled entries; *n_compiled is their number. If none is ready, waits up to wait_ms.
// STATUS_RETRY: out of memory.
enum status constraint_cache_collect(struct constraint_cache *cache, int wait_ms, int32_t *n_compiled,
                                     struct error *error) WARN_UNUSED;
// Compiles one entry and sets entry->error. Without the cache's vocabulary only the grammar is compiled, and
// no mask is computed. Thread: any; an entry is compiled by one thread.
void constraint_compile(struct compiled_constraint *entry, struct constraint_cache *cache);
void constraint_vocabulary_make(struct constraint_cache *cache); // called for cache->making; sets its error
void constraint_vocabulary_finish(struct constraint_cache *cache);
bool constraint_cache_is_special(const void *cache, struct text name); // any thread
// A prompt no longer uses its entry, which may be NULL.
void constraint_cache_release(struct constraint_cache *cache, struct compiled_constraint *entry);
