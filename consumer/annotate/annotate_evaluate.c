// --evaluate: compares the labels of the answers with the gold labels of a column.
#include "consumer/annotate/annotate.h"
#include "consumer/observe/log.h"
#include "schemas/base/nearest.h"
#include "store/report.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

// Finds the gold column: the column named `name`, else the one named by the part before the last '='. Then
// *property is the part after the '='. Returns columns->n if there is no such column.
static size_t find_gold(struct annotate *annotate, const char *name, struct text *property)
{
    const struct table_columns *columns = table_reader_columns(annotate->reader);
    const char *equals = strrchr(name, '=');
    annotate->gold.name = text_from_string(name);
    *property = (struct text){0};
    if (equals && table_columns_find(columns, annotate->gold.name) == columns->n) {
        annotate->gold.name.size = (size_t)(equals - name);
        *property = text_from_string(equals + 1);
    }
    return table_columns_find(columns, annotate->gold.name);
}

enum status annotate_open_evaluation(struct annotate *annotate, struct error *error)
{
    const struct table_columns *columns = table_reader_columns(annotate->reader);
    const char *name = annotate->settings->annotate.evaluate;
    struct text property;
    if (!name)
        return STATUS_OK;
    annotate->gold.column = find_gold(annotate, name, &property);
    struct text gold = annotate->gold.name, nearest = nearest_name(gold, columns->names, columns->n);
    if (columns->n && annotate->gold.column == columns->n)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--evaluate: there is no column \"%.*s\"%s%.*s",
                         (int)gold.size, gold.data, nearest.data ? "; the nearest is " : "",
                         (int)nearest.size, nearest.data ? nearest.data : "");
    struct row_answer *found =
        answer_columns_choose_label(&annotate->columns, property.data ? property : gold);
    if (property.data && !found)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--evaluate: the %s no property \"%s\"",
                         annotate->questions.n ? "questions have" : "schema has", property.data);
    if (!found && annotate->n_questions > 1)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--evaluate: no question is named \"%.*s\": give --evaluate %.*s=QUESTION",
                         (int)gold.size, gold.data, (int)gold.size, gold.data);
    annotate->gold.answer = found ? found : &annotate->answers[0];
    annotate->gold.is_first_property = !found && annotate->answers[0].properties.n > 1;
    return evaluation_open(&annotate->gold.evaluation, error);
}

// The text of a label: a string unchanged, any other value (also null) as JSON.
static struct text label_text(const struct value *value, struct buffer *json)
{
    if (value->kind == VALUE_STRING)
        return value->text;
    json_encode(value, json);
    return (struct text){json->data, json->size};
}

// Empty if the row has no gold label: an empty field, a member that the JSON line lacks, or the NULL of a
// database. A null in a JSON line is a label if answers may be null.
static struct text find_gold_label(struct annotate *annotate, const struct table_row *row,
                                   struct buffer texts[2])
{
    struct annotate_gold *gold = &annotate->gold;
    const struct label_set *labels = &annotate->gold.answer->label_sets[annotate->gold.answer->label_column];
    const struct value *field = &row->fields[gold->column];
    bool is_null = field->kind == VALUE_NULL && row->is_present && row->is_present[gold->column];
    struct text label = {0};
    if (field->kind != VALUE_NULL || (is_null && labels->has_null))
        label = label_set_match(labels, label_text(field, &texts[0]), &texts[1]);
    gold->n_none += label.size == 0;
    gold->n_refused += is_null && !labels->has_null;
    return label;
}

enum status annotate_expect_gold(struct annotate *annotate, const struct table_row *row, struct error *error)
{
    if (!annotate->settings->annotate.evaluate)
        return STATUS_OK;
    struct buffer texts[2] = {{0}};
    struct text gold = find_gold_label(annotate, row, texts), name = annotate->gold.name;
    enum status status = evaluation_expect(&annotate->gold.evaluation, gold, error);
    if (status != STATUS_OK && error->code == ERROR_LIMIT_EXCEEDED)
        status =
            error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                      "--evaluate: column \"%.*s\" has more than %d different gold labels: is it a column "
                      "of labels? Nothing was computed",
                      (int)name.size, name.data, EVALUATION_CLASSES_MAX);
    for (int i = 0; i < 2; i++)
        buffer_finish(&texts[i]);
    return status;
}

// Called once all gold labels are registered: starts over without them.
static void begin_evaluation(struct annotate_gold *gold)
{
    gold->n_none = gold->n_refused = 0;
    evaluation_restart(&gold->evaluation);
}

void annotate_evaluate(struct annotate *annotate, const struct table_row *row)
{
    struct annotate_gold *gold = &annotate->gold;
    if (!annotate->settings->annotate.evaluate || gold->status != STATUS_OK)
        return;
    if (!gold->has_begun)
        begin_evaluation(gold);
    gold->has_begun = true;
    const struct label_set *labels = &annotate->gold.answer->label_sets[annotate->gold.answer->label_column];
    const struct value *value = row_answer_label(annotate->gold.answer);
    struct buffer texts[4] = {{0}};
    struct text label = find_gold_label(annotate, row, texts), answer = {0};
    if (value)
        answer = label_set_match(labels, label_text(value, &texts[2]), &texts[3]);
    gold->status = evaluation_add(&gold->evaluation, label, answer, &gold->fault);
    for (int i = 0; i < 4; i++)
        buffer_finish(&texts[i]);
}

static void add_quoted(struct buffer *out, struct text text)
{
    buffer_add_byte(out, '"');
    buffer_add_printable(out, text, 0);
    buffer_add_byte(out, '"');
}

// The closest label: equal but for the case of letters, else the nearest by edit distance. data NULL: none.
static struct text nearest_label(const struct label_set *labels, struct text gold)
{
    for (size_t i = 0; i < labels->n; i++)
        if (labels->labels[i].size == gold.size &&
            strncasecmp(labels->labels[i].data, gold.data, gold.size) == 0)
            return labels->labels[i];
    return nearest_name(gold, labels->labels, labels->n);
}

// Lists gold labels that no answer can equal, perhaps because they are spelled differently.
static void write_impossible(const struct annotate *annotate, struct buffer *out)
{
    const struct label_set *labels = &annotate->gold.answer->label_sets[annotate->gold.answer->label_column];
    const struct evaluation *evaluation = &annotate->gold.evaluation;
    long long n_rows = 0;
    int n_shown = 0;
    for (size_t i = 0; labels->is_closed && i < evaluation->n_classes; i++) {
        struct text gold = evaluation->classes[i];
        int64_t n = evaluation_of_class(evaluation, i).n_gold;
        if (!n || label_set_has(labels, gold))
            continue;
        struct text nearest = nearest_label(labels, gold);
        n_rows += n;
        if (n_shown++ >= ANNOTATE_FAULTS_SHOWN)
            continue;
        buffer_add_string(out, n_shown == 1 ? "gold labels that no answer can be: " : ", ");
        add_quoted(out, gold);
        buffer_add_format(out, " (%lld row%s", (long long)n, n == 1 ? "" : "s");
        if (nearest.data) {
            buffer_add_string(out, "; the nearest is ");
            add_quoted(out, nearest);
        }
        buffer_add_byte(out, ')');
    }
    if (!n_shown)
        return;
    buffer_add_string(out, n_shown > ANNOTATE_FAULTS_SHOWN ? ", ...\n" : "\n");
    log_write(LOG_WARNING, "--evaluate: rows with a gold label that no answer can be: %lld", n_rows);
}

void annotate_write_evaluation(const struct annotate *annotate, struct buffer *out)
{
    const struct row_answer *answer = annotate->gold.answer;
    struct text gold = annotate->gold.name;
    struct text label = answer->columns.names[answer->label_column];
    buffer_add_string(out, "compared: \"");
    buffer_add_printable(out, gold, 0);
    buffer_add_string(out, "\" with \"");
    buffer_add_printable(out, label, 0);
    buffer_add_byte(out, '"');
    if (annotate->gold.is_first_property) {
        buffer_add_string(out, ", the schema's first property (another: --evaluate ");
        buffer_add_printable(out, gold, 0);
        buffer_add_byte(out, '=');
        buffer_add_printable(out, answer->properties.items[1].name, 0);
        buffer_add_byte(out, ')');
    }
    buffer_add_byte(out, '\n');
    if (annotate->gold.status != STATUS_OK) {
        buffer_add_format(out, "no evaluation: %s\n", annotate->gold.fault.text);
        return;
    }
    if (annotate->gold.n_none)
        buffer_add_format(out, "rows without a gold label, left out: %lld", (long long)annotate->gold.n_none);
    if (annotate->gold.n_refused)
        buffer_add_format(out, ", %lld of them with a null, which no answer can be",
                          (long long)annotate->gold.n_refused);
    buffer_add_string(out, annotate->gold.n_none ? "\n" : "");
    write_impossible(annotate, out);
    evaluation_write(&annotate->gold.evaluation, out);
}

enum status annotate_store_evaluation(const struct annotate *annotate, struct error *error)
{
    const struct evaluation *evaluation = &annotate->gold.evaluation;
    size_t n = annotate->gold.status == STATUS_OK ? evaluation->n_classes : 0, n_cells = 0;
    struct evaluation_cell *cells = calloc(n * n + 1, sizeof *cells);
    if (!cells)
        return error_memory(error, STATUS_REFUSE, "the evaluation");
    for (size_t gold = 0; gold < n; gold++)
        for (size_t answer = 0; answer < n; answer++) {
            int64_t n_rows = evaluation->counts[gold * EVALUATION_CLASSES_MAX + answer];
            if (n_rows)
                cells[n_cells++] =
                    (struct evaluation_cell){evaluation->classes[gold], evaluation->classes[answer], n_rows};
        }
    enum status status = store_evaluation_write(annotate->store, annotate->dataset, cells, n_cells, error);
    free(cells);
    return status;
}
