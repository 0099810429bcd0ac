#include "batching/lists/page_stack.h"

#include <assert.h>
#include <stdlib.h>

enum status page_stack_init(struct page_stack *stack, int32_t n_pages, struct error *error)
{
    assert(n_pages > 0);
    *stack = (struct page_stack){.n_pages = n_pages, .n_free = n_pages};
    stack->free = malloc((size_t)n_pages * sizeof *stack->free);
    if (!stack->free)
        return error_memory(error, STATUS_REFUSE, "list of %d pages", n_pages);
    // Pages are taken from the array's end: low numbers first, so that a small cache touches little memory.
    for (int32_t i = 0; i < n_pages; i++)
        stack->free[i] = n_pages - 1 - i;
    return STATUS_OK;
}

void page_stack_finish(struct page_stack *stack)
{
    free(stack->free);
    *stack = (struct page_stack){0};
}

int32_t page_stack_take(struct page_stack *stack)
{
    return stack->n_free ? stack->free[--stack->n_free] : -1;
}

void page_stack_give(struct page_stack *stack, int32_t page)
{
    assert(page >= 0 && page < stack->n_pages && stack->n_free < stack->n_pages);
    stack->free[stack->n_free++] = page;
}
