// Tracks which bytes in memory come from the caller's variables. Strings share memory, and no string is
// changed or freed during a rendering. So a byte is marked once, by its address, and the mark is found in
// every string that contains the byte. There is one bit per byte, in pages of 1,024 bytes that are created on
// their first mark. A mark may also have the number of a source. A page stores one number for all its bytes,
// or one per byte if bytes of several sources are in it.
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

// Marks bytes. Source 0: they come from the variables, but from no numbered source.
void provenance_mark(struct rendering *rendering, const char *data, size_t size, uint32_t source);
// Finds the first run of marked bytes of one source in text[from..]. False: no byte is marked.
bool provenance_next(const struct provenance *provenance, struct text text, size_t from,
                     struct text_span *run);
