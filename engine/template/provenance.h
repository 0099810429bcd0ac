// Tracks which bytes in memory come from the caller's variables. Strings share memory, and no string is
// changed or freed while a template is rendered. So a byte is marked once, by its address, and is recognized
// in every string that contains it. One bit per byte, in pages of 4,096 bytes created on their first mark. A
// mark may also carry the number of a source; a page stores one number for all its bytes, or one per byte
// once two sources meet in it.
#pragma once

#include "schemas/base/span.h"
#include "schemas/base/text.h"

#include <stdint.h>

struct rendering;
struct provenance_page;

// Zeroed is empty. Memory: the rendering's.
struct provenance {
    struct provenance_page **slots; // open addressing by address
    size_t n_pages, mask;           // mask + 1 slots
};

// source 0: from the variables, but of no numbered source.
void provenance_mark(struct rendering *rendering, const char *data, size_t size, uint32_t source);
// The first run of marked bytes of one source in text[from..]. False: no marked byte.
bool provenance_next(const struct provenance *provenance, struct text text, size_t from,
                     struct text_span *run);
