// Free KV pages: a stack of page numbers. Who holds a page knows it; nothing here counts references.
// Thread: engine.
#pragma once

#include "schemas/error.h"

#include <stdint.h>

struct pages {
    int32_t *free; // [n_free], the next one last
    int32_t n_free;
    int32_t n_pages;
};

enum status pages_init(struct pages *pages, int32_t n_pages, struct error *error) WARN_UNUSED;
void pages_finish(struct pages *pages);
int32_t pages_take(struct pages *pages); // -1: none is free
void pages_give(struct pages *pages, int32_t page);
