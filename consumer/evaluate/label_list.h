// A list of labels as a set: of an answer, an array of JSON; of a gold cell, JSON or labels with a separator.
// Thread: main.
#pragma once

#include "schemas/base/arena.h"
#include "schemas/value.h"

// A zeroed struct is valid and empty.
struct label_list {
    struct text *labels; // [n], each once, in ascending order of bytes
    size_t n;
    struct text whole; // labels as JSON; size 0: there is no list
    struct arena arena;
};

void label_list_finish(struct label_list *list);
// Replaces the list. value NULL, or not an array: there is none. False: out of memory.
bool label_list_read(struct label_list *list, const struct value *value) WARN_UNUSED;
// The same of a gold cell. Besides JSON: [a, 'b, c'] as DuckDB writes lists, and a;b or a|b or a,b (the first of these
// separators that occurs), with blanks around labels. A cell of blanks alone: there is none; [] is an empty list.
bool label_list_read_text(struct label_list *list, struct text cell) WARN_UNUSED;
