#include "consumer/annotate/sample_rows.h"

#include "schemas/base/hash.h"

int64_t sample_row(int64_t i, int64_t n, int64_t n_rows, int64_t seed)
{
    int64_t begin = (int64_t)((__int128)n_rows * i / n);
    int64_t end = (int64_t)((__int128)n_rows * (i + 1) / n);
    uint64_t draw = hash_bytes(&i, sizeof i, (uint64_t)seed);
    return begin + 1 + (int64_t)(draw % (uint64_t)(end - begin));
}
