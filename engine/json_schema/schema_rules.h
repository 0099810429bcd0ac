// Formulas as symbols of a grammar: a nonterminal for each formula (and, where lines are indented, each
// depth) that is reached. Internal to engine/grammar/.
#pragma once

#include "engine/json_schema/schema_shape.h"

struct schema_symbol {
    uint32_t formula, depth, symbol, next_of_hash;
};

// The literals around the members and items of one depth.
struct schema_marks {
    uint32_t open_object, close_object, empty_object, open_array, close_array, empty_array, comma, colon;
};

struct schema_rules {
    struct schema_compiler *compiler;
    struct schema_symbol *symbols; // in the order in which they were asked for; defined in that order
    uint32_t n_symbols, symbols_max, n_defined;
    uint32_t *buckets;
    struct schema_marks marks[JSON_SCHEMA_INDENTED_DEPTH_MAX + 1];
    bool has_marks[JSON_SCHEMA_INDENTED_DEPTH_MAX + 1];
};

enum { SCHEMA_STATES_MAX = 20000, SCHEMA_LOOSE_MAX = 6, SCHEMA_NEEDS_MAX = 3, SCHEMA_UNIQUE_MAX = 32 };

bool schema_rules_init(struct schema_rules *rules, struct schema_compiler *compiler);
// A formula as a symbol, with all that it is made of. `bare_end`: json_schema_property.
uint32_t schema_rules_add(struct schema_rules *rules, uint32_t formula, struct text bare_end);
uint32_t schema_rules_symbol(struct schema_rules *rules, uint32_t formula, uint32_t depth);
const struct schema_marks *schema_rules_marks(struct schema_rules *rules, uint32_t depth);

// Symbols collected for a choice. Zeroed is empty.
struct symbol_list {
    uint32_t *symbols;
    uint32_t n, max;
};
void symbol_list_add(struct schema_rules *rules, struct symbol_list *list, uint32_t symbol);
uint32_t symbol_list_choice(struct schema_rules *rules, const struct symbol_list *list);
uint32_t schema_rules_pair(struct schema_rules *rules, uint32_t a, uint32_t b);

// A constraint as a symbol; `depth` is the container's. schema_rules_object.c, schema_rules_array.c,
// schema_rules_unique.c.
uint32_t schema_rules_object(struct schema_rules *rules, const struct object_shape *object, uint32_t depth);
uint32_t schema_rules_array(struct schema_rules *rules, const struct array_shape *array, uint32_t depth);
uint32_t schema_rules_unique(struct schema_rules *rules, const struct array_shape *array, uint32_t depth);
