#include "schemas/parquet/parquet_parts.h"

#include <stdlib.h>
#include <string.h>

static bool same_type(const struct parquet_column *a, const struct parquet_column *b)
{
    const struct parquet_leaf *x = &a->leaf, *y = &b->leaf;
    return x->physical == y->physical && x->meaning == y->meaning && x->width == y->width &&
           x->scale == y->scale && x->fraction_digits == y->fraction_digits && x->is_utc == y->is_utc &&
           a->n_leaves == b->n_leaves && a->is_list == b->is_list && a->definition_max == b->definition_max &&
           strcmp(a->other, b->other) == 0;
}

// Writes what differs first, as the end of a sentence about `part`.
static void describe_difference(const struct parquet_schema *first, const struct parquet_schema *part,
                                struct buffer *out)
{
    size_t n = first->n_columns < part->n_columns ? first->n_columns : part->n_columns, i = 0;
    const struct parquet_column *a = first->columns, *b = part->columns;
    while (i < n && text_equal(a[i].name, b[i].name) && same_type(&a[i], &b[i]))
        i++;
    if (i == n && first->n_columns == part->n_columns)
        buffer_add_string(out, "their declarations differ");
    else if (i == n)
        buffer_add_format(out, "%zu columns instead of %zu", part->n_columns, first->n_columns);
    else if (!text_equal(a[i].name, b[i].name))
        buffer_add_format(out, "column %zu is \"%.*s\" instead of \"%.*s\"", i + 1, (int)b[i].name.size,
                          b[i].name.data, (int)a[i].name.size, a[i].name.data);
    else
        buffer_add_format(out, "column \"%.*s\" has another type", (int)b[i].name.size, b[i].name.data);
}

static enum status check_part(const struct parquet_parts *parts, const struct parquet_part *part,
                              struct error *error)
{
    const struct parquet_part *first = &parts->items[0];
    struct buffer difference = {0};
    if (text_equal(part->footer.elements, first->footer.elements))
        return STATUS_OK;
    describe_difference(&first->footer.schema, &part->footer.schema, &difference);
    (void)error_set(error, STATUS_REFUSE, ERROR_FILE,
                    "%s: its columns or their types are not the columns of %s: %s", part->input.name,
                    first->input.name, difference.data && !difference.failed ? difference.data : "");
    buffer_finish(&difference);
    return STATUS_REFUSE;
}

enum status parquet_parts_read(struct parquet_parts *parts, const struct parquet_input *inputs, size_t n,
                               struct error *error)
{
    *parts = (struct parquet_parts){.items = calloc(n, sizeof *parts->items)};
    if (!parts->items)
        return error_memory(error, STATUS_REFUSE, "%s: reading", inputs[0].name);
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        struct parquet_part *part = &parts->items[i];
        part->input = inputs[i];
        status = parquet_footer_read(&part->footer, inputs[i].fd, inputs[i].name, error);
        if (status != STATUS_OK)
            break;
        parts->n++;
        parts->n_groups += part->footer.n_groups;
        status = check_part(parts, part, error);
        if (status == STATUS_OK && __builtin_add_overflow(parts->n_rows, part->footer.n_rows, &parts->n_rows))
            status =
                error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "%s: too many rows", inputs[i].name);
    }
    if (status != STATUS_OK)
        parquet_parts_finish(parts);
    return status;
}

void parquet_parts_finish(struct parquet_parts *parts)
{
    for (size_t i = 0; i < parts->n; i++)
        parquet_footer_finish(&parts->items[i].footer);
    free(parts->items);
    *parts = (struct parquet_parts){0};
}

const struct parquet_part *parquet_parts_find(const struct parquet_parts *parts, size_t *group)
{
    size_t i = 0;
    for (; *group >= parts->items[i].footer.n_groups; i++)
        *group -= parts->items[i].footer.n_groups;
    return &parts->items[i];
}
