#include "schemas/base/sha256.h"

#include <sodium.h>
#include <string.h>

static const char digits[] = "0123456789abcdef";

struct sha256 sha256_of(const void *data, size_t size)
{
    struct sha256 hash;
    crypto_hash_sha256(hash.bytes, size ? data : (const void *)"", size);
    return hash;
}

bool sha256_equal(const struct sha256 *a, const struct sha256 *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

void sha256_write_hex(const struct sha256 *hash, char hex[SHA256_HEX + 1])
{
    for (int i = 0; i < SHA256_HEX; i++)
        hex[i] = digits[hash->bytes[i / 2] >> (i % 2 ? 0 : 4) & 15];
    hex[SHA256_HEX] = '\0';
}

bool sha256_read_hex(const char *hex, size_t size, struct sha256 *hash)
{
    *hash = (struct sha256){0};
    for (size_t i = 0; i < size && size == SHA256_HEX; i++) {
        const char *digit = hex[i] ? strchr(digits, hex[i]) : NULL;
        if (!digit)
            return false;
        hash->bytes[i / 2] |= (unsigned char)((digit - digits) << (i % 2 ? 0 : 4));
    }
    return size == SHA256_HEX;
}
