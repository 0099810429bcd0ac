#include "schemas/parquet/parquet_rewrite.h"

#include "schemas/parquet/thrift.h"

// Copies a field with its value.
static void copy_field(struct thrift_reader *reader, struct thrift_writer *writer,
                       const struct thrift_field *field)
{
    thrift_write_header(writer, field->id, field->type);
    buffer_add_text(writer->out, thrift_skip(reader, field->type));
}

// ---- a column chunk ----

// ColumnMetaData.
static void move_metadata(struct thrift_reader *reader, int64_t moved_by, struct buffer *out)
{
    struct thrift_field field = {0};
    struct thrift_writer writer = {out, 0};
    while (thrift_next_field(reader, &field)) {
        bool is_offset = field.type == THRIFT_I64 && field.id >= 9 && field.id <= 11;
        bool is_filter = field.id == 14 || field.id == 15;
        if (is_offset) {
            int64_t offset = thrift_read_integer(reader);
            thrift_write_integer(&writer, field.id, THRIFT_I64, offset > 0 ? offset + moved_by : offset);
        } else if (is_filter) {
            (void)thrift_skip(reader, field.type);
        } else {
            copy_field(reader, &writer, &field);
        }
    }
    thrift_write_stop(&writer);
}

void parquet_rewrite_chunk(const struct parquet_chunk *chunk, int64_t moved_by, struct buffer *out)
{
    struct thrift_reader reader = thrift_read_text(chunk->bytes);
    struct thrift_field field = {0};
    struct thrift_writer writer = {out, 0};
    thrift_write_integer(&writer, 2, THRIFT_I64, 0); // deprecated
    while (thrift_next_field(&reader, &field))
        if (field.id == 3 && field.type == THRIFT_STRUCT) {
            thrift_write_header(&writer, 3, THRIFT_STRUCT);
            move_metadata(&reader, moved_by, out);
        } else if (field.id >= 2 && field.id <= 7) { // file_offset, the places of page indexes
            (void)thrift_skip(&reader, field.type);
        } else {
            copy_field(&reader, &writer, &field);
        }
    thrift_write_stop(&writer);
}

// ---- a row group ----

void parquet_rewrite_group(const struct parquet_group *group, const struct parquet_added *added,
                           struct buffer *out)
{
    struct thrift_reader reader = thrift_read_text(group->bytes);
    struct thrift_field field = {0};
    struct thrift_writer writer = {out, 0};
    while (thrift_next_field(&reader, &field)) {
        bool is_integer = field.type == THRIFT_I64;
        if (field.id == 1) {
            (void)thrift_skip(&reader, field.type);
            thrift_write_list(&writer, 1, THRIFT_STRUCT, added->n_chunks);
            buffer_add_text(out, added->chunks);
        } else if (is_integer && (field.id == 2 || field.id == 6)) {
            int64_t bytes = field.id == 2 ? added->plain_bytes : added->packed_bytes;
            thrift_write_integer(&writer, field.id, THRIFT_I64,
                                 (int64_t)((uint64_t)thrift_read_integer(&reader) + (uint64_t)bytes));
        } else if (is_integer && field.id == 5) {
            (void)thrift_read_integer(&reader);
            thrift_write_integer(&writer, 5, THRIFT_I64, added->offset);
        } else if (field.id == 7) { // ordinal, which differs among several inputs
            (void)thrift_skip(&reader, field.type);
        } else {
            copy_field(&reader, &writer, &field);
        }
    }
    thrift_write_stop(&writer);
}

// ---- the file ----

// The root has more children.
static void write_schema(const struct parquet_footer *footer, const struct parquet_added *added,
                         struct thrift_writer *writer)
{
    struct thrift_reader reader = thrift_read_text(footer->elements);
    struct thrift_field field = {0};
    struct thrift_writer root = {writer->out, 0};
    thrift_write_list(writer, 2, THRIFT_STRUCT, footer->n_elements + added->n_columns);
    while (thrift_next_field(&reader, &field))
        if (field.id == 5)
            (void)thrift_skip(&reader, field.type);
        else
            copy_field(&reader, &root, &field);
    thrift_write_integer(&root, 5, THRIFT_I32, (int64_t)(footer->schema.n_columns + added->n_columns));
    thrift_write_stop(&root);
    buffer_add_text(writer->out, (struct text){reader.at, (size_t)(reader.end - reader.at)});
    buffer_add_text(writer->out, added->elements);
}

static const char arrow_key[] = "ARROW:schema";

static bool is_schema_copy(struct text key)
{
    static const char *const keys[] = {arrow_key, "org.apache.spark.sql.parquet.row.metadata",
                                       "parquet.avro.schema", "avro.schema", "iceberg.schema"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (text_equals_string(key, keys[i]))
            return true;
    return false;
}

struct key_value {
    struct text key, value;
};

static struct key_value read_pair(struct text bytes)
{
    struct thrift_reader reader = thrift_read_text(bytes);
    struct thrift_field field = {0};
    struct key_value pair = {0};
    while (thrift_next_field(&reader, &field))
        if (field.id == 1 && field.type == THRIFT_BINARY)
            pair.key = thrift_read_binary(&reader);
        else if (field.id == 2 && field.type == THRIFT_BINARY)
            pair.value = thrift_read_binary(&reader);
        else
            (void)thrift_skip(&reader, field.type);
    return pair;
}

// Whether a list of structs follows. The reader of the file has not checked the lists that it does not need.
static bool begins_structs(const struct thrift_reader *reader, const struct thrift_field *field)
{
    struct thrift_reader ahead = *reader;
    (void)thrift_read_structs(&ahead, field);
    return !ahead.failed;
}

static struct text find_value(struct thrift_reader *reader, const struct thrift_field *field, const char *key)
{
    size_t n = thrift_read_structs(reader, field);
    struct text found = {0};
    for (size_t i = 0; i < n; i++) {
        struct key_value pair = read_pair(thrift_skip(reader, THRIFT_STRUCT));
        if (text_equals_string(pair.key, key))
            found = pair.value;
    }
    return found;
}

struct text parquet_rewrite_metadata(const struct parquet_footer *footer, const char *key)
{
    struct thrift_reader reader = {footer->bytes.data, footer->bytes.data + footer->bytes.size, false};
    struct thrift_field field = {0};
    while (thrift_next_field(&reader, &field)) {
        if (field.id == 5 && begins_structs(&reader, &field))
            return find_value(&reader, &field, key);
        (void)thrift_skip(&reader, field.type);
    }
    return (struct text){0};
}

// The list of KeyValue without copies of the schema, but with the Arrow schema of the file.
static void write_pairs(struct thrift_reader *reader, const struct thrift_field *field,
                        struct text arrow_schema, struct thrift_writer *writer)
{
    size_t n = thrift_read_structs(reader, field), n_kept = arrow_schema.size != 0;
    struct thrift_reader first = *reader;
    for (size_t i = 0; i < n; i++)
        n_kept += !is_schema_copy(read_pair(thrift_skip(&first, THRIFT_STRUCT)).key);
    thrift_write_list(writer, field->id, THRIFT_STRUCT, n_kept);
    for (size_t i = 0; i < n; i++) {
        struct text pair = thrift_skip(reader, THRIFT_STRUCT);
        if (!is_schema_copy(read_pair(pair).key))
            buffer_add_text(writer->out, pair);
    }
    if (arrow_schema.size) {
        struct thrift_writer added = {writer->out, 0};
        thrift_write_binary(&added, 1, text_from_string(arrow_key));
        thrift_write_binary(&added, 2, arrow_schema);
        thrift_write_stop(&added);
    }
}

// The list of ColumnOrder, with TypeDefinedOrder for the new columns.
static void write_orders(struct thrift_reader *reader, const struct thrift_field *field, size_t n_added,
                         struct thrift_writer *writer)
{
    size_t n = thrift_read_structs(reader, field);
    thrift_write_list(writer, field->id, THRIFT_STRUCT, n + n_added);
    for (size_t i = 0; i < n; i++)
        buffer_add_text(writer->out, thrift_skip(reader, THRIFT_STRUCT));
    for (size_t i = 0; i < n_added; i++) {
        struct thrift_writer order = {writer->out, 0}, defined = {writer->out, 0};
        thrift_write_header(&order, 1, THRIFT_STRUCT);
        thrift_write_stop(&defined);
        thrift_write_stop(&order);
    }
}

void parquet_rewrite_footer(const struct parquet_footer *footer, const struct parquet_added *added,
                            struct text groups, struct buffer *out)
{
    struct thrift_reader reader = {footer->bytes.data, footer->bytes.data + footer->bytes.size, false};
    struct thrift_field field = {0};
    struct thrift_writer writer = {out, 0};
    while (thrift_next_field(&reader, &field)) {
        if (field.id == 2) {
            (void)thrift_skip(&reader, field.type);
            write_schema(footer, added, &writer);
        } else if (field.id == 3 && field.type == THRIFT_I64) {
            (void)thrift_read_integer(&reader);
            thrift_write_integer(&writer, 3, THRIFT_I64, added->n_rows);
        } else if (field.id == 4) {
            (void)thrift_skip(&reader, field.type);
            thrift_write_list(&writer, 4, THRIFT_STRUCT, added->n_groups);
            buffer_add_text(out, groups);
        } else if (field.id == 5 && begins_structs(&reader, &field)) {
            write_pairs(&reader, &field, added->arrow_schema, &writer);
        } else if (field.id == 7 && begins_structs(&reader, &field)) {
            write_orders(&reader, &field, added->n_columns, &writer);
        } else if (field.id == 5 || field.id == 7) {
            (void)thrift_skip(&reader, field.type);
        } else {
            copy_field(&reader, &writer, &field);
        }
    }
    thrift_write_stop(&writer);
}
