#include "schemas/parquet/parquet_parts.h"

#include <stdlib.h>

static enum status check_part(const struct parquet_parts *parts, const struct parquet_part *part,
                              struct error *error)
{
    const struct parquet_part *first = &parts->items[0];
    return text_equal(part->footer.elements, first->footer.elements)
               ? STATUS_OK
               : error_set(error, STATUS_REFUSE, ERROR_FILE,
                           "%s: its columns or their types are not the columns of %s", part->input.name,
                           first->input.name);
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
