// BLAKE2b (RFC 7693), 160 bits, by libsodium: the identity of a request. Equal digests mean equal requests
// even if an attacker chooses the requests: a collision costs about 2^80 digests. XXH3
// (schemas/base/hash.h) is not collision resistant; it is for tables whose entries are compared.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { DIGEST_BYTES = 20, DIGEST_HEX = 2 * DIGEST_BYTES };

// A digest. All bytes 0 means not set.
struct digest {
    unsigned char bytes[DIGEST_BYTES];
};

struct digest digest_of(const void *data, size_t size);
bool digest_is_set(const struct digest *digest);
bool digest_equal(const struct digest *a, const struct digest *b);        // false if one is not set
void digest_write_hex(const struct digest *digest, char hex[DIGEST_HEX]); // lower case, no '\0'

// Selects the fastest implementation for the processor; digests are the same without it. Call once, before
// threads start.
void digest_init(void);
