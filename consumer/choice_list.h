// The labels of --choice, from its texts.
#pragma once

#include "schemas/arena.h"
#include "schemas/text.h"

struct choice_list {
    struct text *items; // [n], the arena's
    size_t n;
    bool nests; // one label begins another one
};

// Labels are separated by commas, as the fields of a CSV record. Blanks around a label are not part of it. A
// label in double quotes may contain commas, and blanks at its ends; a quote within it is written twice.
// The labels of several texts add up. texts: NULL ends them. STATUS_REFUSE: a label is empty, occurs twice or is not
// UTF-8; a quote is not closed.
enum status choice_list_read(struct choice_list *list, char *const *texts, struct arena *arena,
                             struct error *error) WARN_UNUSED;
