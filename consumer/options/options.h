// The command line: one table of options, each with its commands. A value is read from the command line, else
// from SHEAF_NAME in the environment, else from the file given by --config ("name = value" a line). If an
// option is given twice, the last value counts; values of PROPERTY and TEXT_LIST accumulate; a second value
// of an option that is an input of the result (a schema, a template, a model) is refused on the command line.
// Errors: STATUS_REFUSE, ERROR_USAGE: exit status 2. Thread: main.
#pragma once

#include "schemas/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    OPTIONS_PROPERTIES_MAX = 128,
    OPTIONS_POSITIONALS_MAX = 502,
    OPTIONS_BATCHES_MAX = 16,
    OPTIONS_CONFIG_BYTES_MAX = 1 << 20
};

// Groups of options. Texts are NULL if not given. Times are in seconds, sizes in bytes, limits 0 if they are
// derived.
struct command_line {
    const char *command;
    const char *positionals[OPTIONS_POSITIONALS_MAX]; // in the order of the command's usage
    int n_positionals;
    bool help, help_all;
    int64_t parent_fd; // 0: none
    char *config;      // file of options
};

// Files that a command writes, and how.
struct output_options {
    char *file, *errors;
    bool json, force, overwrite;
};

struct kafka_options {
    char *brokers;
    char *properties[OPTIONS_PROPERTIES_MAX]; // -X key=value, for librdkafka
    int n_properties;
    char *pass_headers; // names, separated by commas
    char *reply_topics; // likewise
    bool ignore_offset_map, refuse_deleted, skip_unreadable;
    struct {
        char *jobs, *results, *dead, *control;
        bool create;
        int64_t n_partitions; // of the jobs and results topics that are created
    } topics;
    struct {
        char *name, *member_name, *protocol;
        bool is_dynamic;              // not a static member
        int64_t membership_timeout_s; // 0: derived
    } group;
};

struct model_options {
    char *path;
    char **names;     // that the worker answers to, NULL-terminated; the first is in results
    bool is_required; // jobs that name another model are refused
    char **adapters;  // LoRA: PATH or PATH=SCALE, NULL-terminated
    char **modules;   // LoRA that requests choose: NAME=PATH or NAME=PATH=SCALE, NULL-terminated
    char *quantize;   // tensor type while loading
    char *chat_template, *tool_format, *pre;
    bool special_in_content;
};

struct engine_options {
    char *backend, *test;    // `test`: the mock engine's specification
    char *kv_type;           // of the pages
    int64_t activation_bits; // 0: 8
    char *trace_steps;
    char *speculate;        // "auto", "off" or a number of draft tokens
    const char *cpu_option; // the name of one without effect on a GPU that is on the command line; NULL: none
    int64_t threads, check_cpu;
    int64_t n_sequences_max, n_tokens_max; // of a step
    int64_t window;                        // jobs
    uint64_t kv_memory_bytes;
    bool no_ahead;
    struct {
        int64_t device;
        uint64_t memory_bytes;
        char *placement, *tiles;
        bool no_graphs, no_overlap, no_carveout, no_wgmma, sync;
        const char *option; // the name of one that is on the command line; NULL: none
    } gpu;
};

// Defaults of jobs.
struct sampling_options {
    char *defaults; // "model", "none"
    char *temperature, *top_p, *top_k, *min_p, *presence_penalty, *frequency_penalty, *repetition_penalty;
    char *thinking_token_budget, *reasoning_effort;
    int64_t max_tokens_default;
};

struct worker_options {
    char *metrics, *metrics_token; // address, file
    int64_t exit_when_idle_s;      // -1: never
    int64_t retain_s;              // 0: unlimited; -1: not given (settings_retain_s)
    int64_t progress_s;            // interval of progress lines; 0: none
    int64_t crash_limit, dead_share, model_failures;
    char *require_arithmetic;
    char *task;                               // "auto" or a name of schemas/task.h
    char **dataset_weights, **dataset_limits; // NAME=NUMBER (share_settings.h), NULL-terminated
    bool force_new, retry_failed, no_reuse, unique_jobs, cached_tokens, same_draws;
    bool metrics_content;
};

struct serve_options {
    char *address, *token; // token: a file
    uint64_t file_bytes_max;
    bool no_work;
};

// Options of sheaf status and sheaf mirror.
struct follow_options {
    bool watch, rebuild, until_end;
};

// A constraint of sheaf grammar; `choices` also of sheaf annotate.
struct grammar_options {
    char **choices; // each a list of labels (choice_list.h), NULL-terminated
    char *json_schema, *regex, *grammar, *cases;
    bool spaces;
};

struct bench_options {
    int64_t prompt, generate; // tokens
    int64_t repeat;
    char *batch, *settings;
    bool embed, products, alone;
};

// Options of sheaf template.
struct template_options {
    char *bos, *eos, *now;
};

// Options of sheaf embed.
struct embed_options {
    char *pooling;
    char *column;       // of a table: the texts
    char *vector_type;  // NULL: f32
    char *truncate;     // "left" or "right": the end that is cut from a text that is too long
    char *prefix;       // NULL: the model's prompt
    char *prompt_name;  // of the model's prompts
    int64_t dimensions; // 0: all
    int64_t max_length; // tokens of a text; 0: as the model says
    bool normalize, no_normalize;
};

// Options of sheaf classify and rerank; activation, answers and instruct of workers and annotate too.
struct score_options {
    char *activation, *answers, *instruct;
    int64_t max_length; // tokens of a text or a pair; 0: the model's context, which an input must fit
    int64_t top_n;      // documents of a result; 0: all
};

// Options of sheaf logits, perplexity, quantize and tokenize; some also of template, embed and classify.
struct tool_options {
    char *tokens, *type, *against;
    int64_t context; // tokens of a window; 0: the default
    bool special, add_special, plain_text;
};

struct annotate_options {
    struct {
        char *file, *system, *messages, *parameters;
        int64_t truncate; // tokens of a rendered row; 0: whole
        bool same_draws;
    } prompt;
    struct {
        char *delimiter, *table, *sql, *format, *encoding;
        int64_t skip_lines;
        bool no_header, no_quotes, skip_bad_rows, skip_empty;
    } input;
    struct {
        char *format, *into, *prefix, *thoughts, *certificate;
        bool figures, probabilities, is_split, partial;
    } output;
    struct {
        bool wanted;
        int64_t n_rows, seed; // of the sample; 0 rows: none
        char *price_in, *price_out;
    } estimate;
    struct {
        char *rerank; // QUERY,DOCUMENT: names of columns
        bool classify;
    } scores;
    struct {
        char *models; // SMALL,LARGE or SMALL; NULL: no cascade
        char *guarantee, *confidence, *gold;
    } cascade;
    struct {
        char **columns; // GOLD or GOLD=PROPERTY, NULL-terminated; NULL: no evaluation
        char *
            *gold; // files, NULL-terminated; NULL: none. With a cascade one may be its column of gold labels
        char *group, *differences, *statistics;
    } evaluation;
    char *schema, *questions;
    int64_t votes;
    bool reorder;
};

// Options of sheaf verify; its certificate is annotate.output.certificate.
struct verify_options {
    int64_t n_rows; // 0: the default
    int64_t seed;   // of the choice of rows; -1: not given
};

struct log_options {
    char *file;
    bool quiet, verbose, json;
};

// Each command gets the values of its options (option_table.c) in the groups that they belong to.
struct settings {
    char *store, *dataset;
    int64_t split;        // submit: limit of an embedding job's inputs; 0: none
    char **redrive_where; // NAME=VALUE (topic_redrive.h), NULL-terminated
    struct command_line line;
    struct output_options output;
    struct kafka_options kafka;
    struct model_options model;
    struct engine_options engine;
    struct sampling_options sampling;
    struct worker_options worker;
    struct serve_options serve;
    struct follow_options follow;
    struct grammar_options grammar;
    struct bench_options bench;
    struct template_options template;
    struct embed_options embed;
    struct score_options score;
    struct tool_options tool;
    struct annotate_options annotate;
    struct verify_options verify;
    struct log_options log;
};

// argv without the program's name. `settings` is initialized to the defaults and owns its texts
// (settings_finish).
enum status options_parse(struct settings *settings, int argc, char **argv, struct error *error) WARN_UNUSED;
void settings_finish(struct settings *settings);

enum { RETAIN_DAYS_DEFAULT = 30 };
// How long a store keeps rows; 0: forever. Answers of the embedded queue are removed only if the user asks
// for it: worker.retain_s > 0.
static inline int64_t settings_retain_s(const struct settings *settings)
{
    return settings->worker.retain_s >= 0 ? settings->worker.retain_s : RETAIN_DAYS_DEFAULT * INT64_C(86400);
}
// Refuses a command for missing options: "sheaf run: give -o OUT". An option that was given is passed as
// NULL.
enum status options_refuse_missing(const struct command_line *options, const char *first, const char *second,
                                   struct error *error);

// An error that names the most similar command.
enum status options_refuse_command(const char *name, struct error *error);

// Calls `receive` for each SHEAF_ variable that is no option of any command; nearest: the most similar
// existing name, or NULL. Variables for tests are ignored.
void options_find_unknown_variables(char *const *environment,
                                    void (*receive)(const char *name, const char *nearest));

// "512M", "2.5G", "1048576": bytes; K, M, G, T are powers of 1024.
bool options_parse_size(const char *text, uint64_t *bytes);
// "30d", "12h", "90m", "45s", "45": seconds, at most a hundred years.
bool options_parse_duration(const char *text, int64_t *duration_s);
