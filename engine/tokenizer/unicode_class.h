// Character classes named by the tokenizers' split patterns: general categories and white space of Unicode
// 15.1. The table is built once per tokenizer and then immutable.
#pragma once

#include <stddef.h>
#include <stdint.h>

// One bit each; a character has one class, or none (controls, formats, unassigned).
enum unicode_class {
    CLASS_UPPER = 1,        // \p{Lu}, \p{Lt}
    CLASS_LOWER = 2,        // \p{Ll}
    CLASS_OTHER_LETTER = 4, // \p{Lm}, \p{Lo}
    CLASS_MARK = 8,         // \p{M}
    CLASS_NUMBER = 16,      // \p{N}
    CLASS_PUNCTUATION = 32, // \p{P}
    CLASS_SYMBOL = 64,      // \p{S}
    CLASS_SPACE = 128,      // \s: the property White_Space
    CLASS_LETTER = CLASS_UPPER | CLASS_LOWER | CLASS_OTHER_LETTER,
};

enum { CLASS_PAGE_COUNT = 0x110000 / 256 };

struct unicode_table {
    uint8_t ascii[256];                // classes of the first 128; the rest are lead or trail bytes: 0
    uint8_t page_of[CLASS_PAGE_COUNT]; // codepoint / 256
    uint8_t (*pages)[256];
};

// NULL: out of memory.
struct unicode_table *unicode_table_create(void);
void unicode_table_destroy(struct unicode_table *table);

static inline unsigned unicode_class_of(const struct unicode_table *table, uint32_t codepoint)
{
    return table->pages[table->page_of[codepoint >> 8]][codepoint & 255];
}

// A character of UTF-8 text. A byte that does not start a valid sequence is a character of its own, with the
// class of U+FFFD.
struct unicode_character {
    uint32_t codepoint; // 0xFFFD for such a byte
    uint8_t class;
    uint8_t size; // bytes; 0 at the end of the text
};

// Decodes the non-ASCII character at `at` (at < end).
struct unicode_character unicode_decode(const struct unicode_table *table, const char *at, const char *end);

static inline struct unicode_character unicode_at(const struct unicode_table *table, const char *at,
                                                  const char *end)
{
    if (at >= end)
        return (struct unicode_character){0, 0, 0};
    unsigned char byte = (unsigned char)*at;
    if (byte < 128)
        return (struct unicode_character){byte, table->ascii[byte], 1};
    return unicode_decode(table, at, end);
}
