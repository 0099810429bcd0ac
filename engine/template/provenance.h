// Which bytes in memory are from the caller's variables. Strings share memory, and none is changed or freed
// while a template is rendered: so a byte is marked once, by its address, and whatever part of a string it is
// found in later it is still known. One bit a byte, in pages of 4,096 that are made when the first bit is
// set. A byte may also be marked as one of a numbered source's: a page has a number for each of its bytes once
// two sources meet in it.
#pragma once

#include "schemas/span.h"
#include "schemas/text.h"

#include <stdint.h>

struct rendering;
struct provenance_page;

// Zeroed is empty. Memory: the rendering's.
struct provenance {
    struct provenance_page **slots; // open addressing by address
    size_t n_pages, mask;           // mask + 1 slots
};

// source 0: of no particular one.
void provenance_mark(struct rendering *rendering, const char *data, size_t size, uint32_t source);
// The first run of marked bytes of one source in text[from..]. False: there is none.
bool provenance_next(const struct provenance *provenance, struct text text, size_t from,
                     struct text_span *run);
