#include "consumer/certificate/certified_table.h"

#include "consumer/table/table_choice.h"
#include "consumer/worker/text_cut.h"

#include <stdlib.h>
#include <string.h>

enum { FILES_SHOWN_MAX = 4 };

static enum status refuse_memory(struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "the certificate's table");
}

// ---- opening ----

// How the certificate's table was written holds for a table of the same format. `given`: of the command line.
static enum status choose_format(struct certified_table *table, const struct annotate_options *given,
                                 struct error *error)
{
    struct annotate_options *options = &table->certified.settings.annotate;
    enum table_format format = table_format_of_path(table->source.path),
                      certified = table->certificate->format;
    if (given->input.format) {
        (void)table_format_parse(given->input.format, &format); // table_choose_source refuses others
    } else if (format == TABLE_UNKNOWN) {
        const char *name = table_format_name(certified);
        format = certified;
        options->input.format = arena_copy(&table->certified.arena, name, strlen(name));
        if (!options->input.format)
            return refuse_memory(error);
    }
    if (format != certified)
        options->input = given->input;
    return STATUS_OK;
}

static enum status open_reader(struct certified_table *table, const struct settings *settings,
                               struct error *error)
{
    const struct annotate_options *options = &table->certified.settings.annotate;
    enum status status = choose_format(table, &settings->annotate, error);
    if (status == STATUS_OK)
        status = table_choose_source(&table->source, options, "sheaf verify", error);
    return status == STATUS_OK ? table_open_chosen(&table->reader, &table->source, options, error) : status;
}

static enum status refuse_column(const struct certified_table *table, const char *what, struct text name,
                                 struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s \"%.*s\"", table->name.data, what,
                     (int)(name.size < 200 ? name.size : 200), name.data);
}

// Finds the certificate's columns by their names, or by their places if the table has no names.
static enum status find_columns(struct certified_table *table, struct error *error)
{
    const struct certificate *certificate = table->certificate;
    const struct table_columns *found = table_reader_columns(table->reader);
    size_t n_input = certificate->columns.n, n = n_input + certificate->answers.n;
    table->places = calloc(n + 1, sizeof *table->places);
    table->fields = calloc(n_input + 1, sizeof *table->fields);
    if (!table->places || !table->fields)
        return refuse_memory(error);
    for (size_t i = 0; i < n; i++) {
        bool is_answer = i >= n_input;
        struct text name =
            is_answer ? certificate->answers.names[i - n_input] : certificate->columns.names[i];
        table->places[i] = table->source.no_header ? i : table_columns_find(found, name);
        if (table->places[i] < found->n && !table_reader_unread(table->reader, table->places[i]))
            continue;
        if (table->source.format != TABLE_JSONL && found->n)
            return refuse_column(table, "it has no readable column", name, error);
        table->places[i] = SIZE_MAX;
    }
    for (size_t i = 0; i < found->n; i++) {
        bool is_known = table_columns_find(&certificate->unread, found->names[i]) < certificate->unread.n &&
                        table_reader_unread(table->reader, i);
        for (size_t j = 0; j < n && !is_known; j++)
            is_known = table->places[j] == i;
        if (!is_known)
            return refuse_column(table, "the certificate does not cover its column", found->names[i], error);
    }
    return STATUS_OK;
}

static enum status open_questions(struct certified_table *table, struct error *error)
{
    struct annotate *annotate = &table->annotate;
    const struct certificate *certificate = table->certificate;
    const struct settings *settings = &table->certified.settings;
    *annotate =
        (struct annotate){.settings = settings,
                          .dataset = TEXT("verify"),
                          .source = table->source,
                          .worker_defaults = &table->certified.defaults,
                          .n_votes = settings->annotate.votes > 1 ? (int32_t)settings->annotate.votes : 1};
    if (!settings->model.path && settings->annotate.prompt.truncate)
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "give --model: the requests were cut to a number of its tokens (--truncate-prompt)");
    if (!settings->model.path && settings->annotate.scores.classify)
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "give --model: the columns follow from its labels (--classify)");
    enum status status = annotate_check_questions(settings, error);
    if (status == STATUS_OK)
        status = annotate_open_scores(&annotate->scores, settings, error);
    if (status == STATUS_OK && table->certified.questions)
        status = question_list_copy(&annotate->questions, "questions", table->certified.questions, error);
    if (status == STATUS_OK)
        status = annotate_open_prompts(annotate, &certificate->columns, error);
    if (status == STATUS_OK)
        status = annotate_open_answers(annotate, &certificate->columns, error);
    if (status != STATUS_OK && error->code == ERROR_USAGE) { // not of this command
        error_prefix(error, "the certificate's options");
        error->code = ERROR_FILE;
    }
    return status;
}

static enum status check_answers(const struct certified_table *table, struct error *error)
{
    const struct table_columns *wanted = &table->certificate->answers, *own = &table->annotate.columns.names;
    bool are_equal = wanted->n == own->n;
    for (size_t i = 0; are_equal && i < own->n; i++)
        are_equal = text_equal(wanted->names[i], own->names[i]);
    return are_equal
               ? STATUS_OK
               : error_set(error, STATUS_REFUSE, ERROR_FILE,
                           "the certificate's options give other columns than its answers: %zu, not %zu, or "
                           "with other names",
                           own->n, wanted->n);
}

// a.csv, b.csv and 3 others
static enum status name_files(struct certified_table *table, struct error *error)
{
    size_t n = table->source.n_paths, n_shown = n > FILES_SHOWN_MAX ? FILES_SHOWN_MAX - 1 : n;
    for (size_t i = 0; i < n_shown; i++)
        buffer_add_format(&table->name, "%s%s", i ? ", " : "", table->source.paths[i]);
    if (n > n_shown)
        buffer_add_format(&table->name, " and %zu others", n - n_shown);
    return table->name.failed ? refuse_memory(error) : STATUS_OK;
}

enum status certified_table_open(struct certified_table *table, const struct certificate *certificate,
                                 const struct settings *settings, const char *const *paths, size_t n_paths,
                                 struct error *error)
{
    *table = (struct certified_table){.certificate = certificate,
                                      .source = {.path = paths[0], .paths = paths, .n_paths = n_paths},
                                      .arithmetic = sha256_of(certificate->arithmetic.data,
                                                              certificate->arithmetic.size)};
    enum status status = name_files(table, error);
    if (status == STATUS_OK)
        status = certified_settings_open(&table->certified, settings, &certificate->options, error);
    if (status == STATUS_OK && certificate->arithmetic.size)
        status = certified_settings_require(&table->certified, certificate->arithmetic, error);
    if (status == STATUS_OK)
        status = open_reader(table, settings, error);
    if (status == STATUS_OK)
        status = find_columns(table, error);
    if (status == STATUS_OK)
        status = open_questions(table, error);
    return status == STATUS_OK ? check_answers(table, error) : status;
}

void certified_table_close(struct certified_table *table)
{
    annotate_close_questions(&table->annotate);
    row_scores_close(&table->annotate.scores);
    text_cut_close(table->annotate.cut);
    table_reader_close(table->reader);
    certified_settings_close(&table->certified);
    occurrences_finish(&table->draws);
    buffer_finish(&table->cells);
    buffer_finish(&table->request);
    buffer_finish(&table->answer);
    buffer_finish(&table->text);
    buffer_finish(&table->name);
    free(table->places);
    free(table->fields);
}

enum status certified_table_rewind(struct certified_table *table, struct error *error)
{
    occurrences_finish(&table->draws);
    return table_reader_rewind(table->reader, error);
}

// ---- a row ----

static struct value cell_of(const struct certified_table *table, size_t i)
{
    size_t place = table->places[i];
    return place == SIZE_MAX ? (struct value){.kind = VALUE_NULL} : table->row[place];
}

struct text certified_table_answer(struct certified_table *table, size_t i)
{
    struct value cell = cell_of(table, table->certificate->columns.n + i);
    buffer_clear(&table->text);
    row_leaf_add_text(&cell, table->source.format, &table->text);
    return (struct text){table->text.data ? table->text.data : "", table->text.size};
}

static void add_cells(struct certified_table *table)
{
    table->is_left_out = true;
    buffer_clear(&table->cells);
    buffer_clear(&table->answer);
    for (size_t i = 0; i < table->certificate->columns.n; i++) {
        table->fields[i] = cell_of(table, i);
        buffer_clear(&table->text);
        row_leaf_add_text(&table->fields[i], table->source.format, &table->text);
        row_leaf_add_field(&table->cells, (struct text){table->text.data, table->text.size});
    }
    for (size_t i = 0; i < table->certificate->answers.n; i++) {
        struct text text = certified_table_answer(table, i);
        row_leaf_add_field(&table->answer, text);
        table->is_left_out &= text.size == 0;
    }
}

// Adds the row's records with their ends to the request.
static enum status add_records(struct certified_table *table, const struct table_row *row,
                               struct error *error)
{
    struct annotate *annotate = &table->annotate;
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < annotate->n_questions; i++) {
        struct buffer *record = &annotate->row.records[i];
        buffer_clear(record);
        status = row_prompt_render(&annotate->prompts[i], row, record, error);
        if (status == STATUS_OK && record->failed)
            status = refuse_memory(error);
        if (status == STATUS_OK)
            status = annotate_choose_seed(annotate, i, &table->draws, &annotate->row.seeds[i], error);
        size_t size = record->size;
        for (int32_t vote = 0; status == STATUS_OK && vote < annotate->n_votes; vote++) {
            annotate_end_record(annotate, i, annotate->row.seeds[i], vote, record);
            row_leaf_add_field(&table->request, (struct text){record->data, record->size});
            record->size = size;
        }
    }
    return status;
}

enum status certified_table_next(struct certified_table *table, struct sha256 *leaf, bool *is_end,
                                 struct error *error)
{
    struct table_row row = {0};
    enum status status = table_reader_next(table->reader, &row, error);
    *is_end = status == STATUS_OK && !row.fields;
    if (status != STATUS_OK || *is_end)
        return status;
    table->number = row.number;
    table->part = row.part;
    table->row = row.fields;
    add_cells(table);
    row.fields = table->fields;
    buffer_clear(&table->request);
    if (!table->is_left_out)
        status = add_records(table, &row, error);
    if (status != STATUS_OK)
        return error_prefix(error, "%s: row %lld", table->name.data, (long long)row.number);
    if (table->cells.failed || table->answer.failed || table->request.failed || table->text.failed)
        return refuse_memory(error);
    struct row_leaf parts = {.kind = table->is_left_out ? LEAF_LEFT_OUT : LEAF_ROW,
                             .number = row.number,
                             .cells = sha256_of(table->cells.data, table->cells.size),
                             .answer = sha256_of(table->answer.data, table->answer.size)};
    if (!table->is_left_out) {
        parts.request = sha256_of(table->request.data, table->request.size);
        parts.arithmetic = table->arithmetic;
    }
    *leaf = row_leaf_hash(&parts);
    return STATUS_OK;
}
