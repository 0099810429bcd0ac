#include "schemas/parquet/arrow_schema.h"

#include "schemas/base/base64.h"

#include <endian.h>
#include <string.h>

enum {
    CONTINUATION_BYTES = 4, // absent before Arrow 0.15
    HEADER_SCHEMA = 1,      // of union MessageHeader
    TYPE_INT = 2,           // of union Type
    TYPE_FLOATING_POINT = 3,
    TYPE_UTF8 = 5,
    TYPE_BOOL = 6,
    PRECISION_DOUBLE = 2,
    MESSAGE_ALIGNMENT = 8,
};

// ---- reading ----

// Reads a little-endian integer of 2 or 4 bytes. False: it is outside.
static bool read_integer(struct text bytes, size_t at, size_t size, uint32_t *integer)
{
    uint8_t raw[4] = {0};
    if (at > bytes.size || bytes.size - at < size)
        return false;
    memcpy(raw, bytes.data + at, size);
    *integer = (uint32_t)raw[0] | (uint32_t)raw[1] << 8 | (uint32_t)raw[2] << 16 | (uint32_t)raw[3] << 24;
    return true;
}

// Follows the offset at `at`. 0: it is outside.
static size_t follow(struct text bytes, size_t at)
{
    uint32_t offset;
    bool is_inside = read_integer(bytes, at, 4, &offset) && offset && offset < bytes.size - at;
    return is_inside ? at + offset : 0;
}

// The place of a table's field; 0: the table lacks it, or is damaged.
static size_t find_field(struct text bytes, size_t table, size_t field)
{
    uint32_t back, size, offset;
    if (!table || !read_integer(bytes, table, 4, &back))
        return 0;
    int64_t vtable = (int64_t)table - (int32_t)back;
    if (vtable < 0 || !read_integer(bytes, (size_t)vtable, 2, &size) || size < 2 * field + 6 ||
        !read_integer(bytes, (size_t)vtable + 4 + 2 * field, 2, &offset) || !offset)
        return 0;
    return table + offset < bytes.size ? table + offset : 0;
}

static size_t follow_field(struct text bytes, size_t table, size_t field)
{
    size_t at = find_field(bytes, table, field);
    return at ? follow(bytes, at) : 0;
}

struct old_schema {
    struct text message;
    uint32_t version, endianness;
    size_t fields, metadata, features; // places of vectors; 0: none
};

static bool read_message(struct text bytes, struct text *message)
{
    uint32_t size;
    size_t start = 0;
    if (!read_integer(bytes, 0, 4, &size))
        return false;
    if (size == UINT32_MAX)
        start = CONTINUATION_BYTES;
    if (!read_integer(bytes, start, 4, &size) || size > bytes.size - start - 4)
        return false;
    *message = (struct text){bytes.data + start + 4, size};
    return true;
}

static bool read_schema(struct text bytes, size_t n_fields, struct old_schema *old)
{
    uint32_t n = 0, type = 0;
    *old = (struct old_schema){0};
    if (!read_message(bytes, &old->message))
        return false;
    size_t root = follow(old->message, 0), kind = find_field(old->message, root, 1);
    size_t version = find_field(old->message, root, 0), schema = follow_field(old->message, root, 2);
    if (!kind || !read_integer(old->message, kind, 1, &type) || type != HEADER_SCHEMA || !schema ||
        (version && !read_integer(old->message, version, 2, &old->version)))
        return false;
    size_t endianness = find_field(old->message, schema, 0);
    old->fields = follow_field(old->message, schema, 1);
    old->metadata = follow_field(old->message, schema, 2);
    old->features = follow_field(old->message, schema, 3);
    if (endianness && !read_integer(old->message, endianness, 2, &old->endianness))
        return false;
    bool has_fields = old->fields && read_integer(old->message, old->fields, 4, &n) && n == n_fields;
    for (size_t i = 0; has_fields && i < n; i++)
        has_fields = follow(old->message, old->fields + 4 + 4 * i) != 0;
    return has_fields;
}

// ---- writing ----

static void add_integer(struct buffer *out, size_t size, uint32_t integer)
{
    uint32_t raw = htole32(integer);
    buffer_add(out, &raw, size);
}

static void pad(struct buffer *out, size_t alignment)
{
    while (!out->failed && out->size % alignment)
        buffer_add_byte(out, 0);
}

// Sets the offset at `at`, which points to `target`.
static void point(struct buffer *out, size_t at, size_t target)
{
    uint32_t offset = htole32((uint32_t)(target - at));
    if (!out->failed)
        memcpy(out->data + at, &offset, sizeof offset);
}

// Adds a vtable, then the first four bytes of its table of `size` bytes. offsets: [n_fields], 0: a field that is absent.
static size_t begin_table(struct buffer *out, uint32_t size, const uint16_t *offsets, size_t n_fields)
{
    size_t vtable = out->size;
    add_integer(out, 2, (uint32_t)(4 + 2 * n_fields));
    add_integer(out, 2, size);
    for (size_t i = 0; i < n_fields; i++)
        add_integer(out, 2, offsets[i]);
    pad(out, 4);
    size_t table = out->size;
    add_integer(out, 4, (uint32_t)(table - vtable));
    return table;
}

static size_t add_type(struct buffer *out, enum parquet_written written)
{
    static const uint16_t int_offsets[] = {4, 8}, float_offsets[] = {4}; // bitWidth, is_signed; precision
    if (written == WRITTEN_INTEGER) {
        size_t table = begin_table(out, 12, int_offsets, 2);
        add_integer(out, 4, 64);
        add_integer(out, 4, true);
        return table;
    }
    if (written == WRITTEN_NUMBER) {
        size_t table = begin_table(out, 8, float_offsets, 1);
        add_integer(out, 4, PRECISION_DOUBLE);
        return table;
    }
    return begin_table(out, 4, NULL, 0);
}

static size_t add_field(struct buffer *out, const struct parquet_new_column *column)
{
    // name, nullable, type_type, type, dictionary, children
    static const uint16_t offsets[] = {4, 16, 17, 8, 0, 12};
    static const uint8_t types[] = {
        [WRITTEN_TEXT] = TYPE_UTF8,
        [WRITTEN_INTEGER] = TYPE_INT,
        [WRITTEN_NUMBER] = TYPE_FLOATING_POINT,
        [WRITTEN_BOOLEAN] = TYPE_BOOL,
    };
    size_t table = begin_table(out, 20, offsets, sizeof offsets / sizeof *offsets);
    for (int i = 0; i < 3; i++)
        add_integer(out, 4, 0);
    add_integer(out, 1, true);
    add_integer(out, 1, types[column->type]);
    pad(out, 4);
    point(out, table + 4, out->size);
    add_integer(out, 4, (uint32_t)column->name.size);
    buffer_add_text(out, column->name);
    buffer_add_byte(out, 0);
    pad(out, 4);
    point(out, table + 12, out->size);
    add_integer(out, 4, 0);
    point(out, table + 8, add_type(out, column->type));
    return table;
}

// Adds the root, Message and Schema. Returns the Schema, whose offsets of fields, metadata and features are at 4, 8, 12.
static size_t add_schema(struct buffer *out, const struct old_schema *old)
{
    static const uint16_t message_offsets[] = {8, 10, 4}; // version, header_type, header
    const uint16_t offsets[] = {16, 4, old->metadata ? 8 : 0, old->features ? 12 : 0};
    add_integer(out, 4, 0);
    size_t message = begin_table(out, 12, message_offsets, 3);
    point(out, 0, message);
    add_integer(out, 4, 0);
    add_integer(out, 2, old->version);
    add_integer(out, 1, HEADER_SCHEMA);
    pad(out, 4);
    size_t schema = begin_table(out, 20, offsets, 4);
    point(out, message + 4, schema);
    for (int i = 0; i < 3; i++)
        add_integer(out, 4, 0);
    add_integer(out, 4, old->endianness);
    return schema;
}

static void add_message(struct buffer *out, const struct old_schema *old, size_t n_fields,
                        const struct parquet_new_column *columns, size_t n_columns)
{
    size_t schema = add_schema(out, old), fields = out->size, n = n_fields + n_columns;
    point(out, schema + 4, fields);
    add_integer(out, 4, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        add_integer(out, 4, 0);
    for (size_t i = 0; i < n_columns; i++)
        point(out, fields + 4 + 4 * (n_fields + i), add_field(out, &columns[i]));
    pad(out, MESSAGE_ALIGNMENT);
    size_t base = out->size;
    buffer_add_text(out, old->message);
    pad(out, MESSAGE_ALIGNMENT);
    for (size_t i = 0; i < n_fields; i++)
        point(out, fields + 4 + 4 * i, base + follow(old->message, old->fields + 4 + 4 * i));
    if (old->metadata)
        point(out, schema + 8, base + old->metadata);
    if (old->features)
        point(out, schema + 12, base + old->features);
}

void arrow_schema_extend(struct text schema, size_t n_fields, const struct parquet_new_column *columns,
                         size_t n_columns, struct buffer *out)
{
    struct buffer bytes = {0}, message = {.size_max = ARROW_MESSAGE_BYTES_MAX}, framed = {0};
    struct old_schema old;
    if (base64_decode(schema, &bytes) && read_schema((struct text){bytes.data, bytes.size}, n_fields, &old)) {
        add_message(&message, &old, n_fields, columns, n_columns);
        add_integer(&framed, 4, UINT32_MAX);
        add_integer(&framed, 4, (uint32_t)message.size);
        buffer_add(&framed, message.data, message.size);
        if (!message.failed && !framed.failed)
            base64_encode((struct text){framed.data, framed.size}, out);
    }
    out->failed |= bytes.failed || (message.failed && !message.is_full) || framed.failed;
    buffer_finish(&bytes);
    buffer_finish(&message);
    buffer_finish(&framed);
}
