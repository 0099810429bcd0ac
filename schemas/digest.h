// BLAKE2b (RFC 7693), 160 bits, by libsodium: the identity of a request. Equal digests mean equal requests
// also where somebody chooses the requests: two that collide cost about 2^80 digests. XXH3 (schemas/hash.h)
// collides at will and serves tables whose entries are compared.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { DIGEST_BYTES = 20, DIGEST_HEX = 2 * DIGEST_BYTES };

// All zero: none.
struct digest {
    unsigned char bytes[DIGEST_BYTES];
};

struct digest digest_of(const void *data, size_t size);
bool digest_is_set(const struct digest *digest);
bool digest_equal(const struct digest *a, const struct digest *b);        // false where none is set
void digest_write_hex(const struct digest *digest, char hex[DIGEST_HEX]); // lower case, no '\0'

// Chooses the processor's fastest implementation; without it digests are the same. Once, before threads
// start.
void digest_init(void);
