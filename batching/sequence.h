// A sequence generates one answer. A job with n choices is one prompt with n sequences. A sequence may also
// score tokens that are given (batching/scoring.h).
// Thread: engine; prompt_prepare runs on the pool, one task per prompt, or on a thread of its own.
#pragma once

#include "batching/constraint.h"
#include "batching/prefix.h"
#include "engine/answer/thought_scan.h"
#include "engine/backend.h"
#include "engine/template/template.h"
#include "engine/tokenizer/tokenizer.h"
#include "schemas/job.h"

struct sequence;
struct window_level;

// The tokens that the request allows.
struct prompt_vocabulary {
    uint32_t *masks;         // [2, n_mask_words] from min_tokens on, and before it; NULL: `sampled` instead
    const uint32_t *sampled; // [n_mask_words] the environment's; NULL: all tokens are allowed
    int32_t n_mask_words;
    struct token_array bad_words; // see bad_words.c
};

// The form of the answer.
struct prompt_rules {
    struct compiled_constraint *constraint; // in the batcher's cache; NULL: none
    bool is_compiling;                      // the prompt waits for it
    struct answer_format format;            // for chats; otherwise empty
    enum thinking_state thinking;           // state of thinking at the prompt's end
};

// Monotonic clock, for figures only.
struct prompt_times {
    int64_t taken_us, admitted_us, first_token_us;
};

struct prompt_sequences {
    struct sequence *items; // [n] request_n_sequences() answers, then the branches
    int32_t n, n_unfinished;
    // First sequence with tokens to compute. The prompt's cached tokens are counted for this sequence alone.
    const struct sequence *first;
};

// A job while the batcher owns it.
struct prompt {
    struct job *job;
    struct token_array tokens;
    int32_t max_tokens;               // per choice, limited by the context
    bool long_context;                // prompt and answer may exceed limits.n_context_original
    struct token_array branch_tokens; // targets of the branches
    // [tokens.n_ids] if the first sequence scores the prompt; the texts are in the job's arena, text_offset
    // is a byte of `echo`
    struct logprob_entry *logprobs;
    struct text echo; // the prompt's text, if the answer repeats it
    struct prompt_vocabulary vocabulary;
    struct prompt_rules rules;
    struct prompt_sequences sequences;
    struct list_link link; // link in the batcher's list of prompts
    struct prompt_times times;
    // Set by prompt_prepare, or by the first sequence that fails. With STATUS_REJECT the job fails. Other
    // statuses are faults of the host: the job is released.
    struct error error;
};

// State of a waiting sequence: its level, and its links in the lists of a tree node, of the window and of the
// level. Each list is in order of arrival.
struct sequence_wait {
    struct window_level *level;
    struct list_link node_link, window_link, level_link;
    int64_t arrival; // number of admissions before it arrived; limits how often others are admitted first
    int64_t level_arrival; // the same of its level
    int64_t n_charged;     // tokens that its admission was charged with
};

// The sequence's part of the KV cache while it is running.
struct sequence_cache {
    int32_t *pages; // block table [n_pages]; the first n_path pages belong to the path
    int32_t n_pages, n_path, pages_capacity;
    int32_t n_computed; // positions in the KV cache, including the positions of the step being built
    int32_t n_stored;   // positions whose keys and values were cached at admission
    bool computes_path; // true while it may own nodes of its path
    int32_t state;      // slot of its recurrent state while it runs; used by models with recurrent layers
    struct prefix_node *snapshot; // its next tokens start from this node's snapshot; NULL: from `state`
    int32_t n_shared;             // positions found in the prefix cache (first sequence)
};

// Tokens to score: row first_target + i gives the logprob of targets[i].
struct sequence_targets {
    const int32_t *targets; // NULL: none
    int32_t n_targets, first_target;
    int32_t n_submitted, n_scored; // targets in a submitted step; targets with their result
    double logprob;                // sum over the scored targets
    bool only_scores;              // draws no token: the sequence ends after its last target
    enum finish_reason ended;      // only_scores: how an answer of forced tokens ended
};

// The answer of a sequence.
struct sequence_answer {
    int32_t *generated; // [n_generated]
    int32_t n_generated, generated_capacity;
    // Tokens drawn so far: n_generated, or n_generated + 1 while the newest token is `output` of the
    // submitted step.
    int32_t n_drawn;
    int32_t output;
    int32_t n_forced;               // not drawn but forced; part of n_generated and n_end_tokens
    struct buffer text;             // bytes of the generated tokens
    struct logprob_entry *logprobs; // [generated_capacity] if requested, texts in the job's arena
    enum finish_reason finish_reason;
    // 1 if a stop token ended the answer: it counts as generated, but is not part of text and logprobs.
    int32_t n_end_tokens;
};

// Progress in the prompt's constraint; zeroed without one.
struct sequence_constraint {
    struct matcher matcher; // zeroed until the first mask is requested
    struct error error;     // why there is no mask
    bool is_complete;       // no token can follow, not even an end token
};

// State of a thinking budget; unused without one.
struct sequence_thoughts {
    struct thought_scan scan;
    struct token_array closing; // indices in answer.generated of the tokens that the budget forced
};

// Progress in reporting an answer that is streamed while it is computed (struct answer_piece).
struct sequence_report {
    size_t n_content, n_reasoning; // bytes in earlier pieces
    // An answer with parts: the text of its first n_tokens tokens with the names of the format's special
    // tokens; n_text: bytes of answer.text of these tokens.
    struct buffer spelled, reasoning;
    int32_t n_tokens;
    size_t n_text;
    bool is_over; // the rest is not reported: a special token is within a character, or memory ran out
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
    struct sequence_report report;
    struct sequence_constraint constrained;
    struct sequence_thoughts thoughts;
    struct sequence_draft *draft; // NULL: no draft was tried
};

struct prompt_limits {
    int32_t n_context; // context length of the model
    // Sequences longer than this use the rope frequencies for long contexts. Equals n_context if the model
    // has none.
    int32_t n_context_original;
    int32_t n_positions_max; // positions that the KV pages can hold for one sequence
    uint64_t page_bytes;     // bytes of one page, for error texts
    int32_t page_positions;
    int32_t max_tokens_default; // for jobs without max_tokens; 0: up to the end of the context
    int32_t n_vocab;
};

struct prompt_environment {
    const struct tokenizer *tokenizer;
    const struct template *chat_template;          // NULL: the model has none, jobs with messages fail
    const struct template *tool_template;          // for jobs with tools; NULL: chat_template
    struct answer_format chat_format, tool_format; // formats of answers to each template
    bool special_in_content;                       // control tokens in messages are encoded as control tokens
    struct sampling sampling_defaults;             // values for settings that a job omits
    struct text reasoning_effort;                  // for chats without their own; empty: none
    struct prompt_limits limits;
    const uint32_t *sampled; // mask of the tokens that the model may sample; NULL: all
};

// Makes that mask. *mask is NULL if the tokenizer suppresses no token; else the caller frees it.
enum status prompt_mask_sampled(uint32_t **mask, const struct tokenizer *tokenizer, int32_t n_vocab,
                                struct error *error) WARN_UNUSED;

struct prompt *prompt_create(struct job *job); // NULL: out of memory, the caller still owns the job
void prompt_destroy(struct prompt *prompt);    // does not destroy the job

// Renders, tokenizes and checks the job; sets prompt->error on failure. It is an error if prompt and
// max_tokens exceed the context. Without max_tokens the answer may use the rest of the context, even if the
// KV pages hold less.
enum status prompt_prepare(struct prompt *prompt, const struct prompt_environment *environment) WARN_UNUSED;

// Returns the constraints on the answer of a prepared prompt, borrowed from the job. False: it has none.
bool prompt_answer_rules(const struct prompt *prompt, struct answer_rules *rules);
// Fails the prompt if its constraint was refused.
void prompt_check_constraint(struct prompt *prompt, const struct prompt_limits *limits);
// The request's field that holds the constraint, for error texts.
const char *prompt_constraint_field(const struct prompt *prompt);

// Mask of the tokens allowed as the answer's token `index`. NULL: all tokens are allowed, or a constraint
// decides.
const uint32_t *sequence_allowed(const struct sequence *sequence, int32_t index);
// Token at a position of prompt and answer; a pending token is negative, as in struct step.
int32_t sequence_token(const struct sequence *sequence, int32_t position);
int32_t sequence_n_tokens(const struct sequence *sequence); // including the pending one
// True if nothing is left to compute: all targets are submitted, or the pending token is the last one that
// max_tokens allows.
bool sequence_ends(const struct sequence *sequence);

// Sets and returns STATUS_REJECT: the KV pages do not hold n_positions. The text names the value of
// --kv-memory that would suffice.
enum status prompt_refuse_length(struct prompt *prompt, const struct prompt_limits *limits,
                                 int64_t n_positions);

// Makes room for n more generated tokens. False: out of memory.
bool sequence_reserve(struct sequence *sequence, int32_t n) WARN_UNUSED;
// Appends a token: text, logprobs, stop rules.
void sequence_append(struct sequence *sequence, const struct sample_result *drawn,
                     const struct tokenizer *tokenizer);
// The size of the beginning of the answer's text that no later token changes: it ends before the beginning of
// a stop string and before an incomplete character.
size_t sequence_settled_size(const struct sequence *sequence);
// The beginnings of the answer's thoughts and content that no later token changes, valid until the sequence's
// next token. Of an answer that may have calls both are empty.
void sequence_settle(struct sequence *sequence, const struct tokenizer *tokenizer, struct text *reasoning,
                     struct text *content);
// True if the token ends the answer and is not part of it.
bool sequence_stops_before(const struct sequence *sequence, int32_t token, const struct tokenizer *tokenizer);

// Writes a token's logprob and the alternatives of its output, but not text_offset. False: out of memory.
bool logprob_entry_set(struct logprob_entry *entry, struct token_logprob chosen,
                       const struct sample_result *drawn, const struct tokenizer *tokenizer,
                       struct arena *arena) WARN_UNUSED;
// Keeps the n_top likeliest alternatives of each entry.
void logprob_entries_limit(struct logprob_entry *entries, size_t n, int32_t n_top);
// Ends the sequence with FINISH_ERROR. Sets the prompt's error, unless it has one already.
void sequence_fail(struct sequence *sequence, enum status status, enum error_code code, const char *text);

// Writes the answers of the finished sequences, or the error, into the job's result. If memory runs out,
// prompt->error is a fault of the host and the result is unchanged.
void prompt_finish_job(struct prompt *prompt, const struct tokenizer *tokenizer);
