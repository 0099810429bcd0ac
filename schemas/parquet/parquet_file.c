#include "schemas/parquet/parquet_file.h"

#include "schemas/parquet/parquet_cursor.h"

#include <stdlib.h>

struct parquet_file {
    struct parquet_parts parts;
    const struct parquet_schema *schema; // schema of all columns
    struct arena arena;
    struct parquet_chunk *chunks;   // [n_leaves] of the current row group
    struct parquet_cursor *cursors; // [n_columns]
    bool *is_chosen;                // [n_columns]
    struct value *fields;           // [n_columns]
    size_t next_group;
    int64_t n_left; // rows of the current group
};

static enum status refuse_memory(const char *name, struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "%s: reading", name);
}

static enum status prepare_columns(struct parquet_file *file, struct error *error)
{
    size_t n = file->schema->n_columns;
    file->chunks = arena_allocate_array(&file->arena, file->schema->n_leaves + 1, sizeof *file->chunks);
    file->is_chosen = arena_allocate_array(&file->arena, n + 1, sizeof *file->is_chosen);
    file->fields = arena_allocate_array(&file->arena, n + 1, sizeof *file->fields);
    struct parquet_cursor *cursors = arena_allocate_array(&file->arena, n + 1, sizeof *cursors);
    if (!file->chunks || !file->is_chosen || !file->fields || !cursors)
        return refuse_memory(file->parts.items[0].input.name, error);
    file->cursors = cursors;
    for (size_t i = 0; i < n; i++) {
        const struct parquet_column *column = &file->schema->columns[i];
        cursors[i].column = column;
        cursors[i].pages.column = arena_copy(&file->arena, column->name.data, column->name.size);
        if (!cursors[i].pages.column)
            return refuse_memory(file->parts.items[0].input.name, error);
        file->is_chosen[i] = column->leaf.meaning != MEANING_NONE;
    }
    return STATUS_OK;
}

enum status parquet_file_open(struct parquet_file **file, const struct parquet_input *inputs, size_t n,
                              struct error *error)
{
    struct parquet_file *opened = calloc(1, sizeof *opened);
    if (!opened)
        return refuse_memory(inputs[0].name, error);
    enum status status = parquet_parts_read(&opened->parts, inputs, n, error);
    if (status == STATUS_OK) {
        opened->schema = &opened->parts.items[0].footer.schema;
        status = prepare_columns(opened, error);
    }
    if (status == STATUS_OK)
        *file = opened;
    else
        parquet_file_close(opened);
    return status;
}

void parquet_file_close(struct parquet_file *file)
{
    if (!file)
        return;
    for (size_t i = 0; file->cursors && i < file->schema->n_columns; i++)
        parquet_cursor_finish(&file->cursors[i]);
    parquet_parts_finish(&file->parts);
    arena_finish(&file->arena);
    free(file);
}

int64_t parquet_file_part_rows(const struct parquet_file *file, size_t part)
{
    return file->parts.items[part].footer.n_rows;
}

const struct parquet_schema *parquet_file_schema(const struct parquet_file *file)
{
    return file->schema;
}

enum status parquet_file_choose(struct parquet_file *file, const bool *is_chosen, struct error *error)
{
    for (size_t i = 0; i < file->schema->n_columns; i++) {
        const struct parquet_column *column = &file->schema->columns[i];
        if (is_chosen[i] && column->leaf.meaning == MEANING_NONE)
            return error_set(
                error, STATUS_REFUSE, ERROR_FILE,
                "%s: column \"%.*s\" is %s, which is not read: leave it out of the prompt and of --evaluate",
                file->parts.items[0].input.name, (int)column->name.size, column->name.data, column->other);
        file->is_chosen[i] = is_chosen[i];
    }
    parquet_file_rewind(file);
    return STATUS_OK;
}

void parquet_file_rewind(struct parquet_file *file)
{
    file->next_group = 0;
    file->n_left = 0;
}

static enum status start_group(struct parquet_file *file, struct error *error)
{
    size_t group = file->next_group++;
    const struct parquet_part *part = parquet_parts_find(&file->parts, &group);
    enum status status = parquet_footer_chunks(&part->footer, part->input.name, group, file->chunks, error);
    if (status != STATUS_OK)
        return status;
    file->n_left = part->footer.groups[group].n_rows;
    for (size_t i = 0; i < file->schema->n_columns; i++) {
        struct parquet_cursor *cursor = &file->cursors[i];
        cursor->pages.fd = part->input.fd;
        cursor->pages.name = part->input.name;
        if (file->is_chosen[i])
            parquet_cursor_start(cursor, &file->chunks[cursor->column->chunk]);
    }
    return STATUS_OK;
}

static enum status end_group(struct parquet_file *file, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < file->schema->n_columns; i++)
        if (file->is_chosen[i])
            status = parquet_cursor_end(&file->cursors[i], error);
    return status;
}

enum status parquet_file_next(struct parquet_file *file, struct value **fields, struct error *error)
{
    enum status status = STATUS_OK;
    *fields = NULL;
    while (status == STATUS_OK && !file->n_left && file->next_group < file->parts.n_groups) {
        if (file->next_group)
            status = end_group(file, error);
        if (status == STATUS_OK)
            status = start_group(file, error);
    }
    if (status == STATUS_OK && !file->n_left)
        return file->next_group ? end_group(file, error) : STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < file->schema->n_columns; i++)
        if (file->is_chosen[i])
            status = parquet_cursor_next(&file->cursors[i], &file->fields[i], error);
        else
            file->fields[i] = (struct value){.kind = VALUE_NULL};
    if (status != STATUS_OK)
        return status;
    file->n_left--;
    *fields = file->fields;
    return STATUS_OK;
}

enum status parquet_file_check(struct parquet_file *file, struct error *error)
{
    struct value *fields;
    enum status status;
    parquet_file_rewind(file);
    do
        status = parquet_file_next(file, &fields, error);
    while (status == STATUS_OK && fields);
    parquet_file_rewind(file);
    return status;
}
