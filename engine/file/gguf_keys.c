// The key-values of a GGUF file: typed reading, and rendering as text.
#include "engine/file/gguf_file.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} kinds[] = {
    [GGUF_U8] = {"uint8", 1},    [GGUF_I8] = {"int8", 1},    [GGUF_U16] = {"uint16", 2},
    [GGUF_I16] = {"int16", 2},   [GGUF_U32] = {"uint32", 4}, [GGUF_I32] = {"int32", 4},
    [GGUF_F32] = {"float32", 4}, [GGUF_BOOL] = {"bool", 1},  [GGUF_STRING] = {"string", 0},
    [GGUF_ARRAY] = {"array", 0}, [GGUF_U64] = {"uint64", 8}, [GGUF_I64] = {"int64", 8},
    [GGUF_F64] = {"float64", 8},
};

const char *gguf_kind_name(enum gguf_kind kind)
{
    return kinds[kind].name;
}

size_t gguf_kind_bytes(enum gguf_kind kind)
{
    return kinds[kind].bytes;
}

static uint64_t load_little_endian(const unsigned char *bytes, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static bool is_integer(enum gguf_kind kind)
{
    return kind <= GGUF_I32 || kind == GGUF_U64 || kind == GGUF_I64;
}

// Reads an integer. A uint64 above INT64_MAX becomes negative; no key has such a value.
static int64_t load_integer(enum gguf_kind kind, const unsigned char *bytes)
{
    uint64_t bits = load_little_endian(bytes, gguf_kind_bytes(kind));
    switch (kind) {
    case GGUF_I8:
        return (int8_t)bits;
    case GGUF_I16:
        return (int16_t)bits;
    case GGUF_I32:
        return (int32_t)bits;
    default:
        return (int64_t)bits;
    }
}

static double load_number(enum gguf_kind kind, const unsigned char *bytes)
{
    uint64_t bits = load_little_endian(bytes, gguf_kind_bytes(kind));
    if (kind == GGUF_F32) {
        uint32_t bits32 = (uint32_t)bits;
        float value;
        memcpy(&value, &bits32, sizeof value);
        return value;
    }
    if (kind == GGUF_F64) {
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    return kind == GGUF_U64 ? (double)bits : (double)load_integer(kind, bytes);
}

static enum status wrong_type(const char *key, const char *expected, const struct gguf_entry *entry,
                              struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "key %s: expected %s, file has %s", key,
                     expected, gguf_kind_name(entry->kind));
}

static const struct gguf_entry *find_entry(const struct gguf_part *part, const char *key, bool *found)
{
    const struct gguf_entry *entry = gguf_part_entry(part, text_from_string(key));
    if (found)
        *found = entry != NULL;
    return entry;
}

bool gguf_has(const struct gguf *gguf, const char *key)
{
    return find_entry(&gguf->parts[0], key, NULL) != NULL;
}

enum status gguf_part_u32(const struct gguf_part *part, const char *key, uint32_t *value, bool *found,
                          struct error *error)
{
    const struct gguf_entry *entry = find_entry(part, key, found);
    if (!entry)
        return STATUS_OK;
    if (!is_integer(entry->kind))
        return wrong_type(key, "an integer", entry, error);
    int64_t integer = load_integer(entry->kind, entry->scalar);
    if (integer < 0 || integer > UINT32_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "key %s: expected 0 to %u, file has %lld",
                         key, UINT32_MAX, (long long)integer);
    *value = (uint32_t)integer;
    return STATUS_OK;
}

enum status gguf_u32(const struct gguf *gguf, const char *key, uint32_t *value, bool *found,
                     struct error *error)
{
    return gguf_part_u32(&gguf->parts[0], key, value, found, error);
}

enum status gguf_f32(const struct gguf *gguf, const char *key, float *value, bool *found, struct error *error)
{
    const struct gguf_entry *entry = find_entry(&gguf->parts[0], key, found);
    if (!entry)
        return STATUS_OK;
    if (entry->kind != GGUF_F32 && entry->kind != GGUF_F64)
        return wrong_type(key, "a float", entry, error);
    *value = (float)load_number(entry->kind, entry->scalar);
    return STATUS_OK;
}

enum status gguf_number(const struct gguf *gguf, const char *key, double *value, bool *found,
                        struct error *error)
{
    const struct gguf_entry *entry = find_entry(&gguf->parts[0], key, found);
    if (!entry)
        return STATUS_OK;
    if (entry->kind != GGUF_F32 && entry->kind != GGUF_F64 && !is_integer(entry->kind))
        return wrong_type(key, "a number", entry, error);
    *value = load_number(entry->kind, entry->scalar);
    return STATUS_OK;
}

enum status gguf_bool(const struct gguf *gguf, const char *key, bool *value, bool *found, struct error *error)
{
    const struct gguf_entry *entry = find_entry(&gguf->parts[0], key, found);
    if (!entry)
        return STATUS_OK;
    if (entry->kind != GGUF_BOOL)
        return wrong_type(key, "bool", entry, error);
    *value = entry->scalar[0] != 0;
    return STATUS_OK;
}

enum status gguf_text(const struct gguf *gguf, const char *key, struct text *value, bool *found,
                      struct error *error)
{
    const struct gguf_entry *entry = find_entry(&gguf->parts[0], key, found);
    if (!entry)
        return STATUS_OK;
    if (entry->kind != GGUF_STRING)
        return wrong_type(key, "string", entry, error);
    *value = entry->string;
    return STATUS_OK;
}

enum status gguf_array(const struct gguf *gguf, const char *key, struct gguf_array *value, bool *found,
                       struct error *error)
{
    const struct gguf_entry *entry = find_entry(&gguf->parts[0], key, found);
    if (!entry)
        return STATUS_OK;
    if (entry->kind != GGUF_ARRAY)
        return wrong_type(key, "array", entry, error);
    *value = entry->array;
    return STATUS_OK;
}

int64_t gguf_array_integer(const struct gguf_array *array, size_t index)
{
    assert(index < array->n_items && array->kind != GGUF_STRING);
    const unsigned char *item = array->data + index * gguf_kind_bytes(array->kind);
    if (array->kind == GGUF_F32 || array->kind == GGUF_F64) {
        double number = load_number(array->kind, item); // outside int64 (or NaN) the conversion is undefined
        return number >= -0x1p63 && number < 0x1p63 ? (int64_t)number : 0;
    }
    return load_integer(array->kind, item);
}

double gguf_array_number(const struct gguf_array *array, size_t index)
{
    assert(index < array->n_items && array->kind != GGUF_STRING);
    return load_number(array->kind, array->data + index * gguf_kind_bytes(array->kind));
}

// --- Rendering ---

enum { RENDERED_BYTES_MAX = 60, RENDERED_ITEMS_MAX = 4 };

// Renders a string in quotes on one line, cut to RENDERED_BYTES_MAX; bytes that are not printable become
// \xNN.
static void render_string(struct text string, struct buffer *out)
{
    buffer_add_byte(out, '"');
    size_t at = 0;
    while (at < string.size && at < RENDERED_BYTES_MAX) {
        uint32_t codepoint;
        size_t size = utf8_decode(string.data + at, string.size - at, &codepoint);
        if (size == 0 || codepoint < 0x20 || codepoint == 0x7F) {
            size = 1;
            if (string.data[at] == '\n')
                buffer_add_string(out, "\\n");
            else
                buffer_add_format(out, "\\x%02x", (unsigned char)string.data[at]);
        } else {
            buffer_add(out, string.data + at, size);
        }
        at += size;
    }
    buffer_add_string(out, at < string.size ? "…\"" : "\"");
}

static void render_scalar(enum gguf_kind kind, const unsigned char *bytes, struct buffer *out)
{
    if (kind == GGUF_BOOL)
        buffer_add_string(out, bytes[0] ? "true" : "false");
    else if (kind == GGUF_F32 || kind == GGUF_F64)
        buffer_add_format(out, "%g", load_number(kind, bytes));
    else if (kind == GGUF_U64)
        buffer_add_format(out, "%llu", (unsigned long long)load_little_endian(bytes, 8));
    else
        buffer_add_format(out, "%lld", (long long)load_integer(kind, bytes));
}

static void render_array(const struct gguf_array *array, struct buffer *out)
{
    buffer_add_format(out, "%zu x %s [", array->n_items, gguf_kind_name(array->kind));
    for (size_t i = 0; i < array->n_items && i < RENDERED_ITEMS_MAX; i++) {
        if (i)
            buffer_add_string(out, ", ");
        if (array->kind == GGUF_STRING)
            render_string(array->strings[i], out);
        else
            render_scalar(array->kind, array->data + i * gguf_kind_bytes(array->kind), out);
    }
    buffer_add_string(out, array->n_items > RENDERED_ITEMS_MAX ? ", …]" : "]");
}

size_t gguf_n_keys(const struct gguf *gguf)
{
    return gguf->parts[0].n_entries;
}

struct text gguf_key_at(const struct gguf *gguf, size_t index, struct buffer *rendered)
{
    assert(index < gguf->parts[0].n_entries);
    const struct gguf_entry *entry = &gguf->parts[0].entries[index];
    if (entry->kind == GGUF_STRING)
        render_string(entry->string, rendered);
    else if (entry->kind == GGUF_ARRAY)
        render_array(&entry->array, rendered);
    else
        render_scalar(entry->kind, entry->scalar, rendered);
    return entry->key;
}
