// --evaluate: compares the labels of the answers with gold labels, of a column of the table or of the file of --gold.
#include "consumer/annotate/annotate.h"
#include "schemas/base/nearest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- opening ----

// Finds the gold column: the column named `name`, else the one named by the part before the last '='. Then
// *property is the part after the '='. gold->column is columns->n if there is no such column.
static void find_gold(const struct annotate *annotate, const char *name, struct annotate_gold *gold,
                      struct text *property)
{
    const struct table_columns *columns = table_reader_columns(annotate->reader);
    const char *equals = strrchr(name, '=');
    gold->name = text_from_string(name);
    *property = (struct text){0};
    if (equals && table_columns_find(columns, gold->name) == columns->n) {
        gold->name.size = (size_t)(equals - name);
        *property = text_from_string(equals + 1);
    }
    gold->column = table_columns_find(columns, gold->name);
}

static enum status refuse_column(const struct annotate *annotate, const char *option, struct text name,
                                 struct error *error)
{
    const struct table_columns *columns = table_reader_columns(annotate->reader);
    struct text nearest = nearest_name(name, columns->names, columns->n);
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: there is no column \"%.*s\"%s%.*s", option,
                     (int)name.size, name.data, nearest.data ? "; the nearest is " : "", (int)nearest.size,
                     nearest.data ? nearest.data : "");
}

static enum status find_answer(const struct annotate *annotate, struct annotate_gold *gold,
                               struct text property, struct error *error)
{
    struct text name = gold->name;
    const struct row_answer *found =
        answer_columns_find_label(&annotate->columns, property.data ? property : name, &gold->label_column);
    if (property.data && !found)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--evaluate: the %s no property \"%s\"",
                         annotate->questions.n ? "questions have" : "schema has", property.data);
    if (!found && annotate->n_questions > 1)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--evaluate: no question is named \"%.*s\": give --evaluate %.*s=QUESTION",
                         (int)name.size, name.data, (int)name.size, name.data);
    gold->answer = found ? found : &annotate->answers[0];
    gold->is_first_property = !found && annotate->answers[0].properties.n > 1;
    return STATUS_OK;
}

static bool are_numbers(const struct label_set *labels)
{
    size_t n = 0;
    for (size_t i = 0; i < labels->n; i++) {
        bool is_null = text_equals_string(labels->labels[i], "null");
        if (!is_null && isnan(label_number(labels->labels[i])))
            return false;
        n += !is_null;
    }
    return n > 1;
}

static void choose_kind(struct annotate_gold *gold)
{
    const struct row_answer *answer = gold->answer;
    const struct label_set *labels = &answer->label_sets[gold->label_column];
    bool is_property = gold->label_column < answer->properties.n;
    if (is_property && answer->vote_rules[gold->label_column].kind == VOTE_BY_MEMBER)
        gold->comparison.kind = COMPARED_LISTS;
    else if (labels->is_number)
        gold->comparison.kind = COMPARED_NUMBERS;
    gold->comparison.has_numbers = labels->is_number || (labels->is_closed && are_numbers(labels));
}

static enum status open_gold(struct annotate *annotate, const char *name, struct annotate_gold *gold,
                             struct error *error)
{
    struct text property;
    find_gold(annotate, name, gold, &property);
    enum status status = find_answer(annotate, gold, property, error);
    if (status != STATUS_OK)
        return status;
    choose_kind(gold);
    gold->comparison.gold = gold->name;
    gold->comparison.answer = gold->answer->columns.names[gold->label_column];
    gold->comparison.is_sampled = annotate->settings->annotate.estimate.n_rows > 0;
    return comparison_open(&gold->comparison, error);
}

static enum status open_group(struct annotate *annotate, struct error *error)
{
    const struct table_columns *columns = table_reader_columns(annotate->reader);
    const char *given = annotate->settings->annotate.evaluation.group,
               *equals = given ? strrchr(given, '=') : NULL;
    struct text name = text_from_string(given ? given : ""), reference = {0};
    annotate->evaluation.group_column = columns->n;
    if (!given)
        return STATUS_OK;
    if (equals && table_columns_find(columns, name) == columns->n) {
        name.size = (size_t)(equals - given);
        reference = text_from_string(equals + 1);
    }
    annotate->evaluation.group_column = table_columns_find(columns, name);
    if (columns->n && annotate->evaluation.group_column == columns->n)
        return refuse_column(annotate, "--by", name, error);
    for (size_t i = 0; i < annotate->evaluation.n; i++) {
        struct comparison *comparison = &annotate->evaluation.golds[i].comparison;
        comparison->has_groups = columns->n > 0;
        comparison->group = name;
        comparison->reference = reference;
    }
    return STATUS_OK;
}

static enum status read_files(struct annotate *annotate, struct error *error)
{
    const struct table_columns *columns = table_reader_columns(annotate->reader);
    struct annotate_evaluation *evaluation = &annotate->evaluation;
    char *const *paths = annotate->settings->annotate.evaluation.gold;
    size_t n_paths = 0;
    while (paths && paths[n_paths])
        n_paths++;
    if (!n_paths)
        return STATUS_OK;
    struct text *names = calloc(evaluation->n, sizeof *names);
    bool *is_readable = calloc(columns->n + 1, sizeof *is_readable);
    evaluation->files = calloc(n_paths, sizeof *evaluation->files);
    enum status status = names && is_readable && evaluation->files
                             ? STATUS_OK
                             : error_memory(error, STATUS_REFUSE, "gold labels");
    for (size_t i = 0; status == STATUS_OK && i < evaluation->n; i++)
        names[i] = evaluation->golds[i].name;
    for (size_t i = 0; status == STATUS_OK && i < columns->n; i++)
        is_readable[i] = !table_reader_unread(annotate->reader, i);
    for (; status == STATUS_OK && evaluation->n_files < n_paths; evaluation->n_files++)
        status = gold_file_read(&evaluation->files[evaluation->n_files], paths[evaluation->n_files], names,
                                evaluation->n, columns, is_readable, error);
    free(names);
    free(is_readable);
    return status;
}

static bool is_in_files(const struct annotate_evaluation *evaluation, size_t gold)
{
    bool is_in = false;
    for (size_t i = 0; i < evaluation->n_files; i++)
        is_in |= gold_file_has(&evaluation->files[i], gold);
    return is_in;
}

static enum status check_golds(const struct annotate *annotate, struct error *error)
{
    const struct table_columns *columns = table_reader_columns(annotate->reader);
    const struct annotate_evaluation *evaluation = &annotate->evaluation;
    for (size_t i = 0; i < evaluation->n; i++) {
        const struct annotate_gold *gold = &evaluation->golds[i];
        if (columns->n && gold->column == columns->n && !is_in_files(evaluation, i))
            return refuse_column(annotate, "--evaluate", gold->name, error);
        for (size_t j = 0; j < i; j++)
            if (text_equal(evaluation->golds[j].name, gold->name) &&
                evaluation->golds[j].answer == gold->answer &&
                evaluation->golds[j].label_column == gold->label_column)
                return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--evaluate: \"%.*s\" is compared twice",
                                 (int)gold->name.size, gold->name.data);
    }
    return STATUS_OK;
}

enum status annotate_open_evaluation(struct annotate *annotate, struct error *error)
{
    char *const *names = annotate->settings->annotate.evaluation.columns;
    struct annotate_evaluation *evaluation = &annotate->evaluation;
    size_t n = 0;
    enum status status = STATUS_OK;
    while (names && names[n])
        n++;
    if (!n)
        return STATUS_OK;
    evaluation->golds = calloc(n, sizeof *evaluation->golds);
    if (!evaluation->golds)
        return error_memory(error, STATUS_REFUSE, "the evaluation");
    for (; status == STATUS_OK && evaluation->n < n; evaluation->n++)
        status = open_gold(annotate, names[evaluation->n], &evaluation->golds[evaluation->n], error);
    if (status == STATUS_OK)
        status = open_group(annotate, error);
    if (status == STATUS_OK)
        status = read_files(annotate, error);
    return status == STATUS_OK ? check_golds(annotate, error) : status;
}

void annotate_close_evaluation(struct annotate *annotate)
{
    struct annotate_evaluation *evaluation = &annotate->evaluation;
    for (size_t i = 0; i < evaluation->n; i++) {
        struct annotate_gold *gold = &evaluation->golds[i];
        comparison_close(&gold->comparison);
        for (int j = 0; j < 2; j++)
            label_list_finish(&gold->lists[j]);
        for (int j = 0; j < 4; j++)
            buffer_finish(&gold->texts[j]);
    }
    free(evaluation->golds);
    for (size_t i = 0; i < evaluation->n_files; i++)
        gold_file_close(&evaluation->files[i]);
    free(evaluation->files);
    table_writer_close(evaluation->differences);
    free(evaluation->difference_columns.names);
    buffer_finish(&evaluation->group);
}

void annotate_mark_evaluated(const struct annotate *annotate, bool *is_read)
{
    const struct annotate_evaluation *evaluation = &annotate->evaluation;
    size_t n = table_reader_columns(annotate->reader)->n;
    for (size_t i = 0; i < evaluation->n; i++)
        if (evaluation->golds[i].column < n)
            is_read[evaluation->golds[i].column] = true;
    if (evaluation->n && evaluation->group_column < n)
        is_read[evaluation->group_column] = true;
    for (size_t i = 0; i < evaluation->n_files; i++)
        for (size_t j = 0; j < evaluation->files[i].n_shared; j++)
            is_read[evaluation->files[i].shared[j]] = true;
}

// ---- a row ----

// The text of a label: a string unchanged, any other value (also null) as JSON.
static struct text label_text(const struct value *value, struct buffer *json)
{
    if (value->kind == VALUE_STRING)
        return value->text;
    buffer_clear(json);
    json_encode(value, json);
    return (struct text){json->data, json->size};
}

static enum status match_list(const struct value *value, struct label_list *list, struct text *whole,
                              struct error *error)
{
    bool is_text = value && value->kind == VALUE_STRING;
    if (!(is_text ? label_list_read_text(list, value->text) : label_list_read(list, value)))
        return error_memory(error, STATUS_REFUSE, "the evaluation");
    *whole = list->whole;
    return STATUS_OK;
}

// The row's gold label in the last file that has one. While answers are compared, the label of each file is counted.
static const struct gold_entry *find_entry(struct annotate_evaluation *evaluation, size_t gold,
                                           const struct table_row *row)
{
    const struct gold_entry *found = NULL;
    for (size_t i = 0; i < evaluation->n_files; i++) {
        const struct gold_entry *entry = gold_file_find(&evaluation->files[i], gold, row->number);
        if (entry && evaluation->has_begun)
            gold_file_count(&evaluation->files[i], entry, row->fields);
        found = entry ? entry : found;
    }
    return found;
}

// The gold label: of --gold, else of the table. Size 0 if the row has none: an empty field, a member that the JSON line
// lacks, or the NULL of a database. A null in a JSON line is a label if answers may be null.
static enum status find_gold_label(struct annotate *annotate, size_t index, const struct table_row *row,
                                   struct text *label, struct error *error)
{
    struct annotate_gold *gold = &annotate->evaluation.golds[index];
    const struct label_set *labels = &gold->answer->label_sets[gold->label_column];
    const struct gold_entry *entry = find_entry(&annotate->evaluation, index, row);
    bool is_in_table = gold->column < table_reader_columns(annotate->reader)->n;
    const struct value none = {.kind = VALUE_NULL};
    const struct value *field = entry ? &entry->label : is_in_table ? &row->fields[gold->column] : &none;
    bool is_null =
        field->kind == VALUE_NULL && is_in_table && row->is_present && row->is_present[gold->column];
    enum status status = STATUS_OK;
    *label = (struct text){0};
    if (gold->comparison.kind == COMPARED_LISTS)
        status = match_list(field, &gold->lists[0], label, error);
    else if (field->kind != VALUE_NULL || (is_null && labels->has_null))
        *label = label_set_match(labels, label_text(field, &gold->texts[0]), &gold->texts[1]);
    gold->n_no_number += gold->comparison.has_numbers && label->size && isnan(label_number(*label));
    gold->n_none += label->size == 0;
    gold->n_refused += is_null && !labels->has_null;
    return status;
}

static void read_group(struct annotate *annotate, const struct table_row *row)
{
    struct annotate_evaluation *evaluation = &annotate->evaluation;
    buffer_clear(&evaluation->group);
    if (evaluation->group_column == table_reader_columns(annotate->reader)->n)
        return;
    const struct value *field = &row->fields[evaluation->group_column];
    if (field->kind == VALUE_STRING)
        buffer_add_text(&evaluation->group, field->text);
    else if (field->kind != VALUE_NULL)
        json_encode(field, &evaluation->group);
}

static enum status expect_group(struct annotate *annotate, const struct table_row *row, struct error *error)
{
    struct comparison *comparison = &annotate->evaluation.golds[0].comparison;
    size_t group;
    if (!comparison->has_groups)
        return STATUS_OK;
    read_group(annotate, row);
    struct text name = {annotate->evaluation.group.data, annotate->evaluation.group.size};
    enum status status = share_table_group(&comparison->shares, name, &group, error);
    if (status == STATUS_OK || error->code != ERROR_LIMIT_EXCEEDED)
        return status;
    name = comparison->group;
    return error_set(
        error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
        "--by: column \"%.*s\" has more than %d different values: is it a column of groups? Nothing was "
        "computed",
        (int)name.size, name.data, SHARE_GROUPS_MAX);
}

enum status annotate_expect_gold(struct annotate *annotate, const struct table_row *row, struct error *error)
{
    enum status status = annotate->evaluation.n ? expect_group(annotate, row, error) : STATUS_OK;
    for (size_t i = 0; i < annotate->evaluation.n && status == STATUS_OK; i++) {
        struct annotate_gold *gold = &annotate->evaluation.golds[i];
        struct text label;
        status = find_gold_label(annotate, i, row, &label, error);
        if (status == STATUS_OK)
            status = comparison_expect(&gold->comparison, label, error);
        if (status != STATUS_OK && error->code == ERROR_LIMIT_EXCEEDED)
            status = error_set(
                error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                "--evaluate: column \"%.*s\" has more than %d different gold labels: is it a column "
                "of labels? Nothing was computed",
                (int)gold->name.size, gold->name.data, EVALUATION_CLASSES_MAX);
    }
    return status;
}

// Called once all gold labels are registered: starts over without them.
static enum status begin_evaluation(struct annotate *annotate, struct error *error)
{
    struct annotate_evaluation *evaluation = &annotate->evaluation;
    enum status status = STATUS_OK;
    evaluation->has_begun = true;
    for (size_t i = 0; i < evaluation->n && status == STATUS_OK; i++) {
        struct annotate_gold *gold = &evaluation->golds[i];
        gold->n_none = gold->n_refused = gold->n_no_number = 0;
        gold->comparison.is_sampled |= annotate->is_partial; // the rows so far are no random sample
        status = comparison_restart(&gold->comparison, error);
    }
    return status;
}

static enum status compare_row(struct annotate *annotate, size_t index, const struct table_row *row,
                               struct error *error)
{
    struct annotate_gold *gold = &annotate->evaluation.golds[index];
    const struct value *value = row_answer_label(gold->answer, gold->label_column);
    struct compared_row *compared = &gold->row;
    enum status status = find_gold_label(annotate, index, row, &compared->gold, error);
    compared->answer = (struct text){0};
    if (status == STATUS_OK && gold->comparison.kind == COMPARED_LISTS)
        status = match_list(value, &gold->lists[1], &compared->answer, error);
    else if (value)
        compared->answer = label_set_match(&gold->answer->label_sets[gold->label_column],
                                           label_text(value, &gold->texts[2]), &gold->texts[3]);
    compared->gold_labels = (struct share_labels){gold->lists[0].labels, gold->lists[0].n};
    compared->answer_labels = (struct share_labels){gold->lists[1].labels, gold->lists[1].n};
    compared->gold_number = label_number(compared->gold);
    compared->answer_number = label_number(compared->answer);
    compared->group = (struct text){annotate->evaluation.group.data, annotate->evaluation.group.size};
    return status == STATUS_OK ? comparison_add(&gold->comparison, compared, error) : status;
}

void annotate_evaluate(struct annotate *annotate, const struct table_row *row)
{
    struct annotate_evaluation *evaluation = &annotate->evaluation;
    if (!evaluation->n || evaluation->status != STATUS_OK)
        return;
    if (!evaluation->has_begun)
        evaluation->status = begin_evaluation(annotate, &evaluation->fault);
    read_group(annotate, row);
    for (size_t i = 0; i < evaluation->n && evaluation->status == STATUS_OK; i++)
        evaluation->status = compare_row(annotate, i, row, &evaluation->fault);
}

bool annotate_gold_differs(const struct annotate_gold *gold)
{
    return gold->row.gold.size > 0 && !text_equal(gold->row.gold, gold->row.answer);
}
