#include "batching/pages.h"

#include <assert.h>
#include <stdlib.h>

enum status pages_init(struct pages *pages, int32_t n_pages, struct error *error)
{
    assert(n_pages > 0);
    *pages = (struct pages){.n_pages = n_pages, .n_free = n_pages};
    pages->free = malloc((size_t)n_pages * sizeof *pages->free);
    if (!pages->free)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "list of %d pages: out of memory", n_pages);
    // Taken from the end: low page numbers first, so that few pages touch little memory.
    for (int32_t i = 0; i < n_pages; i++)
        pages->free[i] = n_pages - 1 - i;
    return STATUS_OK;
}

void pages_finish(struct pages *pages)
{
    free(pages->free);
    *pages = (struct pages){0};
}

int32_t pages_take(struct pages *pages)
{
    return pages->n_free ? pages->free[--pages->n_free] : -1;
}

void pages_give(struct pages *pages, int32_t page)
{
    assert(page >= 0 && page < pages->n_pages && pages->n_free < pages->n_pages);
    pages->free[pages->n_free++] = page;
}
