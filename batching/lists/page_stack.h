// Free KV pages, or free slots of recurrent states: a stack of their numbers. The prefix tree counts their
// references.
// Thread: engine.
#pragma once

#include "schemas/base/error.h"

#include <stdint.h>

struct page_stack {
    int32_t *free; // [n_free] page numbers; the last one is taken next
    int32_t n_free;
    int32_t n_pages;
};

enum status page_stack_init(struct page_stack *stack, int32_t n_pages, struct error *error) WARN_UNUSED;
void page_stack_finish(struct page_stack *stack);
int32_t page_stack_take(struct page_stack *stack); // -1: none is free
void page_stack_give(struct page_stack *stack, int32_t page);
