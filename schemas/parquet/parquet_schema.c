#include "schemas/parquet/parquet_schema.h"

#include "schemas/parquet/thrift.h"

#include <stdio.h>

enum { DECIMAL_DIGITS_MAX = 38, DECIMAL_BYTES_MAX = 16 };
enum { REPETITION_OPTIONAL = 1, REPETITION_REPEATED = 2 };

// Fields of LogicalType, and of ConvertedType, the older form.
enum {
    LOGICAL_STRING = 1,
    LOGICAL_MAP = 2,
    LOGICAL_LIST = 3,
    LOGICAL_ENUM = 4,
    LOGICAL_DECIMAL = 5,
    LOGICAL_DATE = 6,
    LOGICAL_TIME = 7,
    LOGICAL_TIMESTAMP = 8,
    LOGICAL_INTEGER = 10,
    LOGICAL_UNKNOWN = 11,
    LOGICAL_JSON = 12,
    LOGICAL_BSON = 13,
    LOGICAL_UUID = 14,
    LOGICAL_FLOAT16 = 15,
    LOGICAL_VARIANT = 16,
    LOGICAL_INTERVAL = 64, // ours: only converted types have it
    LOGICAL_OTHER = 65,
};

struct element {
    int32_t physical; // -1: a group
    int32_t type_length, repetition, n_children;
    struct text name;
    int32_t converted; // -1: none
    int32_t scale, precision;
    int32_t logical; // LOGICAL_*; 0: none
    bool is_signed, is_utc;
    int32_t fraction_digits;
};

static enum status refuse_schema(struct error *error, const char *what)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "its schema is damaged: %s", what);
}

// ---- one element ----

// {1: isAdjustedToUTC, 2: unit}
static void read_time(struct thrift_reader *reader, struct element *element)
{
    struct thrift_field field = {0};
    while (thrift_next_field(reader, &field)) {
        if (field.id == 1)
            element->is_utc = field.type == THRIFT_TRUE;
        if (field.id != 2 || field.type != THRIFT_STRUCT) {
            thrift_skip(reader, field.type);
            continue;
        }
        struct thrift_field unit = {0};
        while (thrift_next_field(reader, &unit)) {
            element->fraction_digits = unit.id >= 1 && unit.id <= 3 ? 3 * unit.id : 0;
            thrift_skip(reader, unit.type);
        }
    }
}

static void read_decimal(struct thrift_reader *reader, struct element *element)
{
    struct thrift_field field = {0};
    while (thrift_next_field(reader, &field))
        if (field.type == THRIFT_I32 && field.id == 1)
            element->scale = thrift_read_i32(reader);
        else if (field.type == THRIFT_I32 && field.id == 2)
            element->precision = thrift_read_i32(reader);
        else
            thrift_skip(reader, field.type);
}

static void read_logical(struct thrift_reader *reader, struct element *element)
{
    struct thrift_field field = {0};
    while (thrift_next_field(reader, &field)) {
        bool is_struct = field.type == THRIFT_STRUCT;
        element->logical = field.id > 0 && field.id <= LOGICAL_VARIANT ? field.id : LOGICAL_OTHER;
        if (is_struct && (field.id == LOGICAL_TIME || field.id == LOGICAL_TIMESTAMP)) {
            read_time(reader, element);
        } else if (is_struct && field.id == LOGICAL_DECIMAL) {
            read_decimal(reader, element);
        } else if (is_struct && field.id == LOGICAL_INTEGER) {
            struct thrift_field part = {0};
            while (thrift_next_field(reader, &part)) {
                if (part.id == 2)
                    element->is_signed = part.type == THRIFT_TRUE;
                thrift_skip(reader, part.type);
            }
        } else {
            thrift_skip(reader, field.type);
        }
    }
}

// The logical type that a converted type means.
static void take_converted(struct element *element)
{
    static const uint8_t logical[] = {LOGICAL_STRING,  LOGICAL_MAP,       LOGICAL_MAP,       LOGICAL_LIST,
                                      LOGICAL_ENUM,    LOGICAL_DECIMAL,   LOGICAL_DATE,      LOGICAL_TIME,
                                      LOGICAL_TIME,    LOGICAL_TIMESTAMP, LOGICAL_TIMESTAMP, LOGICAL_INTEGER,
                                      LOGICAL_INTEGER, LOGICAL_INTEGER,   LOGICAL_INTEGER,   LOGICAL_INTEGER,
                                      LOGICAL_INTEGER, LOGICAL_INTEGER,   LOGICAL_INTEGER,   LOGICAL_JSON,
                                      LOGICAL_BSON,    LOGICAL_INTERVAL};
    int32_t converted = element->converted;
    if (element->logical || converted < 0)
        return;
    element->logical = converted < (int32_t)(sizeof logical) ? logical[converted] : LOGICAL_OTHER;
    element->is_signed = converted >= 15;
    element->fraction_digits = converted == 7 || converted == 9 ? 3 : 6; // TIME_MILLIS, TIMESTAMP_MILLIS
    element->is_utc = element->logical == LOGICAL_TIMESTAMP || element->logical == LOGICAL_TIME;
}

static void read_element(struct thrift_reader *reader, struct element *element)
{
    struct thrift_field field = {0};
    *element = (struct element){.physical = -1, .converted = -1};
    while (thrift_next_field(reader, &field)) {
        int32_t *integer = field.id == 1   ? &element->physical
                           : field.id == 2 ? &element->type_length
                           : field.id == 3 ? &element->repetition
                           : field.id == 5 ? &element->n_children
                           : field.id == 6 ? &element->converted
                           : field.id == 7 ? &element->scale
                           : field.id == 8 ? &element->precision
                                           : NULL;
        if (integer && field.type == THRIFT_I32)
            *integer = thrift_read_i32(reader);
        else if (field.id == 4 && field.type == THRIFT_BINARY)
            element->name = thrift_read_binary(reader);
        else if (field.id == 10 && field.type == THRIFT_STRUCT)
            read_logical(reader, element);
        else
            thrift_skip(reader, field.type);
    }
    take_converted(element);
}

// ---- a leaf ----

static size_t width_of(const struct element *element)
{
    static const size_t widths[PHYSICAL_COUNT] = {
        [PHYSICAL_BOOLEAN] = 1, [PHYSICAL_INT32] = 4, [PHYSICAL_INT64] = 8,
        [PHYSICAL_INT96] = 12,  [PHYSICAL_FLOAT] = 4, [PHYSICAL_DOUBLE] = 8};
    return element->physical == PHYSICAL_FIXED ? (size_t)element->type_length : widths[element->physical];
}

static enum parquet_meaning decimal_of(const struct element *element)
{
    bool is_known = element->scale >= 0 && element->scale <= DECIMAL_DIGITS_MAX &&
                    element->precision <= DECIMAL_DIGITS_MAX && width_of(element) <= DECIMAL_BYTES_MAX;
    enum parquet_physical physical = (enum parquet_physical)element->physical;
    bool is_stored = physical == PHYSICAL_INT32 || physical == PHYSICAL_INT64 ||
                     physical == PHYSICAL_BYTE_ARRAY || physical == PHYSICAL_FIXED;
    return is_known && is_stored ? MEANING_DECIMAL : MEANING_NONE;
}

static enum parquet_meaning plain_of(enum parquet_physical physical)
{
    switch (physical) {
    case PHYSICAL_BOOLEAN:
        return MEANING_BOOLEAN;
    case PHYSICAL_INT32:
    case PHYSICAL_INT64:
        return MEANING_INTEGER;
    case PHYSICAL_INT96:
        return MEANING_TIMESTAMP_96;
    case PHYSICAL_FLOAT:
    case PHYSICAL_DOUBLE:
        return MEANING_FLOAT;
    default:
        return MEANING_BYTES;
    }
}

static enum parquet_meaning meaning_of(const struct element *element)
{
    enum parquet_physical physical = (enum parquet_physical)element->physical;
    bool is_whole = physical == PHYSICAL_INT32 || physical == PHYSICAL_INT64;
    bool is_bytes = physical == PHYSICAL_BYTE_ARRAY || physical == PHYSICAL_FIXED;
    switch (element->logical) {
    case 0:
        return plain_of(physical);
    case LOGICAL_STRING:
    case LOGICAL_ENUM:
    case LOGICAL_JSON:
        return is_bytes ? MEANING_TEXT : MEANING_NONE;
    case LOGICAL_DECIMAL:
        return decimal_of(element);
    case LOGICAL_DATE:
        return physical == PHYSICAL_INT32 ? MEANING_DATE : MEANING_NONE;
    case LOGICAL_TIME:
        return is_whole && element->fraction_digits ? MEANING_TIME : MEANING_NONE;
    case LOGICAL_TIMESTAMP:
        return physical == PHYSICAL_INT64 && element->fraction_digits ? MEANING_TIMESTAMP : MEANING_NONE;
    case LOGICAL_INTEGER:
        return !is_whole ? MEANING_NONE : element->is_signed ? MEANING_INTEGER : MEANING_UNSIGNED;
    case LOGICAL_UNKNOWN: // only nulls are stored
        return plain_of(physical);
    case LOGICAL_UUID:
        return physical == PHYSICAL_FIXED && element->type_length == 16 ? MEANING_UUID : MEANING_NONE;
    case LOGICAL_FLOAT16:
        return physical == PHYSICAL_FIXED && element->type_length == 2 ? MEANING_FLOAT : MEANING_NONE;
    default:
        return MEANING_NONE;
    }
}

static const char *logical_name(const struct element *element)
{
    static const char *const names[] = {[LOGICAL_STRING] = "a text",
                                        [LOGICAL_MAP] = "a map",
                                        [LOGICAL_LIST] = "a list",
                                        [LOGICAL_ENUM] = "an enum",
                                        [LOGICAL_DECIMAL] = "a decimal of more than 38 digits",
                                        [LOGICAL_DATE] = "a date",
                                        [LOGICAL_TIME] = "a time",
                                        [LOGICAL_TIMESTAMP] = "a timestamp",
                                        [LOGICAL_INTEGER] = "an integer",
                                        [LOGICAL_UNKNOWN] = "unknown",
                                        [LOGICAL_JSON] = "JSON",
                                        [LOGICAL_BSON] = "BSON",
                                        [LOGICAL_UUID] = "a UUID",
                                        [LOGICAL_FLOAT16] = "a float of 16 bits",
                                        [LOGICAL_VARIANT] = "a variant",
                                        [LOGICAL_INTERVAL] = "an interval",
                                        [LOGICAL_OTHER] = "a logical type of a later version"};
    const char *name = element->logical ? names[element->logical] : NULL;
    return name ? name : "a logical type of a later version";
}

static void take_leaf(struct parquet_column *column, const struct element *element)
{
    column->leaf = (struct parquet_leaf){.physical = (enum parquet_physical)element->physical,
                                         .meaning = meaning_of(element),
                                         .width = width_of(element),
                                         .scale = element->scale,
                                         .fraction_digits = element->fraction_digits,
                                         .is_utc = element->is_utc};
    if (column->leaf.meaning == MEANING_NONE)
        snprintf(column->other, sizeof column->other, "%s", logical_name(element));
}

// ---- a column ----

// Number of elements of the subtree that begins with elements[at], bounded by n. Counts its leaves.
static size_t count_subtree(const struct element *elements, size_t n, size_t at, size_t *n_leaves)
{
    size_t left = 1, i = at;
    *n_leaves = 0;
    while (left && i < n) {
        bool is_leaf = elements[i].physical >= 0;
        *n_leaves += is_leaf;
        left += is_leaf ? 0 : (size_t)elements[i].n_children;
        left--;
        i++;
    }
    return left ? 0 : i - at;
}

static uint32_t level_of(const struct element *element)
{
    return element->repetition != 0;
}

// A repeated leaf, or an annotated list whose only leaf is the element (LogicalTypes.md, "Lists": three
// levels, or two in older files). False: the column is another nested value.
static bool take_list(struct parquet_column *column, const struct element *elements)
{
    const struct element *list = &elements[0], *repeated = &elements[1], *item = &elements[2];
    column->is_list = true;
    if (list->physical >= 0) {
        column->list_level = column->definition_max = 1;
        take_leaf(column, list);
        return true;
    }
    if (list->logical != LOGICAL_LIST || list->n_children != 1 || list->repetition == REPETITION_REPEATED ||
        repeated->repetition != REPETITION_REPEATED)
        return false;
    column->list_level = column->definition_max = level_of(list) + 1;
    if (repeated->physical >= 0) {
        take_leaf(column, repeated);
        return true;
    }
    bool is_record = text_equals_string(repeated->name, "array") ||
                     (repeated->name.size == list->name.size + 6 &&
                      memcmp(repeated->name.data, list->name.data, list->name.size) == 0 &&
                      memcmp(repeated->name.data + list->name.size, "_tuple", 6) == 0);
    if (repeated->n_children != 1 || item->physical < 0 || item->repetition == REPETITION_REPEATED ||
        is_record)
        return false;
    column->definition_max += level_of(item);
    take_leaf(column, item);
    return true;
}

static void take_column(struct parquet_column *column, const struct element *elements)
{
    const struct element *first = &elements[0];
    column->name = first->name;
    if (first->physical >= 0 && first->repetition != REPETITION_REPEATED) {
        column->definition_max = level_of(first);
        take_leaf(column, first);
    } else if (!take_list(column, elements)) {
        column->is_list = false;
        column->leaf.meaning = MEANING_NONE;
        snprintf(column->other, sizeof column->other, "%s",
                 first->logical == LOGICAL_LIST ? "a list of nested values"
                 : first->logical               ? logical_name(first)
                                                : "a struct");
    }
}

static bool is_sound(const struct element *element)
{
    bool is_fixed = element->physical == PHYSICAL_FIXED;
    return element->physical >= -1 && element->physical < PHYSICAL_COUNT && element->n_children >= 0 &&
           element->repetition >= 0 && element->repetition <= REPETITION_REPEATED &&
           (!is_fixed || (element->type_length > 0 && element->type_length <= INT32_MAX / 2));
}

enum status parquet_schema_read(struct parquet_schema *schema, struct text elements, size_t n,
                                struct arena *arena, struct error *error)
{
    struct thrift_reader reader = thrift_read_text(elements);
    struct element *list =
        n && n <= PARQUET_SCHEMA_ELEMENTS_MAX ? arena_allocate_array(arena, n + 3, sizeof *list) : NULL;
    if (!n || n > PARQUET_SCHEMA_ELEMENTS_MAX)
        return refuse_schema(error, n ? "too many elements" : "it is empty");
    size_t n_columns = 0, n_leaves;
    for (size_t i = 0; list && i < n; i++) {
        read_element(&reader, &list[i]);
        if (reader.failed || !is_sound(&list[i]))
            return refuse_schema(error, "an element");
    }
    n_columns = list ? (size_t)list[0].n_children : 0;
    *schema = (struct parquet_schema){.n_columns = n_columns};
    if (list && (n_columns > n || count_subtree(list, n, 0, &n_leaves) != n || list[0].physical >= 0))
        return refuse_schema(error, "its elements are no tree");
    if (list) {
        schema->columns = arena_allocate_array(arena, n_columns + 1, sizeof *schema->columns);
        schema->physicals = arena_allocate_array(arena, n_leaves + 1, sizeof *schema->physicals);
    }
    if (!list || !schema->columns || !schema->physicals)
        return error_memory(error, STATUS_REFUSE, "its schema");
    for (size_t i = 0; i < n; i++)
        if (list[i].physical >= 0)
            schema->physicals[schema->n_leaves++] = (enum parquet_physical)list[i].physical;
    for (size_t i = 0, at = 1, chunk = 0; i < n_columns; i++) {
        struct parquet_column *column = &schema->columns[i];
        size_t size = count_subtree(list, n, at, &column->n_leaves);
        take_column(column, list + at);
        column->chunk = chunk;
        chunk += column->n_leaves;
        at += size;
    }
    return STATUS_OK;
}
