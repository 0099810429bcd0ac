#include "tests/unit/schemas/parquet/made_parquet.h"

#include "schemas/parquet/parquet_codec.h"
#include "schemas/parquet/parquet_text.h"
#include "schemas/parquet/thrift.h"

#include <endian.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void made_begin(struct made_file *file, int codec)
{
    *file = (struct made_file){.codec = codec};
    buffer_add_string(&file->bytes, "PAR1");
}

static void add_levels(struct buffer *body, struct text levels)
{
    uint32_t size = htole32((uint32_t)levels.size);
    buffer_add(body, &size, sizeof size);
    buffer_add_text(body, levels);
}

static void add_details(struct buffer *out, struct thrift_writer *header, const struct made_page *page)
{
    struct thrift_writer data = {out, 0};
    thrift_write_header(header, page->type == 0 ? 5 : page->type == 2 ? 7 : 8, THRIFT_STRUCT);
    thrift_write_integer(&data, 1, THRIFT_I32, page->n_values);
    if (page->type == 3) {
        thrift_write_integer(&data, 2, THRIFT_I32, 0);
        thrift_write_integer(&data, 3, THRIFT_I32, page->n_values);
        thrift_write_integer(&data, 4, THRIFT_I32, page->encoding);
        thrift_write_integer(&data, 5, THRIFT_I32, (int64_t)page->definition.size);
        thrift_write_integer(&data, 6, THRIFT_I32, (int64_t)page->repetition.size);
        if (page->is_uncompressed)
            thrift_write_header(&data, 7, THRIFT_FALSE);
    } else {
        thrift_write_integer(&data, 2, THRIFT_I32, page->encoding);
        thrift_write_integer(&data, 3, THRIFT_I32, 3);
        thrift_write_integer(&data, 4, THRIFT_I32, 3);
    }
    thrift_write_stop(&data);
}

void made_add(struct made_file *file, const struct made_page *page)
{
    struct buffer body = {0};
    struct thrift_writer header = {&file->bytes, 0};
    bool is_second = page->type == 3;
    if (is_second) {
        buffer_add_text(&body, page->repetition);
        buffer_add_text(&body, page->definition);
    } else {
        if (page->repetition.data)
            add_levels(&body, page->repetition);
        if (page->definition.data)
            add_levels(&body, page->definition);
    }
    buffer_add_text(&body, page->values);
    struct text stored = page->compressed.data ? page->compressed : (struct text){body.data, body.size};
    if (file->n_pages < 8)
        file->page_offsets[file->n_pages++] = (int64_t)file->bytes.size;
    thrift_write_integer(&header, 1, THRIFT_I32, page->type);
    thrift_write_integer(&header, 2, THRIFT_I32, page->plain_size ? page->plain_size : (int64_t)body.size);
    thrift_write_integer(&header, 3, THRIFT_I32, (int64_t)stored.size);
    if (page->has_crc || page->has_bad_crc)
        thrift_write_integer(&header, 4, THRIFT_I32,
                             (int32_t)(parquet_codec_crc(stored) + (uint32_t)page->has_bad_crc));
    add_details(&file->bytes, &header, page);
    thrift_write_stop(&header);
    buffer_add_text(&file->bytes, stored);
    file->n_values += page->type == 2 ? 0 : page->n_values;
    file->n_dictionary += page->type == 2;
    buffer_finish(&body);
}

static void add_group(struct buffer *out, const char *name, int repetition, int n_children, int converted)
{
    struct thrift_writer element = {out, 0};
    if (repetition >= 0)
        thrift_write_integer(&element, 3, THRIFT_I32, repetition);
    thrift_write_binary(&element, 4, text_from_string(name));
    thrift_write_integer(&element, 5, THRIFT_I32, n_children);
    if (converted >= 0)
        thrift_write_integer(&element, 6, THRIFT_I32, converted);
    thrift_write_stop(&element);
}

static void add_leaf(struct buffer *out, const char *name, const struct made_column *column)
{
    struct thrift_writer element = {out, 0}, logical = {out, 0};
    thrift_write_integer(&element, 1, THRIFT_I32, column->physical);
    if (column->type_length)
        thrift_write_integer(&element, 2, THRIFT_I32, column->type_length);
    thrift_write_integer(&element, 3, THRIFT_I32, !column->is_required);
    thrift_write_binary(&element, 4, text_from_string(name));
    if (column->converted)
        thrift_write_integer(&element, 6, THRIFT_I32, column->converted - 1);
    thrift_write_integer(&element, 7, THRIFT_I32, column->scale);
    thrift_write_integer(&element, 8, THRIFT_I32, column->precision);
    if (column->logical) {
        thrift_write_header(&element, 10, THRIFT_STRUCT);
        thrift_write_header(&logical, (int16_t)column->logical, THRIFT_STRUCT);
        buffer_add_text(out, column->logical_bytes);
        thrift_write_stop(&logical);
        thrift_write_stop(&logical);
    }
    thrift_write_stop(&element);
}

static void add_schema(struct buffer *out, struct thrift_writer *footer, const struct made_column *column)
{
    const char *name = column->name ? column->name : "a";
    thrift_write_list(footer, 2, THRIFT_STRUCT, column->is_list ? 4 : 2);
    add_group(out, "schema", -1, 1, -1);
    if (column->is_list) {
        add_group(out, name, 1, 1, 3);
        add_group(out, "list", 2, 1, -1);
    }
    add_leaf(out, column->is_list ? "element" : name, column);
}

static void add_chunk(struct buffer *out, const struct made_file *file, const struct made_column *column,
                      int64_t end)
{
    struct thrift_writer chunk = {out, 0}, data = {out, 0};
    thrift_write_integer(&chunk, 2, THRIFT_I64, 0);
    thrift_write_header(&chunk, 3, THRIFT_STRUCT);
    thrift_write_integer(&data, 1, THRIFT_I32, column->physical);
    thrift_write_list(&data, 3, THRIFT_BINARY, 1);
    thrift_add_binary(out, TEXT("a"));
    thrift_write_integer(&data, 4, THRIFT_I32, file->codec);
    thrift_write_integer(&data, 5, THRIFT_I64, file->n_values);
    thrift_write_integer(&data, 6, THRIFT_I64, end - 4);
    thrift_write_integer(&data, 7, THRIFT_I64, end - 4 + file->excess);
    thrift_write_integer(&data, 9, THRIFT_I64, file->n_dictionary ? file->page_offsets[1] : 4);
    if (file->n_dictionary)
        thrift_write_integer(&data, 11, THRIFT_I64, 4);
    thrift_write_stop(&data);
    thrift_write_stop(&chunk);
}

void made_end(struct made_file *file, const struct made_column *column, int64_t n_rows)
{
    struct buffer *out = &file->bytes;
    size_t start = out->size;
    struct thrift_writer footer = {out, 0};
    thrift_write_integer(&footer, 1, THRIFT_I32, 1);
    add_schema(out, &footer, column);
    int n_groups = file->n_groups ? file->n_groups : 1;
    thrift_write_integer(&footer, 3, THRIFT_I64, n_groups * n_rows);
    thrift_write_list(&footer, 4, THRIFT_STRUCT, (size_t)n_groups);
    for (int i = 0; i < n_groups; i++) {
        struct thrift_writer group = {out, 0};
        thrift_write_list(&group, 1, THRIFT_STRUCT, 1);
        add_chunk(out, file, column, (int64_t)start);
        thrift_write_integer(&group, 2, THRIFT_I64, (int64_t)start - 4);
        thrift_write_integer(&group, 3, THRIFT_I64, n_rows);
        thrift_write_stop(&group);
    }
    thrift_write_stop(&footer);
    uint32_t size = htole32((uint32_t)(out->size - start));
    buffer_add(out, &size, sizeof size);
    buffer_add_string(out, "PAR1");
}

void made_one(struct made_file *file, const struct made_column *column, const struct made_page *page,
              int64_t n_rows)
{
    made_begin(file, CODEC_NONE);
    made_add(file, page);
    made_end(file, column, n_rows);
}

// ---- reading ----

int made_descriptor(struct text bytes)
{
    int fd = memfd_create("parquet", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes.data, bytes.size) != (ssize_t)bytes.size)
        abort();
    return fd;
}

static void add_field(struct buffer *out, const struct value *field)
{
    if (field->kind == VALUE_NULL)
        buffer_add_byte(out, '~');
    else if (field->kind == VALUE_STRING)
        buffer_add_text(out, field->text);
    else if (field->kind == VALUE_ARRAY)
        parquet_list_text(field, out);
    else if (field->kind == VALUE_BYTES)
        for (size_t i = 0; i < field->text.size; i++)
            buffer_add_format(out, "%02x", (uint8_t)field->text.data[i]);
    else
        json_encode(field, out);
}

void made_read(struct text bytes, struct buffer *out)
{
    struct parquet_file *file = NULL;
    struct error error;
    struct value *fields = NULL;
    int fd = made_descriptor(bytes);
    buffer_clear(out);
    enum status status = parquet_file_open(&file, &(struct parquet_input){fd, "made"}, 1, &error);
    const struct parquet_schema *schema = status == STATUS_OK ? parquet_file_schema(file) : NULL;
    while (status == STATUS_OK && (status = parquet_file_next(file, &fields, &error)) == STATUS_OK &&
           fields) {
        for (size_t i = 0; i < schema->n_columns; i++) {
            buffer_add_string(out, i ? "|" : "");
            if (schema->columns[i].other[0])
                buffer_add_format(out, "?%s", schema->columns[i].other);
            else
                add_field(out, &fields[i]);
        }
        buffer_add_byte(out, '\n');
    }
    if (status != STATUS_OK)
        buffer_add_format(out, "! %s", error.text);
    buffer_add_string(out, "");
    parquet_file_close(file);
    close(fd);
}
