// Constraints of answers (engine/grammar, engine/answer), compiled once for all jobs that ask for the same.
// Entries without users stay cached until their place is needed. They are compiled on separate threads
// (constraint_threads.h), so that a step never waits for one; a job waits for its own.
//
// Thread: engine, but for constraint_compile.
#pragma once

#include "batching/forced_runs.h"
#include "batching/list.h"
#include "engine/answer/answer_format.h"
#include "engine/grammar/grammar.h"
#include "engine/tokenizer/tokenizer.h"
#include "schemas/job.h"

enum {
    CONSTRAINTS_MAX = 64,             // entries without users that are kept
    CONSTRAINT_BYTES_MAX = 256 << 20, // of grammars and recognizers without users that are kept
};

// The constraints on an answer: its content, tool calls, and the reasoning before it.
struct answer_rules {
    struct constraint constraint;
    struct value tools_value; // of the request: null or an array
    struct tools tools;       // the same, decoded
    struct answer_format format;
    enum thinking_state thinking;
    bool closes; // answers are complete when their tokens are used up
};

// While it is compiled, all but `n_users`, `used`, `state` and `next` belong to the thread that compiles it.
enum constraint_state { CONSTRAINT_WAITING, CONSTRAINT_COMPILING, CONSTRAINT_COMPILED };

// One constraint. Its recognizer grows with the texts that it matches; it is the sequences' common cache.
struct compiled_constraint {
    struct answer_rules source; // own copy
    struct arena arena;         // of the copy
    uint64_t hash;              // of the source
    struct grammar *grammar;    // NULL: not compiled, or refused
    struct recognizer *recognizer;
    struct forced_runs forced; // by the recognizer's states; the engine thread's
    struct error error;        // STATUS_REJECT: refused; STATUS_RETRY: out of memory
    uint32_t n_tokens_min;     // where the source closes: of an answer
    int32_t function;          // index of the tool that the error is about; -1: none
    enum constraint_state state;
    int32_t n_users;       // prompts
    int64_t used;          // of the cache's clock, for eviction
    struct list_link link; // of the cache
};

struct constraint_cache {
    const struct tokenizer *tokenizer;
    int32_t n_vocab;
    // The vocabulary is built for the first job with a constraint, by a compile thread: `making` is its entry
    // in the threads' queue. Until that entry is collected, vocabulary and specials belong to the thread.
    struct compiled_constraint making;
    struct grammar_vocabulary *vocabulary;
    struct text *specials; // [n_specials] names of special tokens, sorted
    size_t n_specials;
    struct list entries; // the newest first
    int64_t clock;
    struct constraint_threads *threads; // NULL: no job had a constraint yet
    int32_t n_waiting, n_compiling;     // entries
    // NULL: constraint_compile. Tests pass one that waits.
    void (*compile)(struct compiled_constraint *entry, struct constraint_cache *cache);
};

// No entry has users. Waits for those that are being compiled.
void constraint_cache_finish(struct constraint_cache *cache);
// Makes the threads for the first job, and has the vocabulary made and a new entry compiled. STATUS_RETRY:
// out of memory.
enum status constraint_cache_find(struct constraint_cache *cache, const struct answer_rules *rules,
                                  struct compiled_constraint **found, struct error *error) WARN_UNUSED;
// Takes entries back that have been compiled. *n_compiled: how many. While there is none, waits for up to
// wait_ms. Errors as above.
enum status constraint_cache_collect(struct constraint_cache *cache, int wait_ms, int32_t *n_compiled,
                                     struct error *error) WARN_UNUSED;
// Any thread, each entry by one. Sets entry->error. Without the cache's vocabulary the grammar is compiled alone: no
// mask is made.
void constraint_compile(struct compiled_constraint *entry, struct constraint_cache *cache);
void constraint_vocabulary_make(struct constraint_cache *cache); // that of cache->making; sets its error
void constraint_vocabulary_finish(struct constraint_cache *cache);
bool constraint_cache_is_special(const void *cache, struct text name); // any thread
// A prompt no longer uses its entry, which may be NULL.
void constraint_cache_release(struct constraint_cache *cache, struct compiled_constraint *entry);
