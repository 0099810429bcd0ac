// Python counts, indexes and slices text in codepoints; ours is UTF-8, known to be valid.
#pragma once

#include "schemas/text.h"

#include <stddef.h>
#include <stdint.h>

size_t codepoints_count(struct text text);
// The byte where codepoint `index` starts; text.size when there are not that many.
size_t codepoints_offset(struct text text, size_t index);
// The byte where the codepoint `index` places before the end starts; 0 when there are not that many.
size_t codepoints_offset_from_end(struct text text, size_t index);
struct text codepoints_slice(struct text text, size_t start, size_t stop); // start <= stop
// The codepoint at *offset, which moves behind it. *offset must be below text.size.
uint32_t codepoints_next(struct text text, size_t *offset);
// The codepoint that ends at *offset, which moves before it. *offset must not be 0.
uint32_t codepoints_previous(struct text text, size_t *offset);
// How many bytes of `text` an error shows: whole characters, not too many. An int, for %.*s.
int codepoints_cut(struct text text);
void codepoints_add(struct buffer *buffer, uint32_t codepoint);
// A backslash, `letter` and n_digits lower-case hexadecimal digits.
void codepoints_add_escape(struct buffer *buffer, char letter, unsigned n_digits, uint32_t codepoint);
