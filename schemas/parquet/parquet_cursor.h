// The values of one column in one row group, row by row: pages, levels and values together. A level of
// definition says where a value is null; a level of repetition of 0 begins a row, 1 continues its list.
// Thread: any, one at a time.
#pragma once

#include "schemas/parquet/parquet_text.h"
#include "schemas/parquet/parquet_values.h"

enum { PARQUET_LIST_ITEMS_MAX = 1 << 20, PARQUET_LIST_BYTES_MAX = 16 << 20 };

struct parquet_cursor {
    const struct parquet_column *column;
    struct parquet_pages pages;
    struct parquet_dictionary dictionary;
    struct parquet_values values;
    int64_t page_offset;
    int64_t n_left; // entries of the current page
    struct packed_runs repetition, definition;
    bool has_entry; // one that begins the next row was read
    uint32_t entry_definition;
    char scratch[PARQUET_TEXT_BYTES];
    struct arena items; // items of the row's list
};

// `pages.fd`, `pages.name` and `pages.column` are the caller's; the column must be read (meaning not NONE).
void parquet_cursor_start(struct parquet_cursor *cursor, const struct parquet_chunk *chunk);
void parquet_cursor_finish(struct parquet_cursor *cursor);
// The next row's value, valid until the next call. STATUS_REFUSE: a damaged page, or the column has fewer
// rows.
enum status parquet_cursor_next(struct parquet_cursor *cursor, struct value *value,
                                struct error *error) WARN_UNUSED;
// STATUS_REFUSE: the column has more rows.
enum status parquet_cursor_end(struct parquet_cursor *cursor, struct error *error) WARN_UNUSED;
