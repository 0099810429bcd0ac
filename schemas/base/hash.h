// XXH3 (xxhash.com), 64 bits: prefix hashes, input fingerprints, seeds from job ids. Stable across machines
// and releases: seeds and stored hashes depend on it.
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t hash_bytes(const void *data, size_t size, uint64_t seed);
