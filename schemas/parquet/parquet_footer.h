// The footer of a Parquet file: its schema and the places of its column chunks (apache/parquet-format,
// parquet.thrift).
//
//   file    "PAR1", column chunks of row group 0, of row group 1, .., footer, its size (4 bytes, little-endian), "PAR1"
//
// Row groups are kept as bytes and read one at a time, because wide tables have many chunks. Thread: any.
#pragma once

#include "schemas/parquet/parquet_schema.h"

enum { PARQUET_FOOTER_BYTES_MAX = 1 << 30 };

struct parquet_group {
    struct text bytes; // its struct in the footer
    int64_t n_rows;
};

// A column chunk.
struct parquet_chunk {
    int64_t offset, size; // where its pages are in the file
    int64_t n_values;     // nulls and empty lists included
    int codec;            // enum parquet_codec, or an unknown number
    struct text bytes;    // its struct in the footer
};

struct parquet_footer {
    struct buffer bytes;
    struct arena arena;
    int64_t data_bytes; // bytes of the file before the footer
    int64_t n_rows;
    struct parquet_schema schema;
    struct parquet_group *groups; // [n_groups]
    size_t n_groups;
    struct text elements; // the schema's, after the list's header
    size_t n_elements;
};

// Reads the footer of the open file and checks that every chunk lies within the file. STATUS_REFUSE: it is no
// Parquet file, damaged or encrypted; the text names the file.
enum status parquet_footer_read(struct parquet_footer *footer, int fd, const char *name,
                                struct error *error) WARN_UNUSED;
void parquet_footer_finish(struct parquet_footer *footer);
// Reads the chunks of a row group: [schema.n_leaves].
enum status parquet_footer_chunks(const struct parquet_footer *footer, const char *name, size_t group,
                                  struct parquet_chunk *chunks, struct error *error) WARN_UNUSED;
// Reads size bytes at the offset; short: the file ends. False: errno says why.
bool parquet_read_at(int fd, int64_t offset, char *bytes, size_t size, size_t *n_read) WARN_UNUSED;
