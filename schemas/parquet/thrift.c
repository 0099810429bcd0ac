#include "schemas/parquet/thrift.h"

struct thrift_reader thrift_read_text(struct text text)
{
    const char *data = text.data ? text.data : "";
    return (struct thrift_reader){data, data + text.size, false};
}

static void fail(struct thrift_reader *reader)
{
    reader->failed = true;
    reader->at = reader->end;
}

static uint8_t read_byte(struct thrift_reader *reader)
{
    if (reader->at == reader->end) {
        fail(reader);
        return 0;
    }
    return (uint8_t)*reader->at++;
}

static struct text read_bytes(struct thrift_reader *reader, uint64_t n)
{
    struct text bytes = {reader->at, 0};
    if (n > (uint64_t)(reader->end - reader->at)) {
        fail(reader);
        return bytes;
    }
    bytes.size = (size_t)n;
    reader->at += n;
    return bytes;
}

uint64_t thrift_read_varint(struct thrift_reader *reader)
{
    uint64_t integer = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = read_byte(reader);
        integer |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return integer;
    }
    fail(reader);
    return 0;
}

int64_t thrift_read_integer(struct thrift_reader *reader)
{
    uint64_t zigzag = thrift_read_varint(reader);
    return (int64_t)((zigzag >> 1) ^ (0 - (zigzag & 1)));
}

int32_t thrift_read_i32(struct thrift_reader *reader)
{
    int64_t integer = thrift_read_integer(reader);
    if (integer == (int32_t)integer)
        return (int32_t)integer;
    fail(reader);
    return 0;
}

bool thrift_next_field(struct thrift_reader *reader, struct thrift_field *field)
{
    uint8_t byte = read_byte(reader);
    unsigned delta = byte >> 4;
    field->type = (enum thrift_type)(byte & 15);
    if (reader->failed || field->type == THRIFT_STOP)
        return false;
    int64_t id = delta ? field->id + (int64_t)delta : thrift_read_integer(reader);
    if (id != (int16_t)id || field->type > THRIFT_UUID)
        fail(reader);
    field->id = (int16_t)id;
    return !reader->failed;
}

struct text thrift_read_binary(struct thrift_reader *reader)
{
    return read_bytes(reader, thrift_read_varint(reader));
}

// Short lists have their length in the high half of the first byte, others 15 there.
size_t thrift_read_list(struct thrift_reader *reader, enum thrift_type *element)
{
    uint8_t byte = read_byte(reader);
    uint64_t n = byte >> 4;
    if (n == 15)
        n = thrift_read_varint(reader);
    *element = (enum thrift_type)(byte & 15);
    if (n > (uint64_t)(reader->end - reader->at)) {
        fail(reader);
        return 0;
    }
    return (size_t)n;
}

size_t thrift_read_structs(struct thrift_reader *reader, const struct thrift_field *field)
{
    enum thrift_type element = THRIFT_STOP;
    size_t n = field->type == THRIFT_LIST ? thrift_read_list(reader, &element) : 0;
    if (field->type == THRIFT_LIST && (element == THRIFT_STRUCT || n == 0))
        return n;
    fail(reader);
    return 0;
}

// ---- skipping ----

static void skip_value(struct thrift_reader *reader, enum thrift_type type, bool is_element, int depth);

static void skip_list(struct thrift_reader *reader, int depth)
{
    enum thrift_type element;
    size_t n = thrift_read_list(reader, &element);
    for (size_t i = 0; i < n && !reader->failed; i++)
        skip_value(reader, element, true, depth);
}

static void skip_map(struct thrift_reader *reader, int depth)
{
    uint64_t n = thrift_read_varint(reader);
    uint8_t types = n ? read_byte(reader) : 0;
    for (uint64_t i = 0; i < n && !reader->failed; i++) {
        skip_value(reader, (enum thrift_type)(types >> 4), true, depth);
        skip_value(reader, (enum thrift_type)(types & 15), true, depth);
    }
}

// Recursive, THRIFT_DEPTH_MAX deep.
static void skip_value(struct thrift_reader *reader, enum thrift_type type, bool is_element, int depth)
{
    struct thrift_field field = {0};
    if (depth > THRIFT_DEPTH_MAX || type == THRIFT_STOP || type > THRIFT_UUID)
        fail(reader);
    else if (type <= THRIFT_BYTE)
        (void)read_bytes(reader, is_element || type == THRIFT_BYTE);
    else if (type <= THRIFT_I64)
        (void)thrift_read_varint(reader);
    else if (type == THRIFT_DOUBLE || type == THRIFT_UUID)
        (void)read_bytes(reader, type == THRIFT_UUID ? 16 : 8);
    else if (type == THRIFT_BINARY)
        (void)thrift_read_binary(reader);
    else if (type == THRIFT_LIST || type == THRIFT_SET)
        skip_list(reader, depth + 1);
    else if (type == THRIFT_MAP)
        skip_map(reader, depth + 1);
    else
        while (thrift_next_field(reader, &field))
            skip_value(reader, field.type, false, depth + 1);
}

struct text thrift_skip(struct thrift_reader *reader, enum thrift_type type)
{
    const char *start = reader->at;
    skip_value(reader, type, false, 0);
    return (struct text){start, (size_t)(reader->at - start)};
}

struct text thrift_skip_element(struct thrift_reader *reader, enum thrift_type type)
{
    const char *start = reader->at;
    skip_value(reader, type, true, 0);
    return (struct text){start, (size_t)(reader->at - start)};
}

// ---- writing ----

void thrift_add_varint(struct buffer *out, uint64_t integer)
{
    for (; integer >= 0x80; integer >>= 7)
        buffer_add_byte(out, (char)(integer | 0x80));
    buffer_add_byte(out, (char)integer);
}

void thrift_add_integer(struct buffer *out, int64_t integer)
{
    thrift_add_varint(out, ((uint64_t)integer << 1) ^ (uint64_t)(integer >> 63));
}

void thrift_add_binary(struct buffer *out, struct text text)
{
    thrift_add_varint(out, text.size);
    buffer_add_text(out, text);
}

void thrift_write_header(struct thrift_writer *writer, int16_t id, enum thrift_type type)
{
    int delta = id - writer->last_id;
    if (delta > 0 && delta <= 15) {
        buffer_add_byte(writer->out, (char)((unsigned)delta << 4 | type));
    } else {
        buffer_add_byte(writer->out, (char)type);
        thrift_add_integer(writer->out, id);
    }
    writer->last_id = id;
}

void thrift_write_integer(struct thrift_writer *writer, int16_t id, enum thrift_type type, int64_t integer)
{
    thrift_write_header(writer, id, type);
    thrift_add_integer(writer->out, integer);
}

void thrift_write_binary(struct thrift_writer *writer, int16_t id, struct text text)
{
    thrift_write_header(writer, id, THRIFT_BINARY);
    thrift_add_binary(writer->out, text);
}

void thrift_write_list(struct thrift_writer *writer, int16_t id, enum thrift_type element, size_t n)
{
    thrift_write_header(writer, id, THRIFT_LIST);
    buffer_add_byte(writer->out, (char)((n < 15 ? n : 15) << 4 | element));
    if (n >= 15)
        thrift_add_varint(writer->out, n);
}

void thrift_write_stop(struct thrift_writer *writer)
{
    buffer_add_byte(writer->out, THRIFT_STOP);
}
