// Parses one mapped GGUF file: header, key-values, tensor infos. Only indexes are copied.
#include "engine/file/gguf_file.h"

#include <stdlib.h>
#include <string.h>

enum {
    VERSION_MIN = 2,
    VERSION_MAX = 3,
    ALIGNMENT_DEFAULT = 32,
    KEY_BYTES_MIN = 8 + 1 + 4 + 1,         // the shortest pair: key and value have one byte each
    TENSOR_BYTES_MIN = 8 + 1 + 4 + 8 + 12, // the shortest tensor info: a name of one byte, one dimension
};

// A cursor over a part's bytes.
struct gguf_reader {
    struct gguf_part *part;
    size_t at;
    struct arena *arena;
    struct error *error;
};

static enum status refuse_file(struct gguf_reader *reader, const char *what)
{
    return error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE, "%s at byte %zu", what, reader->at);
}

static enum status take_bytes(struct gguf_reader *reader, size_t size, const unsigned char **bytes)
{
    if (size > reader->part->size - reader->at)
        return error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "truncated: %zu bytes wanted at byte %zu of %zu", size, reader->at,
                         reader->part->size);
    *bytes = reader->part->data + reader->at;
    reader->at += size;
    return STATUS_OK;
}

static uint64_t load_little_endian(const unsigned char *bytes, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static enum status take_u32(struct gguf_reader *reader, uint32_t *value)
{
    const unsigned char *bytes = NULL;
    enum status status = take_bytes(reader, 4, &bytes);
    if (status == STATUS_OK)
        *value = (uint32_t)load_little_endian(bytes, 4);
    return status;
}

static enum status take_u64(struct gguf_reader *reader, uint64_t *value)
{
    const unsigned char *bytes = NULL;
    enum status status = take_bytes(reader, 8, &bytes);
    if (status == STATUS_OK)
        *value = load_little_endian(bytes, 8);
    return status;
}

static enum status take_string(struct gguf_reader *reader, struct text *string)
{
    uint64_t size;
    const unsigned char *bytes = NULL;
    enum status status = take_u64(reader, &size);
    if (status != STATUS_OK)
        return status;
    if (size > SIZE_MAX)
        return refuse_file(reader, "string longer than the file");
    status = take_bytes(reader, (size_t)size, &bytes);
    if (status == STATUS_OK)
        *string = (struct text){(const char *)bytes, (size_t)size};
    return status;
}

// Keys and names are printed in messages and logs, so they must be text without control characters.
static enum status take_name(struct gguf_reader *reader, const char *noun, size_t size_max, struct text *name)
{
    enum status status = take_string(reader, name);
    if (status != STATUS_OK)
        return status;
    if (name->size == 0)
        return error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE, "empty %s before byte %zu", noun,
                         reader->at);
    if (name->size > size_max)
        return error_set(reader->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "%s of %zu bytes before byte %zu, at most %zu", noun, name->size, reader->at,
                         size_max);
    bool printable = utf8_valid(name->data, name->size);
    for (size_t i = 0; i < name->size; i++)
        printable &= (unsigned char)name->data[i] >= 0x20 && name->data[i] != 0x7F;
    if (!printable)
        return error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE, "%s before byte %zu is not text",
                         noun, reader->at);
    return STATUS_OK;
}

// --- Key-values ---

static enum status check_bools(struct gguf_reader *reader, const unsigned char *bytes, size_t n_items)
{
    for (size_t i = 0; i < n_items; i++)
        if (bytes[i] > 1)
            return error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE, "bool is %d, expected 0 or 1",
                             bytes[i]);
    return STATUS_OK;
}

static enum status parse_strings(struct gguf_reader *reader, struct gguf_array *array)
{
    if (array->n_items > (reader->part->size - reader->at) / 8)
        return refuse_file(reader, "truncated: array of strings longer than the file");
    struct text *strings = arena_allocate_array(reader->arena, array->n_items, sizeof *strings);
    if (!strings)
        return gguf_out_of_memory(reader->error);
    for (size_t i = 0; i < array->n_items; i++) {
        enum status status = take_string(reader, &strings[i]);
        if (status != STATUS_OK)
            return status;
    }
    array->strings = strings;
    return STATUS_OK;
}

static enum status parse_array(struct gguf_reader *reader, struct gguf_array *array)
{
    uint32_t kind = 0;
    uint64_t n_items = 0;
    enum status status = take_u32(reader, &kind);
    if (status == STATUS_OK)
        status = take_u64(reader, &n_items);
    if (status != STATUS_OK)
        return status;
    if (kind > GGUF_F64 || kind == GGUF_ARRAY)
        return error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "array of %s (type %u), expected a scalar type",
                         kind == GGUF_ARRAY ? "arrays" : "an unknown type", kind);
    if (n_items > GGUF_ARRAY_ITEMS_MAX)
        return error_set(reader->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "array of %llu items, at most %d", (unsigned long long)n_items,
                         GGUF_ARRAY_ITEMS_MAX);
    array->kind = (enum gguf_kind)kind;
    array->n_items = (size_t)n_items;
    array->data = reader->part->data + reader->at;
    if (kind == GGUF_STRING)
        return parse_strings(reader, array);
    // At most 2^24 items of 8 bytes: no overflow.
    status = take_bytes(reader, (size_t)n_items * gguf_kind_bytes(array->kind), &array->data);
    if (status == STATUS_OK && kind == GGUF_BOOL)
        status = check_bools(reader, array->data, array->n_items);
    return status;
}

static enum status parse_value(struct gguf_reader *reader, struct gguf_entry *entry)
{
    uint32_t kind = 0;
    enum status status = take_u32(reader, &kind);
    if (status != STATUS_OK)
        return status;
    if (kind > GGUF_F64)
        return error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE, "unknown value type %u", kind);
    entry->kind = (enum gguf_kind)kind;
    if (kind == GGUF_STRING)
        return take_string(reader, &entry->string);
    if (kind == GGUF_ARRAY)
        return parse_array(reader, &entry->array);
    status = take_bytes(reader, gguf_kind_bytes(entry->kind), &entry->scalar);
    if (status == STATUS_OK && kind == GGUF_BOOL)
        status = check_bools(reader, entry->scalar, 1);
    return status;
}

static enum status parse_keys(struct gguf_reader *reader)
{
    struct gguf_part *part = reader->part;
    enum status status = gguf_names_create(&part->keys, part->n_entries, reader->arena, reader->error);
    if (status != STATUS_OK)
        return status;
    part->entries = arena_allocate_array(reader->arena, part->n_entries, sizeof *part->entries);
    if (!part->entries)
        return gguf_out_of_memory(reader->error);
    for (size_t i = 0; i < part->n_entries; i++) {
        struct gguf_entry *entry = &part->entries[i];
        status = take_name(reader, "key", GGUF_KEY_BYTES_MAX, &entry->key);
        if (status != STATUS_OK)
            return status;
        if (gguf_part_entry(part, entry->key))
            return error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE, "key %.*s occurs twice",
                             (int)entry->key.size, entry->key.data);
        status = parse_value(reader, entry);
        if (status != STATUS_OK)
            return error_prefix(reader->error, "key %.*s", (int)entry->key.size, entry->key.data);
        gguf_names_add(&part->keys, entry->key, i);
    }
    return STATUS_OK;
}

// --- Tensor infos ---

static enum status refuse_tensor(struct gguf_reader *reader, const struct tensor *tensor, const char *what)
{
    return error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %.*s: %s",
                     (int)tensor->name.size, tensor->name.data, what);
}

static enum status parse_dims(struct gguf_reader *reader, struct tensor *tensor)
{
    enum status status = take_u32(reader, &tensor->n_dims);
    if (status != STATUS_OK)
        return status;
    if (tensor->n_dims < 1 || tensor->n_dims > TENSOR_DIMS_MAX)
        return error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tensor %.*s: %u dimensions, expected 1 to %d", (int)tensor->name.size,
                         tensor->name.data, tensor->n_dims, TENSOR_DIMS_MAX);
    uint64_t n_items = 1;
    for (uint32_t i = 0; i < TENSOR_DIMS_MAX; i++) {
        tensor->dims[i] = 1;
        if (i >= tensor->n_dims)
            continue;
        status = take_u64(reader, &tensor->dims[i]);
        if (status != STATUS_OK)
            return status;
        if (tensor->dims[i] == 0)
            return refuse_tensor(reader, tensor, "a dimension is 0");
        if (__builtin_mul_overflow(n_items, tensor->dims[i], &n_items) || n_items > INT64_MAX)
            return refuse_tensor(reader, tensor, "more items than 2^63 - 1");
    }
    return STATUS_OK;
}

static enum status parse_tensor_type(struct gguf_reader *reader, struct tensor *tensor)
{
    uint32_t type = 0;
    enum status status = take_u32(reader, &type);
    if (status != STATUS_OK)
        return status;
    const struct tensor_traits *traits = tensor_traits(type);
    if (!traits->name || type >= TENSOR_OWN_FIRST)
        return error_set(reader->error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                         "tensor %.*s: unknown tensor type %u", (int)tensor->name.size, tensor->name.data,
                         type);
    tensor->type = (enum tensor_type)type;
    if (tensor->dims[0] % traits->block_items)
        return error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tensor %.*s: rows of %llu items, %s needs a multiple of %u", (int)tensor->name.size,
                         tensor->name.data, (unsigned long long)tensor->dims[0], traits->name,
                         traits->block_items);
    if (__builtin_mul_overflow(tensor->dims[0] / traits->block_items, traits->block_bytes,
                               &tensor->size_bytes) ||
        __builtin_mul_overflow(tensor->size_bytes, tensor_n_rows(tensor), &tensor->size_bytes))
        return refuse_tensor(reader, tensor, "more bytes than 2^64 - 1");
    return STATUS_OK;
}

// Parses a tensor info. Offsets are relative to the data section, whose start is known only after the last
// info, so *offset keeps the value.
static enum status parse_tensor(struct gguf_reader *reader, struct tensor *tensor, uint64_t alignment,
                                uint64_t *offset)
{
    enum status status = take_name(reader, "tensor name", GGUF_TENSOR_NAME_BYTES_MAX, &tensor->name);
    if (status == STATUS_OK)
        status = parse_dims(reader, tensor);
    if (status == STATUS_OK)
        status = parse_tensor_type(reader, tensor);
    if (status == STATUS_OK)
        status = take_u64(reader, offset);
    if (status == STATUS_OK && *offset % alignment)
        return error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tensor %.*s: offset %llu is not a multiple of the alignment %llu",
                         (int)tensor->name.size, tensor->name.data, (unsigned long long)*offset,
                         (unsigned long long)alignment);
    return status;
}

static int compare_places(const void *a, const void *b)
{
    const struct tensor *left = *(struct tensor *const *)a, *right = *(struct tensor *const *)b;
    return (left->data > right->data) - (left->data < right->data);
}

// Checks that no byte belongs to more than one tensor.
static enum status check_overlaps(struct gguf_reader *reader)
{
    struct gguf_part *part = reader->part;
    struct tensor **sorted = arena_allocate_array(reader->arena, part->n_tensors, sizeof *sorted);
    if (!sorted)
        return gguf_out_of_memory(reader->error);
    for (size_t i = 0; i < part->n_tensors; i++)
        sorted[i] = &part->tensors[i];
    qsort(sorted, part->n_tensors, sizeof *sorted, compare_places);
    for (size_t i = 1; i < part->n_tensors; i++) {
        const struct tensor *before = sorted[i - 1], *tensor = sorted[i];
        if ((const unsigned char *)tensor->data < (const unsigned char *)before->data + before->size_bytes)
            return error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                             "tensor %.*s: overlaps tensor %.*s", (int)tensor->name.size, tensor->name.data,
                             (int)before->name.size, before->name.data);
    }
    return STATUS_OK;
}

static enum status place_tensors(struct gguf_reader *reader, const uint64_t *offsets, uint64_t alignment)
{
    struct gguf_part *part = reader->part;
    size_t padding = (size_t)(alignment - reader->at % alignment) % alignment;
    if (padding > part->size - reader->at)
        return refuse_file(reader, "truncated: the data section is missing");
    size_t start = reader->at + padding;
    size_t available = part->size - start;
    for (size_t i = 0; i < part->n_tensors; i++) {
        struct tensor *tensor = &part->tensors[i];
        if (offsets[i] > available || tensor->size_bytes > available - offsets[i])
            return error_set(
                reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                "tensor %.*s: needs %llu bytes at %llu of the data section, which has %zu (truncated?)",
                (int)tensor->name.size, tensor->name.data, (unsigned long long)tensor->size_bytes,
                (unsigned long long)offsets[i], available);
        tensor->data = part->data + start + offsets[i];
        tensor->file = part->file.data ? &part->file : NULL;
    }
    return check_overlaps(reader);
}

static enum status parse_alignment(struct gguf_reader *reader, uint64_t *alignment)
{
    uint32_t value = ALIGNMENT_DEFAULT;
    enum status status = gguf_part_u32(reader->part, "general.alignment", &value, NULL, reader->error);
    if (status != STATUS_OK)
        return status;
    if (value == 0 || (value & (value - 1)) || value > GGUF_ALIGNMENT_MAX)
        return error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "general.alignment is %u, expected a power of two up to %d", value,
                         GGUF_ALIGNMENT_MAX);
    *alignment = value;
    return STATUS_OK;
}

static enum status parse_tensors(struct gguf_reader *reader)
{
    struct gguf_part *part = reader->part;
    uint64_t alignment = 0;
    enum status status = parse_alignment(reader, &alignment);
    if (status != STATUS_OK || part->n_tensors == 0)
        return status;
    if (part->n_tensors > (part->size - reader->at) / TENSOR_BYTES_MIN)
        return refuse_file(reader, "truncated: more tensors declared than the file has room for");
    part->tensors = arena_allocate_array(reader->arena, part->n_tensors, sizeof *part->tensors);
    uint64_t *offsets = arena_allocate_array(reader->arena, part->n_tensors, sizeof *offsets);
    if (!part->tensors || !offsets)
        return gguf_out_of_memory(reader->error);
    for (size_t i = 0; i < part->n_tensors && status == STATUS_OK; i++)
        status = parse_tensor(reader, &part->tensors[i], alignment, &offsets[i]);
    return status == STATUS_OK ? place_tensors(reader, offsets, alignment) : status;
}

// --- Header ---

static enum status parse_header(struct gguf_reader *reader)
{
    const unsigned char *magic = NULL;
    uint32_t version = 0;
    enum status status = take_bytes(reader, 4, &magic);
    if (status != STATUS_OK)
        return error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE, "not a GGUF file: below 4 bytes");
    if (memcmp(magic, "GGUF", 4))
        return error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "not a GGUF file: it begins with bytes %02x %02x %02x %02x, expected GGUF", magic[0],
                         magic[1], magic[2], magic[3]);
    status = take_u32(reader, &version);
    if (status != STATUS_OK)
        return status;
    if (version > 0xFFFF && (version & 0xFFFF) == 0)
        return error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE, "a big-endian GGUF file");
    if (version < VERSION_MIN || version > VERSION_MAX)
        return error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE, "GGUF version %u, expected %d to %d",
                         version, VERSION_MIN, VERSION_MAX);
    uint64_t n_tensors = 0, n_keys = 0;
    status = take_u64(reader, &n_tensors);
    if (status == STATUS_OK)
        status = take_u64(reader, &n_keys);
    if (status != STATUS_OK)
        return status;
    if (n_tensors > GGUF_TENSORS_MAX)
        return error_set(reader->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "%llu tensors, at most %d",
                         (unsigned long long)n_tensors, GGUF_TENSORS_MAX);
    if (n_keys > GGUF_KEYS_MAX)
        return error_set(reader->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "%llu keys, at most %d",
                         (unsigned long long)n_keys, GGUF_KEYS_MAX);
    if (n_keys > (reader->part->size - reader->at) / KEY_BYTES_MIN)
        return refuse_file(reader, "truncated: more keys declared than the file has room for");
    reader->part->n_tensors = (size_t)n_tensors;
    reader->part->n_entries = (size_t)n_keys;
    return STATUS_OK;
}

enum status gguf_parse(struct gguf_part *part, struct arena *arena, struct error *error)
{
    struct gguf_reader reader = {.part = part, .arena = arena, .error = error};
    enum status status = parse_header(&reader);
    if (status == STATUS_OK)
        status = parse_keys(&reader);
    if (status == STATUS_OK)
        status = parse_tensors(&reader);
    return status;
}
