#include "engine/tokenizer/unicode_class.h"

#include "schemas/base/text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct class_range {
    uint32_t first : 24;
    uint32_t class : 8;
};

#define U CLASS_UPPER
#define L CLASS_LOWER
#define O CLASS_OTHER_LETTER
#define M CLASS_MARK
#define N CLASS_NUMBER
#define P CLASS_PUNCTUATION
#define S CLASS_SYMBOL
#define W CLASS_SPACE
#define R(first, class)                                                                                      \
    {                                                                                                        \
        first, class                                                                                         \
    }
static const struct class_range ranges[] = {
#include "engine/tokenizer/unicode_ranges.h"
};
#undef U
#undef L
#undef O
#undef M
#undef N
#undef P
#undef S
#undef W
#undef R

enum { RANGE_COUNT = sizeof ranges / sizeof *ranges };

// Writes page `page`; `*range`, the range of its first codepoint, advances to the next page.
static void fill_page(uint8_t *out, size_t page, size_t *range)
{
    size_t start = page * 256, end = start + 256;
    for (size_t at = start, next; at < end; at = next) {
        while (*range + 1 < RANGE_COUNT && ranges[*range + 1].first <= at)
            ++*range;
        next = *range + 1 < RANGE_COUNT && ranges[*range + 1].first < end ? ranges[*range + 1].first : end;
        memset(out + (at - start), ranges[*range].class, next - at);
    }
}

// An existing page with these classes (first tries page `before`, the most frequent case); n_pages: none.
static size_t find_page(const uint8_t (*pages)[256], size_t n_pages, size_t before,
                        const uint8_t classes[256])
{
    if (n_pages && !memcmp(pages[before], classes, 256))
        return before;
    size_t same = 0;
    while (same < n_pages && memcmp(pages[same], classes, 256))
        same++;
    return same;
}

struct unicode_table *unicode_table_create(void)
{
    struct unicode_table *table = calloc(1, sizeof *table);
    uint8_t(*pages)[256] = calloc(256, sizeof *pages);
    size_t n_pages = 0;
    size_t range = 0;
    for (size_t page = 0; table && pages && page < CLASS_PAGE_COUNT; page++) {
        uint8_t filled[256];
        fill_page(filled, page, &range);
        size_t same =
            find_page((const uint8_t(*)[256])pages, n_pages, page ? table->page_of[page - 1] : 0, filled);
        if (same == n_pages) {
            assert(n_pages < 256); // about 170 of the 4352 pages are distinct
            memcpy(pages[n_pages++], filled, 256);
        }
        table->page_of[page] = (uint8_t)same;
    }
    if (!table || !pages) {
        free(table);
        free(pages);
        return NULL;
    }
    uint8_t(*shrunk)[256] = realloc(pages, n_pages * sizeof *pages);
    table->pages = shrunk ? shrunk : pages;
    memcpy(table->ascii, table->pages[table->page_of[0]], 128);
    return table;
}

void unicode_table_destroy(struct unicode_table *table)
{
    if (table)
        free(table->pages);
    free(table);
}

struct unicode_character unicode_decode(const struct unicode_table *table, const char *at, const char *end)
{
    uint32_t codepoint;
    size_t size = utf8_decode(at, (size_t)(end - at), &codepoint);
    if (size == 0)
        return (struct unicode_character){0xFFFD, (uint8_t)unicode_class_of(table, 0xFFFD), 1};
    return (struct unicode_character){codepoint, (uint8_t)unicode_class_of(table, codepoint), (uint8_t)size};
}
