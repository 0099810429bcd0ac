#include "schemas/base/base64.h"

#include <stdint.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(struct text bytes, struct buffer *out)
{
    const unsigned char *data = (const unsigned char *)bytes.data;
    for (size_t i = 0; i < bytes.size; i += 3) {
        size_t n = bytes.size - i < 3 ? bytes.size - i : 3;
        uint32_t group = (uint32_t)data[i] << 16;
        if (n > 1)
            group |= (uint32_t)data[i + 1] << 8;
        if (n > 2)
            group |= data[i + 2];
        char digits[4] = {alphabet[group >> 18], alphabet[group >> 12 & 63],
                          n > 1 ? alphabet[group >> 6 & 63] : '=', n > 2 ? alphabet[group & 63] : '='};
        buffer_add(out, digits, sizeof digits);
    }
}

// Value of a base64 digit, 0..63; -1 for other characters.
static int digit_value(char digit)
{
    const char *at = digit ? strchr(alphabet, digit) : NULL;
    return at ? (int)(at - alphabet) : -1;
}

// Decodes four digits to `n` bytes. False: a digit is invalid, or unused bits are not 0.
static bool decode_group(const char *digits, size_t n, char bytes[3])
{
    uint32_t group = 0;
    for (size_t i = 0; i < 4; i++) {
        int value = i <= n ? digit_value(digits[i]) : 0;
        if (value < 0)
            return false;
        group = group << 6 | (uint32_t)value;
    }
    if (group & (n == 1 ? 0xFFFFu : n == 2 ? 0xFFu : 0))
        return false;
    for (size_t i = 0; i < 3; i++)
        bytes[i] = (char)(group >> (16 - 8 * i));
    return true;
}

bool base64_decode(struct text text, struct buffer *out)
{
    size_t size_before = out->size;
    if (text.size % 4 != 0 || !buffer_reserve(out, text.size / 4 * 3))
        return false;
    for (size_t i = 0; i < text.size; i += 4) {
        size_t n = 3;
        if (i + 4 == text.size && text.data[i + 3] == '=')
            n = text.data[i + 2] == '=' ? 1 : 2;
        char bytes[3];
        if (!decode_group(text.data + i, n, bytes)) {
            out->size = size_before;
            return false;
        }
        buffer_add(out, bytes, n);
    }
    return true;
}
