// A sequence generates one answer. A job with n choices is one prompt with n sequences. A sequence may also
// score tokens that are given (batching/scoring.h).
// Thread: engine; prompt_prepare runs on the pool, one task per prompt, or on a thread of its own.
#pragma once

#include "batching/constraint.h"
#include "batching/prefix.h"
#include "engine/backend.h"
#include "engine/template/template.h"
#include "engine/tokenizer/tokenizer.h"
#include "schemas/job.h"

struct sequence;
struct window_level;

// The tokens that may be drawn, as the request limits them.
struct prompt_vocabulary {
    uint32_t *masks; // [2, n_mask_words] from min_tokens on, and before; NULL: all may be drawn
    int32_t n_mask_words;
    struct token_array bad_words; // see bad_words.c
};

// How the answer is to be written.
struct prompt_rules {
    struct compiled_constraint *constraint; // of the batcher's cache; NULL: none
    bool is_compiling;                      // the prompt waits for it
    struct answer_format format;            // of a chat; else empty
    enum thinking_state thinking;           // where the prompt ends
};

// Monotonic clock, for figures only.
struct prompt_times {
    int64_t taken_us, admitted_us, first_token_us;
};

struct prompt_sequences {
    struct sequence *items; // [n] request_n_sequences() answers, then the branches
    int32_t n, n_unfinished;
    // the first that has tokens to compute: the prompt's cached tokens are counted for it
    const struct sequence *first;
};

// A job while the batcher owns it.
struct prompt {
    struct job *job;
    struct token_array tokens;
    int32_t max_tokens;               // per choice, limited by the context
    bool long_context;                // prompt and answer may exceed limits.n_context_original
    struct token_array branch_tokens; // targets of the branches
    // [tokens.n_ids] if the first sequence scores the prompt; texts in the job's arena, text_offset in bytes
    // of `echo`
    struct logprob_entry *logprobs;
    struct text echo; // the prompt's text, if it is printed before the answer
    struct prompt_vocabulary vocabulary;
    struct prompt_rules rules;
    struct prompt_sequences sequences;
    struct list_link link; // of the batcher's prompts
    struct prompt_times times;
    // Set by prompt_prepare, or by the first sequence that fails. STATUS_REJECT: the job fails. Otherwise it
    // is a fault of the host, and the job is released.
    struct error error;
};

// While waiting: its level, and its links in the node's, the window's and the level's list, each by arrival.
struct sequence_wait {
    struct window_level *level;
    struct list_link node_link, window_link, level_link;
    int64_t arrival; // number of admissions before it arrived: bounds how often it is passed over
};

// Its part of the KV cache, while running.
struct sequence_cache {
    int32_t *pages; // block table [n_pages]; the first node->depth pages belong to the path
    int32_t n_pages, pages_capacity;
    int32_t n_computed; // positions in the KV cache, including those of the step being built
    int32_t n_stored;   // positions whose pages were ready at admission
    int32_t n_shared;   // of the prompt's first: positions of n_computed taken from the prefix cache
};

// Tokens that it scores: row first_target + i gives the logprob of targets[i].
struct sequence_targets {
    const int32_t *targets; // NULL: none
    int32_t n_targets, first_target;
    int32_t n_submitted, n_scored; // of the targets: in a submitted step; with their result
    double logprob;                // sum over the scored targets
    bool only_scores;              // draws no token: it ends with its last target
};

// The answer of a sequence.
struct sequence_answer {
    int32_t *generated; // [n_generated]
    int32_t n_generated, generated_capacity;
    // n_generated, or n_generated + 1: then `output` of the submitted step is its newest token
    int32_t n_drawn;
    int32_t output;
    int32_t n_forced;               // of n_generated and n_end_tokens: not drawn (batching/constrained.h)
    struct buffer text;             // bytes of the generated tokens
    struct logprob_entry *logprobs; // [generated_capacity] if requested, texts in the job's arena
    enum finish_reason finish_reason;
    // 1: a stop token ended the answer: it is counted as generated, not part of text or logprobs
    int32_t n_end_tokens;
};

// Progress in the prompt's constraint; of others zeroed.
struct sequence_constraint {
    struct matcher matcher; // zeroed until the first mask is requested
    struct error error;     // why it has no mask
    bool is_complete;       // no token can follow, not even one that ends the answer
};

struct sequence_draft; // batching/speculation.h

struct sequence {
    struct prompt *prompt;
    uint32_t choice;
    struct prefix_node *node; // end of its path in the prefix tree
    struct sequence_wait wait;
    int64_t admission; // serial number: the youngest is preempted first
    bool running;
    struct sequence_cache cache;
    struct sequence_targets scoring;
    struct sequence_answer answer;
    struct sequence_constraint constrained;
    struct sequence_draft *draft; // NULL: none was looked for
};

struct prompt_limits {
    int32_t n_context; // of the model
    // sequences that may exceed it use the long-context rope frequencies; else n_context
    int32_t n_context_original;
    int32_t n_positions_max; // of one sequence, by the KV pages
    uint64_t page_bytes;     // of one page, for messages
    int32_t page_positions;
    int32_t max_tokens_default; // for jobs without max_tokens; 0: up to the end of the context
    int32_t n_vocab;
};

struct prompt_environment {
    const struct tokenizer *tokenizer;
    const struct template *chat_template;          // NULL: the model has none, jobs with messages fail
    const struct template *tool_template;          // for jobs with tools; NULL: chat_template
    struct answer_format chat_format, tool_format; // of answers behind each
    bool special_in_content;                       // control tokens in messages are encoded as control tokens
    struct sampling sampling_defaults;             // for settings that a job does not name
    struct prompt_limits limits;
};

struct prompt *prompt_create(struct job *job); // NULL: out of memory, the caller still owns the job
void prompt_destroy(struct prompt *prompt);    // not the job

// Renders, tokenizes and checks the job; sets prompt->error on failure. Prompt plus max_tokens beyond the
// context is an error. Without max_tokens the answer may use the rest of the context, even if the KV pages
// hold less.
enum status prompt_prepare(struct prompt *prompt, const struct prompt_environment *environment) WARN_UNUSED;

// The constraints on the answer of a prepared prompt, borrowed from the job. False: none.
bool prompt_answer_rules(const struct prompt *prompt, struct answer_rules *rules);
// Fails the prompt where its constraint was refused.
void prompt_check_constraint(struct prompt *prompt, const struct prompt_limits *limits);
// The request's field with the constraint, for messages.
const char *prompt_constraint_field(const struct prompt *prompt);

// The mask of the tokens that may be drawn as the answer's token `index`; NULL: all may, or a constraint
// decides.
const uint32_t *sequence_allowed(const struct sequence *sequence, int32_t index);
// Token at a position of prompt and answer; a pending one is negative, as in struct step.
int32_t sequence_token(const struct sequence *sequence, int32_t position);
int32_t sequence_n_tokens(const struct sequence *sequence); // to compute, with the pending one
// Whether nothing is left to compute: the pending token reaches max_tokens, so that it ends the answer
// whatever it is, or all targets are submitted.
bool sequence_ends(const struct sequence *sequence);

// Sets and returns STATUS_REJECT: the KV pages do not hold n_positions. The text names the --kv-memory that
// would.
enum status prompt_refuse_length(struct prompt *prompt, const struct prompt_limits *limits,
                                 int64_t n_positions);

// Room for n more generated tokens. False: out of memory.
bool sequence_reserve(struct sequence *sequence, int32_t n) WARN_UNUSED;
// Appends a token: text, logprobs, stop rules.
void sequence_append(struct sequence *sequence, const struct sample_result *drawn,
                     const struct tokenizer *tokenizer);
// Whether the token ends the answer and is no part of it.
bool sequence_stops_before(const struct sequence *sequence, int32_t token, const struct tokenizer *tokenizer);

// Writes a token's logprob with the alternatives of its output, all but text_offset. False: out of memory.
bool logprob_entry_set(struct logprob_entry *entry, struct token_logprob chosen,
                       const struct sample_result *drawn, const struct tokenizer *tokenizer,
                       struct arena *arena) WARN_UNUSED;
// Keeps the n_top likeliest tokens of each entry.
void logprob_entries_limit(struct logprob_entry *entries, size_t n, int32_t n_top);
// Ends the sequence with FINISH_ERROR, and its prompt with the error, unless that has one.
void sequence_fail(struct sequence *sequence, enum status status, enum error_code code, const char *text);

// Writes the answers of the finished sequences, or the error, into the job's result. If memory runs out,
// prompt->error is a fault of the host and the result is unchanged.
void prompt_finish_job(struct prompt *prompt, const struct tokenizer *tokenizer);
