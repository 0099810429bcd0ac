// The pages of one new column in one row group. Complete pages go to a temporary file. Thread: any, one at a
// time.
#pragma once

#include "schemas/parquet/parquet_output.h"

// Pages of all columns until their row group is complete.
struct parquet_spool {
    int fd;
    int64_t size;
};

struct parquet_extent {
    int64_t offset, size; // in the spool
};

struct parquet_builder {
    struct text name;
    enum parquet_written type;
    // the current page
    struct buffer levels, values, bytes;
    uint64_t n_equal; // equal levels at its end, not yet in `levels`
    bool is_defined;  // their value
    int64_t n_page;   // entries
    uint8_t bits;     // booleans of the last byte
    int n_bits;
    // the column chunk
    struct parquet_extent *pages; // [n_pages]
    size_t n_pages, capacity;
    int64_t n_values, n_nulls, plain_bytes, packed_bytes;
    int64_t n_unfit; // unfit values of all chunks
    struct buffer json;
};

void parquet_builder_finish(struct parquet_builder *builder);
// value NULL: a null.
enum status parquet_builder_add(struct parquet_builder *builder, const struct value *value,
                                struct parquet_spool *spool, struct error *error) WARN_UNUSED;
// Ends the last page.
enum status parquet_builder_flush(struct parquet_builder *builder, struct parquet_spool *spool,
                                  struct error *error) WARN_UNUSED;
// Begins the next column chunk.
void parquet_builder_reset(struct parquet_builder *builder);
// Writes the column's element of the schema, and its ColumnChunk with pages from `offset`.
void parquet_builder_write_element(const struct parquet_builder *builder, struct buffer *out);
void parquet_builder_write_chunk(const struct parquet_builder *builder, int64_t offset, struct buffer *out);
