// The options of --cascade.
#include "consumer/cascade/cascade.h"
#include "consumer/evaluate/gold_file.h"
#include "consumer/worker/runtime.h"
#include "schemas/base/nearest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum status refuse(struct error *error, const char *what)
{
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf annotate: %s", what);
}

// A share above 0 and below 1.
static bool read_share(const char *text, double *share)
{
    char *end;
    *share = strtod(text, &end);
    return end > text && !*end && isfinite(*share) && *share > 0 && *share < 1;
}

static enum status read_guarantee(struct cascade *cascade, const struct settings *settings,
                                  struct error *error)
{
    static const char name[] = "accuracy=";
    const char *guarantee = settings->annotate.cascade.guarantee;
    const char *confidence = settings->annotate.cascade.confidence;
    if (!guarantee)
        return refuse(error, "--cascade needs --guarantee accuracy=X, as --guarantee accuracy=0.95");
    if (strncmp(guarantee, name, strlen(name)) != 0 ||
        !read_share(guarantee + strlen(name), &cascade->target))
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "sheaf annotate: --guarantee: expected accuracy=X with X above 0 and below 1, got \"%s\"",
            guarantee);
    if (!read_share(confidence ? confidence : "0.95", &cascade->confidence))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "sheaf annotate: --confidence: expected a number above 0 and below 1, got \"%s\"",
                         confidence);
    return STATUS_OK;
}

// Options that the cascade does not compute are refused by name.
static enum status check_others(const struct settings *settings, struct error *error)
{
    const struct annotate_options *options = &settings->annotate;
    const struct {
        bool is_given;
        const char *why;
    } others[] = {
        {settings->kafka.brokers, "--cascade works on the embedded queue, not with --brokers"},
        {settings->model.path, "--cascade names the models, instead of --model"},
        {options->questions, "--cascade needs --choice, not --questions"},
        {options->schema, "--cascade needs --choice, not --schema"},
        {options->scores.rerank || options->scores.classify,
         "--cascade needs --choice, not --rerank or --classify"},
        {options->votes > 1, "--cascade needs exact probabilities: --votes does not fit"},
        {options->estimate.n_rows, "--cascade does not fit --sample"},
        {options->estimate.wanted, "--cascade does not fit --estimate: give --model, once for each model"},
        {options->output.partial, "--cascade does not fit --partial: labels are chosen when all are known"},
        {options->output.certificate, "--cascade does not fit --certificate: a certificate is of one model"},
        {settings->model.adapters, "--cascade does not fit --lora: an adapter is of one model"},
        {!settings->grammar.choices, "--cascade needs --choice"},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (others[i].is_given)
            return refuse(error, others[i].why);
    return STATUS_OK;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

// Splits SMALL,LARGE. *large NULL: there is no comma.
static enum status split_models(struct cascade *cascade, const char *models, char **small, char **large,
                                struct error *error)
{
    size_t size = strlen(models) + 1;
    *small = arena_copy(&cascade->arena, models, size);
    if (!*small)
        return error_memory(error, STATUS_REFUSE, "--cascade");
    char *comma = strchr(*small, ',');
    *large = comma ? comma + 1 : NULL;
    if (comma)
        *comma = '\0';
    if (!**small || (comma && (!**large || strchr(*large, ','))))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "sheaf annotate: --cascade: expected two models, SMALL,LARGE, got \"%s\"", models);
    return comma && strcmp(*small, *large) == 0 ? refuse(error, "--cascade: SMALL and LARGE are one model")
                                                : STATUS_OK;
}

// The column of --gold-column. Without it --gold may name the column, if it is no file of --evaluate.
static enum status read_gold(struct cascade *cascade, const struct settings *settings, struct error *error)
{
    char *const *golds = settings->annotate.evaluation.gold;
    cascade->gold_name = settings->annotate.cascade.gold;
    cascade->small_settings = cascade->large_settings = *settings;
    if (cascade->gold_name || !golds || gold_file_is_named(golds[0]))
        return STATUS_OK;
    if (golds[1])
        return refuse(error,
                      "--gold is a file for --evaluate: name the column of --cascade by --gold-column");
    cascade->gold_name = golds[0];
    cascade->small_settings.annotate.evaluation.gold = cascade->large_settings.annotate.evaluation.gold =
        NULL;
    return STATUS_OK;
}

static enum status read_models(struct cascade *cascade, const struct settings *settings, struct error *error)
{
    char *small = NULL, *large = NULL;
    enum status status = read_gold(cascade, settings, error);
    if (status == STATUS_OK)
        status = split_models(cascade, settings->annotate.cascade.models, &small, &large, error);
    if (status == STATUS_OK && !large && !cascade->gold_name)
        return refuse(error, "--cascade: expected SMALL,LARGE; SMALL alone needs --gold-column COLUMN");
    if (status != STATUS_OK)
        return status;
    cascade->small_settings.model.path = small;
    cascade->large_settings.model.path = large;
    const char *trace = settings->engine.trace_steps;
    if (trace && large) { // each worker has a file of its own
        static const char ending[] = ".large";
        size_t size = strlen(trace);
        char *path = arena_allocate(&cascade->arena, size + sizeof ending);
        if (!path)
            return error_memory(error, STATUS_REFUSE, "--cascade");
        memcpy(path, trace, size);
        memcpy(path + size, ending, sizeof ending);
        cascade->large_settings.engine.trace_steps = path;
    }
    bool is_one_name = large && strcmp(name_of(small), name_of(large)) == 0;
    cascade->small_name = is_one_name ? small : name_of(small);
    cascade->large_name = !large ? NULL : is_one_name ? large : name_of(large);
    return STATUS_OK;
}

enum status cascade_open(struct cascade *cascade, const struct settings *settings, struct error *error)
{
    if (!settings->annotate.cascade.models)
        return STATUS_OK;
    enum status status = check_others(settings, error);
    if (status == STATUS_OK)
        status = read_guarantee(cascade, settings, error);
    return status == STATUS_OK ? read_models(cascade, settings, error) : status;
}

static enum status find_gold(struct cascade *cascade, struct error *error)
{
    struct annotate *annotate = cascade->annotate;
    const struct table_columns *columns = table_reader_columns(annotate->reader);
    struct text name = text_from_string(cascade->gold_name);
    struct text nearest = nearest_name(name, columns->names, columns->n);
    cascade->gold_column = table_columns_find(columns, name);
    if (cascade->gold_column == columns->n)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--gold-column: there is no column \"%.*s\"%s%.*s", (int)name.size, name.data,
                         nearest.data ? "; the nearest is " : "", (int)nearest.size,
                         nearest.data ? nearest.data : "");
    annotate->also_read = &cascade->gold_column;
    return STATUS_OK;
}

enum status cascade_check(struct cascade *cascade, struct annotate *annotate, struct error *error)
{
    if (!cascade_is_asked(cascade))
        return STATUS_OK;
    static const char suffix[] = "-large";
    enum status status = STATUS_OK;
    cascade->annotate = annotate;
    size_t size = annotate->dataset.size;
    if (size + sizeof suffix > sizeof cascade->large_dataset)
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "--dataset: with --cascade a name has at most %d bytes, for that of the large model's jobs",
            JOB_DATASET_BYTES_MAX - (int)strlen(suffix));
    memcpy(cascade->large_dataset, annotate->dataset.data, size);
    memcpy(cascade->large_dataset + size, suffix, sizeof suffix);
    if (cascade->gold_name)
        status = find_gold(cascade, error);
    annotate->models.small = text_from_string(cascade->small_name);
    annotate->models.jobs = &cascade->large_jobs;
    if (status != STATUS_OK || !cascade->large_name)
        return status;
    annotate->models.large = text_from_string(cascade->large_name);
    const struct settings *small = annotate->settings;
    annotate->settings = &cascade->large_settings;
    status = runtime_check(annotate->settings, error);
    if (status == STATUS_OK)
        status = annotate_check_constraint(annotate, error);
    annotate->settings = small;
    return status;
}

void cascade_close(struct cascade *cascade)
{
    threshold_search_close(&cascade->search);
    score_ranking_close(&cascade->ranking);
    job_set_finish(&cascade->large_jobs);
    buffer_finish(&cascade->record);
    buffer_finish(&cascade->figures);
    arena_finish(&cascade->arena);
    free(cascade->rows);
    *cascade = (struct cascade){0};
}
