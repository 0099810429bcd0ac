// Parses the values of --choice, or the labels of a question, into labels.
#pragma once

#include "schemas/base/arena.h"
#include "schemas/base/text.h"

struct choice_list {
    struct text *items; // [n], in the arena
    size_t n;
    bool nests; // one label is a prefix of another
};

// Labels are separated by commas, as the fields of a CSV record. Blanks around a label are not part of it. A
// label in double quotes may contain commas, and blanks at its ends; a quote within it is written twice.
// `texts` is NULL-terminated; the labels of all its texts form one list. STATUS_REFUSE: a label is empty,
// occurs twice or is not UTF-8; a quote is not closed.
enum status choice_list_read(struct choice_list *list, char *const *texts, struct arena *arena,
                             struct error *error) WARN_UNUSED;
// Makes the list of labels that are given one by one, with the same rules; they are not copied. source: what
// they are from, for errors.
enum status choice_list_of(struct choice_list *list, const struct text *labels, size_t n, const char *source,
                           struct arena *arena, struct error *error) WARN_UNUSED;
