// SHA-256 (FIPS 180-4), by libsodium: hashes that are published, so that anyone can compute them again
// (consumer/certificate). The identity of a request within sheaf is digest.h.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { SHA256_BYTES = 32, SHA256_HEX = 2 * SHA256_BYTES };

struct sha256 {
    unsigned char bytes[SHA256_BYTES];
};

struct sha256 sha256_of(const void *data, size_t size);
bool sha256_equal(const struct sha256 *a, const struct sha256 *b);
// Lower case; ends with a NUL.
void sha256_write_hex(const struct sha256 *hash, char hex[SHA256_HEX + 1]);
// Reads 64 digits, lower case alone: a hash has one spelling. False: others.
bool sha256_read_hex(const char *hex, size_t size, struct sha256 *hash);
