#include "consumer/annotate/label_counts.h"

#include <stdlib.h>

struct label_column {
    bool is_closed, is_dropped; // dropped: too many values
    struct label_cell *cells;   // [n]
    size_t n, capacity;
};

bool label_counts_open(struct label_counts *counts, const struct row_answer *answers, size_t n)
{
    size_t column = 0;
    *counts = (struct label_counts){.n_columns = 0};
    for (size_t i = 0; i < n; i++)
        counts->n_columns += answers[i].n_answers;
    counts->columns = calloc(counts->n_columns ? counts->n_columns : 1, sizeof *counts->columns);
    for (size_t i = 0; counts->columns && i < n; i++)
        for (size_t j = 0; j < answers[i].n_answers; j++)
            counts->columns[column++].is_closed = answers[i].label_sets[j].is_closed;
    return counts->columns != NULL;
}

void label_counts_close(struct label_counts *counts)
{
    for (size_t i = 0; counts->columns && i < counts->n_columns; i++)
        free(counts->columns[i].cells);
    free(counts->columns);
    arena_finish(&counts->arena);
    *counts = (struct label_counts){0};
}

static struct label_cell *add_cell(struct label_counts *counts, struct label_column *column,
                                   struct text property, struct text label)
{
    if (column->n == column->capacity) {
        size_t capacity = column->capacity ? 2 * column->capacity : 16;
        struct label_cell *cells = realloc(column->cells, capacity * sizeof *cells);
        if (!cells)
            return NULL;
        column->cells = cells;
        column->capacity = capacity;
    }
    char *copy = arena_copy(&counts->arena, label.data, label.size);
    if (!copy)
        return NULL;
    column->cells[column->n] = (struct label_cell){property, {copy, label.size}, 0};
    return &column->cells[column->n++];
}

static void count_label(struct label_counts *counts, struct label_column *column, struct text property,
                        struct text label)
{
    struct label_cell *cell = NULL;
    for (size_t i = 0; !cell && i < column->n; i++)
        if (text_equal(column->cells[i].label, label))
            cell = &column->cells[i];
    if (!cell && column->n == (column->is_closed ? LABELS_MAX : LABEL_VALUES_MAX)) {
        column->is_dropped = true;
        return;
    }
    if (!cell)
        cell = add_cell(counts, column, property, label);
    counts->failed |= !cell;
    if (cell)
        cell->n_rows++;
}

// columns: [answer->n_answers].
static void add_answer(struct label_counts *counts, struct label_column *columns,
                       const struct row_answer *answer)
{
    for (size_t i = 0; i < answer->n_answers && !answer->failed; i++) {
        const struct value *field = &answer->fields[i];
        struct buffer json = {0};
        if (!answer->is_given[i] || columns[i].is_dropped || field->kind == VALUE_ARRAY ||
            field->kind == VALUE_OBJECT)
            continue;
        if (field->kind != VALUE_STRING)
            json_encode(field, &json);
        count_label(counts, &columns[i], answer->columns.names[i],
                    field->kind == VALUE_STRING ? field->text : (struct text){json.data, json.size});
        counts->failed |= json.failed;
        buffer_finish(&json);
    }
}

void label_counts_add(struct label_counts *counts, const struct row_answer *answers, size_t n)
{
    struct label_column *columns = counts->columns;
    counts->n_rows++;
    for (size_t i = 0; i < n; columns += answers[i++].n_answers)
        add_answer(counts, columns, &answers[i]);
}

// A column whose values never repeat holds no labels, unless it is closed: its labels are enumerated.
static bool is_label(const struct label_column *column)
{
    bool is_repeated = column->is_closed;
    for (size_t i = 0; i < column->n; i++)
        is_repeated |= column->cells[i].n_rows > 1;
    return is_repeated && !column->is_dropped;
}

enum status label_counts_store(const struct label_counts *counts, struct store *store, struct text dataset,
                               struct error *error)
{
    size_t n = 0;
    for (size_t i = 0; i < counts->n_columns; i++)
        n += is_label(&counts->columns[i]) ? counts->columns[i].n : 0;
    struct label_cell *cells = calloc(n ? n : 1, sizeof *cells);
    if (!cells || counts->failed) {
        free(cells);
        return error_memory(error, STATUS_REFUSE, "counting labels");
    }
    n = 0;
    for (size_t i = 0; i < counts->n_columns; i++)
        for (size_t j = 0; is_label(&counts->columns[i]) && j < counts->columns[i].n; j++)
            cells[n++] = counts->columns[i].cells[j];
    enum status status = store_labels_write(store, dataset, counts->n_rows, cells, n, error);
    free(cells);
    return status;
}
