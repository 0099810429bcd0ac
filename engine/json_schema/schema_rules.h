// Grammar symbols of formulas: a nonterminal for each formula in use and, if lines are indented, for each
// depth. Internal to engine/json_schema/.
#pragma once

#include "engine/json_schema/schema_shape.h"

struct schema_symbol {
    uint32_t formula, depth, symbol, next_of_hash;
};

// Literals around the members and items at one depth.
struct schema_marks {
    uint32_t open_object, close_object, empty_object, open_array, close_array, empty_array, comma, colon;
};

struct schema_rules {
    struct schema_compiler *compiler;
    struct schema_symbol *symbols; // in order of first use, which is also the order of definition
    uint32_t n_symbols, symbols_max, n_defined;
    uint32_t *buckets;
    struct schema_marks marks[JSON_SCHEMA_INDENTED_DEPTH_MAX + 1];
    bool has_marks[JSON_SCHEMA_INDENTED_DEPTH_MAX + 1];
};

enum { SCHEMA_STATES_MAX = 20000, SCHEMA_LOOSE_MAX = 6, SCHEMA_NEEDS_MAX = 3, SCHEMA_UNIQUE_MAX = 32 };

bool schema_rules_init(struct schema_rules *rules, struct schema_compiler *compiler);
// Returns the symbol of a formula and defines all symbols that it uses. json_schema_property() explains
// `bare_end`.
uint32_t schema_rules_add(struct schema_rules *rules, uint32_t formula, struct text bare_end);
uint32_t schema_rules_symbol(struct schema_rules *rules, uint32_t formula, uint32_t depth);
const struct schema_marks *schema_rules_marks(struct schema_rules *rules, uint32_t depth);

// Symbols collected for a choice. A zeroed list is empty.
struct symbol_list {
    uint32_t *symbols;
    uint32_t n, max;
};
void symbol_list_add(struct schema_rules *rules, struct symbol_list *list, uint32_t symbol);
uint32_t symbol_list_choice(struct schema_rules *rules, const struct symbol_list *list);
uint32_t schema_rules_pair(struct schema_rules *rules, uint32_t a, uint32_t b);

// Return the symbol of an array or object constraint; `depth` is the depth of the container. In
// schema_rules_object.c, schema_rules_array.c and schema_rules_unique.c.
uint32_t schema_rules_object(struct schema_rules *rules, const struct object_shape *object, uint32_t depth);
uint32_t schema_rules_array(struct schema_rules *rules, const struct array_shape *array, uint32_t depth);
uint32_t schema_rules_unique(struct schema_rules *rules, const struct array_shape *array, uint32_t depth);
