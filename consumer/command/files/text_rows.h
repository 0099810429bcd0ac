// The row of each different text, so that equal texts of a table are computed once. Texts are compared by their
// digests; 24 bytes a text, at most three quarters full. A zeroed struct is valid and empty. Thread: main.
#pragma once

#include "schemas/base/text.h"

#include <stdint.h>

struct text_row;

struct text_rows {
    struct text_row *slots; // [n_slots], a power of two
    size_t n_slots, n;
};

// *first: the row of an equal text that was added before, else -1, and the text is added with `row`. False: out of
// memory.
bool text_rows_add(struct text_rows *rows, struct text text, int64_t row, int64_t *first);
void text_rows_finish(struct text_rows *rows);
