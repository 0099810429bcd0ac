// Writes a Parquet file: the column chunks of an input file byte for byte, and new columns after them in each
// row group, under a new footer. Without an input, row groups are of our own size. New columns are nullable,
// in the encoding PLAIN and compressed with Snappy. Thread: any, one at a time.
//
// The new footer keeps the input's fields, but: offsets move; page indexes and Bloom filters, which are not
// copied, are left out; the Arrow schema gets the new columns, and is left out if several inputs differ in it
// (arrow_schema.h); so are the copies of the schema that Spark and Avro keep, because readers would take them
// for the file's.
#pragma once

#include "schemas/parquet/parquet_parts.h"
#include "schemas/value.h"

#include <stdio.h>

struct parquet_output;

enum parquet_written {
    WRITTEN_TEXT, // other values as JSON; bad UTF-8 becomes U+FFFD
    WRITTEN_INTEGER,
    WRITTEN_NUMBER, // a double
    WRITTEN_BOOLEAN,
};

struct parquet_new_column {
    struct text name;
    enum parquet_written type;
};

struct parquet_target {
    FILE *file;                               // at the beginning of the output
    const char *name;                         // name of the output, for messages
    const struct parquet_input *inputs;       // [n_inputs], whose descriptors and names are copied
    size_t n_inputs;                          // 0: no input
    const struct parquet_new_column *columns; // [n_columns], copied
    size_t n_columns;
    const char *created_by; // for a file without an input
};

enum {
    PARQUET_OUTPUT_PAGE_BYTES = 1 << 20,
    PARQUET_OUTPUT_GROUP_ROWS = 1 << 20,    // without an input
    PARQUET_OUTPUT_GROUP_BYTES = 128 << 20, // before compression
};

enum status parquet_output_open(struct parquet_output **output, const struct parquet_target *target,
                                struct error *error) WARN_UNUSED;
void parquet_output_close(struct parquet_output *output);
// Adds the new columns of the next row. With an input: STATUS_REFUSE if it has no further row.
enum status parquet_output_add(struct parquet_output *output, const struct value *values,
                               struct error *error) WARN_UNUSED;
// Rows with nulls in the new columns.
enum status parquet_output_skip(struct parquet_output *output, int64_t n_rows,
                                struct error *error) WARN_UNUSED;
// Writes the rows that remain, with nulls, and the footer.
enum status parquet_output_complete(struct parquet_output *output, struct error *error) WARN_UNUSED;
// Values that their column's type cannot hold, such as an integer of more than 64 bits: they are null.
int64_t parquet_output_n_unfit(const struct parquet_output *output);
