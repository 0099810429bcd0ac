#include "engine/tokenizer/byte_alphabet.h"

static bool is_itself(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

// The bytes that are not written as themselves are 0x00-0x20 (33), 0x7F-0xA0 (34) and 0xAD.
uint32_t byte_alphabet_character(unsigned char byte)
{
    if (is_itself(byte))
        return byte;
    if (byte <= 0x20)
        return 0x100u + byte;
    return byte == 0xAD ? 0x100u + 67 : 0x100u + 33 + byte - 0x7Fu;
}

int byte_alphabet_byte(uint32_t codepoint)
{
    if (codepoint < 0x100)
        return is_itself(codepoint) ? (int)codepoint : -1;
    uint32_t index = codepoint - 0x100;
    if (index <= 32)
        return (int)index;
    if (index <= 66)
        return (int)(index - 33 + 0x7F);
    return index == 67 ? 0xAD : -1;
}

bool byte_alphabet_decode(struct text text, char *out, size_t *size)
{
    *size = 0;
    for (size_t at = 0; at < text.size;) {
        uint32_t codepoint;
        size_t length = utf8_decode(text.data + at, text.size - at, &codepoint);
        int byte = length ? byte_alphabet_byte(codepoint) : -1;
        if (byte < 0)
            return false;
        out[(*size)++] = (char)byte;
        at += length;
    }
    return true;
}
