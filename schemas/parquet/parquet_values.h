// Decodes the values of a page one after another, whatever their encoding, each to its bytes in the encoding
// PLAIN: little-endian numbers, texts without their length, a byte for a boolean. Thread: any, one at a time.
#pragma once

#include "schemas/parquet/delta.h"
#include "schemas/parquet/packed_runs.h"
#include "schemas/parquet/parquet_pages.h"

// The values of a dictionary page. A zeroed struct is empty.
struct parquet_dictionary {
    struct text *values; // [n], into the page
    size_t n, capacity;
};

struct parquet_values {
    const struct parquet_leaf *leaf;
    const struct parquet_dictionary *dictionary;
    int32_t encoding;
    struct text left;              // PLAIN, and the bytes of texts
    size_t bit;                    // PLAIN booleans
    struct packed_runs runs;       // indices, booleans
    struct delta numbers, lengths; // numbers or lengths of common beginnings; lengths of texts
    size_t n_streams, next_stream; // BYTE_STREAM_SPLIT: values of the page, the next one
    char scratch[16];              // a number
    struct buffer text;            // DELTA_BYTE_ARRAY: the last value; others: BYTE_STREAM_SPLIT of wide ones
};

// Reads the dictionary of a page, which stays valid. False: *fault says what is wrong; NULL: out of memory.
bool parquet_dictionary_read(struct parquet_dictionary *dictionary, const struct parquet_leaf *leaf,
                             const struct parquet_page *page, const char **fault);
void parquet_dictionary_finish(struct parquet_dictionary *dictionary);
// Starts the values of a data page; keeps the memory of `values`. False: as for parquet_dictionary_read.
bool parquet_values_start(struct parquet_values *values, const struct parquet_leaf *leaf,
                          const struct parquet_dictionary *dictionary, const struct parquet_page *page,
                          const char **fault);
// The next value, valid until the next call. False: there is none, or the page is damaged, or memory ran out
// (text.failed).
bool parquet_values_next(struct parquet_values *values, struct text *value);
void parquet_values_finish(struct parquet_values *values);
