// The answers of a schema whose only property enumerates its values, one by one, so that --probabilities can score each as
// a choice: {"tone":"warm"}, {"tone":"cold"}. They share all text before the value, so their normalized probabilities are
// the probabilities of the value after this text. A schema that enumerates values itself has the answers "warm", "cold".
// Another schema's properties that enumerate their values are scored after the answer was generated, each given the
// answer before it (choice_logprobs with a schema). Thread: main.
#pragma once

#include "consumer/options/choice_list.h"
#include "schemas/job.h"

struct enum_choices {
    struct choice_list answers; // JSON texts; n 0: none
    struct text *columns;       // [answers.n] PROPERTY_VALUE, or VALUE, as names of columns
    struct text *labels;        // [answers.n] VALUE: a text without quotes, else JSON
    struct text margin;         // PROPERTY_margin, or margin
};

struct property_choices {
    struct text name;
    struct text *choices; // [n] as in the result: {"tone":"warm"}
    struct text *columns; // [n] PROPERTY_VALUE
    struct text *labels;  // [n] VALUE: a text without quotes, else JSON
    struct text margin;   // PROPERTY_margin
    size_t n;
};

struct property_choices_list {
    struct property_choices *items; // [n] in the order of the schema
    size_t n;
    size_t n_columns; // of all
};

// schema: closed, as it is requested. answers.n 0: the schema has another form.
enum status enum_choices_find(struct enum_choices *choices, const struct value *schema, struct arena *arena,
                              struct error *error) WARN_UNUSED;
// n 0: no property enumerates its values.
enum status property_choices_find(struct property_choices_list *list, const struct value *schema,
                                  struct arena *arena, struct error *error) WARN_UNUSED;
