// A field of Parquet as the text that prompts read: true, [a, 'b, c', NULL], as in DuckDB's CSV. Thread: main.
#pragma once

#include "schemas/base/arena.h"
#include "schemas/value.h"

// Uses of a column in the templates, besides its text.
enum field_use {
    FIELD_IS_CONDITION = 1, // {% if ok %}
    FIELD_HAS_ITEMS = 2,    // {% for tag in tags %}, tags|join
};

// Makes a boolean or a list its text, in the arena; other fields stay. uses: of enum field_use. STATUS_REFUSE: the text would
// mean something else to the template: "false" is true, the items of "[a]" are characters. The text names the column.
enum status field_text_take(struct text column, unsigned uses, struct arena *arena, struct value *field,
                            struct error *error) WARN_UNUSED;
