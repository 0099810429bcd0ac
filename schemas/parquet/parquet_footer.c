#include "schemas/parquet/parquet_footer.h"

#include "schemas/parquet/parquet_codec.h"
#include "schemas/parquet/thrift.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAGIC_BYTES = 4, TAIL_BYTES = 8 };

static enum status refuse_footer(const char *name, const char *what, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: a damaged Parquet file: %s", name, what);
}

static enum status refuse_memory(const char *name, struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "%s: reading its footer", name);
}

bool parquet_read_at(int fd, int64_t offset, char *bytes, size_t size, size_t *n_read)
{
    *n_read = 0;
    while (*n_read < size) {
        ssize_t n = pread(fd, bytes + *n_read, size - *n_read, offset + (int64_t)*n_read);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0;
        *n_read += (size_t)n;
    }
    return true;
}

// ---- chunks ----

static void read_metadata(struct thrift_reader *reader, struct parquet_chunk *chunk, int32_t *physical)
{
    struct thrift_field field = {0};
    int64_t data = 0, dictionary = 0;
    while (thrift_next_field(reader, &field)) {
        int64_t *integer = field.id == 5    ? &chunk->n_values
                           : field.id == 7  ? &chunk->size
                           : field.id == 9  ? &data
                           : field.id == 11 ? &dictionary
                                            : NULL;
        if (integer && field.type == THRIFT_I64)
            *integer = thrift_read_integer(reader);
        else if (field.id == 1 && field.type == THRIFT_I32)
            *physical = thrift_read_i32(reader);
        else if (field.id == 4 && field.type == THRIFT_I32)
            chunk->codec = thrift_read_i32(reader);
        else
            thrift_skip(reader, field.type);
    }
    // Some writers give an absent dictionary, or an absent data page, the offset 0.
    chunk->offset = dictionary > 0 && (dictionary < data || data == 0) ? dictionary : data;
    if (!chunk->size && !chunk->offset)
        chunk->offset = MAGIC_BYTES;
}

static enum status read_chunk(const struct parquet_footer *footer, struct thrift_reader *reader, size_t leaf,
                              struct parquet_chunk *chunk, const char **fault)
{
    struct thrift_field field = {0};
    int32_t physical = -1;
    const char *start = reader->at;
    *chunk = (struct parquet_chunk){0};
    while (thrift_next_field(reader, &field)) {
        if (field.id == 8)
            *fault = "a column is encrypted";
        else if (field.id == 1)
            *fault = "a column is in another file";
        if (field.id == 3 && field.type == THRIFT_STRUCT)
            read_metadata(reader, chunk, &physical);
        else
            thrift_skip(reader, field.type);
    }
    chunk->bytes = (struct text){start, (size_t)(reader->at - start)};
    if (reader->failed)
        *fault = "a column chunk's metadata";
    else if (!*fault && (physical < 0 || physical != (int32_t)footer->schema.physicals[leaf]))
        *fault = "a column chunk has no type, or another one than its column";
    else if (!*fault &&
             (chunk->n_values < 0 || chunk->size < 0 || chunk->offset < MAGIC_BYTES ||
              chunk->offset > footer->data_bytes || chunk->size > footer->data_bytes - chunk->offset))
        *fault = "a column chunk lies outside the file";
    return *fault ? STATUS_REFUSE : STATUS_OK;
}

enum status parquet_footer_chunks(const struct parquet_footer *footer, const char *name, size_t group,
                                  struct parquet_chunk *chunks, struct error *error)
{
    struct thrift_reader reader = thrift_read_text(footer->groups[group].bytes);
    struct thrift_field field = {0};
    const char *fault = NULL;
    bool has_chunks = false;
    while (!fault && thrift_next_field(&reader, &field)) {
        if (field.id != 1) {
            thrift_skip(&reader, field.type);
            continue;
        }
        size_t n = thrift_read_structs(&reader, &field);
        if (n != footer->schema.n_leaves)
            fault = "it has another number of columns than the schema";
        for (size_t i = 0; !fault && i < n; i++)
            (void)read_chunk(footer, &reader, i, &chunks[i], &fault);
        has_chunks = true;
    }
    if (!fault && (reader.failed || !has_chunks))
        fault = "its metadata";
    return fault ? error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: cannot be read: row group %zu: %s", name,
                             group + 1, fault)
                 : STATUS_OK;
}

// ---- the footer ----

static enum status read_group(struct parquet_footer *footer, struct thrift_reader *reader, size_t i)
{
    struct parquet_group *group = &footer->groups[i];
    struct thrift_field field = {0};
    const char *start = reader->at;
    group->n_rows = -1;
    while (thrift_next_field(reader, &field))
        if (field.id == 3 && field.type == THRIFT_I64)
            group->n_rows = thrift_read_integer(reader);
        else
            thrift_skip(reader, field.type);
    group->bytes = (struct text){start, (size_t)(reader->at - start)};
    return group->n_rows >= 0 ? STATUS_OK : STATUS_REFUSE;
}

static enum status read_groups(struct parquet_footer *footer, struct thrift_reader *reader,
                               const struct thrift_field *field, const char *name, struct error *error)
{
    size_t n = thrift_read_structs(reader, field);
    footer->groups = arena_allocate_array(&footer->arena, n + 1, sizeof *footer->groups);
    if (!footer->groups)
        return refuse_memory(name, error);
    footer->n_groups = n;
    for (size_t i = 0; i < n; i++)
        if (read_group(footer, reader, i) != STATUS_OK || reader->failed)
            return refuse_footer(name, "the metadata of a row group", error);
    return STATUS_OK;
}

static enum status read_fields(struct parquet_footer *footer, const char *name, struct error *error)
{
    struct thrift_reader reader = {footer->bytes.data, footer->bytes.data + footer->bytes.size, false};
    struct thrift_field field = {0};
    enum status status = STATUS_OK;
    while (status == STATUS_OK && thrift_next_field(&reader, &field)) {
        if (field.id == 2) {
            footer->n_elements = thrift_read_structs(&reader, &field);
            const char *start = reader.at;
            for (size_t i = 0; i < footer->n_elements; i++)
                thrift_skip(&reader, THRIFT_STRUCT);
            footer->elements = (struct text){start, (size_t)(reader.at - start)};
        } else if (field.id == 3 && field.type == THRIFT_I64) {
            footer->n_rows = thrift_read_integer(&reader);
        } else if (field.id == 4) {
            status = read_groups(footer, &reader, &field, name, error);
        } else if (field.id == 8) {
            return error_set(error, STATUS_REFUSE, ERROR_FILE,
                             "%s: is encrypted: sheaf reads no encrypted Parquet", name);
        } else {
            thrift_skip(&reader, field.type);
        }
    }
    if (status == STATUS_OK && reader.failed)
        return refuse_footer(name, "its footer", error);
    return status;
}

static enum status check_groups(const struct parquet_footer *footer, const char *name, struct error *error)
{
    int64_t n_rows = 0;
    struct parquet_chunk *chunks = calloc(footer->schema.n_leaves + 1, sizeof *chunks);
    enum status status = chunks ? STATUS_OK : refuse_memory(name, error);
    for (size_t i = 0; status == STATUS_OK && i < footer->n_groups; i++) {
        status = parquet_footer_chunks(footer, name, i, chunks, error);
        if (status == STATUS_OK && __builtin_add_overflow(n_rows, footer->groups[i].n_rows, &n_rows))
            status = refuse_footer(name, "too many rows", error);
    }
    free(chunks);
    if (status == STATUS_OK && n_rows != footer->n_rows)
        return refuse_footer(name, "its row groups have another number of rows than the file", error);
    return status;
}

static enum status read_tail(struct parquet_footer *footer, int fd, const char *name, struct error *error)
{
    struct stat about;
    char tail[TAIL_BYTES];
    size_t n;
    uint32_t size;
    if (fstat(fd, &about) != 0 || !parquet_read_at(fd, about.st_size - TAIL_BYTES, tail, TAIL_BYTES, &n))
        return about.st_size < TAIL_BYTES + MAGIC_BYTES
                   ? refuse_footer(name, "it is too short", error)
                   : error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: reading: %s", name, strerror(errno));
    if (memcmp(tail + 4, "PARE", MAGIC_BYTES) == 0)
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "%s: is encrypted: sheaf reads no encrypted Parquet", name);
    if (n < TAIL_BYTES || memcmp(tail + 4, "PAR1", MAGIC_BYTES) != 0)
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "%s: expected a Parquet file, which ends in PAR1: it is another file, or not whole",
                         name);
    memcpy(&size, tail, sizeof size);
    size = le32toh(size);
    footer->data_bytes = about.st_size - TAIL_BYTES - (int64_t)size;
    if (footer->data_bytes < MAGIC_BYTES)
        return refuse_footer(name, "its footer is larger than the file", error);
    if (size > PARQUET_FOOTER_BYTES_MAX)
        return refuse_footer(name, "its footer has more than 1 GiB", error);
    if (!buffer_reserve(&footer->bytes, size))
        return refuse_memory(name, error);
    if (!parquet_read_at(fd, footer->data_bytes, footer->bytes.data, size, &n) || n < size)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: reading its footer: %s", name,
                         n < size ? "it became shorter" : strerror(errno));
    footer->bytes.size = size;
    return STATUS_OK;
}

enum status parquet_footer_read(struct parquet_footer *footer, int fd, const char *name, struct error *error)
{
    *footer = (struct parquet_footer){0};
    enum status status = read_tail(footer, fd, name, error);
    if (status == STATUS_OK)
        status = read_fields(footer, name, error);
    if (status == STATUS_OK) {
        status =
            parquet_schema_read(&footer->schema, footer->elements, footer->n_elements, &footer->arena, error);
        if (status != STATUS_OK)
            error_prefix(error, "%s", name);
    }
    if (status == STATUS_OK)
        status = check_groups(footer, name, error);
    if (status != STATUS_OK)
        parquet_footer_finish(footer);
    return status;
}

void parquet_footer_finish(struct parquet_footer *footer)
{
    buffer_finish(&footer->bytes);
    arena_finish(&footer->arena);
    *footer = (struct parquet_footer){0};
}
