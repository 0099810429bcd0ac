#include "consumer/command/embed_table.h"

#include "consumer/command/embed_estimate.h"
#include "consumer/command/embed_output.h"
#include "consumer/command/embed_topics.h"
#include "consumer/observe/log.h"
#include "schemas/base/clock.h"
#include "schemas/base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct embed_table {
    const struct settings *settings;
    struct embed_source source;
    struct embed_target target;
    struct embed_rows rows;
    char *vectors_path;
    struct buffer made_by;
};

static bool is_estimate(const struct settings *settings)
{
    return settings->annotate.estimate.wanted || settings->annotate.estimate.n_rows > 0;
}

static enum status check_names(const struct embed_table *table, struct error *error)
{
    const struct table_columns *columns = table_reader_columns(table->source.reader);
    if (table->target.format == TABLE_UNKNOWN ||
        table_columns_find(columns, TEXT(EMBED_COLUMN_NAME)) == columns->n)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "%s has a column \"" EMBED_COLUMN_NAME "\", the name of the vectors' column: write the "
                     "vectors to -o OUT.npy",
                     table_reader_name(table->source.reader));
}

// Before the model is loaded: the options, and the table's columns.
static enum status open_source(struct embed_table *table, const char *path, struct error *error)
{
    const struct settings *settings = table->settings;
    const char *template = settings->annotate.prompt.file;
    const struct file_use uses[] = {{"the table", path},
                                    {"--prompt", row_prompt_is_text(template) ? NULL : template},
                                    {"the model", settings->kafka.brokers ? NULL : settings->model.path,
                                     .is_model = true},
                                    {"-o", settings->output.file, true},
                                    {"--errors", settings->output.errors, true}};
    struct embedding_cut cut;
    const struct embed_target *target = &table->target;
    enum status status = embed_cut_choose(&cut, &settings->embed, error);
    if (status == STATUS_OK && !is_estimate(settings))
        status = embed_target_choose(&table->target, settings, error);
    bool is_shared = target->into && strcmp(path, target->path) == 0; // one database
    if (status == STATUS_OK && !is_shared)
        status = file_check_uses(uses, sizeof uses / sizeof uses[0], error);
    bool is_array = target->format == TABLE_UNKNOWN; // of an estimate too
    if (status == STATUS_OK)
        status = embed_source_open(&table->source, settings, path, !is_array, error);
    return status == STATUS_OK ? check_names(table, error) : status;
}

static enum status name_vectors(struct embed_table *table, struct error *error)
{
    int length =
        asprintf(&table->vectors_path, "%s%s", table->target.path, table->target.is_own ? "" : ".vectors");
    if (length >= 0)
        return STATUS_OK;
    table->vectors_path = NULL;
    return error_memory(error, STATUS_REFUSE, "%s", table->target.path);
}

static enum status open_vectors(struct embed_table *table, struct error *error)
{
    struct vector_file *file = &table->rows.file;
    enum status status = name_vectors(table, error);
    if (status == STATUS_OK)
        status = embed_group_name(&table->rows.group, table->settings, &table->made_by, error);
    buffer_add_byte(&table->made_by, '\0');
    if (status == STATUS_OK && table->made_by.failed)
        status = error_memory(error, STATUS_REFUSE, "%s", table->target.path);
    if (status == STATUS_OK)
        status = vector_file_open(file, table->vectors_path, error);
    return status == STATUS_OK ? vector_file_take_up(file, table->made_by.data,
                                                     table->rows.group.embedding.n_dimensions, error)
                               : status;
}

static enum status open_rows(struct embed_table *table, struct runtime *runtime, struct error *error)
{
    struct embed_group *group = &table->rows.group;
    enum status status = embed_group_plan(group, runtime, table->settings, error);
    if (status == STATUS_OK && table->target.type == VECTOR_INT8 && !group->embedding.normalize)
        status =
            error_set(error, STATUS_REFUSE, ERROR_USAGE,
                      "sheaf embed: --vector-type int8: expected vectors of length 1, not --no-normalize");
    if (status == STATUS_OK)
        status = open_vectors(table, error); // before the weights are packed, which would be in vain
    return status == STATUS_OK ? embed_group_open(group, error) : status;
}

static enum status report(const struct embed_table *table, double start_s, struct error *error)
{
    double took_s = clock_s() - start_s;
    const struct embed_rows *rows = &table->rows;
    const char *errors = table->target.errors;
    took_s = took_s > 0 ? took_s : 1;
    const struct log_counts counts = {rows->done.n_lines, rows->done.n_failed, rows->done.n_lines,
                                      rows->group.n_tokens, -1};
    const struct log_fields fields = {.event = "finished", .counts = &counts};
    log_write_fields(LOG_INFO, &fields,
                     "%lld rows, %lld of them with the text of another, %lld tokens, %.1f tokens/s",
                     (long long)rows->done.n_lines, (long long)rows->n_copied,
                     (long long)rows->group.n_tokens, (double)rows->group.n_tokens / took_s);
    embed_group_say_cut(&rows->group);
    if (!rows->done.n_failed)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_JOBS_FAILED, "%lld of %lld rows have no vector%s%s",
                     (long long)rows->done.n_failed, (long long)rows->done.n_lines, errors ? ", see " : "",
                     errors ? errors : "");
}

static enum status compute_here(struct embed_table *table, struct runtime *runtime, struct error *error)
{
    enum status status = open_rows(table, runtime, error);
    return status == STATUS_OK ? embed_rows_compute(&table->rows, error) : status;
}

static enum status compute_by_fleet(struct embed_table *table, struct error *error)
{
    enum status status = name_vectors(table, error);
    return status == STATUS_OK
               ? embed_topics_compute(&table->rows, table->settings, table->vectors_path, error)
               : status;
}

// `runtime`: NULL: over Kafka.
static enum status embed(struct embed_table *table, struct runtime *runtime, struct error *error)
{
    double start_s = clock_s();
    table->rows.source = &table->source;
    enum status status = runtime ? compute_here(table, runtime, error) : compute_by_fleet(table, error);
    if (status == STATUS_OK)
        status = embed_output_write(&table->rows, &table->target, error);
    return status == STATUS_OK ? report(table, start_s, error) : status;
}

enum status embed_table(const struct settings *settings, const char *path, struct error *error)
{
    struct runtime runtime = {0};
    struct embed_table table = {.settings = settings};
    bool is_fleets = settings->kafka.brokers != NULL;
    enum status status = open_source(&table, path, error);
    if (status == STATUS_OK && !is_fleets)
        status = runtime_open_model(&runtime, settings, settings->line.positionals[0], error);
    if (status == STATUS_OK)
        status = is_estimate(settings) ? embed_estimate(&table.source, &runtime, settings, error)
                                       : embed(&table, is_fleets ? NULL : &runtime, error);
    embed_source_close(&table.source);
    embed_rows_close(&table.rows);
    buffer_finish(&table.made_by);
    free(table.vectors_path);
    runtime_close(&runtime);
    return status;
}
