#include "schemas/base/hash.h"

#include HASH_HEADER // <xxhash.h>, or <xxh_x86dispatch.h> (schemas/meson.build)

uint64_t hash_bytes(const void *data, size_t size, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, size, seed);
}
