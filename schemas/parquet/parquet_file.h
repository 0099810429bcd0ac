// Reads the rows of a Parquet file, or of several with one schema. Only columns that are chosen are decoded;
// the others, and those that are not read (parquet_column.other), are null. Memory is bounded by a page and a
// dictionary for each chosen column. Thread: any, one at a time.
#pragma once

#include "schemas/parquet/parquet_parts.h"
#include "schemas/value.h"

struct parquet_file;

// The n files, at least one, are the caller's, and outlive this one. STATUS_REFUSE: the file is damaged,
// encrypted or in another format. All columns that are read are chosen.
enum status parquet_file_open(struct parquet_file **file, const struct parquet_input *inputs, size_t n,
                              struct error *error) WARN_UNUSED;
void parquet_file_close(struct parquet_file *file);
const struct parquet_schema *parquet_file_schema(const struct parquet_file *file);
// Rows of the input number `part`.
int64_t parquet_file_part_rows(const struct parquet_file *file, size_t part);
// Chooses columns ([schema.n_columns]) and returns to the first row. STATUS_REFUSE: a chosen column is of a
// type that is not read; the text names both.
enum status parquet_file_choose(struct parquet_file *file, const bool *is_chosen,
                                struct error *error) WARN_UNUSED;
// Decodes every page of the chosen columns, then returns to the first row. STATUS_REFUSE: one is damaged,
// encrypted or in an unknown encoding; the text has the page's offset.
enum status parquet_file_check(struct parquet_file *file, struct error *error) WARN_UNUSED;
// *fields: [schema.n_columns], valid until the next call; NULL: the end.
enum status parquet_file_next(struct parquet_file *file, struct value **fields,
                              struct error *error) WARN_UNUSED;
void parquet_file_rewind(struct parquet_file *file);
