// Several Parquet files with one schema as one table: the row groups of the first file, then of the second
// one, and so on. Thread: any.
#pragma once

#include "schemas/parquet/parquet_footer.h"

// An open file of the caller's, who keeps it and its name for as long as the parts.
struct parquet_input {
    int fd;
    const char *name;
};

struct parquet_part {
    struct parquet_input input;
    struct parquet_footer footer;
};

struct parquet_parts {
    struct parquet_part *items; // [n]
    size_t n;
    size_t n_groups;
    int64_t n_rows;
};

// Reads the footers of n files, at least one. STATUS_REFUSE: parquet_footer_read, or two files have other
// columns.
enum status parquet_parts_read(struct parquet_parts *parts, const struct parquet_input *inputs, size_t n,
                               struct error *error) WARN_UNUSED;
void parquet_parts_finish(struct parquet_parts *parts);
// The file of a row group of the table; *group becomes its number in the file.
const struct parquet_part *parquet_parts_find(const struct parquet_parts *parts, size_t *group);
