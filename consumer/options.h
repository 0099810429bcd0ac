// The command line: one table of options, each with its commands. A value is read from the command line, else
// from SHEAF_NAME in the environment, else from the file given by --config ("name = value" a line). Faults
// are STATUS_REFUSE, ERROR_USAGE: exit status 2. Thread: main.
#pragma once

#include "schemas/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    OPTIONS_PROPERTIES_MAX = 128,
    OPTIONS_POSITIONALS_MAX = 3,
    OPTIONS_BATCHES_MAX = 16,
    OPTIONS_CONFIG_BYTES_MAX = 1 << 20
};

struct settings {
    const char *command;
    const char *positionals[OPTIONS_POSITIONALS_MAX]; // in the order of the command's usage
    int n_positionals;
    // where jobs are
    char *brokers, *jobs_topic, *results_topic, *dead_topic, *control_topic, *group, *member_name;
    char *store, *dataset;
    char *properties[OPTIONS_PROPERTIES_MAX]; // -X key=value, for librdkafka
    int n_properties;
    bool create_topics, ignore_offset_map, dynamic_member, refuse_deleted;
    char *group_protocol;
    int64_t membership_timeout_s; // seconds; 0: derived
    int64_t partitions;           // of the jobs and results topics that are created
    // the model and the machine
    char *metrics, *log; // address of the metrics; log file
    char *metrics_token; // file
    char *kv_type;       // of the pages
    char *model, *backend, *chat_template, *tool_format, *pre, *model_name, *quantize, *engine_test;
    int64_t threads, max_batch, max_rows, window, max_tokens_default;
    uint64_t kv_memory, gpu_memory;
    int64_t gpu_device;
    char *placement;
    struct {
        char *defaults; // "model", "none"
        char *temperature, *top_p, *top_k, *min_p, *presence_penalty, *frequency_penalty, *repetition_penalty;
    } sampling; // defaults of jobs
    int64_t check_cpu;
    bool cached_tokens;
    bool no_graphs, no_ahead, gpu_sync;
    char *trace_steps;
    int64_t exit_when_idle_s; // seconds, -1: never
    int64_t retain_s;         // seconds; 0: unlimited
    int64_t progress_s;       // seconds from one line to the next; 0: none
    int64_t crash_limit, dead_share, model_failures;
    bool force_new, retry_failed;
    // input and output
    char *json_schema, *regex, *choice, *grammar, *cases; // what sheaf grammar compiles
    bool spaces;
    char *output, *errors, *tokens, *bos, *eos, *now, *batch, *type;
    int64_t prompt, generate, repeat;
    bool special_in_content;
    bool json, watch, special, force, rebuild, until_end;
    struct { // sheaf annotate
        char *prompt, *system, *messages, *parameters, *schema;
        char *delimiter, *table, *sql, *input_format, *output_format, *into, *prefix, *evaluate;
        char *price_in, *price_out;
        bool no_header, no_quotes, skip_bad_rows, same_draws, figures, probabilities, estimate, reorder;
        int64_t sample, seed, votes;
    } annotate;
    // messages
    bool quiet, verbose, log_json, help;
    bool help_all;
    char *config;
};

// argv without the program's name. `settings` is initialized to the defaults and owns its texts
// (settings_finish).
enum status options_parse(struct settings *settings, int argc, char **argv, struct error *error) WARN_UNUSED;
void settings_finish(struct settings *settings);

// Calls `receive` for each SHEAF_ variable without an option in any command; nearest: the most similar
// existing name, or NULL. Variables for tests are ignored.
void options_find_unknown_variables(char *const *environment,
                                    void (*receive)(const char *name, const char *nearest));

// "512M", "2.5G", "1048576": bytes; K, M, G, T are powers of 1024.
bool options_parse_size(const char *text, uint64_t *bytes);
// "30d", "12h", "90m", "45s", "45": seconds, at most a hundred years.
bool options_parse_duration(const char *text, int64_t *duration_s);
