// Text: bytes with a length (not NUL-terminated, may contain NUL), and a growing buffer of bytes.
#pragma once

#include "schemas/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Borrowed bytes; the owner keeps them valid.
struct text {
    const char *data;
    size_t size;
};

#define TEXT(literal) ((struct text){"" literal, sizeof(literal) - 1})

static inline struct text text_from_string(const char *string) // NULL gives the empty text
{
    return (struct text){string, string ? strlen(string) : 0};
}

static inline bool text_equal(struct text a, struct text b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static inline bool text_equals_string(struct text a, const char *b)
{
    return text_equal(a, text_from_string(b));
}

// Removes ASCII white space: at the start, or at both ends.
struct text text_trim_start(struct text text);
struct text text_trim(struct text text);

// Writes the integer in decimal to the end of `out`. The returned text points into `out`.
enum { INTEGER_TEXT_BYTES = 24 };
struct text text_from_integer(int64_t integer, char out[INTEGER_TEXT_BYTES]);

// A growing buffer. A zeroed struct is valid and empty. If memory runs out, or the buffer would exceed
// `size_max` (0: unlimited), nothing is written and `failed` is set. It stays set: check it once, at the end.
struct buffer {
    char *data; // NUL-terminated after the first addition; the NUL is not counted
    size_t size;
    size_t capacity;
    size_t size_max;
    bool failed;
    bool is_full; // it failed because of size_max, not because of memory
};

void buffer_add(struct buffer *buffer, const void *data, size_t size);
void buffer_add_text(struct buffer *buffer, struct text text);
void buffer_add_string(struct buffer *buffer, const char *string);
void buffer_add_byte(struct buffer *buffer, char byte);
void buffer_add_integer(struct buffer *buffer, int64_t integer); // in decimal
void buffer_add_format(struct buffer *buffer, const char *format, ...) PRINTF_LIKE(2, 3);
bool buffer_reserve(struct buffer *buffer, size_t extra);
void buffer_clear(struct buffer *buffer); // keeps the memory
void buffer_finish(struct buffer *buffer);

// True for valid UTF-8 (RFC 3629: no surrogates, no overlong forms, at most U+10FFFF).
bool utf8_valid(const char *data, size_t size);
// White space as defined by Python's str.isspace and str.strip.
bool codepoint_is_space(uint32_t codepoint);
// Decodes one character; returns its length in bytes, or 0 when the bytes are not valid UTF-8 (or size is 0).
size_t utf8_decode(const char *data, size_t size, uint32_t *codepoint);
// For bytes that utf8_decode refuses: returns the length of the first part, which one U+FFFD replaces
// (Unicode 15, section 3.9, "U+FFFD Substitution of Maximal Subparts"). At least 1. *unfinished becomes true
// if the bytes end within a character.
size_t utf8_bad_length(const char *data, size_t size, bool *unfinished);
// False for control characters (C0, DEL, C1), and for characters that reorder or break lines (U+061C, U+200E,
// U+200F, U+2028 to U+202E, U+2066 to U+2069).
bool utf8_is_printable(uint32_t codepoint);
// Makes a C string one line of valid UTF-8, for messages that quote outside bytes. Characters that are not
// printable become spaces, bad bytes become question marks, and an incomplete character at the end is
// dropped.
void utf8_make_printable(char *string);
// Appends the text, made printable, and pads it with blanks to n_columns of a terminal.
void buffer_add_printable(struct buffer *buffer, struct text text, size_t n_columns);
// Encodes into out[4]; returns 1 to 4 bytes.
size_t utf8_encode(uint32_t codepoint, char *out);
// Returns the length of the longest prefix that ends with a complete character, for streaming. A sequence
// that can never become valid counts as complete.
size_t utf8_complete_prefix(const char *data, size_t size);
// Counts the terminal columns of valid UTF-8: none for a combining mark (U+0300 to U+036F) or a joiner, two
// for the wide blocks of Unicode's East Asian Width (CJK, Hangul, full-width forms, emoji), one for any other
// character.
size_t utf8_columns(const char *data, size_t size);
// Returns the length of the longest prefix of whole characters that fits in the columns and the bytes.
size_t utf8_columns_prefix(const char *data, size_t size, size_t n_columns, size_t n_bytes);
