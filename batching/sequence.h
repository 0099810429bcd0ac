// A sequence: one answer in the making. A job with n choices is one prompt with n sequences.
// Thread: engine; prompt_prepare on the pool, one prompt a task.
#pragma once

#include "batching/prefix.h"
#include "engine/backend.h"
#include "engine/template/template.h"
#include "engine/tokenizer/tokenizer.h"
#include "schemas/job.h"

struct sequence;
struct window_level;

// A job inside batching/.
struct prompt {
    struct job *job;
    struct token_array tokens;
    int32_t max_tokens;          // that fit, per choice
    bool long_context;           // prompt and answer may pass limits.n_context_original
    struct sequence *sequences;  // [request_n_sequences(&job->request)]
    int32_t n_unfinished;        // of them
    struct prompt *previous, *next; // all prompts the batcher holds, oldest first
    int64_t taken_us;            // clocks, for the figures only
    int64_t admitted_us, first_token_us;
    struct error error;          // of prepare, or the first of a sequence. STATUS_REJECT: the job's. Else the host's: the job is
                                 // released
};

struct sequence {
    struct prompt *prompt;
    uint32_t choice;
    struct prefix_node *node;    // end of the path it can share
    // Waiting: its level, and links of the node's, the window's and the level's list, each by age.
    struct window_level *level;
    struct sequence *node_next, *node_previous, *older, *younger, *level_older, *level_younger;
    int64_t arrival;             // admissions before it came: how often it was passed over
    // Running.
    int32_t *pages;              // block table, [n_pages]; the first node->depth are the path's
    int32_t n_pages, pages_capacity;
    int32_t n_computed;          // positions in the cache, or planned for the step being built
    int32_t n_shared;            // of them not computed by this sequence
    int64_t admission;           // serial: the youngest is preempted first
    bool running;
    // The answer so far.
    int32_t *generated;          // [n_generated]
    int32_t n_generated, generated_capacity;
    int32_t n_drawn;             // n_generated, or 1 more: output `output` of the step under way
    int32_t output;
    struct buffer text;          // bytes of the generated tokens
    struct logprob_entry *logprobs; // [generated_capacity] when asked for, texts in the job's arena
    enum finish_reason finish_reason;
    int32_t n_end_tokens;        // 1: a token ended the answer; it counts as generated, and is no part of text and logprobs
};

struct prompt_limits {
    int32_t n_context;           // of the model
    int32_t n_context_original;  // beyond it other rope frequencies hold, for all of a sequence; else n_context
    int32_t n_positions_max;     // that page memory holds for one sequence
    uint64_t page_bytes;         // of one page, for messages
    int32_t page_positions;
    int32_t max_tokens_default;  // for jobs that name none; 0: up to the context's end
    int32_t n_vocab;
};

struct prompt_environment {
    const struct tokenizer *tokenizer;
    const struct template *chat_template; // NULL: the model has none, messages are refused
    const struct template *tool_template; // for jobs with tools; NULL likewise
    bool special_in_content;      // control tokens in messages are read as such
    struct sampling sampling_defaults; // for what jobs do not name
    struct prompt_limits limits;
};

struct prompt *prompt_create(struct job *job); // NULL: out of memory; the job stays the caller's
void prompt_destroy(struct prompt *prompt);    // not the job

// Renders, tokenizes and checks; a fault goes to prompt->error. A max_tokens that does not fit the context is an error; without
// one the answer may take what is left of the context, whether page memory holds as much or not.
enum status prompt_prepare(struct prompt *prompt, const struct prompt_environment *environment) WARN_UNUSED;

// Token at a position of prompt and answer so far; one that is not known yet as in struct step.
int32_t sequence_token(const struct sequence *sequence, int32_t position);
int32_t sequence_n_tokens(const struct sequence *sequence); // drawn ones included
// Whether a token that is not known yet ends the answer, whatever it is.
bool sequence_ends(const struct sequence *sequence);

// STATUS_REJECT: page memory does not hold n_positions of the prompt's. The text names the --kv-memory that would.
enum status prompt_refuse_length(struct prompt *prompt, const struct prompt_limits *limits, int64_t n_positions);

// Takes a drawn token: text, logprobs, stop rules. finish_reason is set when it was the last one; a NaN draw sets
// FINISH_ERROR and prompt->error.
void sequence_accept(struct sequence *sequence, const struct sample_result *drawn, const struct tokenizer *tokenizer);

// Writes the prompt's answers into the job's result once every sequence is finished, or its error. Out of memory: prompt->error is
// the host's, and the result as it was.
void prompt_finish_job(struct prompt *prompt);
