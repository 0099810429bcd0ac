// The section of `sheaf report` with the figures of a file of `annotate --statistics` (consumer/evaluate/figure_list.h).
// Thread: main.
#pragma once

#include "schemas/base/error.h"
#include "schemas/base/text.h"

enum { REPORT_STATISTICS_MAX = 20000 }; // figures of a file

// Adds a table for each pair of compared columns, first of agreement, then of estimates. STATUS_REFUSE: the file can't be
// read, lacks a column, or has more than REPORT_STATISTICS_MAX figures.
enum status report_statistics_add(const char *path, struct buffer *out, struct error *error) WARN_UNUSED;
