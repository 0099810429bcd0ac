// XXH3 (xxhash.com), 64 bits, for prefix hashes, input fingerprints, and seeds from job ids. The hashes are
// the same on all machines and in all releases, because seeds and stored hashes depend on them.
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t hash_bytes(const void *data, size_t size, uint64_t seed);
