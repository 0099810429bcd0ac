// HTML pages for people, written by `sheaf report` and --metrics: one file with its style, without scripts or
// links to other files, well-formed XML too. Charts are SVG 360 units wide, so that on a phone their text is
// as large as the page's.
#pragma once

#include "schemas/base/text.h"

#include <stdint.h>

// `refresh_s`: interval at which the browser reloads the page; 0: never.
void page_begin(struct buffer *out, struct text title, int refresh_s);
void page_end(struct buffer *out);
void page_begin_section(struct buffer *out, const char *heading);
void page_end_section(struct buffer *out);

// Escapes text for an element's content or a quoted attribute. Invalid UTF-8 and characters that are not
// printable (text.h), except tabs and line feeds, become U+FFFD.
void page_add_text(struct buffer *out, struct text text);
// Adds at most n_bytes_max bytes, cut between characters, with an ellipsis.
void page_add_beginning(struct buffer *out, struct text text, size_t n_bytes_max);

// Tiles: figures side by side, between page_begin_tiles and page_end_tiles.
void page_begin_tiles(struct buffer *out);
void page_add_tile(struct buffer *out, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void page_end_tiles(struct buffer *out);
// Writes 1234567 as "1,234,567".
const char *page_number(char text[32], int64_t number);

enum { PAGE_COLUMNS_MAX = 64, PAGE_LABEL_BYTES = 32 };

struct page_column {
    char label[PAGE_LABEL_BYTES]; // in the column's tooltip; some are also on the axis
    double value;                 // >= 0
};

// Charts are between page_begin_charts and page_end_charts: columns for a histogram or a time series, bars
// for the shares of names.
void page_begin_charts(struct buffer *out);
void page_add_columns(struct buffer *out, const char *title, const char *unit,
                      const struct page_column *columns, int n);
void page_begin_bars(struct buffer *out, struct text title);
void page_add_bar(struct buffer *out, struct text name, int64_t value, int64_t total);
void page_end_bars(struct buffer *out);
void page_end_charts(struct buffer *out);

// Begins a table with the names of its columns, separated by '|'. Columns after the first are numbers,
// aligned right, unless their name begins with '<'. The caller writes the rows as <tr><td>...</td></tr>.
void page_begin_table(struct buffer *out, const char *columns);
void page_end_table(struct buffer *out);
