// Metadata of an input file, changed for a file with its column chunks at other offsets and new columns.
// Fields that are not named here are copied as they are. Thread: any.
#pragma once

#include "schemas/parquet/parquet_footer.h"

// Adds a ColumnChunk whose pages are `moved_by` bytes later, without page indexes and Bloom filter.
void parquet_rewrite_chunk(const struct parquet_chunk *chunk, int64_t moved_by, struct buffer *out);

struct parquet_added {
    size_t n_columns;
    struct text elements; // schema elements of the new columns
    struct text chunks;   // all ColumnChunks of a row group, new ones at the end
    size_t n_chunks;
    int64_t offset;                    // offset of the row group
    int64_t plain_bytes, packed_bytes; // bytes of the new columns in the row group
    size_t n_groups;                   // row groups of the file
    int64_t n_rows;                    // rows of the file
    struct text arrow_schema;          // metadata ARROW:schema of the file; empty: none
};

// The value of metadata with this key; empty: there is none. It points into the footer.
struct text parquet_rewrite_metadata(const struct parquet_footer *footer, const char *key);

// Adds a RowGroup.
void parquet_rewrite_group(const struct parquet_group *group, const struct parquet_added *added,
                           struct buffer *out);
// Adds the FileMetaData with these RowGroups, from the footer of the first input.
void parquet_rewrite_footer(const struct parquet_footer *footer, const struct parquet_added *added,
                            struct text groups, struct buffer *out);
