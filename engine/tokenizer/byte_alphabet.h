// GPT-2's byte alphabet: byte-level vocabularies write each byte as a printable character, so that tokens are
// text. Bytes 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF map to the codepoints of the same number; the other 68, in
// order, to U+0100 and up. Source: github.com/openai/gpt-2, src/encoder.py, bytes_to_unicode.
#pragma once

#include "schemas/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint32_t byte_alphabet_character(unsigned char byte);
int byte_alphabet_byte(uint32_t codepoint); // -1: not in the alphabet
// Decodes `text` to *size bytes; `out` has room for text.size. False: a character is not in the alphabet.
bool byte_alphabet_decode(struct text text, char *out, size_t *size);
