#include "schemas/parquet/packed_runs.h"

#include "schemas/parquet/thrift.h"

#include <endian.h>

uint64_t packed_bits(const char *bytes, const char *end, size_t bit, unsigned width)
{
    const char *at = bytes + bit / 8;
    unsigned shift = bit % 8;
    uint64_t low = 0, mask = width < 64 ? (UINT64_C(1) << width) - 1 : UINT64_MAX;
    size_t n = (size_t)(end - at);
    if (!width)
        return 0;
    memcpy(&low, at, n < 8 ? n : 8);
    low = le64toh(low) >> shift;
    if (shift + width > 64) // a ninth byte
        low |= (uint64_t)(uint8_t)at[8] << (64 - shift);
    return low & mask;
}

struct packed_runs packed_runs_open(struct text bytes, unsigned width)
{
    const char *data = bytes.data ? bytes.data : "";
    return (struct packed_runs){.at = data, .end = data + bytes.size, .width = width};
}

static bool open_run(struct packed_runs *runs)
{
    struct thrift_reader reader = {runs->at, runs->end, false};
    uint64_t header = thrift_read_varint(&reader), n = header >> 1;
    size_t n_left = (size_t)(runs->end - reader.at);
    runs->is_packed = header & 1;
    if (reader.failed || n == 0 || n > INT32_MAX)
        return false;
    if (runs->is_packed) {
        // The last packed run of some writers lacks the bytes of its padding.
        uint64_t n_bytes = n * runs->width;
        runs->packed = reader.at;
        runs->bit = 0;
        runs->at = reader.at + (n_bytes < n_left ? (size_t)n_bytes : n_left);
        runs->n_left = n < INT32_MAX / 8 ? (uint32_t)n * 8 : INT32_MAX;
        return true;
    }
    size_t n_bytes = (runs->width + 7) / 8;
    if (n_bytes > n_left)
        return false;
    runs->value = (uint32_t)packed_bits(reader.at, runs->end, 0, 8 * (unsigned)n_bytes);
    runs->at = reader.at + n_bytes;
    runs->n_left = (uint32_t)n;
    return true;
}

bool packed_runs_next(struct packed_runs *runs, uint32_t *value)
{
    if (!runs->n_left && !open_run(runs))
        return false;
    runs->n_left--;
    *value = runs->value;
    if (!runs->is_packed)
        return true;
    if (runs->bit + runs->width > 8 * (size_t)(runs->at - runs->packed))
        return false;
    *value = (uint32_t)packed_bits(runs->packed, runs->end, runs->bit, runs->width);
    runs->bit += runs->width;
    return true;
}
