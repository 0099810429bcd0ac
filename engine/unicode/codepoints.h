// Python counts, indexes and slices text in codepoints; the interpreter's texts are valid UTF-8.
#pragma once

#include "schemas/base/text.h"

#include <stddef.h>
#include <stdint.h>

size_t codepoints_count(struct text text);
// The byte offset of codepoint `index`; text.size when the text has too few codepoints.
size_t codepoints_offset(struct text text, size_t index);
// The byte offset of the codepoint `index` places before the end; 0 when the text has too few codepoints.
size_t codepoints_offset_from_end(struct text text, size_t index);
struct text codepoints_slice(struct text text, size_t start, size_t stop); // start <= stop
// The codepoint at *offset, which advances past it. *offset must be below text.size.
uint32_t codepoints_next(struct text text, size_t *offset);
// The codepoint that ends at *offset, which moves back to its start. *offset must not be 0.
uint32_t codepoints_previous(struct text text, size_t *offset);
// How many bytes of `text` to show in an error message: whole characters, bounded. An int, for %.*s.
int codepoints_cut(struct text text);
void codepoints_add(struct buffer *buffer, uint32_t codepoint);
// Appends a backslash, `letter` and n_digits lower-case hexadecimal digits.
void codepoints_add_escape(struct buffer *buffer, char letter, unsigned n_digits, uint32_t codepoint);
