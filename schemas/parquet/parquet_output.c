#include "schemas/parquet/parquet_output.h"

#include "schemas/base/file.h"
#include "schemas/parquet/arrow_schema.h"
#include "schemas/parquet/parquet_builder.h"
#include "schemas/parquet/parquet_rewrite.h"
#include "schemas/parquet/thrift.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { COPY_BYTES = 1 << 18, MAGIC_BYTES = 4 };

struct parquet_output {
    FILE *file;
    const char *name;
    int64_t offset; // bytes written
    struct arena arena;
    struct parquet_builder *builders;   // [n_columns]
    struct parquet_new_column *columns; // [n_columns]
    size_t n_columns;
    struct parquet_spool spool;
    struct text created_by;
    struct parquet_input *inputs; // [n_inputs]
    size_t n_inputs;
    struct parquet_parts parts;
    struct parquet_chunk *chunks; // [n_leaves] of the input's current row group
    struct buffer groups;         // RowGroups of the footer
    int64_t n_groups, n_rows;
    int64_t n_of_group; // rows added to the current row group
    int64_t n_expected; // rows of the input's current row group; -1: it has no further one
    char *copied;       // [COPY_BYTES]
};

static enum status refuse_memory(const struct parquet_output *output, struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "%s: writing", output->name);
}

static enum status write_bytes(struct parquet_output *output, const void *bytes, size_t size,
                               struct error *error)
{
    if (size && fwrite(bytes, 1, size, output->file) != size)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: writing: %s", output->name, strerror(errno));
    output->offset += (int64_t)size;
    return STATUS_OK;
}

static enum status copy_bytes(struct parquet_output *output, int fd, int64_t offset, int64_t size,
                              const char *from, struct error *error)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK && size > 0) {
        size_t wanted = size < COPY_BYTES ? (size_t)size : COPY_BYTES, n;
        if (!parquet_read_at(fd, offset, output->copied, wanted, &n) || n < wanted)
            return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: reading: %s", from,
                             n < wanted ? "it became shorter" : strerror(errno));
        status = write_bytes(output, output->copied, n, error);
        offset += (int64_t)n;
        size -= (int64_t)n;
    }
    return status;
}

// ---- opening ----

static enum status copy_input(struct parquet_output *output, const struct parquet_input *input,
                              struct error *error)
{
    char *name = arena_copy(&output->arena, input->name, strlen(input->name));
    if (!name)
        return refuse_memory(output, error);
    int fd = fcntl(input->fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s", input->name, strerror(errno));
    output->inputs[output->n_inputs++] = (struct parquet_input){fd, name};
    return STATUS_OK;
}

static enum status open_inputs(struct parquet_output *output, const struct parquet_target *target,
                               struct error *error)
{
    if (!target->n_inputs)
        return STATUS_OK;
    output->inputs = arena_allocate_array(&output->arena, target->n_inputs, sizeof *output->inputs);
    enum status status = output->inputs ? STATUS_OK : refuse_memory(output, error);
    for (size_t i = 0; status == STATUS_OK && i < target->n_inputs; i++)
        status = copy_input(output, &target->inputs[i], error);
    if (status == STATUS_OK)
        status = parquet_parts_read(&output->parts, output->inputs, output->n_inputs, error);
    if (status != STATUS_OK)
        return status;
    size_t n_leaves = output->parts.items[0].footer.schema.n_leaves;
    output->chunks = arena_allocate_array(&output->arena, n_leaves + 1, sizeof *output->chunks);
    return output->chunks ? STATUS_OK : refuse_memory(output, error);
}

static enum status copy_columns(struct parquet_output *output, const struct parquet_target *target,
                                struct error *error)
{
    const char *created_by = target->created_by ? target->created_by : "";
    output->created_by = text_from_string(arena_copy(&output->arena, created_by, strlen(created_by)));
    output->builders = arena_allocate_array(&output->arena, target->n_columns + 1, sizeof *output->builders);
    output->columns = arena_allocate_array(&output->arena, target->n_columns + 1, sizeof *output->columns);
    output->copied = arena_allocate(&output->arena, COPY_BYTES);
    output->name = arena_copy(&output->arena, target->name, strlen(target->name));
    if (!output->builders || !output->columns || !output->copied || !output->name ||
        !output->created_by.data) {
        output->name = target->name;
        return refuse_memory(output, error);
    }
    for (size_t i = 0; i < target->n_columns; i++) {
        struct text name = target->columns[i].name;
        output->builders[i].type = target->columns[i].type;
        output->builders[i].name = (struct text){arena_copy(&output->arena, name.data, name.size), name.size};
        if (!output->builders[i].name.data)
            return refuse_memory(output, error);
        output->columns[i] = (struct parquet_new_column){output->builders[i].name, output->builders[i].type};
        output->n_columns++;
    }
    return STATUS_OK;
}

static enum status open_spool(struct parquet_output *output, struct error *error)
{
    output->spool.fd = file_open_temporary(file_temporary_folder());
    return output->spool.fd >= 0 ? STATUS_OK
                                 : error_set(error, STATUS_REFUSE, ERROR_FILE, "a temporary file in %s: %s",
                                             file_temporary_folder(), strerror(errno));
}

static void expect_group(struct parquet_output *output)
{
    size_t group = (size_t)output->n_groups;
    output->n_expected = -1;
    if (group < output->parts.n_groups)
        output->n_expected = parquet_parts_find(&output->parts, &group)->footer.groups[group].n_rows;
}

enum status parquet_output_open(struct parquet_output **output, const struct parquet_target *target,
                                struct error *error)
{
    struct parquet_output *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_memory(error, STATUS_REFUSE, "%s: writing", target->name);
    opened->file = target->file;
    opened->spool.fd = -1;
    enum status status = copy_columns(opened, target, error);
    if (status == STATUS_OK)
        status = open_inputs(opened, target, error);
    expect_group(opened);
    if (status == STATUS_OK)
        status = open_spool(opened, error);
    if (status == STATUS_OK)
        status = write_bytes(opened, "PAR1", MAGIC_BYTES, error);
    if (status == STATUS_OK)
        *output = opened;
    else
        parquet_output_close(opened);
    return status;
}

void parquet_output_close(struct parquet_output *output)
{
    if (!output)
        return;
    for (size_t i = 0; i < output->n_columns; i++)
        parquet_builder_finish(&output->builders[i]);
    for (size_t i = 0; i < output->n_inputs; i++)
        close(output->inputs[i].fd);
    if (output->spool.fd >= 0)
        close(output->spool.fd);
    parquet_parts_finish(&output->parts);
    buffer_finish(&output->groups);
    arena_finish(&output->arena);
    free(output);
}

int64_t parquet_output_n_unfit(const struct parquet_output *output)
{
    int64_t n = 0;
    for (size_t i = 0; i < output->n_columns; i++)
        n += output->builders[i].n_unfit;
    return n;
}

// ---- row groups ----

// Copies the chunks of the input's row group and adds their metadata.
static enum status copy_chunks(struct parquet_output *output, const struct parquet_part *part, size_t group,
                               struct buffer *chunks, struct error *error)
{
    enum status status = parquet_footer_chunks(&part->footer, part->input.name, group, output->chunks, error);
    for (size_t i = 0; status == STATUS_OK && i < part->footer.schema.n_leaves; i++) {
        const struct parquet_chunk *chunk = &output->chunks[i];
        parquet_rewrite_chunk(chunk, output->offset - chunk->offset, chunks);
        status = copy_bytes(output, part->input.fd, chunk->offset, chunk->size, part->input.name, error);
    }
    return status;
}

static enum status write_built(struct parquet_output *output, struct buffer *chunks,
                               struct parquet_added *added, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < output->n_columns; i++) {
        struct parquet_builder *builder = &output->builders[i];
        status = parquet_builder_flush(builder, &output->spool, error);
        if (status != STATUS_OK)
            return status;
        parquet_builder_write_chunk(builder, output->offset, chunks);
        for (size_t j = 0; status == STATUS_OK && j < builder->n_pages; j++)
            status = copy_bytes(output, output->spool.fd, builder->pages[j].offset, builder->pages[j].size,
                                "a temporary file", error);
        added->plain_bytes += builder->plain_bytes;
        added->packed_bytes += builder->packed_bytes;
        parquet_builder_reset(builder);
    }
    output->spool.size = 0;
    return status;
}

// A RowGroup of a file without an input.
static void write_own_group(const struct parquet_output *output, const struct parquet_added *added,
                            struct buffer *out)
{
    struct thrift_writer writer = {out, 0};
    thrift_write_list(&writer, 1, THRIFT_STRUCT, added->n_chunks);
    buffer_add_text(out, added->chunks);
    thrift_write_integer(&writer, 2, THRIFT_I64, added->plain_bytes);
    thrift_write_integer(&writer, 3, THRIFT_I64, output->n_of_group);
    thrift_write_integer(&writer, 5, THRIFT_I64, added->offset);
    thrift_write_integer(&writer, 6, THRIFT_I64, added->packed_bytes);
    thrift_write_stop(&writer);
}

static enum status end_group(struct parquet_output *output, struct error *error)
{
    struct buffer chunks = {0};
    size_t group = (size_t)output->n_groups++;
    const struct parquet_part *part = output->n_inputs ? parquet_parts_find(&output->parts, &group) : NULL;
    struct parquet_added added = {.offset = output->offset,
                                  .n_chunks = (part ? part->footer.schema.n_leaves : 0) + output->n_columns};
    enum status status = part ? copy_chunks(output, part, group, &chunks, error) : STATUS_OK;
    if (status == STATUS_OK)
        status = write_built(output, &chunks, &added, error);
    added.chunks = (struct text){chunks.data, chunks.size};
    if (status == STATUS_OK && part)
        parquet_rewrite_group(&part->footer.groups[group], &added, &output->groups);
    else if (status == STATUS_OK)
        write_own_group(output, &added, &output->groups);
    if (status == STATUS_OK && (chunks.failed || output->groups.failed))
        status = refuse_memory(output, error);
    buffer_finish(&chunks);
    output->n_of_group = 0;
    expect_group(output);
    return status;
}

// Whether the current row group has all of its rows.
static bool is_group_full(const struct parquet_output *output)
{
    int64_t bytes = 0;
    if (output->n_inputs)
        return output->n_of_group == output->n_expected;
    for (size_t i = 0; i < output->n_columns; i++)
        bytes += output->builders[i].plain_bytes;
    return output->n_of_group == PARQUET_OUTPUT_GROUP_ROWS || bytes >= PARQUET_OUTPUT_GROUP_BYTES;
}

// Row groups of the input without rows are written before the row.
static enum status begin_row(struct parquet_output *output, struct error *error)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK && is_group_full(output))
        status = end_group(output, error);
    if (status == STATUS_OK && output->n_inputs && (size_t)output->n_groups == output->parts.n_groups)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s has fewer rows than were read: it changed",
                         output->name, output->inputs[0].name);
    return status;
}

static enum status add_row(struct parquet_output *output, const struct value *values, struct error *error)
{
    enum status status = begin_row(output, error);
    for (size_t i = 0; status == STATUS_OK && i < output->n_columns; i++)
        status = parquet_builder_add(&output->builders[i], values ? &values[i] : NULL, &output->spool, error);
    output->n_of_group++;
    output->n_rows++;
    return status;
}

enum status parquet_output_add(struct parquet_output *output, const struct value *values, struct error *error)
{
    return add_row(output, values, error);
}

enum status parquet_output_skip(struct parquet_output *output, int64_t n_rows, struct error *error)
{
    enum status status = STATUS_OK;
    for (int64_t i = 0; status == STATUS_OK && i < n_rows; i++)
        status = add_row(output, NULL, error);
    return status;
}

// ---- the end ----

static void write_own_footer(const struct parquet_output *output, const struct parquet_added *added,
                             struct buffer *out)
{
    struct thrift_writer writer = {out, 0}, root = {out, 0};
    thrift_write_integer(&writer, 1, THRIFT_I32, 1);
    thrift_write_list(&writer, 2, THRIFT_STRUCT, output->n_columns + 1);
    thrift_write_binary(&root, 4, TEXT("schema"));
    thrift_write_integer(&root, 5, THRIFT_I32, (int64_t)output->n_columns);
    thrift_write_stop(&root);
    buffer_add_text(out, added->elements);
    thrift_write_integer(&writer, 3, THRIFT_I64, output->n_rows);
    thrift_write_list(&writer, 4, THRIFT_STRUCT, (size_t)output->n_groups);
    buffer_add(out, output->groups.data, output->groups.size);
    if (output->created_by.size)
        thrift_write_binary(&writer, 6, output->created_by);
    thrift_write_stop(&writer);
}

// Adds the Arrow schema that all inputs have, with the new columns; nothing if they differ in it.
static void add_arrow_schema(const struct parquet_output *output, struct buffer *out)
{
    struct text schema = {0};
    for (size_t i = 0; i < output->n_inputs; i++) {
        const struct parquet_footer *footer = &output->parts.items[i].footer;
        struct text other = parquet_rewrite_metadata(footer, "ARROW:schema");
        if (!other.size || (i && !text_equal(other, schema)))
            return;
        schema = other;
    }
    if (output->n_inputs)
        arrow_schema_extend(schema, output->parts.items[0].footer.schema.n_columns, output->columns,
                            output->n_columns, out);
}

static enum status write_footer(struct parquet_output *output, struct error *error)
{
    struct buffer footer = {0}, elements = {0}, arrow_schema = {0};
    add_arrow_schema(output, &arrow_schema);
    for (size_t i = 0; i < output->n_columns; i++)
        parquet_builder_write_element(&output->builders[i], &elements);
    struct parquet_added added = {.n_columns = output->n_columns,
                                  .elements = {elements.data, elements.size},
                                  .n_groups = output->parts.n_groups,
                                  .n_rows = output->parts.n_rows,
                                  .arrow_schema = {arrow_schema.data, arrow_schema.size}};
    struct text groups = {output->groups.data, output->groups.size};
    if (output->n_inputs)
        parquet_rewrite_footer(&output->parts.items[0].footer, &added, groups, &footer);
    else
        write_own_footer(output, &added, &footer);
    bool has_failed = footer.failed || elements.failed || arrow_schema.failed;
    enum status status = has_failed ? refuse_memory(output, error) : STATUS_OK;
    if (status == STATUS_OK && footer.size > PARQUET_FOOTER_BYTES_MAX)
        status = error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "%s: its footer has more than 1 GiB",
                           output->name);
    uint32_t size = htole32((uint32_t)footer.size);
    buffer_add(&footer, &size, sizeof size);
    buffer_add(&footer, "PAR1", MAGIC_BYTES);
    if (status == STATUS_OK)
        status = footer.failed ? refuse_memory(output, error)
                               : write_bytes(output, footer.data, footer.size, error);
    buffer_finish(&footer);
    buffer_finish(&elements);
    buffer_finish(&arrow_schema);
    return status;
}

enum status parquet_output_complete(struct parquet_output *output, struct error *error)
{
    enum status status = STATUS_OK;
    if (output->n_inputs)
        status = parquet_output_skip(output, output->parts.n_rows - output->n_rows, error);
    while (status == STATUS_OK && output->n_inputs && (size_t)output->n_groups < output->parts.n_groups)
        status = end_group(output, error);
    if (status == STATUS_OK && !output->n_inputs && output->n_of_group)
        status = end_group(output, error);
    return status == STATUS_OK ? write_footer(output, error) : status;
}
