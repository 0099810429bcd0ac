// Parquet files made by hand: pages with given bytes in one column chunk, one row group, one column. And what
// the reader makes of a file, as a text.
#pragma once

#include "schemas/parquet/parquet_file.h"

struct made_column {
    const char *name; // NULL: "a"
    int physical, type_length;
    bool is_required;
    bool is_list;  // optional group of three levels with optional items
    int converted; // ConvertedType + 1; 0: none
    int logical;   // field of LogicalType; 0: none. Its struct is `logical_bytes`, without its stop
    struct text logical_bytes;
    int scale, precision;
};

struct made_page {
    int type; // 0: data, 2: dictionary, 3: data of version 2
    int n_values, encoding;
    struct text repetition, definition; // levels, without a length
    struct text values;
    bool has_crc, has_bad_crc;
    bool is_uncompressed;   // version 2
    int plain_size;         // in the header; 0: the page's
    struct text compressed; // stored instead of the page's bytes; data NULL: they are stored as they are
};

struct made_file {
    struct buffer bytes;
    int codec;
    int64_t n_values, n_dictionary;
    int64_t page_offsets[8]; // of the first pages
    size_t n_pages;
    int n_groups;   // row groups, all of the same chunk; 0: one
    int64_t excess; // bytes that the chunk claims beyond its pages
};

void made_begin(struct made_file *file, int codec);
void made_add(struct made_file *file, const struct made_page *page);
// Adds the footer. Each row group has n_rows.
void made_end(struct made_file *file, const struct made_column *column, int64_t n_rows);
// A file of one page.
void made_one(struct made_file *file, const struct made_column *column, const struct made_page *page,
              int64_t n_rows);

// All rows of the bytes, or the error after "! ": fields with "|" between them, rows with a line feed after
// them. NULL is "~", a list as in DuckDB, bytes in hexadecimal digits. Columns that are not read are "?TYPE".
void made_read(struct text bytes, struct buffer *out);
// Writes the bytes to an unnamed file.
int made_descriptor(struct text bytes);
