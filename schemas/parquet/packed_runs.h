// Integers of up to 32 bits in Parquet's hybrid of run lengths and packed bits (apache/parquet-format,
// Encodings.md, RLE): levels, indices of a dictionary, and booleans.
//
//   run     varint 2 n, then the value in whole bytes: n times the value
//   packed  varint 2 n + 1, then 8 n values, each of `width` bits from the lowest bit of the first byte
#pragma once

#include "schemas/base/text.h"

struct packed_runs {
    const char *at, *end;
    unsigned width;  // bits of a value, 0 to 32
    uint32_t n_left; // values of the current run
    uint32_t value;  // value of a run of equal values
    bool is_packed;
    const char *packed; // first byte of a packed run
    size_t bit;         // position of the next value in it
};

// width: at most 32.
struct packed_runs packed_runs_open(struct text bytes, unsigned width);
// False: the bytes end, or are damaged.
bool packed_runs_next(struct packed_runs *runs, uint32_t *value);
// `width` bits (at most 64) from bit number `bit` of bytes that end at `end`, which must hold these bits.
uint64_t packed_bits(const char *bytes, const char *end, size_t bit, unsigned width);
