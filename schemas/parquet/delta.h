// Integers as packed differences (apache/parquet-format, Encodings.md, DELTA_BINARY_PACKED):
//
//   header   varints: values of a block, miniblocks of a block, values in all; zigzag varint: the first value
//   block    zigzag varint: the least difference; a byte for each miniblock: its width in bits; the miniblocks
//
// A difference is the least one plus packed bits. Sums wrap. Miniblocks without a value have no bytes.
#pragma once

#include "schemas/base/text.h"

enum { DELTA_BLOCK_VALUES_MAX = 1 << 24 };

struct delta {
    const char *at, *end;
    const char *widths;          // bit widths of the current block
    uint64_t n_miniblocks;       // miniblocks of a block
    uint32_t n_of_miniblock;     // values of a miniblock
    uint64_t miniblock;          // number of the next one in its block
    uint32_t n_left;             // values of the current miniblock
    uint64_t n_values_left;      // values that were not read
    unsigned width;              // bit width of the current miniblock
    const char *packed;          // its first byte
    size_t bit;                  // position of the next value in it
    uint64_t value, least_delta; // as wrapping integers
    bool has_first;              // the first value was read
};

// False: the header is damaged.
bool delta_open(struct delta *delta, struct text bytes);
// False: all values were read, or the bytes are damaged.
bool delta_next(struct delta *delta, int64_t *value);
// Finds the end of the values in the bytes, where other bytes may follow.
bool delta_find_end(const struct delta *delta, const char **end);
