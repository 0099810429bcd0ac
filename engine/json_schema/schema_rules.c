#include "engine/json_schema/schema_rules.h"

// A JSON string or, with `end`, a bare text that ends before `end`.
static uint32_t string_terminal(struct schema_rules *rules, uint32_t string, struct text end)
{
    struct expressions *pool = rules->compiler->pool;
    if (!end.data)
        return rules_terminal(rules->compiler->rules, string, TERMINAL_JSON_STRING);
    return rules_terminal(rules->compiler->rules,
                          expression_both(pool, string, expression_without(pool, end)), TERMINAL_TEXT);
}

// Matches the generated spellings of the values in the set.
static uint32_t number_terminal(struct schema_rules *rules, const struct shape *shape)
{
    struct schema_compiler *compiler = rules->compiler;
    uint32_t generated = number_generated(compiler->pool, shape->form);
    bool is_all = shape->number == compiler->numbers.any ||
                  (shape->number == compiler->numbers.integer && shape->form.spelling == NUMBER_INTEGER);
    return rules_terminal(compiler->rules,
                          is_all ? generated : expression_both(compiler->pool, shape->number, generated),
                          TERMINAL_TEXT);
}

static void define_symbol(struct schema_rules *rules, const struct schema_symbol *symbol,
                          struct text bare_end)
{
    struct schema_compiler *compiler = rules->compiler;
    const struct shape *shape = formula_shape(compiler, symbol->formula);
    struct symbol_list list = {0};
    if (!shape)
        return;
    static const char *const spellings[2][3] = {{"null", "false", "true"}, {"None", "False", "True"}};
    const char *const *words = spellings[compiler->options->is_python];
    const bool has_word[] = {shape->null, shape->no, shape->yes};
    for (int i = 0; i < 3; i++)
        if (has_word[i])
            symbol_list_add(rules, &list, rules_literal(compiler->rules, text_from_string(words[i])));
    if (shape->number != EXPRESSION_NOTHING)
        symbol_list_add(rules, &list, number_terminal(rules, shape));
    if (shape->string != EXPRESSION_NOTHING)
        symbol_list_add(rules, &list, string_terminal(rules, shape->string, bare_end));
    for (uint32_t i = 0; i < shape->n_arrays && compiler->status == STATUS_OK; i++)
        symbol_list_add(rules, &list, schema_rules_array(rules, &shape->arrays[i], symbol->depth));
    for (uint32_t i = 0; i < shape->n_objects && compiler->status == STATUS_OK; i++)
        symbol_list_add(rules, &list, schema_rules_object(rules, &shape->objects[i], symbol->depth));
    rules_define(compiler->rules, symbol->symbol, symbol_list_choice(rules, &list));
}

uint32_t schema_rules_add(struct schema_rules *rules, uint32_t formula, struct text bare_end)
{
    struct schema_compiler *compiler = rules->compiler;
    uint32_t start = SYMBOL_NOTHING;
    if (compiler->status != STATUS_OK)
        return start;
    if (bare_end.data) { // has its own symbol
        struct schema_symbol bare = {.formula = formula, .symbol = rules_nonterminal(compiler->rules)};
        define_symbol(rules, &bare, bare_end);
        start = bare.symbol;
    } else {
        start = schema_rules_symbol(rules, formula, 0);
    }
    while (rules->n_defined < rules->n_symbols && compiler_work(compiler, 1)) {
        struct schema_symbol symbol = rules->symbols[rules->n_defined++];
        define_symbol(rules, &symbol, (struct text){0});
        if (rules_status(compiler->rules, NULL) != STATUS_OK)
            break;
    }
    return start;
}
