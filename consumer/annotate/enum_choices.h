// The answers of a schema whose only property enumerates its values, one by one, so that --probabilities can score each as
// a choice: {"tone":"warm"}, {"tone":"cold"}. They share all text before the value, so their normalized probabilities are
// the probabilities of the value after this text. A schema that enumerates values itself has the answers "warm", "cold".
// Thread: main.
#pragma once

#include "consumer/options/choice_list.h"
#include "schemas/base/error.h"
#include "schemas/value.h"

struct enum_choices {
    struct choice_list answers; // JSON texts; n 0: none
    struct text *columns;       // [answers.n] PROPERTY_VALUE, or VALUE, as names of columns
    struct text *labels;        // [answers.n] VALUE: a text without quotes, else JSON
    struct text margin;         // PROPERTY_margin, or margin
};

// schema: closed, as it is requested. STATUS_REFUSE: the schema is another one; the error says how it differs.
enum status enum_choices_find(struct enum_choices *choices, const struct value *schema, struct arena *arena,
                              struct error *error) WARN_UNUSED;
