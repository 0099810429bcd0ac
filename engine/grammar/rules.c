#include "engine/grammar/rules_parts.h"

#include <assert.h>
#include <string.h>

struct rules *rules_create(const struct grammar_limits *limits)
{
    struct rules *rules = calloc(1, sizeof *rules);
    if (!rules)
        return NULL;
    rules->expressions = expressions_create(limits);
    struct rule_node nothing = {.kind = RULE_CHOICE};
    if (!rules->expressions || !VECTOR_ADD(&rules->nodes, nothing)) {
        rules_destroy(rules);
        return NULL;
    }
    return rules;
}

void rules_destroy(struct rules *rules)
{
    if (!rules)
        return;
    expressions_destroy(rules->expressions);
    VECTOR_FINISH(&rules->nodes);
    VECTOR_FINISH(&rules->children);
    free(rules);
}

struct expressions *rules_expressions(struct rules *rules)
{
    return rules->expressions;
}

enum status rules_status(const struct rules *rules, struct error *error)
{
    return expressions_status(rules->expressions, error);
}

static bool add_children(struct rules *rules, const uint32_t *symbols, size_t n)
{
    struct expressions *pool = rules->expressions;
    if (rules->nodes.n + rules->children.n + n >= pool->limits.values[GRAMMAR_LIMIT_RULES])
        expressions_fail(pool, GRAMMAR_LIMIT_RULES);
    else if (!VECTOR_RESERVE(&rules->children, rules->children.n + n))
        expressions_fail_memory(pool);
    if (pool->status != STATUS_OK)
        return false;
    for (size_t i = 0; i < n; i++)
        assert(symbols[i] < rules->nodes.n);
    if (n)
        memcpy(rules->children.items + rules->children.n, symbols, n * sizeof *symbols);
    rules->children.n += n;
    return true;
}

static uint32_t add_node(struct rules *rules, struct rule_node node, const uint32_t *symbols, size_t n)
{
    node.first_child = (uint32_t)rules->children.n;
    node.n_children = (uint32_t)n;
    if (!add_children(rules, symbols, n))
        return SYMBOL_NOTHING;
    if (!VECTOR_ADD(&rules->nodes, node)) {
        expressions_fail_memory(rules->expressions);
        return SYMBOL_NOTHING;
    }
    return (uint32_t)rules->nodes.n - 1;
}

uint32_t rules_nonterminal(struct rules *rules)
{
    return add_node(rules, (struct rule_node){.kind = RULE_CHOICE, .is_nonterminal = true}, NULL, 0);
}

void rules_define(struct rules *rules, uint32_t nonterminal, uint32_t symbol)
{
    uint32_t first = (uint32_t)rules->children.n;
    if (!add_children(rules, &symbol, 1))
        return;
    struct rule_node *node = &rules->nodes.items[nonterminal];
    assert(node->is_nonterminal && !node->is_defined);
    node->is_defined = true;
    node->first_child = first;
    node->n_children = 1;
}

uint32_t rules_terminal(struct rules *rules, uint32_t expression, enum terminal_encoding encoding)
{
    struct expressions *pool = rules->expressions;
    if (expression_positions(pool, expression) > pool->limits.values[GRAMMAR_LIMIT_POSITIONS])
        expressions_fail(pool, GRAMMAR_LIMIT_POSITIONS);
    struct rule_node node = {.kind = RULE_TERMINAL, .encoding = (uint8_t)encoding, .expression = expression};
    return add_node(rules, node, NULL, 0);
}

uint32_t rules_literal(struct rules *rules, struct text utf8)
{
    return rules_terminal(rules, expression_literal(rules->expressions, utf8), TERMINAL_TEXT);
}

uint32_t rules_special(struct rules *rules, struct text name)
{
    return rules_terminal(rules, expression_literal(rules->expressions, name), TERMINAL_SPECIAL);
}

uint32_t rules_sequence(struct rules *rules, const uint32_t *symbols, size_t n)
{
    return n == 1 ? symbols[0] : add_node(rules, (struct rule_node){.kind = RULE_SEQUENCE}, symbols, n);
}

uint32_t rules_choice(struct rules *rules, const uint32_t *symbols, size_t n)
{
    return n == 1 ? symbols[0] : add_node(rules, (struct rule_node){.kind = RULE_CHOICE}, symbols, n);
}

uint32_t rules_repeat(struct rules *rules, uint32_t symbol, uint32_t min, uint32_t max)
{
    if (min > max)
        return SYMBOL_NOTHING;
    if (max == 0)
        return rules_sequence(rules, NULL, 0);
    if (min == 1 && max == 1)
        return symbol;
    return add_node(rules, (struct rule_node){.kind = RULE_REPEAT, .min = min, .max = max}, &symbol, 1);
}
