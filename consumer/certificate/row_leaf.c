#include "consumer/certificate/row_leaf.h"

#include "schemas/base/base64.h"
#include "schemas/parquet/parquet_text.h"

#include <math.h>
#include <string.h>

enum { NUMBER_BYTES = 8, LEAF_BYTES = 1 + NUMBER_BYTES + 4 * SHA256_BYTES };

static void write_number(uint64_t number, unsigned char bytes[NUMBER_BYTES])
{
    for (int i = 0; i < NUMBER_BYTES; i++)
        bytes[i] = (unsigned char)(number >> 8 * (NUMBER_BYTES - 1 - i));
}

struct sha256 row_leaf_hash(const struct row_leaf *leaf)
{
    unsigned char bytes[LEAF_BYTES] = {(unsigned char)leaf->kind}, *at = bytes + 1;
    const struct sha256 *const hashes[] = {&leaf->cells, &leaf->request, &leaf->arithmetic, &leaf->answer};
    write_number((uint64_t)leaf->number, at);
    at += NUMBER_BYTES;
    for (size_t i = 0; i < sizeof hashes / sizeof *hashes; i++, at += SHA256_BYTES)
        memcpy(at, hashes[i]->bytes, SHA256_BYTES);
    return merkle_leaf(bytes, sizeof bytes);
}

void row_leaf_add_field(struct buffer *fields, struct text field)
{
    unsigned char size[NUMBER_BYTES];
    write_number(field.size, size);
    buffer_add(fields, size, sizeof size);
    buffer_add_text(fields, field);
}

void row_leaf_add_text(const struct value *cell, enum table_format format, struct buffer *text)
{
    bool is_infinite = cell->kind == VALUE_FLOAT && !cell->digits && isinf(cell->number);
    if (cell->kind == VALUE_STRING)
        buffer_add_text(text, cell->text);
    else if (is_infinite)
        buffer_add_string(text, cell->number < 0 ? "-Inf" : "Inf");
    else if (cell->kind == VALUE_BYTES)
        base64_encode(cell->text, text);
    else if (cell->kind == VALUE_ARRAY && format == TABLE_PARQUET)
        parquet_list_text(cell, text);
    else if (cell->kind != VALUE_NULL)
        json_encode(cell, text);
}
