// The rows of a cascade: the small model's labels, gold labels, and at the end the job that labels each row.
#include "consumer/cascade/cascade.h"

#include <math.h>
#include <stdlib.h>

static int16_t find_choice(const struct cascade *cascade, struct text text)
{
    const struct row_answer_options *options = &cascade->annotate->answers[0].options;
    for (size_t i = 0; i < options->n_choices; i++)
        if (text_equal(text, options->choices[i]))
            return (int16_t)i;
    return LABEL_OTHER;
}

// The label and its probability, after row_answer_take.
static void find_label(struct cascade *cascade, const struct job *job, int16_t *label, float *score)
{
    const struct row_answer *answer = &cascade->annotate->answers[0];
    const struct value *value = answer->failed ? NULL : row_answer_label(answer, 0);
    *label = value && value->kind == VALUE_STRING ? find_choice(cascade, value->text) : LABEL_NONE;
    *score = NAN;
    for (int32_t i = 0; *label >= 0 && i < job->result.n_choice_logprobs; i++)
        if (text_equal(job->result.choice_logprobs[i].choice, value->text))
            *score = job->result.choice_logprobs[i].probability;
}

enum status cascade_label(struct cascade *cascade, struct job *job, int16_t *label, float *score,
                          struct error *error)
{
    struct job *const votes[] = {job};
    enum status status = row_answer_take(&cascade->annotate->answers[0], votes, error);
    if (status == STATUS_OK)
        find_label(cascade, job, label, score);
    return status;
}

static int16_t find_gold(const struct cascade *cascade, const struct table_row *row)
{
    const struct value *field = &row->fields[cascade->gold_column];
    const struct row_answer *answer = &cascade->annotate->answers[0];
    struct buffer json = {0}, made = {0};
    if (field->kind != VALUE_STRING && field->kind != VALUE_NULL)
        json_encode(field, &json);
    struct text text = field->kind == VALUE_STRING ? field->text : (struct text){json.data, json.size};
    text = label_set_match(&answer->label_sets[0], text, &made);
    int16_t gold = text.size ? find_choice(cascade, text) : LABEL_NONE;
    buffer_finish(&json);
    buffer_finish(&made);
    return gold;
}

// Reads the row's label from the map's next job. row: NULL without --gold-column.
static enum status read_row(struct cascade *cascade, const struct table_row *row, struct error *error)
{
    struct annotate *annotate = cascade->annotate;
    struct cascade_row *read = &cascade->rows[cascade->n];
    bool is_left_out;
    enum status status = annotate_take_answers(annotate, &cascade->record, &is_left_out, error);
    if (status != STATUS_OK)
        return status;
    *read = (struct cascade_row){.score = NAN, .label = LABEL_NONE, .gold = LABEL_NONE};
    cascade->n++;
    if (is_left_out)
        return STATUS_OK;
    read->small = annotate->row.ids[0];
    find_label(cascade, annotate->row.votes[0], &read->label, &read->score);
    read->gold = row ? find_gold(cascade, row) : LABEL_NONE;
    cascade->n_rows++;
    cascade->n_gold += read->gold != LABEL_NONE;
    annotate_destroy_votes(annotate);
    return STATUS_OK;
}

// Reads up to ANNOTATE_ANSWERS_AT_ONCE rows.
static enum status read_some(struct cascade *cascade, int64_t n_rows, bool has_gold, struct error *error)
{
    struct annotate *annotate = cascade->annotate;
    struct table_row row = {0};
    enum status status = store_answers_begin(annotate->store, error);
    for (int i = 0; status == STATUS_OK && i < ANNOTATE_ANSWERS_AT_ONCE && cascade->n < n_rows; i++) {
        if (has_gold)
            status = annotate_next_row(annotate, false, &row, error);
        if (status == STATUS_OK && has_gold && !row.fields)
            status = annotate_refuse_change(annotate, error);
        if (status == STATUS_OK)
            status = read_row(cascade, has_gold ? &row : NULL, error);
    }
    return store_answers_end(annotate->store, status, error);
}

enum status cascade_read_rows(struct cascade *cascade, struct error *error)
{
    struct annotate *annotate = cascade->annotate;
    bool has_gold = cascade->gold_name != NULL;
    const struct annotate_rows before = annotate->rows;
    cascade->rows = calloc(before.n ? (size_t)before.n : 1, sizeof *cascade->rows);
    if (!cascade->rows || before.n > INT32_MAX)
        return error_memory(error, STATUS_REFUSE, "--cascade: %lld rows", (long long)before.n);
    enum status status = row_map_rewind(&annotate->map, error);
    if (status == STATUS_OK && has_gold)
        status = annotate_rewind(annotate, error);
    while (status == STATUS_OK && cascade->n < before.n)
        status = read_some(cascade, before.n, has_gold, error);
    if (status == STATUS_OK && has_gold && annotate->rows.hash != before.hash)
        status = annotate_refuse_change(annotate, error);
    annotate->rows = before;
    return status;
}

// ---- the job of each row ----

static int compare_small(const void *a, const void *b)
{
    const struct cascade_row *const *first = a, *const *second = b;
    return (*first)->small < (*second)->small ? -1 : (*first)->small > (*second)->small;
}

// Rows without an answer of the large model get the one that it gave to an equal row.
static bool share_answers(struct cascade *cascade)
{
    size_t n = 0;
    struct cascade_row **asked = malloc((cascade->n ? (size_t)cascade->n : 1) * sizeof(struct cascade_row *));
    for (int32_t i = 0; asked && i < cascade->n; i++)
        if (cascade->rows[i].large > 0)
            asked[n++] = &cascade->rows[i];
    if (asked)
        qsort(asked, n, sizeof *asked, compare_small);
    for (int32_t i = 0; asked && n && i < cascade->n; i++) {
        const struct cascade_row *row = &cascade->rows[i];
        struct cascade_row **equal =
            row->large == 0 && row->small ? bsearch(&row, asked, n, sizeof *asked, compare_small) : NULL;
        if (equal)
            cascade->rows[i].large = (*equal)->large;
    }
    free(asked);
    return asked != NULL;
}

enum status cascade_map_rows(struct cascade *cascade, struct error *error)
{
    struct row_map *map = &cascade->annotate->map;
    if (!share_answers(cascade))
        return error_memory(error, STATUS_REFUSE, "--cascade");
    row_map_close(map);
    enum status status = row_map_open(map, error);
    for (int32_t i = 0; status == STATUS_OK && i < cascade->n; i++) {
        const struct cascade_row *row = &cascade->rows[i];
        int64_t id = row->large == CASCADE_OPEN ? -row->small : row->large ? row->large : row->small;
        status = row_map_add(map, &id, 1, error);
    }
    return status;
}
