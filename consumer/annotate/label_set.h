// The labels that an answer may have: the choices of --choice, or the values that the schema of a property
// enumerates (enum, const, boolean, null, unions of these, $ref within the schema). Thread: main.
#pragma once

#include "schemas/base/arena.h"
#include "schemas/value.h"

enum { LABELS_MAX = 1024 };

// A zeroed struct is a column of any text.
struct label_set {
    bool is_closed;      // an answer is one of `labels`
    bool is_number;      // not closed, but it allows any number
    bool has_null;       // an answer may be null, whose label is "null"
    struct text *labels; // [n]: strings unchanged, other values as JSON
    size_t n;
};

// False: out of memory. Choices are not copied; labels of a schema are in the arena.
bool label_set_of_choices(struct label_set *set, struct arena *arena, const struct text *choices, size_t n);
bool label_set_of_schema(struct label_set *set, struct arena *arena, const struct value *root,
                         const struct value *schema);

// The value of a decimal number ("-1.5e3", also with "+"); NAN: the label is not a number.
double label_number(struct text label);
bool label_set_has(const struct label_set *set, struct text label);
// Returns the label that a gold label means. White space around it is ignored. Booleans and numbers match a
// label of equal value, as tables spell them ("True", "1.0", "01"). Without a match the result is the trimmed
// text, but a list or an object becomes JSON without blanks, and with is_number a number its shortest form;
// both are stored in `made`.
struct text label_set_match(const struct label_set *set, struct text gold, struct buffer *made);
