// --reorder: the order in which rows are computed (consumer/annotate/row_order.h). If fields are ordered too,
// prompts depend on that order, so planning needs an extra pass over the table before they are rendered.
#include "consumer/annotate/annotate.h"
#include "consumer/observe/log.h"
#include "schemas/base/clock.h"
#include "schemas/base/hash.h"

// The hash of a column's value, and the bytes that the column adds to a prompt: its name and its text. Values
// that are not text count as 8 bytes.
static struct row_cell cell_of(const struct table_columns *columns, const struct table_row *row,
                               size_t column)
{
    const struct value *field = &row->fields[column];
    bool is_text = field->kind == VALUE_STRING || field->kind == VALUE_BYTES;
    uint64_t hash =
        is_text ? hash_bytes(field->text.data, field->text.size, 0) : value_hash(field, field->kind);
    size_t length = columns->names[column].size + (is_text ? field->text.size : 8);
    return (struct row_cell){(uint32_t)(hash >> 32), length < UINT32_MAX ? (uint32_t)length : UINT32_MAX};
}

enum status annotate_add_to_order(const struct annotate *annotate, const struct table_row *row,
                                  struct row_order *order, struct error *error)
{
    const struct row_columns *read = &annotate->prompts[0].read;
    const struct table_columns *columns = table_reader_columns(annotate->reader);
    struct row_cell *cells;
    order->n_columns = read->all ? columns->n : read->n_mentioned;
    enum status status = row_order_add(order, &cells, error);
    for (size_t i = 0; status == STATUS_OK && i < order->n_columns; i++)
        cells[i] = cell_of(columns, row, read->all ? i : read->mentioned[i]);
    return status;
}

static enum status add_rows(struct annotate *annotate, struct row_order *order, struct error *error)
{
    struct table_row row = {0};
    enum status status = annotate_rewind(annotate, error);
    do {
        status = status == STATUS_OK ? annotate_next_row(annotate, false, &row, error) : status;
        if (status == STATUS_OK && row.fields && annotate_is_chosen(annotate, row.number))
            status = annotate_add_to_order(annotate, &row, order, error);
    } while (status == STATUS_OK && row.fields);
    return status;
}

enum status annotate_plan_order(struct annotate *annotate, struct row_order *order, struct error *error)
{
    bool are_fields_free = annotate->prompts[0].read.all;
    int64_t began_ms = clock_ms();
    enum status status = are_fields_free ? add_rows(annotate, order, error) : STATUS_OK;
    if (status == STATUS_OK)
        status = row_order_plan(order, are_fields_free, error);
    if (status == STATUS_OK)
        log_write(LOG_INFO, "--reorder: %zu rows%s are ordered for common beginnings, in %.1f s",
                  order->n_rows, are_fields_free ? " and their fields" : "",
                  (double)(clock_ms() - began_ms) / 1000);
    return status;
}
