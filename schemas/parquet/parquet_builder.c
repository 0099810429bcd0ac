#include "schemas/parquet/parquet_builder.h"

#include "schemas/base/base64.h"
#include "schemas/parquet/parquet_codec.h"
#include "schemas/parquet/parquet_pages.h"
#include "schemas/parquet/thrift.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static enum status refuse_memory(const struct parquet_builder *builder, struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "writing column \"%.*s\"", (int)builder->name.size,
                        builder->name.data);
}

void parquet_builder_finish(struct parquet_builder *builder)
{
    buffer_finish(&builder->levels);
    buffer_finish(&builder->values);
    buffer_finish(&builder->bytes);
    buffer_finish(&builder->json);
    free(builder->pages);
    builder->pages = NULL;
}

void parquet_builder_reset(struct parquet_builder *builder)
{
    builder->n_pages = 0;
    builder->n_values = builder->n_nulls = builder->plain_bytes = builder->packed_bytes = 0;
}

// ---- pages ----

static bool write_all(int fd, int64_t offset, const char *bytes, size_t size)
{
    while (size) {
        ssize_t n = pwrite(fd, bytes, size, offset);
        if (n < 0 && errno != EINTR)
            return false;
        bytes += n > 0 ? n : 0;
        offset += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool note_page(struct parquet_builder *builder, struct parquet_extent page)
{
    if (builder->n_pages == builder->capacity) {
        size_t capacity = builder->capacity ? 2 * builder->capacity : 16;
        struct parquet_extent *pages = realloc(builder->pages, capacity * sizeof *pages);
        if (!pages)
            return false;
        builder->pages = pages;
        builder->capacity = capacity;
    }
    builder->pages[builder->n_pages++] = page;
    return true;
}

static enum status spool_bytes(struct parquet_builder *builder, struct text bytes,
                               struct parquet_spool *spool, struct error *error)
{
    if (!write_all(spool->fd, spool->size, bytes.data, bytes.size))
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "a temporary file for column \"%.*s\": writing: %s", (int)builder->name.size,
                         builder->name.data, strerror(errno));
    if (!note_page(builder, (struct parquet_extent){spool->size, (int64_t)bytes.size}))
        return refuse_memory(builder, error);
    spool->size += (int64_t)bytes.size;
    builder->packed_bytes += (int64_t)bytes.size;
    return STATUS_OK;
}

static void end_run(struct parquet_builder *builder)
{
    if (!builder->n_equal)
        return;
    thrift_add_varint(&builder->levels, builder->n_equal << 1);
    buffer_add_byte(&builder->levels, builder->is_defined);
    builder->n_equal = 0;
}

// PageHeader of a data page of version 1.
static void write_header(const struct parquet_builder *builder, size_t plain_size, struct text packed,
                         struct buffer *out)
{
    struct thrift_writer header = {out, 0}, data = {out, 0};
    thrift_write_integer(&header, 1, THRIFT_I32, 0);
    thrift_write_integer(&header, 2, THRIFT_I32, (int64_t)plain_size);
    thrift_write_integer(&header, 3, THRIFT_I32, (int64_t)packed.size);
    thrift_write_integer(&header, 4, THRIFT_I32, (int32_t)parquet_codec_crc(packed));
    thrift_write_header(&header, 5, THRIFT_STRUCT);
    thrift_write_integer(&data, 1, THRIFT_I32, builder->n_page);
    thrift_write_integer(&data, 2, THRIFT_I32, ENCODING_PLAIN);
    thrift_write_integer(&data, 3, THRIFT_I32, ENCODING_RLE);
    thrift_write_integer(&data, 4, THRIFT_I32, ENCODING_RLE);
    thrift_write_stop(&data);
    thrift_write_stop(&header);
}

static enum status end_page(struct parquet_builder *builder, struct parquet_spool *spool, struct error *error)
{
    struct buffer plain = {0}, packed = {0};
    if (builder->n_bits)
        buffer_add_byte(&builder->values, (char)builder->bits);
    end_run(builder);
    uint32_t size = htole32((uint32_t)builder->levels.size);
    buffer_add(&plain, &size, sizeof size);
    buffer_add(&plain, builder->levels.data, builder->levels.size);
    buffer_add(&plain, builder->values.data, builder->values.size);
    if (!plain.failed && !builder->levels.failed && !builder->values.failed)
        parquet_codec_shrink_snappy((struct text){plain.data, plain.size}, &packed);
    buffer_clear(&builder->bytes);
    enum status status = STATUS_OK;
    if (plain.failed || builder->levels.failed || builder->values.failed || packed.failed) {
        status = refuse_memory(builder, error);
    } else {
        write_header(builder, plain.size, (struct text){packed.data, packed.size}, &builder->bytes);
        builder->plain_bytes += (int64_t)(builder->bytes.size + plain.size);
        buffer_add(&builder->bytes, packed.data, packed.size);
        status =
            builder->bytes.failed
                ? refuse_memory(builder, error)
                : spool_bytes(builder, (struct text){builder->bytes.data, builder->bytes.size}, spool, error);
    }
    buffer_finish(&plain);
    buffer_finish(&packed);
    buffer_clear(&builder->levels);
    buffer_clear(&builder->values);
    builder->n_page = 0;
    builder->bits = 0;
    builder->n_bits = 0;
    return status;
}

enum status parquet_builder_flush(struct parquet_builder *builder, struct parquet_spool *spool,
                                  struct error *error)
{
    return builder->n_page || !builder->n_pages ? end_page(builder, spool, error) : STATUS_OK;
}

// ---- values ----

static void add_text(struct parquet_builder *builder, struct text text)
{
    uint32_t size = htole32((uint32_t)text.size);
    buffer_add(&builder->values, &size, sizeof size);
    buffer_add_text(&builder->values, text);
}

static void add_repaired(struct buffer *out, struct text text)
{
    for (size_t i = 0; i < text.size;) {
        uint32_t codepoint;
        bool unfinished;
        size_t n = utf8_decode(text.data + i, text.size - i, &codepoint);
        if (n)
            buffer_add(out, text.data + i, n);
        else
            buffer_add_string(out, "\xEF\xBF\xBD");
        i += n ? n : utf8_bad_length(text.data + i, text.size - i, &unfinished);
    }
}

static void add_as_text(struct parquet_builder *builder, const struct value *value)
{
    if (value->kind == VALUE_STRING && utf8_valid(value->text.data, value->text.size)) {
        add_text(builder, value->text);
        return;
    }
    buffer_clear(&builder->json);
    if (value->kind == VALUE_STRING)
        add_repaired(&builder->json, value->text);
    else if (value->kind == VALUE_BYTES)
        base64_encode(value->text, &builder->json);
    else
        json_encode(value, &builder->json);
    builder->values.failed |= builder->json.failed;
    add_text(builder, (struct text){builder->json.data ? builder->json.data : "", builder->json.size});
}

static void add_bit(struct parquet_builder *builder, bool bit)
{
    builder->bits |= (uint8_t)(bit << builder->n_bits++);
    if (builder->n_bits < 8)
        return;
    buffer_add_byte(&builder->values, (char)builder->bits);
    builder->bits = 0;
    builder->n_bits = 0;
}

static bool add_number(struct parquet_builder *builder, const struct value *value)
{
    double number = value->kind == VALUE_INTEGER ? (double)value->integer : value->number;
    uint64_t bits;
    if (value->kind != VALUE_INTEGER && value->kind != VALUE_FLOAT)
        return false;
    memcpy(&bits, &number, sizeof bits);
    bits = htole64(bits);
    buffer_add(&builder->values, &bits, sizeof bits);
    return true;
}

// False: the type can't hold the value.
static bool add_value(struct parquet_builder *builder, const struct value *value)
{
    int64_t integer;
    uint64_t bits;
    switch (builder->type) {
    case WRITTEN_INTEGER:
        if (!value_whole_number(value, &integer))
            return false;
        bits = htole64((uint64_t)integer);
        buffer_add(&builder->values, &bits, sizeof bits);
        return true;
    case WRITTEN_NUMBER:
        return add_number(builder, value);
    case WRITTEN_BOOLEAN:
        if (value->kind != VALUE_BOOL)
            return false;
        add_bit(builder, value->boolean);
        return true;
    default:
        add_as_text(builder, value);
        return true;
    }
}

enum status parquet_builder_add(struct parquet_builder *builder, const struct value *value,
                                struct parquet_spool *spool, struct error *error)
{
    bool is_given = value && value->kind != VALUE_NULL, is_defined = is_given && add_value(builder, value);
    builder->n_unfit += is_given && !is_defined;
    if (builder->n_equal && builder->is_defined != is_defined)
        end_run(builder);
    builder->is_defined = is_defined;
    builder->n_equal++;
    builder->n_page++;
    builder->n_values++;
    builder->n_nulls += !is_defined;
    bool is_full = builder->values.size + builder->levels.size >= PARQUET_OUTPUT_PAGE_BYTES ||
                   builder->n_page >= PARQUET_OUTPUT_GROUP_ROWS;
    return is_full ? end_page(builder, spool, error) : STATUS_OK;
}

// ---- metadata ----

static int32_t physical_of(enum parquet_written type)
{
    return type == WRITTEN_INTEGER   ? PHYSICAL_INT64
           : type == WRITTEN_NUMBER  ? PHYSICAL_DOUBLE
           : type == WRITTEN_BOOLEAN ? PHYSICAL_BOOLEAN
                                     : PHYSICAL_BYTE_ARRAY;
}

void parquet_builder_write_element(const struct parquet_builder *builder, struct buffer *out)
{
    struct thrift_writer element = {out, 0}, logical = {out, 0}, text = {out, 0};
    thrift_write_integer(&element, 1, THRIFT_I32, physical_of(builder->type));
    thrift_write_integer(&element, 3, THRIFT_I32, 1); // OPTIONAL
    thrift_write_binary(&element, 4, builder->name);
    if (builder->type == WRITTEN_TEXT) {
        thrift_write_integer(&element, 6, THRIFT_I32, 0); // UTF8
        thrift_write_header(&element, 10, THRIFT_STRUCT);
        thrift_write_header(&logical, 1, THRIFT_STRUCT); // STRING
        thrift_write_stop(&text);
        thrift_write_stop(&logical);
    }
    thrift_write_stop(&element);
}

void parquet_builder_write_chunk(const struct parquet_builder *builder, int64_t offset, struct buffer *out)
{
    struct thrift_writer chunk = {out, 0}, data = {out, 0}, statistics = {out, 0};
    thrift_write_integer(&chunk, 2, THRIFT_I64, 0); // deprecated
    thrift_write_header(&chunk, 3, THRIFT_STRUCT);
    thrift_write_integer(&data, 1, THRIFT_I32, physical_of(builder->type));
    thrift_write_list(&data, 2, THRIFT_I32, 2);
    thrift_add_integer(out, ENCODING_PLAIN);
    thrift_add_integer(out, ENCODING_RLE);
    thrift_write_list(&data, 3, THRIFT_BINARY, 1);
    thrift_add_binary(out, builder->name);
    thrift_write_integer(&data, 4, THRIFT_I32, CODEC_SNAPPY);
    thrift_write_integer(&data, 5, THRIFT_I64, builder->n_values);
    thrift_write_integer(&data, 6, THRIFT_I64, builder->plain_bytes);
    thrift_write_integer(&data, 7, THRIFT_I64, builder->packed_bytes);
    thrift_write_integer(&data, 9, THRIFT_I64, offset);
    thrift_write_header(&data, 12, THRIFT_STRUCT);
    thrift_write_integer(&statistics, 3, THRIFT_I64, builder->n_nulls);
    thrift_write_stop(&statistics);
    thrift_write_stop(&data);
    thrift_write_stop(&chunk);
}
