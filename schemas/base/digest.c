#include "schemas/base/digest.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

void digest_init(void)
{
    int status = sodium_init();
    (void)status; // only the random generator can fail, and this program does not use it
}

struct digest digest_of(const void *data, size_t size)
{
    struct digest digest;
    int status = crypto_generichash(digest.bytes, sizeof digest.bytes, data, size, NULL, 0);
    assert(status == 0); // only sizes of digest or key can be wrong
    (void)status;
    return digest;
}

bool digest_is_set(const struct digest *digest)
{
    static const struct digest none;
    // Not sodium_is_zero: constant time costs six times as much, and digests are not secret.
    return memcmp(digest, &none, sizeof none) != 0;
}

bool digest_equal(const struct digest *a, const struct digest *b)
{
    return digest_is_set(a) && memcmp(a, b, sizeof *a) == 0;
}

void digest_write_hex(const struct digest *digest, char hex[DIGEST_HEX])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < DIGEST_HEX; i++)
        hex[i] = digits[digest->bytes[i / 2] >> (i % 2 ? 0 : 4) & 15];
}
