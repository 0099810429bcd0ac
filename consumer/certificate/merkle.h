// A Merkle tree over leaves that are added one by one (RFC 6962, section 2.1), in memory for 64 hashes:
//
//   leaf  SHA-256(0x00 || bytes)            node  SHA-256(0x01 || left || right)
//
// The prefixes keep a node from being taken for a leaf. A tree of n leaves has the largest power of two below n on
// its left, so no leaf is doubled to fill it, and the shape follows from the number alone.
#pragma once

#include "schemas/base/sha256.h"

#include <stdint.h>

enum { MERKLE_PEAKS = 64, MERKLE_LEAF_BYTES_MAX = 256 };

// A zeroed struct is the empty tree.
struct merkle {
    uint64_t n; // leaves; bit i is set if peaks[i] is the root of a tree of 2^i of them
    struct sha256 peaks[MERKLE_PEAKS];
};

// size: at most MERKLE_LEAF_BYTES_MAX.
struct sha256 merkle_leaf(const void *bytes, size_t size);
void merkle_add(struct merkle *merkle, const struct sha256 *leaf);
// The root of the leaves so far. Of none: SHA-256 of nothing.
struct sha256 merkle_root(const struct merkle *merkle);
