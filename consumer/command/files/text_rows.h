// The row of each different text, so that equal texts of a table are computed once. Texts are compared by their
// digests; 40 to 80 bytes a text. A zeroed struct is valid and empty. Thread: main.
#pragma once

#include "schemas/base/hash_index.h"
#include "schemas/base/text.h"

struct text_row;

struct text_rows {
    struct hash_index index;
    struct text_row *items; // [capacity]
    size_t n, capacity;
};

// *first: the row of an equal text that was added before, else -1, and the text is added with `row`. False: out of
// memory, or 2^32 texts; the rows are unchanged.
bool text_rows_add(struct text_rows *rows, struct text text, int64_t row, int64_t *first);
void text_rows_finish(struct text_rows *rows);
