// All figures of comparisons as a table with a row for each figure, for programs:
//
//   gold, answer    names of the compared columns
//   group           a value of --by's column; empty: all rows. Of a difference "A - B"
//   label           empty: a figure of all labels
//   figure          accuracy, kappa, precision, share, mean, ... (figure_list.c)
//   value           empty: undefined
//   low, high       its 95 % interval; empty: it has none
//   rows            rows that the figure is of: gold rows for agreement, all rows of the group for estimates
//   gold_rows       gold rows among them
//   method          of the interval
//
// Thread: main.
#pragma once

#include "consumer/evaluate/comparison.h"

#define FIGURE_COLUMNS 10
extern const char *const figure_columns[FIGURE_COLUMNS];

struct figure_row {
    struct text gold, answer, group, label, figure;
    struct interval interval;
    int64_t n_rows, n_gold;
    const char *method;
};

// Adds a row; a line of JSON, or of CSV.
void figure_list_add_row(const struct figure_row *row, bool is_json, struct buffer *out);
// Adds the rows of a comparison's figures; JSON lines, or CSV without its header.
enum status figure_list_add(const struct comparison *comparison, bool is_json, struct buffer *out,
                            struct error *error) WARN_UNUSED;
// The header of CSV.
void figure_list_begin(struct buffer *out);
