// Bytes of a text file to UTF-8, in pieces of any size: the encoding, the lines above a table, and lines that end
// in CR alone. Thread: main.
#pragma once

#include "schemas/base/error.h"
#include "schemas/base/text.h"

// UTF-16 is little-endian without a byte order mark. CP1252 and Latin-1 as in WHATWG's Encoding standard: the five
// bytes that windows-1252 does not define are control characters.
enum text_encoding { TEXT_UTF8, TEXT_UTF16, TEXT_UTF16_BIG, TEXT_CP1252, TEXT_LATIN1 };

struct text_decoder {
    enum text_encoding encoding;
    bool ends_at_returns;    // a CR ends a line, also without LF
    int64_t n_lines_skipped; // lines that are left out at the beginning
    // state
    int64_t n_left;        // lines that are still to be left out
    bool after_return;     // the last character was a CR, written as LF
    unsigned char kept[4]; // bytes of an incomplete character
    size_t n_kept;
    uint64_t offset; // of the next byte
};

// "utf-8", "utf-16", "cp1252" or "latin1". False: another name.
bool text_encoding_parse(const char *name, enum text_encoding *encoding);
// Returns to the beginning.
void text_decoder_rewind(struct text_decoder *decoder);
// Appends the characters of the bytes; an incomplete one at their end is kept. STATUS_REFUSE: a byte sequence
// that is no UTF-16; the text of the error has its offset. Bytes in UTF-8 are not checked.
enum status text_decoder_add(struct text_decoder *decoder, struct text bytes, struct buffer *out,
                             struct error *error) WARN_UNUSED;
// After the last byte. STATUS_REFUSE: it is within a character.
enum status text_decoder_end(const struct text_decoder *decoder, struct error *error) WARN_UNUSED;

// Counts of a file's bytes, added piece by piece, from which its encoding is guessed.
struct text_guess {
    bool is_utf8;     // so far
    bool is_defined;  // no byte that windows-1252 does not define
    bool has_control; // a byte from 0x80 to 0x9F
    uint64_t n_even_nuls, n_odd_nuls, n;
    unsigned char kept[4];
    size_t n_kept;
};

struct text_guess text_guess_begin(void);
void text_guess_add(struct text_guess *guess, struct text bytes);
// The name of the encoding that fits text that is not UTF-8; NULL: it is UTF-8.
const char *text_guess_name(const struct text_guess *guess);
