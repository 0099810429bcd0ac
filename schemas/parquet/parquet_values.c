#include "schemas/parquet/parquet_values.h"

#include <endian.h>
#include <stdlib.h>

enum { INDEX_BITS_MAX = 32 };

// ---- PLAIN ----

static bool cut(struct text *left, size_t size, struct text *value)
{
    if (size > left->size)
        return false;
    *value = (struct text){left->data, size};
    *left = (struct text){left->data + size, left->size - size};
    return true;
}

static bool next_plain(struct text *left, const struct parquet_leaf *leaf, struct text *value)
{
    uint32_t size;
    if (leaf->physical != PHYSICAL_BYTE_ARRAY)
        return cut(left, leaf->width, value);
    if (left->size < sizeof size)
        return false;
    memcpy(&size, left->data, sizeof size);
    *left = (struct text){left->data + sizeof size, left->size - sizeof size};
    return cut(left, le32toh(size), value);
}

static bool take_boolean(struct parquet_values *values, bool boolean, struct text *value)
{
    values->scratch[0] = boolean;
    *value = (struct text){values->scratch, 1};
    return true;
}

static bool next_bit(struct parquet_values *values, struct text *value)
{
    if (values->bit / 8 >= values->left.size)
        return false;
    bool boolean = (uint8_t)values->left.data[values->bit / 8] >> values->bit % 8 & 1;
    values->bit++;
    return take_boolean(values, boolean, value);
}

// ---- the dictionary ----

bool parquet_dictionary_read(struct parquet_dictionary *dictionary, const struct parquet_leaf *leaf,
                             const struct parquet_page *page, const char **fault)
{
    struct text left = page->values;
    size_t n = (size_t)page->n_values;
    dictionary->n = 0;
    *fault = "its dictionary is shorter than its number of values";
    bool is_plain = page->encoding == ENCODING_PLAIN || page->encoding == ENCODING_PLAIN_DICTIONARY;
    if (!is_plain || leaf->physical == PHYSICAL_BOOLEAN) {
        *fault = "its dictionary has an encoding that dictionaries do not have";
        return false;
    }
    if (n > left.size) // every value has a byte at least
        return false;
    if (n > dictionary->capacity) {
        struct text *grown = realloc(dictionary->values, n * sizeof *grown);
        *fault = NULL;
        if (!grown)
            return false;
        dictionary->values = grown;
        dictionary->capacity = n;
        *fault = "its dictionary is shorter than its number of values";
    }
    for (size_t i = 0; i < n; i++)
        if (!next_plain(&left, leaf, &dictionary->values[i]))
            return false;
    dictionary->n = n;
    return true;
}

void parquet_dictionary_finish(struct parquet_dictionary *dictionary)
{
    free(dictionary->values);
    *dictionary = (struct parquet_dictionary){0};
}

// ---- starting a page ----

static bool start_indices(struct parquet_values *values, struct text bytes, const char **fault)
{
    unsigned width = bytes.size ? (uint8_t)bytes.data[0] : 0;
    *fault = "its indices have more than 32 bits";
    if (width > INDEX_BITS_MAX)
        return false;
    if (bytes.size)
        bytes = (struct text){bytes.data + 1, bytes.size - 1};
    values->runs = packed_runs_open(bytes, width);
    return true;
}

// Booleans in RLE have their length before them, in both versions of pages.
static bool start_runs(struct parquet_values *values, struct text bytes, const char **fault)
{
    uint32_t size = 0;
    *fault = "its runs are longer than the page";
    if (bytes.size < sizeof size)
        return bytes.size == 0;
    memcpy(&size, bytes.data, sizeof size);
    size = le32toh(size);
    if (size > bytes.size - sizeof size)
        return false;
    values->runs = packed_runs_open((struct text){bytes.data + sizeof size, size}, 1);
    return true;
}

static bool start_delta(struct parquet_values *values, struct text bytes, const char **fault)
{
    *fault = "its packed numbers are damaged";
    return !bytes.size || delta_open(&values->numbers, bytes);
}

static bool start_lengths(struct parquet_values *values, struct text bytes, const char **fault)
{
    const char *end = bytes.data;
    *fault = "the lengths of its texts are damaged";
    if (bytes.size && (!delta_open(&values->lengths, bytes) || !delta_find_end(&values->lengths, &end)))
        return false;
    values->left = (struct text){end, (size_t)(bytes.data + bytes.size - end)};
    return true;
}

static bool start_beginnings(struct parquet_values *values, struct text bytes, const char **fault)
{
    const char *end = bytes.data;
    buffer_clear(&values->text);
    *fault = "the lengths of its texts are damaged";
    if (bytes.size && (!delta_open(&values->numbers, bytes) || !delta_find_end(&values->numbers, &end)))
        return false;
    return start_lengths(values, (struct text){end, (size_t)(bytes.data + bytes.size - end)}, fault);
}

static bool start_streams(struct parquet_values *values, struct text bytes, const char **fault)
{
    size_t width = values->leaf->width;
    *fault = "its byte streams have another length than its values";
    if (bytes.size % width)
        return false;
    values->n_streams = bytes.size / width;
    values->next_stream = 0;
    buffer_clear(&values->text);
    *fault = NULL;
    return buffer_reserve(&values->text, width);
}

// Whether values of that type have the encoding.
static bool suits(int32_t encoding, enum parquet_physical physical)
{
    bool is_bytes = physical == PHYSICAL_BYTE_ARRAY, is_fixed = physical == PHYSICAL_FIXED;
    bool is_whole = physical == PHYSICAL_INT32 || physical == PHYSICAL_INT64;
    switch (encoding) {
    case ENCODING_PLAIN:
        return true;
    case ENCODING_PLAIN_DICTIONARY:
    case ENCODING_RLE_DICTIONARY:
        return physical != PHYSICAL_BOOLEAN;
    case ENCODING_RLE:
        return physical == PHYSICAL_BOOLEAN;
    case ENCODING_DELTA_BINARY_PACKED:
        return is_whole;
    case ENCODING_DELTA_LENGTH_BYTE_ARRAY:
        return is_bytes;
    case ENCODING_DELTA_BYTE_ARRAY:
        return is_bytes || is_fixed;
    case ENCODING_BYTE_STREAM_SPLIT:
        return is_whole || is_fixed || physical == PHYSICAL_FLOAT || physical == PHYSICAL_DOUBLE;
    default:
        return false;
    }
}

bool parquet_values_start(struct parquet_values *values, const struct parquet_leaf *leaf,
                          const struct parquet_dictionary *dictionary, const struct parquet_page *page,
                          const char **fault)
{
    values->leaf = leaf;
    values->dictionary = dictionary;
    values->encoding = page->encoding;
    values->left = page->values;
    values->bit = 0;
    values->numbers = values->lengths = (struct delta){0};
    values->runs = (struct packed_runs){0};
    if (!suits(page->encoding, leaf->physical)) {
        *fault = "its encoding is unknown, or not one of its type";
        return false;
    }
    switch (page->encoding) {
    case ENCODING_PLAIN_DICTIONARY:
    case ENCODING_RLE_DICTIONARY:
        return start_indices(values, page->values, fault);
    case ENCODING_RLE:
        return start_runs(values, page->values, fault);
    case ENCODING_DELTA_BINARY_PACKED:
        return start_delta(values, page->values, fault);
    case ENCODING_DELTA_LENGTH_BYTE_ARRAY:
        return start_lengths(values, page->values, fault);
    case ENCODING_DELTA_BYTE_ARRAY:
        return start_beginnings(values, page->values, fault);
    case ENCODING_BYTE_STREAM_SPLIT:
        return start_streams(values, page->values, fault);
    default:
        return true;
    }
}

void parquet_values_finish(struct parquet_values *values)
{
    buffer_finish(&values->text);
}

// ---- the next value ----

static bool next_index(struct parquet_values *values, struct text *value)
{
    uint32_t i;
    if (!packed_runs_next(&values->runs, &i) || i >= values->dictionary->n)
        return false;
    *value = values->dictionary->values[i];
    return true;
}

static bool next_number(struct parquet_values *values, struct text *value)
{
    int64_t number;
    if (!delta_next(&values->numbers, &number))
        return false;
    uint64_t bytes = htole64((uint64_t)number);
    memcpy(values->scratch, &bytes, sizeof bytes); // the low bytes first: a prefix is the number of 32 bits
    *value = (struct text){values->scratch, values->leaf->width};
    return true;
}

static bool next_text(struct parquet_values *values, struct text *value)
{
    int64_t size;
    return delta_next(&values->lengths, &size) && size >= 0 && cut(&values->left, (size_t)size, value);
}

static bool next_after_beginning(struct parquet_values *values, struct text *value)
{
    int64_t n_common;
    struct text rest;
    if (!delta_next(&values->numbers, &n_common) || n_common < 0 || (uint64_t)n_common > values->text.size ||
        !next_text(values, &rest))
        return false;
    values->text.size = (size_t)n_common;
    buffer_add_text(&values->text, rest);
    *value = (struct text){values->text.data ? values->text.data : "", values->text.size};
    bool is_fixed = values->leaf->physical == PHYSICAL_FIXED;
    return !values->text.failed && value->size <= PARQUET_PAGE_BYTES_MAX &&
           (!is_fixed || value->size == values->leaf->width);
}

static bool next_of_streams(struct parquet_values *values, struct text *value)
{
    if (values->next_stream == values->n_streams)
        return false;
    for (size_t i = 0; i < values->leaf->width; i++)
        values->text.data[i] = values->left.data[i * values->n_streams + values->next_stream];
    values->next_stream++;
    *value = (struct text){values->text.data, values->leaf->width};
    return true;
}

bool parquet_values_next(struct parquet_values *values, struct text *value)
{
    uint32_t boolean;
    switch (values->encoding) {
    case ENCODING_PLAIN:
        return values->leaf->physical == PHYSICAL_BOOLEAN ? next_bit(values, value)
                                                          : next_plain(&values->left, values->leaf, value);
    case ENCODING_PLAIN_DICTIONARY:
    case ENCODING_RLE_DICTIONARY:
        return next_index(values, value);
    case ENCODING_RLE:
        return packed_runs_next(&values->runs, &boolean) && take_boolean(values, boolean, value);
    case ENCODING_DELTA_BINARY_PACKED:
        return next_number(values, value);
    case ENCODING_DELTA_LENGTH_BYTE_ARRAY:
        return next_text(values, value);
    case ENCODING_DELTA_BYTE_ARRAY:
        return next_after_beginning(values, value);
    default:
        return next_of_streams(values, value);
    }
}
