#include "schemas/parquet/delta.h"

#include "schemas/parquet/packed_runs.h"
#include "schemas/parquet/thrift.h"

bool delta_open(struct delta *delta, struct text bytes)
{
    struct thrift_reader reader = thrift_read_text(bytes);
    uint64_t n_of_block = thrift_read_varint(&reader), n_miniblocks = thrift_read_varint(&reader);
    uint64_t n_values = thrift_read_varint(&reader);
    int64_t first = thrift_read_integer(&reader);
    if (reader.failed || n_miniblocks == 0 || n_of_block == 0 || n_of_block > DELTA_BLOCK_VALUES_MAX ||
        n_of_block % n_miniblocks || n_of_block / n_miniblocks % 8)
        return false;
    *delta = (struct delta){.at = reader.at,
                            .end = reader.end,
                            .n_miniblocks = n_miniblocks,
                            .n_of_miniblock = (uint32_t)(n_of_block / n_miniblocks),
                            .miniblock = n_miniblocks,
                            .n_values_left = n_values,
                            .value = (uint64_t)first};
    return true;
}

static bool open_block(struct delta *delta)
{
    struct thrift_reader reader = {delta->at, delta->end, false};
    delta->least_delta = (uint64_t)thrift_read_integer(&reader);
    if (reader.failed || delta->n_miniblocks > (uint64_t)(reader.end - reader.at))
        return false;
    delta->widths = reader.at;
    delta->at = reader.at + delta->n_miniblocks;
    delta->miniblock = 0;
    return true;
}

static bool open_miniblock(struct delta *delta)
{
    if (delta->miniblock == delta->n_miniblocks && !open_block(delta))
        return false;
    delta->width = (uint8_t)delta->widths[delta->miniblock++];
    size_t n_bytes = (size_t)delta->n_of_miniblock / 8 * delta->width;
    if (delta->width > 64 || n_bytes > (size_t)(delta->end - delta->at))
        return false;
    delta->packed = delta->at;
    delta->bit = 0;
    delta->at += n_bytes;
    delta->n_left = delta->n_of_miniblock;
    return true;
}

bool delta_next(struct delta *delta, int64_t *value)
{
    if (!delta->n_values_left)
        return false;
    if (delta->has_first) {
        if (!delta->n_left && !open_miniblock(delta))
            return false;
        delta->value += delta->least_delta + packed_bits(delta->packed, delta->end, delta->bit, delta->width);
        delta->bit += delta->width;
        delta->n_left--;
    }
    delta->has_first = true;
    delta->n_values_left--;
    *value = (int64_t)delta->value;
    return true;
}

bool delta_find_end(const struct delta *delta, const char **end)
{
    struct delta at = *delta;
    int64_t value;
    while (at.n_values_left)
        if (!delta_next(&at, &value))
            return false;
    *end = at.at;
    return true;
}
