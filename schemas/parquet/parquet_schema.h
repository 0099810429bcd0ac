// The columns of a Parquet file, from the schema in its footer (apache/parquet-format, LogicalTypes.md). The
// schema is a tree, listed in depth-first order; its leaves are the columns that the file stores, a chunk of
// each in every row group. A column of the table is a child of the root: a leaf, a list of leaves, or a
// nested value, which is not read. Thread: any.
#pragma once

#include "schemas/base/arena.h"
#include "schemas/base/text.h"

enum { PARQUET_SCHEMA_ELEMENTS_MAX = 1 << 20 };

enum parquet_physical { // the numbers of the format
    PHYSICAL_BOOLEAN = 0,
    PHYSICAL_INT32 = 1,
    PHYSICAL_INT64 = 2,
    PHYSICAL_INT96 = 3,
    PHYSICAL_FLOAT = 4,
    PHYSICAL_DOUBLE = 5,
    PHYSICAL_BYTE_ARRAY = 6,
    PHYSICAL_FIXED = 7, // FIXED_LEN_BYTE_ARRAY
    PHYSICAL_COUNT,
};

// The meaning of a leaf's values.
enum parquet_meaning {
    MEANING_NONE, // not read
    MEANING_BOOLEAN,
    MEANING_INTEGER,
    MEANING_UNSIGNED,
    MEANING_FLOAT, // of 16, 32 or 64 bits
    MEANING_TEXT,
    MEANING_BYTES,
    MEANING_DECIMAL,
    MEANING_DATE, // days since 1970-01-01
    MEANING_TIME, // units since midnight
    MEANING_TIMESTAMP,
    MEANING_TIMESTAMP_96, // nanoseconds of the day, then the Julian day
    MEANING_UUID,
};

struct parquet_leaf {
    enum parquet_physical physical;
    enum parquet_meaning meaning;
    size_t width;            // bytes of a value; 0: BYTE_ARRAY
    int32_t scale;           // decimals
    int32_t fraction_digits; // times: 3, 6 or 9
    bool is_utc;             // times of the UTC zone, else of no zone
};

struct parquet_column {
    struct text name;
    struct parquet_leaf leaf; // of the only leaf; meaning NONE: the column is not read, because it is
    char other[64];           // this type
    size_t chunk;             // number of its first leaf
    size_t n_leaves;
    bool is_list;
    uint32_t definition_max; // level of a value; lower ones are nulls
    uint32_t list_level;     // lists: level at which there is an element; one less: an empty list
};

struct parquet_schema {
    struct parquet_column *columns; // [n_columns] in the arena; names point into the footer
    size_t n_columns;
    enum parquet_physical *physicals; // [n_leaves]
    size_t n_leaves;
};

// Reads the list of schema elements, n of them, from `elements`. STATUS_REFUSE: it is damaged; the text
// begins with what is wrong.
enum status parquet_schema_read(struct parquet_schema *schema, struct text elements, size_t n,
                                struct arena *arena, struct error *error) WARN_UNUSED;
