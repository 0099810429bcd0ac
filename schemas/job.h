// A job: one prompt record, with its result. Everything it points to is in its arena. It has one owner at a
// time: the main thread decodes it, the engine thread fills `result`, the main thread publishes and destroys
// it. Fields have OpenAI's names if OpenAI has the field. schemas/job.schema.json and
// schemas/result.schema.json describe both encodings.
#pragma once

#include "schemas/base/digest.h"
#include "schemas/value.h"

#include <stdbool.h>
#include <stdint.h>

// Limits of one job; exceeding one is ERROR_LIMIT_EXCEEDED, with field, limit and value.
enum {
    JOB_ID_BYTES_MAX = 256, // job_id, custom_id
    JOB_DATASET_BYTES_MAX = 128,
    JOB_MODEL_BYTES_MAX = 256,
    JOB_FINGERPRINT_BYTES_MAX = 256, // system_fingerprint
    JOB_RECORD_BYTES_MAX = 16 << 20, // one encoded job
    JOB_MESSAGES_MAX = 4096,
    JOB_TOKENS_MAX = 1 << 19, // prompt given as ids; half of VALUE_COUNT_MAX
    JOB_STOP_MAX = 16,
    JOB_STOP_BYTES_MAX = 1024,
    JOB_LOGIT_BIAS_MAX = 1024,
    JOB_N_MAX = 64,
    JOB_TEMPERATURE_MAX = 100,
    JOB_TOP_LOGPROBS_MAX = 20,
    JOB_MAX_TOKENS_MAX = 1 << 20,
    JOB_TOP_K_MAX = 1 << 20,
    JOB_COMPLETION_TOKENS_DEFAULT = 16, // max_tokens of lines for /v1/completions, as in OpenAI and vLLM
    JOB_STOP_TOKENS_MAX = 128,
    JOB_CHOICES_MAX = 10000,
    SCORED_VALUES_MAX = 1024, // of all properties of a schema
    JOB_JSON_INDENT_MAX = 8,
    JOB_ALLOWED_TOKENS_MAX = 65536,
    JOB_BAD_WORDS_MAX = 1024,
    JOB_TOOLS_MAX = 1024,
    JOB_FUNCTION_NAME_BYTES_MAX = 128,
    JOB_TOOL_CALLS_MAX = 128, // per answer
    JOB_WARNINGS_MAX = 32,    // the last one says that more were left out
    JOB_PRIORITY_MAX = 100,   // priorities are -100..100
    JOB_INPUTS_MAX = 2048,    // texts or pairs of one job, as OpenAI's of /v1/embeddings
    JOB_DIMENSIONS_MAX = 1 << 20,
    JOB_PROMPT_NAME_BYTES_MAX = 128,
    JOB_METADATA_BYTES_MAX = 64 << 10, // as JSON; OpenAI's largest has 38 KiB
};

#define JOB_DEADLINE_S_MAX 253402300799LL // seconds since 1970 UTC: the end of the year 9999

// What a job asks of the model (schemas/task.h).
enum task { TASK_GENERATE, TASK_EMBED, TASK_CLASSIFY, TASK_RERANK, TASK_COUNT };

enum prompt_kind { PROMPT_MESSAGES, PROMPT_TEXT, PROMPT_TOKENS };

struct logit_bias {
    int32_t token;
    float bias; // added to the logit; -100..100
};

// Parameters that may have a worker's default, from the model (generation_config.json) or an option.
enum sampling_parameter {
    SAMPLING_TEMPERATURE = 1,
    SAMPLING_TOP_P = 2,
    SAMPLING_TOP_K = 4,
    SAMPLING_MIN_P = 8,
    SAMPLING_PRESENCE_PENALTY = 16,
    SAMPLING_FREQUENCY_PENALTY = 32,
    SAMPLING_REPETITION_PENALTY = 64,
    SAMPLING_THINKING_TOKEN_BUDGET = 128,
};

// Sampling parameters. They belong to the job, never to the batch.
struct sampling {
    // Bits of enum sampling_parameter that the record has. The others get the worker's default.
    unsigned given;
    float temperature;       // 0: greedy. 0..JOB_TEMPERATURE_MAX, default 1
    float top_p;             // [0, 1], default 1: off; 0 keeps the most likely token
    float min_p;             // [0, 1], default 0: off
    int32_t top_k;           // default 0: off
    float presence_penalty;  // -2..2, default 0: as OpenAI's, over generated tokens
    float frequency_penalty; // -2..2, default 0
    // (0, 10], default 1: off; over prompt and generated tokens (Keskar et al. 2019)
    float repetition_penalty;
    uint64_t seed; // from the record (any int64); otherwise job_default_seed
    bool seed_given;
    struct logit_bias *logit_bias;
    int32_t n_logit_bias;
    bool logprobs;
    int32_t top_logprobs; // 0..JOB_TOP_LOGPROBS_MAX alternatives per token; needs logprobs
    // vLLM's limit on the tokens of thoughts, without their marks; at the limit thoughts are closed. Default
    // -1: no limit.
    int32_t thinking_token_budget;
};

enum constraint_kind {
    CONSTRAINT_NONE,
    CONSTRAINT_JSON_OBJECT, // any JSON object
    CONSTRAINT_JSON_SCHEMA,
    CONSTRAINT_REGEX, // matches the whole text
    CONSTRAINT_CHOICE,
    CONSTRAINT_GRAMMAR, // in GBNF or Lark syntax
};

enum { JSON_INDENT_SPACED = -1 };

// A constraint on the text of an answer.
struct constraint {
    enum constraint_kind kind;
    struct text source;   // the schema's JSON, the regex or the grammar
    struct text *choices; // [n_choices], CONSTRAINT_CHOICE
    int32_t n_choices;
    const char *field; // static name of the record's field that has the constraint
    bool closes;       // close_at_max_tokens
    // How JSON is written; used by the JSON kinds only.
    int32_t indent; // blanks per level; 0: compact; JSON_INDENT_SPACED: a blank after each colon and comma
    bool any_order; // members in any order; false: in the order of the schema
    struct text whitespace_pattern; // vLLM's regex for white space; empty: none was given
};

struct tool_function {
    struct text name;
    struct value parameters; // JSON Schema; null: no parameters
};

enum tool_choice {
    TOOLS_NONE, // no calls: no tools given, or tool_choice is "none"
    TOOLS_AUTO,
    TOOLS_REQUIRED,
    TOOLS_NAMED,
};

// The functions that an answer may call.
struct tools {
    enum tool_choice choice;
    struct tool_function *functions; // [n_functions], names differ
    int32_t n_functions;
    struct text named; // TOOLS_NAMED: the function's name
    bool is_single;    // parallel_tool_calls is false: at most one call
};

// The prompt, of one of three kinds.
struct request_prompt {
    enum prompt_kind kind;
    struct text text; // PROMPT_TEXT
    // For PROMPT_MESSAGES: an array of objects whose role and content were checked. If a content was given as
    // text parts, these were joined by line feeds to one string. Arguments of tool calls are objects.
    struct value messages;
    // For PROMPT_MESSAGES, the variables of the template: messages, tools (null: none, or tool_choice is
    // "none"), documents (null: none), add_generation_prompt (default true) and the members of
    // chat_template_kwargs.
    struct value variables;
    // For PROMPT_MESSAGES: the prompt ends with the text of the last message, and the answer continues it.
    bool continues_message;
    int32_t *tokens;          // PROMPT_TOKENS
    const char *tokens_field; // static name of the field with the tokens; NULL: "tokens"
    int32_t n_tokens;
    // vLLM's add_special_tokens: adds bos (and eos) if the tokenizer does. The default is true for a text,
    // and false for messages, because the template writes special tokens. No effect on token ids.
    bool add_special_tokens;
};

// Where an answer ends.
struct request_stop {
    int32_t max_tokens;   // -1: up to the context's end (the worker's default may be lower)
    struct text *strings; // [n_strings] stop
    int32_t n_strings;
    bool ignore_eos; // vLLM's ignore_eos: end tokens do not end the answer
    // vLLM's include_stop_str_in_output: the text keeps the stop string or token that ended it.
    bool is_included;
    // vLLM's min_tokens: until the answer has this number of tokens, no end token is drawn and no stop string
    // ends the answer.
    int32_t min_tokens;
    int32_t *tokens; // [n_tokens] vLLM's stop_token_ids: each ends the answer, even with ignore_eos
    int32_t n_tokens;
};

// Limits of the vocabulary.
struct request_vocabulary {
    int32_t *allowed_tokens; // [n_allowed_tokens] vLLM's allowed_token_ids: others are never drawn; NULL: all
    int32_t n_allowed_tokens;
    struct text *bad_words; // [n_bad_words] vLLM's bad_words: no answer contains their tokens
    int32_t n_bad_words;
};

// A value that a property of the schema may have.
struct scored_value {
    struct text property;
    struct text json;   // the value
    struct text choice; // {"PROPERTY":VALUE}, its name in the result
};

// choice_logprobs: the choices of the constraint, each scored as the continuation of the prompt; with a schema the values
// of its enums and booleans, each scored as the continuation of the answer before it.
struct request_scores {
    bool wanted;
    bool include_end;            // includes the end token after each choice in its score
    bool decide;                 // the most probable choice is the answer; nothing is generated
    struct scored_value *values; // [n_values] of a schema, property by property
    int32_t n_values;
};

// One text of a job: of a pair the second, such as a document.
struct request_input {
    struct text text;      // data NULL: it is given as token ids
    const int32_t *tokens; // [n_tokens] computed as given, nothing is added
    int32_t n_tokens;
};

// Which of the model's prompts is put before the texts. sentence-transformers: encode, encode_query,
// encode_document.
enum input_type { INPUT_PLAIN, INPUT_QUERY, INPUT_DOCUMENT };

// TASK_EMBED; the inputs, their truncation and `is_partial` of TASK_CLASSIFY and TASK_RERANK too.
struct request_embedding {
    struct request_input *inputs; // [n_inputs]
    int32_t n_inputs;
    bool is_list;         // errors name the input by its index
    int32_t n_dimensions; // 0: all of the model's
    bool is_base64;       // encoding_format
    enum input_type type;
    struct text prompt_name; // of the model's prompts; empty: by `type`
    int32_t
        truncate_tokens; // vLLM's truncate_prompt_tokens; 0: a longer text is refused; -1: the model's limit
    bool truncates_left; // vLLM's truncation_side: the text's last tokens are kept
    bool is_partial;     // a bad input has its own error, the others their vectors
};

// TASK_RERANK: the inputs of `struct request_embedding` are documents (text_2 of a score), and the pairs are
// (query, document). TASK_CLASSIFY of pairs: as a score.
struct request_ranking {
    struct text *queries; // [n_queries]: one of all inputs, or one of each
    int32_t n_queries;
    bool queries_are_list;  // text_1 is a list
    bool scores;            // text_1, text_2; else a ranking: query, documents
    int32_t top_n;          // of a ranking: documents of the result; 0: all
    bool returns_documents; // of a ranking
};

// Whether the schema has one of $ref, enum, const, anyOf, oneOf, else a type, and no keyword that excludes some of its values.
bool schema_lists_values(const struct value *schema);
// Lists the values of a schema's properties that are enums, booleans, nulls or unions of these. n_values 0: no such
// property. Texts point into the schema or the arena. STATUS_REJECT: more than SCORED_VALUES_MAX.
enum status scored_values_find(const struct value *schema, struct arena *arena, struct request_scores *scores,
                               struct error *error) WARN_UNUSED;

// The request.
struct request {
    enum task task;
    struct request_embedding embedding; // not TASK_GENERATE; else zero
    struct request_ranking ranking;     // TASK_RERANK, TASK_CLASSIFY of pairs; else zero
    // TASK_GENERATE, except `model`:
    struct request_prompt prompt;
    struct request_stop stop;
    int32_t n; // choices, default 1
    // Number of sequences to generate; the n with the highest mean logprob are returned. 0: n.
    int32_t best_of;
    bool hides_logprobs; // sampling.logprobs is set only to compute best_of
    struct request_vocabulary vocabulary;
    struct constraint constraint;
    int32_t prompt_logprobs; // vLLM's: alternatives per prompt token; -1: no prompt logprobs
    bool echo;               // OpenAI's echo, for plain completions: the text begins with the prompt
    struct request_scores scores;
    struct tools tools;
    struct sampling sampling;
    struct text model; // as given, and echoed; it selects nothing, because a worker has one model
};

// Number of sequences to generate for the job.
static inline int32_t request_n_sequences(const struct request *request)
{
    int32_t n = request->n > 0 ? request->n : 1;
    return request->best_of > n ? request->best_of : n;
}

enum finish_reason {
    FINISH_NONE,
    FINISH_STOP,
    FINISH_LENGTH,
    FINISH_TOOL_CALLS,
    FINISH_CANCELLED,
    FINISH_ERROR
};

struct tool_call {
    struct text id; // depends only on the request and the position of the call
    struct text name;
    struct text arguments; // JSON
};

struct token_logprob {
    int32_t token;
    // Natural logarithm of the probability before temperature and filters. NAN: none (the first token of a
    // prompt).
    float logprob;
};

// Logprobs of one generated token, if requested.
struct logprob_entry {
    struct token_logprob chosen;
    struct token_logprob *top; // [n_top], most likely first
    int32_t n_top;
    struct text chosen_bytes; // bytes of `chosen`, and of each entry of `top`
    struct text *top_bytes;
    // Number of characters of the answer's text before the token; a number of bytes while the answer is
    // generated.
    int32_t text_offset;
};

// One generated answer.
struct choice {
    struct text text; // valid UTF-8; bad bytes became U+FFFD
    enum finish_reason finish_reason;
    int32_t n_tokens;               // generated tokens, without the end token
    struct logprob_entry *logprobs; // [n_echoed + n_tokens] or NULL
    int32_t n_echoed;               // number of leading logprobs that belong to prompt tokens
    struct text reasoning;          // reasoning_content of OpenAI-compatible servers; data NULL: none
    struct tool_call *tool_calls;   // [n_tool_calls]
    int32_t n_tool_calls;
};

// The model's score of one of the job's choices. It does not depend on the answer.
struct choice_logprob {
    struct text choice;
    double logprob;    // sum over the choice's tokens after the prompt, without the constraint
    float probability; // softmax over the choices' logprobs
};

// What was computed of one input, or its error: a vector, or the scores of a classification head.
struct embedding {
    const float *items;   // [n_dimensions], or [n_labels]; NULL: `code` and `message` say why
    enum error_code code; // only with request.embedding.is_partial
    struct text message;
};

struct embeddings {
    struct embedding *items; // [n_items], in the order of the inputs
    int32_t n_items, n_dimensions;
    bool is_base64; // the request's encoding_format
};

// Answers of a classification head, as they are in the result map (schemas/ranking_result.h).
struct rankings {
    struct value items;  // array of objects; VALUE_NULL: none
    struct value errors; // array of objects, of a ranking's documents without a score; VALUE_NULL: none
};

enum result_status { RESULT_NONE, RESULT_DONE, RESULT_FAILED, RESULT_CANCELLED };

// The result. A pure function of (model, request, arithmetic): nothing here depends on the batch, the worker
// or the clock.
struct result {
    enum result_status status;
    struct choice *choices; // [n_choices], RESULT_DONE
    int32_t n_choices;
    struct logprob_entry *prompt_logprobs; // [n_prompt_logprobs], without text_offset
    int32_t n_prompt_logprobs;
    struct choice_logprob *choice_logprobs; // [n_choice_logprobs], in the request's order
    int32_t n_choice_logprobs;
    struct embeddings embeddings;   // TASK_EMBED and RESULT_DONE
    struct rankings rankings;       // TASK_CLASSIFY, TASK_RERANK and RESULT_DONE
    int32_t prompt_tokens;          // of inputs: all tokens computed, special tokens included
    int32_t cut_tokens;             // removed by truncate_prompt_tokens
    int32_t completion_tokens;      // over all choices, with end tokens, as OpenAI and vLLM count
    int32_t reasoning_tokens;       // of the choices' reasoning, without its delimiters
    struct error error;             // RESULT_FAILED, RESULT_CANCELLED
    struct text model;              // the worker's name for its model
    struct text system_fingerprint; // name of the worker's arithmetic; empty: unknown
    // The usage includes figures.cached_tokens. Only on request, because the number differs from run to run.
    bool reports_cached_tokens;
    struct text *warnings; // e.g. unknown fields; [n_warnings]
    int32_t n_warnings;
};

// Figures of the computation: for the store and the record's headers, never for the result's body.
struct job_figures {
    int32_t cached_tokens;      // prompt tokens served from shared pages
    int64_t queued_us;          // time in the waiting queue
    int64_t prefill_us;         // admission to first token
    int64_t decode_us;          // first token to last
    int32_t attempts;           // times the job was started, including this one
    uint64_t prefix_hash;       // hash of the cached prefix that it used; 0: none
    int32_t forced_tokens;      // generated tokens for which a constraint left one choice
    int32_t drafted_tokens;     // speculative decoding: draft tokens computed
    int32_t accepted_tokens;    // accepted draft tokens
    const char *constrained_by; // job_constraint_name, static, if the job has no request; else NULL
    bool is_duplicate;          // has the answer of another job; nothing was computed
};

enum encoding { ENCODING_JSON, ENCODING_MSGPACK };

struct header {
    struct text name;
    struct text value; // any bytes
};

struct job_bytes {
    size_t record;  // bytes of the received record
    size_t charged; // bytes counted against the worker's limit until the job ends (worker_job_bytes)
};

// Where the record came from, and properties that stay with the job.
struct job_source {
    struct text topic; // "": the embedded queue
    int32_t partition;
    int64_t offset;          // Kafka offset, or the row id of the embedded queue
    enum encoding encoding;  // encoding of the record and of the result
    struct text key;         // record key; data NULL: none
    struct text reply_topic; // of the result; empty: the worker's
    int32_t crashes;         // crashes of workers that may have been computing it
    int64_t received_s;      // monotonic clock; only for figures
    int64_t finished_us;     // since 1970 UTC; only for spans
    int64_t written_s;       // time of the record, seconds since 1970 UTC; 0: unknown
    bool is_repeated;        // gets no result, because another record has its job_id (--unique-jobs)
    int64_t redriven;        // how often it was sent again as a dead letter
    struct header *headers;  // [n_headers]
    int32_t n_headers;
    bool has_more_headers; // the record has more headers than `headers`
    struct text record;    // original bytes if the record could not be decoded, else empty
    struct job_bytes bytes;
    int32_t refusals; // number of times that the broker refused its result in a batch of its own
    bool is_doubted;  // the broker refused a batch that had its result
};

// The part of the record or its headers that names the job. The default seed depends on it.
enum job_naming {
    JOB_NAMED_BY_PLACE, // an index, or partition and offset; the job_id is made from these
    JOB_NAMED_BY_ID,    // a job_id
    JOB_NAMED_BY_CUSTOM_ID
};

struct job {
    struct arena arena;
    struct job *next;      // link of the queue or list that owns the job
    struct text job_id;    // unique within a dataset
    struct text dataset;   // default "default"
    struct text custom_id; // default: the job_id
    enum job_naming naming;
    int64_t index;         // position in the submitted file; -1: none
    int64_t created_s;     // submission, seconds since 1970 UTC; 0: unknown
    int32_t priority;      // -JOB_PRIORITY_MAX..JOB_PRIORITY_MAX; the highest runs first
    int64_t deadline_s;    // seconds since 1970 UTC: the job is not computed after it; 0: none
    struct value metadata; // an object that comes back in the result; VALUE_NULL: none
    struct request request;
    int32_t adapter_set;        // set of the worker's LoRA adapters that computes it (engine/backend.h)
    struct digest request_hash; // set if equal requests may share the answer (job_hash_request)
    struct digest open_hash;    // hash without max_tokens (job_hash_request), or not set
    struct result result;
    struct job_figures figures;
    struct job_source source;
    uint64_t stream; // its text is reported under this number while it is computed; 0: it is not
};

#define CONTENT_TYPE_JSON    "application/json"
#define CONTENT_TYPE_MSGPACK "application/msgpack"

// Detects the encoding from the value of the content-type header, which may be empty; its parameters are
// ignored. Otherwise the first byte decides: '{' or white space is JSON, the first byte of a map is msgpack.
// False: neither.
bool encoding_detect(struct text content_type, struct text record, enum encoding *encoding);

struct job *job_create(void); // empty, with defaults; NULL: out of memory
void job_destroy(struct job *job);

// A free list of job allocations, last in first out, so that a reused job is still in the CPU's caches. Used
// by one thread. A zeroed struct is valid and empty; NULL caches nothing. Jobs beyond JOB_RESERVE_MAX are
// freed. With the address sanitizer all jobs are freed, so that it detects a use after free.
#ifdef __SANITIZE_ADDRESS__
enum { JOB_RESERVE_MAX = 0 };
#else
enum { JOB_RESERVE_MAX = 1024 };
#endif
struct job_reserve {
    struct job *first;
    int32_t n_jobs;
};
struct job *job_reserve_take(struct job_reserve *reserve);           // like job_create
void job_reserve_give(struct job_reserve *reserve, struct job *job); // like job_destroy
void job_reserve_finish(struct job_reserve *reserve);

// Sets request_hash if the answer depends only on the request, not on the identity of the job. This requires
// that the request is greedy or has its own seed, and has no tools (calls have ids). A schema is hashed
// without its annotations (schema_annotations.h).
//
// Sets open_hash too, a hash without max_tokens, if an answer that ended by a stop rule is also the answer
// for every larger max_tokens. This requires that close_at_max_tokens is off and all sequences are returned
// as choices.
//
// `defaults` are the sampling parameters of jobs without their own. `time_is_read`: the chat template depends
// on the time of submission, which is then hashed for messages. False: out of memory.
bool job_hash_request(struct job *job, const struct sampling *defaults, bool time_is_read) WARN_UNUSED;

// True if two records have the same request: they have the same bytes, or their requests differ only in
// spelling. Priority and deadline are not compared. Also returns false if memory ran out.
bool job_records_equal(struct text a, struct text b, enum encoding encoding);

// Names a job: copies the id, which also becomes the custom_id if the job has none. False: out of memory.
bool job_set_id(struct job *job, struct text job_id) WARN_UNUSED;
// True if a cancellation applies to the job. A cancellation names a dataset and a job in it (an empty job_id
// means all jobs). It applies to jobs submitted no later than `until_s` (since 1970 UTC), and to jobs whose
// time is unknown.
bool job_is_named(const struct job *job, struct text dataset, struct text job_id, int64_t until_s);
// Whether `job` is to be computed before `other`: its priority is higher, or at equal priority its deadline is
// earlier. No deadline is the latest.
bool job_is_more_urgent(const struct job *job, const struct job *other);
// Returns the time of submission if known, else the time of the record.
int64_t job_submitted_s(const struct job *job);
// Returns the default seed of a job: a hash of its prompt and its name. The name is the first given one of
// custom_id, index, job_id, partition and offset. So equal prompts in one file have different seeds, and a
// line has the same seed in every dataset and topic.
uint64_t job_default_seed(const struct job *job);
uint64_t job_prompt_seed(const struct job *job); // depends on the prompt only, 63 bits; for --same-draws

// Reads one record into `job`, which must be new from job_create. Besides our own job map it accepts an
// OpenAI batch line ({"custom_id", "method", "url", "body"}). A member that is null counts as missing. A
// record without job_id leaves it empty, and the caller names the job (job_set_id). If the record is at
// fault, returns STATUS_REJECT with the name of the field in the text; the identity (job_id, dataset,
// custom_id, index, created) is set as far as it could be read.
enum status job_decode(struct job *job, struct text record, enum encoding encoding,
                       struct error *error) WARN_UNUSED;
// Writes the job map, which job_decode reads back to the same job, including warnings. Members are in a fixed
// order; defaults are left out. The job must be named and its request decoded.
void job_encode(const struct job *job, enum encoding encoding, struct buffer *out);

// Items of one alternative in the lists "logprobs" of the result map.
enum { RESULT_ALTERNATIVE_ITEMS = 3 };

// The result map: job_id, dataset, custom_id, index, metadata, status, object, model, system_fingerprint, created,
// choices, prompt_logprobs, choice_logprobs, data, dimensions, encoding_format, results, errors, usage, error, warnings.
// Members are in this order; empty ones are left out.
void result_encode(const struct job *job, enum encoding encoding, struct buffer *out);
// Checks that result_decode can read the result back. STATUS_REJECT, ERROR_RESULT_TOO_LARGE: it has too many
// logprobs; the caller then publishes an error result instead.
enum status result_check(const struct job *job, struct error *error) WARN_UNUSED;
// Reads a result map into the job's identity and result, and sets request.task and request.prompt.kind:
// PROMPT_MESSAGES for a chat, PROMPT_TEXT for a plain completion. Unknown members are skipped.
enum status result_decode(struct job *job, struct text record, enum encoding encoding,
                          struct error *error) WARN_UNUSED;

// Gives the job the result of an equal request. The identity stays the job's own, and so do warnings about
// fields that no answer depends on. STATUS_REJECT: the result was computed with another model or arithmetic,
// or is not an answer; only the job's arena has changed.
enum status result_reuse(struct job *job, struct text record, enum encoding encoding,
                         struct error *error) WARN_UNUSED;

// OpenAI batch output (platform.openai.com/docs/api-reference/batch): one line, without the newline
// (schemas/openai.c draws it). The body is a chat.completion, or a text_completion if `chat` is false; of
// the other tasks what their paths answer (schemas/task.h).
void result_encode_openai(const struct job *job, bool chat, struct buffer *out);

const char *finish_reason_name(enum finish_reason reason); // "stop", "length", "tool_calls", ...
const char *result_status_name(enum result_status status); // "done", "failed", "cancelled"

// Sets a parameter by its field's name ("top_k"), within the limits for jobs, and marks it as given. Errors:
// STATUS_REFUSE.
enum status sampling_set(struct sampling *sampling, const char *name, double number,
                         struct error *error) WARN_UNUSED;
// Sets the parameters that the record omits to the values of `defaults`.
void sampling_complete(struct sampling *sampling, const struct sampling *defaults);

// True if the text is one of OpenAI's efforts, or vLLM's "max".
bool reasoning_effort_is_known(struct text effort);
// Adds variables of the chat template that the request of a decoded chat omits: the default reasoning_effort
// (empty: none), and Seed's `thinking_budget` if the template reads it. Called after sampling_complete.
void prompt_complete(struct job *job, struct text effort, bool takes_budget);

// The constraint on the job's answers, a static text: "json_object", "json", "regex", "choice", "grammar", or
// "tools" if only tools constrain them. NULL: none, or unknown.
const char *job_constraint_name(const struct job *job);
const char *constraint_name_find(struct text name); // the static text equal to `name`; NULL: none

// Copies `value` into the job's arena. False: out of memory.
bool job_set_text(struct job *job, struct text *field, struct text value) WARN_UNUSED;
// Sets the result to RESULT_FAILED (RESULT_CANCELLED for ERROR_CANCELLED), without choices. Warnings are
// kept.
void job_fail(struct job *job, const struct error *error);
#define JOB_WARNING_OF_MODEL "model: the request names " // how that warning begins
// Adds a line to the result's warnings, truncated like an error's text. False: out of memory.
bool job_warn(struct job *job, const char *format, ...) PRINTF_LIKE(2, 3);
