// Compiles rules: finds symbols that derive something (productive) and symbols that derive "" (nullable).
#include "engine/grammar/grammar_parts.h"

#include <string.h>

// True if the node is productive (or nullable), no matter what its children are.
static bool follows_alone(const struct rule_node *node, bool nullable)
{
    switch ((enum rule_kind)node->kind) {
    case RULE_CHOICE:
        return false;
    case RULE_SEQUENCE:
        return node->n_children == 0;
    case RULE_REPEAT:
        return node->min == 0;
    case RULE_TERMINAL:
        break;
    }
    return nullable ? node->nullable : node->productive;
}

// Parents of all nodes: node n has parents[first[n] .. first[n + 1]).
struct parents {
    uint32_t *first, *parents;
};

static bool find_parents(const struct rules *rules, struct parents *out)
{
    size_t n = rules->nodes.n;
    out->first = calloc(n + 2, sizeof *out->first);
    out->parents = malloc((rules->children.n + 1) * sizeof *out->parents);
    if (!out->first || !out->parents)
        return false;
    for (size_t i = 0; i < rules->children.n; i++)
        out->first[rules->children.items[i] + 2]++;
    for (size_t i = 2; i < n + 2; i++)
        out->first[i] += out->first[i - 1];
    for (uint32_t id = 0; id < n; id++) {
        const struct rule_node *node = &rules->nodes.items[id];
        for (uint32_t i = 0; i < node->n_children; i++)
            out->parents[out->first[rules->children.items[node->first_child + i] + 1]++] = id;
    }
    return true; // first[n + 1] is now the end of the parents of node n
}

// Computes the least fixed point with a worklist. A sequence needs all of its children, any other node needs
// one.
static bool spread_nullable(struct rules *rules, const struct parents *parents, bool nullable)
{
    size_t n = rules->nodes.n, n_list = 0;
    uint32_t *list = malloc((n + 1) * sizeof *list), *missing = malloc((n + 1) * sizeof *missing);
    for (uint32_t id = 0; id < n && list && missing; id++) {
        struct rule_node *node = &rules->nodes.items[id];
        bool *flag = nullable ? &node->nullable : &node->productive;
        missing[id] = node->kind == RULE_SEQUENCE ? node->n_children : 1;
        *flag = follows_alone(node, nullable);
        if (*flag)
            list[n_list++] = id;
    }
    bool whole = list && missing;
    while (whole && n_list) {
        uint32_t id = list[--n_list];
        for (uint32_t i = parents->first[id]; i < parents->first[id + 1]; i++) {
            uint32_t parent = parents->parents[i];
            struct rule_node *node = &rules->nodes.items[parent];
            bool *flag = nullable ? &node->nullable : &node->productive;
            missing[parent] -= missing[parent] > 0;
            if (!*flag && missing[parent] == 0) {
                *flag = true;
                list[n_list++] = parent;
            }
        }
    }
    free(list);
    free(missing);
    return whole;
}

static void classify_terminals(struct rules *rules)
{
    for (size_t id = 0; id < rules->nodes.n; id++) {
        struct rule_node *node = &rules->nodes.items[id];
        if (node->kind != RULE_TERMINAL)
            continue;
        node->nullable = node->encoding != TERMINAL_JSON_STRING && node->encoding != TERMINAL_SPECIAL &&
                         expression_is_nullable(rules->expressions, node->expression);
        node->productive = !expression_is_empty_language(rules->expressions, node->expression);
    }
}

// Removes children that derive nothing from choices and repetitions; a repetition without a child becomes "".
// Other unproductive nodes become empty choices.
static void prune_rules(struct rules *rules)
{
    for (size_t id = 0; id < rules->nodes.n; id++) {
        struct rule_node *node = &rules->nodes.items[id];
        uint32_t n = 0, *children = node->n_children ? rules->children.items + node->first_child : NULL;
        if (node->kind == RULE_CHOICE || node->kind == RULE_REPEAT) {
            for (uint32_t i = 0; i < node->n_children; i++)
                if (rules->nodes.items[children[i]].productive)
                    children[n++] = children[i];
            if (node->kind == RULE_REPEAT && n == 0)
                node->kind = RULE_SEQUENCE;
            node->n_children = n;
        } else if (!node->productive) {
            node->kind = RULE_CHOICE;
            node->n_children = 0;
        }
        if (node->kind == RULE_REPEAT && rules->nodes.items[children[0]].nullable)
            node->min = 0;
    }
}

static enum status compile_rules(struct rules *rules, uint32_t *start, struct error *error)
{
    struct parents parents = {0};
    enum status status = rules_status(rules, error);
    if (status == STATUS_OK) {
        classify_terminals(rules);
        status = rules_status(rules, error);
    }
    if (status == STATUS_OK && !(find_parents(rules, &parents) && spread_nullable(rules, &parents, false) &&
                                 spread_nullable(rules, &parents, true)))
        status = error_memory(error, STATUS_RETRY, "a grammar");
    free(parents.first);
    free(parents.parents);
    if (status != STATUS_OK)
        return status;
    prune_rules(rules);
    if (!rules->nodes.items[*start].productive)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "the grammar matches no text");
    if (!rules_merge(rules, start))
        return error_memory(error, STATUS_RETRY, "a grammar");
    return STATUS_OK;
}

enum status grammar_create(struct grammar **grammar, struct rules *rules, uint32_t start, struct error *error)
{
    *grammar = NULL;
    enum status status = compile_rules(rules, &start, error);
    if (status == STATUS_OK) {
        *grammar = malloc(sizeof **grammar);
        if (*grammar)
            **grammar = (struct grammar){.rules = rules, .start = start};
        else
            status = error_memory(error, STATUS_RETRY, "a grammar");
    }
    if (status != STATUS_OK)
        rules_destroy(rules);
    return status;
}

void grammar_destroy(struct grammar *grammar)
{
    if (!grammar)
        return;
    rules_destroy(grammar->rules);
    free(grammar);
}

struct rules *grammar_release(struct grammar *grammar, uint32_t *start)
{
    struct rules *rules = grammar->rules;
    *start = grammar->start;
    free(grammar);
    return rules;
}

size_t grammar_bytes(const struct grammar *grammar)
{
    const struct rules *rules = grammar->rules;
    const struct expressions *pool = rules->expressions;
    return sizeof *grammar + sizeof *rules + sizeof *pool +
           rules->nodes.capacity * sizeof *rules->nodes.items +
           rules->children.capacity * sizeof *rules->children.items +
           pool->nodes.capacity * sizeof *pool->nodes.items +
           pool->ranges.capacity * sizeof *pool->ranges.items +
           pool->links.capacity * sizeof *pool->links.items +
           pool->pieces.capacity * sizeof *pool->pieces.items +
           pool->index.n_slots * sizeof *pool->index.slots;
}

static enum status create_from_terminal(struct grammar **grammar, struct rules *rules, uint32_t expression,
                                        struct error *error)
{
    return grammar_create(grammar, rules, rules_terminal(rules, expression, TERMINAL_TEXT), error);
}

enum status grammar_compile_regex(struct grammar **grammar, struct text regex,
                                  const struct grammar_limits *limits, struct error *error)
{
    *grammar = NULL;
    struct rules *rules = rules_create(limits);
    if (!rules)
        return error_memory(error, STATUS_RETRY, "a grammar");
    uint32_t expression;
    enum status status = expression_parse(rules->expressions, regex, PATTERN_WHOLE, &expression, error);
    if (status != STATUS_OK) {
        rules_destroy(rules);
        return status;
    }
    return create_from_terminal(grammar, rules, expression, error);
}

// Copies the array, because expression_texts() sorts it.
static enum status add_choices(struct rules *rules, const struct text *choices, size_t n_choices,
                               uint32_t *expression, struct error *error)
{
    uint64_t n_bytes = 0, n_bytes_max = rules->expressions->limits.values[GRAMMAR_LIMIT_SOURCE_BYTES];
    struct text *texts = malloc((n_choices + 1) * sizeof *texts);
    for (size_t i = 0; i < n_choices && texts && n_bytes <= n_bytes_max; i++) {
        if (!utf8_valid(choices[i].data, choices[i].size)) {
            free(texts);
            return error_set(error, STATUS_REJECT, ERROR_INVALID_ENCODING, "choice %zu: not UTF-8", i);
        }
        n_bytes += choices[i].size + 1;
        texts[i] = choices[i];
    }
    if (!texts)
        expressions_fail_memory(rules->expressions);
    else if (n_bytes > n_bytes_max)
        expressions_fail(rules->expressions, GRAMMAR_LIMIT_SOURCE_BYTES);
    else
        *expression = expression_texts(rules->expressions, texts, n_choices);
    free(texts);
    return rules_status(rules, error);
}

enum status grammar_compile_choice(struct grammar **grammar, const struct text *choices, size_t n_choices,
                                   const struct grammar_limits *limits, struct error *error)
{
    *grammar = NULL;
    // Choices have no repetitions, so their positions are their bytes. GRAMMAR_LIMIT_SOURCE_BYTES limits
    // these already.
    struct grammar_limits own = limits ? *limits : grammar_limits_default;
    own.values[GRAMMAR_LIMIT_POSITIONS] = own.values[GRAMMAR_LIMIT_SOURCE_BYTES];
    struct rules *rules = rules_create(&own);
    if (!rules)
        return error_memory(error, STATUS_RETRY, "a grammar");
    uint32_t expression = EXPRESSION_NOTHING;
    enum status status = add_choices(rules, choices, n_choices, &expression, error);
    if (status != STATUS_OK) {
        rules_destroy(rules);
        return status;
    }
    return create_from_terminal(grammar, rules, expression, error);
}
