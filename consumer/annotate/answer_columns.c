#include "consumer/annotate/answer_columns.h"

enum { REASON_AND_ERROR = 2 };

static enum status refuse_memory(struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "the answers' columns");
}

static enum status add_name(struct answer_columns *columns, struct text name, struct error *error)
{
    if (table_columns_find(&columns->names, name) < columns->names.n)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "the answers have two columns \"%.*s\"",
                         (int)name.size, name.data);
    columns->names.names[columns->names.n++] = name;
    return STATUS_OK;
}

static enum status add_prefixed(struct answer_columns *columns, const char *name,
                                const struct table_columns *input, struct error *error)
{
    struct buffer whole = {0};
    const char *prefix = columns->answers[0].options.prefix;
    buffer_add_string(&whole, prefix ? prefix : "");
    buffer_add_string(&whole, name);
    struct text column = {whole.failed ? NULL : arena_copy(&columns->arena, whole.data, whole.size),
                          whole.size};
    buffer_finish(&whole);
    if (!column.data)
        return refuse_memory(error);
    if (table_columns_find(input, column) < input->n)
        return row_answer_refuse_column(column, error);
    return add_name(columns, column, error);
}

static enum status add_answers(struct answer_columns *columns, bool are_thoughts, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < columns->n_answers; i++) {
        const struct row_answer *answer = &columns->answers[i];
        size_t begin = are_thoughts ? answer->thoughts_column : 0;
        size_t end = are_thoughts ? answer->columns.n : answer->thoughts_column;
        for (size_t j = begin; j < end && status == STATUS_OK; j++)
            status = add_name(columns, answer->columns.names[j], error);
    }
    return status;
}

static enum status add_names(struct answer_columns *columns, const struct answer_columns_options *options,
                             const struct table_columns *input, struct error *error)
{
    static const char *const figures[ROW_FIGURES] = {"sheaf_prompt_tokens", "sheaf_completion_tokens",
                                                     "sheaf_reasoning_tokens"};
    static const char *const always[REASON_AND_ERROR] = {"sheaf_finish_reason", ANSWER_COLUMNS_MARKER};
    enum status status = add_answers(columns, false, error);
    columns->model_column = columns->names.n;
    if (status == STATUS_OK && options->has_model)
        status = add_prefixed(columns, ANSWER_COLUMNS_MODEL, input, error);
    columns->figures_column = columns->names.n;
    for (size_t i = 0; options->has_figures && i < ROW_FIGURES && status == STATUS_OK; i++)
        status = add_prefixed(columns, figures[i], input, error);
    columns->thoughts_column = columns->names.n;
    if (status == STATUS_OK)
        status = add_answers(columns, true, error);
    for (size_t i = 0; i < REASON_AND_ERROR && status == STATUS_OK; i++)
        status = add_prefixed(columns, always[i], input, error);
    return status;
}

enum status answer_columns_open(struct answer_columns *columns, struct row_answer *answers, size_t n_answers,
                                const struct answer_columns_options *options,
                                const struct table_columns *input, struct error *error)
{
    size_t n = options->has_model + ROW_FIGURES + REASON_AND_ERROR;
    *columns = (struct answer_columns){.answers = answers, .n_answers = n_answers};
    for (size_t i = 0; i < n_answers; i++)
        n += answers[i].columns.n;
    columns->names.names = arena_allocate_array(&columns->arena, n, sizeof *columns->names.names);
    columns->fields = arena_allocate_array(&columns->arena, n, sizeof *columns->fields);
    columns->is_given = arena_allocate_array(&columns->arena, n, sizeof *columns->is_given);
    enum status status = columns->names.names && columns->fields && columns->is_given
                             ? add_names(columns, options, input, error)
                             : refuse_memory(error);
    if (status != STATUS_OK)
        answer_columns_close(columns);
    return status;
}

void answer_columns_close(struct answer_columns *columns)
{
    arena_finish(&columns->arena);
    buffer_finish(&columns->failure);
    *columns = (struct answer_columns){0};
}

// ---- a row ----

static void put_field(struct answer_columns *columns, size_t *column, struct value value, bool is_given)
{
    columns->fields[*column] = value;
    columns->is_given[(*column)++] = is_given;
}

static void put_answers(struct answer_columns *columns, bool are_thoughts, size_t *column)
{
    for (size_t i = 0; i < columns->n_answers; i++) {
        const struct row_answer *answer = &columns->answers[i];
        size_t begin = are_thoughts ? answer->thoughts_column : 0;
        size_t end = are_thoughts ? answer->columns.n : answer->thoughts_column;
        for (size_t j = begin; j < end; j++)
            put_field(columns, column, answer->fields[j], answer->failed || answer->is_given[j]);
    }
}

static void add_failure(struct buffer *failure, const struct row_answer *answer)
{
    buffer_add_string(failure, failure->size ? "; " : "");
    buffer_add_text(failure, answer->options.name);
    buffer_add_string(failure, answer->options.name.size ? ": " : "");
    buffer_add_text(failure, answer->failure);
}

// Counts the answers that failed and makes the text of sheaf_error. Returns the answer that gives
// sheaf_finish_reason.
static const struct row_answer *judge_answers(struct answer_columns *columns)
{
    const struct row_answer *failed = NULL, *limited = NULL;
    columns->n_failed = columns->n_cut = 0;
    buffer_clear(&columns->failure);
    for (size_t i = 0; i < columns->n_answers; i++) {
        const struct row_answer *answer = &columns->answers[i];
        columns->n_failed += answer->failed;
        columns->n_cut += answer->failed && answer->was_cut;
        if (answer->failed)
            add_failure(&columns->failure, answer);
        if (answer->failed && !failed)
            failed = answer;
        if (answer->is_limited && !limited)
            limited = answer;
    }
    columns->is_limited = limited != NULL;
    return failed ? failed : limited ? limited : &columns->answers[0];
}

enum status answer_columns_take(struct answer_columns *columns, struct error *error)
{
    size_t column = 0;
    const struct row_answer *first = judge_answers(columns);
    if (columns->failure.failed)
        return refuse_memory(error);
    put_answers(columns, false, &column);
    if (columns->figures_column > columns->model_column)
        put_field(columns, &column,
                  columns->model.data ? value_string(columns->model) : (struct value){.kind = VALUE_NULL},
                  true);
    for (size_t i = 0; columns->thoughts_column > columns->figures_column && i < ROW_FIGURES; i++) {
        int64_t n_tokens = 0;
        for (size_t j = 0; j < columns->n_answers; j++)
            n_tokens += columns->answers[j].figures[i];
        put_field(columns, &column, value_integer(n_tokens), true);
    }
    put_answers(columns, true, &column);
    put_field(columns, &column, value_string(first->finish_reason), true);
    struct value failure = {.kind = VALUE_NULL};
    if (columns->n_failed)
        failure = value_string((struct text){columns->failure.data, columns->failure.size});
    put_field(columns, &column, failure, true);
    return STATUS_OK;
}

struct row_answer *answer_columns_find_label(const struct answer_columns *columns, struct text name,
                                             size_t *column)
{
    for (size_t i = 0; i < columns->n_answers; i++)
        if (row_answer_find_label(&columns->answers[i], name, column))
            return &columns->answers[i];
    return NULL;
}
