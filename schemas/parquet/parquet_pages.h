// The pages of a column chunk, one after another: reads, checks and decompresses them. A page is a header
// (Thrift) and its bytes: the levels of its values and the values. A dictionary page comes before the pages
// that use it. Thread: any, one at a time.
#pragma once

#include "schemas/parquet/parquet_footer.h"

enum { PARQUET_PAGE_BYTES_MAX = 1 << 30, PARQUET_PAGE_HEADER_BYTES_MAX = 16 << 20 };

enum parquet_encoding { // the numbers of the format
    ENCODING_PLAIN = 0,
    ENCODING_PLAIN_DICTIONARY = 2, // as RLE_DICTIONARY in data pages, as PLAIN in a dictionary page
    ENCODING_RLE = 3,
    ENCODING_BIT_PACKED = 4, // levels of old files
    ENCODING_DELTA_BINARY_PACKED = 5,
    ENCODING_DELTA_LENGTH_BYTE_ARRAY = 6,
    ENCODING_DELTA_BYTE_ARRAY = 7,
    ENCODING_RLE_DICTIONARY = 8,
    ENCODING_BYTE_STREAM_SPLIT = 9,
};

struct parquet_page {
    bool is_dictionary;
    int64_t offset;                                   // offset of its header in the file
    int64_t n_values;                                 // nulls included
    int32_t encoding;                                 // encoding of the values
    struct text repetition_levels, definition_levels; // in RLE without their length
    struct text values;
};

struct parquet_pages {
    int fd;
    const char *name, *column; // names of file and column, for messages
    struct parquet_chunk chunk;
    bool has_repetition, has_definition; // pages have these levels
    int64_t next;                        // offset of the next page
    struct buffer window;                // bytes of the chunk from `window_start`
    int64_t window_start;
    struct buffer plain[2]; // decompressed dictionary page and data page
};

// Starts with another chunk, and keeps the memory.
void parquet_pages_start(struct parquet_pages *pages, const struct parquet_chunk *chunk);
void parquet_pages_finish(struct parquet_pages *pages);
// Reads the next dictionary or data page; *is_end: there is none. The page is valid until the next call, the
// values of a dictionary page until the next dictionary page.
enum status parquet_pages_next(struct parquet_pages *pages, struct parquet_page *page, bool *is_end,
                               struct error *error) WARN_UNUSED;
// "FILE: column "x": page at byte N: WHAT". Always STATUS_REFUSE.
enum status parquet_pages_refuse(const struct parquet_pages *pages, int64_t offset, const char *what,
                                 struct error *error);
