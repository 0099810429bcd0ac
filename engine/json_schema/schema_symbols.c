// Symbols from which schema rules are built: symbols of formulas and of the literals around members and
// items, and lists of symbols.
#include "engine/json_schema/schema_rules.h"

#include <string.h>

enum { N_BUCKETS = 4096 };

void symbol_list_add(struct schema_rules *rules, struct symbol_list *list, uint32_t symbol)
{
    if (list->n == list->max) {
        uint32_t max = list->max ? 2 * list->max : 8;
        uint32_t *larger = compiler_allocate(rules->compiler, max, sizeof *larger);
        if (!larger)
            return;
        if (list->n)
            memcpy(larger, list->symbols, list->n * sizeof *larger);
        list->symbols = larger;
        list->max = max;
    }
    if (symbol != SYMBOL_NOTHING)
        list->symbols[list->n++] = symbol;
}

uint32_t symbol_list_choice(struct schema_rules *rules, const struct symbol_list *list)
{
    return list->n == 1 ? list->symbols[0] : rules_choice(rules->compiler->rules, list->symbols, list->n);
}

uint32_t schema_rules_pair(struct schema_rules *rules, uint32_t a, uint32_t b)
{
    uint32_t symbols[] = {a, b};
    return a == SYMBOL_NOTHING || b == SYMBOL_NOTHING ? SYMBOL_NOTHING
                                                      : rules_sequence(rules->compiler->rules, symbols, 2);
}

static uint32_t literal_symbol(struct schema_rules *rules, const char *text, uint32_t n_spaces, bool line,
                               const char *after)
{
    struct buffer out = {0};
    buffer_add_string(&out, text);
    if (line)
        buffer_add_byte(&out, '\n');
    for (uint32_t i = 0; line && i < n_spaces; i++)
        buffer_add_byte(&out, ' ');
    buffer_add_string(&out, after);
    if (out.failed)
        compiler_no_memory(rules->compiler);
    uint32_t symbol = out.failed ? SYMBOL_NOTHING
                                 : rules_literal(rules->compiler->rules, (struct text){out.data, out.size});
    buffer_finish(&out);
    return symbol;
}

const struct schema_marks *schema_rules_marks(struct schema_rules *rules, uint32_t depth)
{
    const struct json_schema_options *options = rules->compiler->options;
    struct schema_marks *marks = &rules->marks[depth];
    if (rules->has_marks[depth])
        return marks;
    bool lines = options->spacing == JSON_SPACING_INDENTED && depth < JSON_SCHEMA_INDENTED_DEPTH_MAX;
    bool compact = options->spacing == JSON_SPACING_COMPACT;
    uint32_t inner = (depth + 1) * options->indent, outer = depth * options->indent;
    *marks = (struct schema_marks){
        .open_object = literal_symbol(rules, "{", inner, lines, ""),
        .close_object = literal_symbol(rules, "", outer, lines, "}"),
        .empty_object = literal_symbol(rules, "{}", 0, false, ""),
        .open_array = literal_symbol(rules, "[", inner, lines, ""),
        .close_array = literal_symbol(rules, "", outer, lines, "]"),
        .empty_array = literal_symbol(rules, "[]", 0, false, ""),
        .comma = literal_symbol(rules, compact || lines ? "," : ", ", inner, lines, ""),
        .colon = literal_symbol(rules, compact ? ":" : ": ", 0, false, ""),
    };
    rules->has_marks[depth] = true;
    return marks;
}

bool schema_rules_init(struct schema_rules *rules, struct schema_compiler *compiler)
{
    *rules = (struct schema_rules){.compiler = compiler, .symbols_max = 64, .n_symbols = 1, .n_defined = 1};
    rules->symbols = compiler_allocate(compiler, rules->symbols_max, sizeof *rules->symbols);
    rules->buckets = compiler_allocate(compiler, N_BUCKETS, sizeof *rules->buckets);
    return rules->symbols && rules->buckets;
}

static bool grow_symbols(struct schema_rules *rules)
{
    if (rules->n_symbols < rules->symbols_max)
        return true;
    uint32_t max = 2 * rules->symbols_max;
    struct schema_symbol *larger = compiler_allocate(rules->compiler, max, sizeof *larger);
    if (!larger)
        return false;
    memcpy(larger, rules->symbols, rules->n_symbols * sizeof *larger);
    rules->symbols = larger;
    rules->symbols_max = max;
    return true;
}

uint32_t schema_rules_symbol(struct schema_rules *rules, uint32_t formula, uint32_t depth)
{
    if (formula == FORMULA_FALSE || rules->compiler->status != STATUS_OK)
        return SYMBOL_NOTHING;
    if (rules->compiler->options->spacing != JSON_SPACING_INDENTED)
        depth = 0;
    if (depth > JSON_SCHEMA_INDENTED_DEPTH_MAX)
        depth = JSON_SCHEMA_INDENTED_DEPTH_MAX;
    uint32_t *bucket = &rules->buckets[(formula * 31 + depth) % N_BUCKETS];
    for (uint32_t i = *bucket; i; i = rules->symbols[i].next_of_hash)
        if (rules->symbols[i].formula == formula && rules->symbols[i].depth == depth)
            return rules->symbols[i].symbol;
    if (!grow_symbols(rules))
        return SYMBOL_NOTHING;
    uint32_t symbol = rules_nonterminal(rules->compiler->rules);
    rules->symbols[rules->n_symbols] = (struct schema_symbol){formula, depth, symbol, *bucket};
    *bucket = rules->n_symbols++;
    return symbol;
}
