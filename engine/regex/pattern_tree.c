// Resolves assertions from right to left. The rest of a text from some position is an expression for each of
// three cases: the text before the position is empty, ends in a word character, or ends in another character.
//
//   ^        the rest if the text before is empty, else NOTHING
//   $        the rest's intersection with ""
//   (?=x)    the rest's intersection with x followed by anything
//   \b       after a word character the rest that does not begin with one; else the rest that does
#include "engine/regex/pattern_tree.h"

#include <assert.h>
#include <string.h>

enum { BEFORE_NOTHING, BEFORE_WORD, BEFORE_OTHER, N_BEFORE, UNROLLED_MAX = 1000, STEPS_MAX = 100000 };

struct rest {
    uint32_t of[N_BEFORE];
};

static const struct rest no_rest = {{EXPRESSION_NOTHING, EXPRESSION_NOTHING, EXPRESSION_NOTHING}};

uint32_t pattern_word_characters(struct expressions *pool)
{
    static const struct code_range word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    return expression_set(pool, word, sizeof word / sizeof *word);
}

static uint32_t add_node(struct pattern_tree *tree, struct pattern_node node, const uint32_t *children,
                         size_t n)
{
    node.first_child = (uint32_t)tree->children.n;
    node.n_children = (uint32_t)n;
    if (!VECTOR_RESERVE(&tree->children, tree->children.n + n) || !VECTOR_ADD(&tree->nodes, node)) {
        expressions_fail_memory(tree->pool);
        return NO_PATTERN;
    }
    if (n)
        memcpy(tree->children.items + tree->children.n, children, n * sizeof *children);
    tree->children.n += n;
    return (uint32_t)tree->nodes.n - 1;
}

uint32_t pattern_plain(struct pattern_tree *tree, uint32_t expression)
{
    return add_node(tree, (struct pattern_node){.kind = PATTERN_PLAIN, .expression = expression}, NULL, 0);
}

uint32_t pattern_assertion(struct pattern_tree *tree, enum pattern_kind kind, bool negative, uint32_t child)
{
    struct pattern_node node = {.kind = (uint8_t)kind, .negative = negative};
    return add_node(tree, node, &child, child == NO_PATTERN ? 0 : 1);
}

static uint32_t plain_many(struct pattern_tree *tree, enum pattern_kind kind, const uint32_t *children,
                           size_t n)
{
    uint32_t *parts = malloc((n + 1) * sizeof *parts);
    if (!parts) {
        expressions_fail_memory(tree->pool);
        return NO_PATTERN;
    }
    for (size_t i = 0; i < n; i++)
        parts[i] = tree->nodes.items[children[i]].expression;
    uint32_t expression = kind == PATTERN_SEQUENCE ? expression_concat_many(tree->pool, parts, n)
                                                   : expression_either_many(tree->pool, parts, n);
    free(parts);
    return pattern_plain(tree, expression);
}

uint32_t pattern_many(struct pattern_tree *tree, enum pattern_kind kind, const uint32_t *children, size_t n)
{
    if (n == 1)
        return children[0];
    bool all_plain = true;
    for (size_t i = 0; i < n; i++)
        all_plain &= tree->nodes.items[children[i]].kind == PATTERN_PLAIN;
    return all_plain ? plain_many(tree, kind, children, n)
                     : add_node(tree, (struct pattern_node){.kind = (uint8_t)kind}, children, n);
}

uint32_t pattern_repeat(struct pattern_tree *tree, uint32_t child, uint32_t min, uint32_t max)
{
    struct pattern_node node = tree->nodes.items[child];
    if (node.kind == PATTERN_PLAIN)
        return pattern_plain(tree, expression_repeat(tree->pool, node.expression, min, max));
    return add_node(tree, (struct pattern_node){.kind = PATTERN_REPEAT, .min = min, .max = max}, &child, 1);
}

static bool same_everywhere(const struct rest *rest)
{
    return rest->of[0] == rest->of[1] && rest->of[1] == rest->of[2];
}

// Removes the empty text from the expression.
static uint32_t not_empty(struct expressions *pool, uint32_t expression)
{
    struct expression_node node = *expression_node(pool, expression);
    if (!node.nullable)
        return expression;
    if (expression == EXPRESSION_EMPTY)
        return EXPRESSION_NOTHING;
    if (node.kind == KIND_REPEAT && !expression_node(pool, node.a)->nullable)
        return expression_repeat(pool, node.a, 1, node.c);
    return expression_both(pool, expression, expression_concat(pool, EXPRESSION_ANY, EXPRESSION_ALL));
}

// Matches a non-empty text of the expression, followed by the rest for the case of the text's last character.
static uint32_t with_last_character(struct expressions *pool, uint32_t expression, const struct rest *rest)
{
    if (rest->of[BEFORE_WORD] == rest->of[BEFORE_OTHER])
        return expression_concat(pool, expression, rest->of[BEFORE_WORD]);
    uint32_t word = pattern_word_characters(pool), other = expression_set_complement(pool, word);
    uint32_t ends_in_word = expression_both(pool, expression, expression_concat(pool, EXPRESSION_ALL, word));
    uint32_t ends_in_other =
        expression_both(pool, expression, expression_concat(pool, EXPRESSION_ALL, other));
    return expression_either(pool, expression_concat(pool, ends_in_word, rest->of[BEFORE_WORD]),
                             expression_concat(pool, ends_in_other, rest->of[BEFORE_OTHER]));
}

static struct rest plain_rest(struct expressions *pool, uint32_t expression, const struct rest *rest)
{
    struct rest out;
    if (same_everywhere(rest)) {
        uint32_t id = expression_concat(pool, expression, rest->of[0]);
        return (struct rest){{id, id, id}};
    }
    uint32_t some = with_last_character(pool, not_empty(pool, expression), rest);
    for (int i = 0; i < N_BEFORE; i++)
        out.of[i] =
            expression_is_nullable(pool, expression) ? expression_either(pool, some, rest->of[i]) : some;
    return out;
}

static struct rest boundary_rest(struct expressions *pool, bool negative, const struct rest *rest)
{
    uint32_t word = expression_concat(pool, pattern_word_characters(pool), EXPRESSION_ALL);
    struct rest out;
    for (int i = 0; i < N_BEFORE; i++) {
        bool wants_word = (i != BEFORE_WORD) != negative;
        out.of[i] = expression_both(pool, rest->of[i], wants_word ? word : expression_complement(pool, word));
    }
    return out;
}

static bool resolve_node(struct pattern_tree *tree, uint32_t id, const struct rest *rest, struct rest *out);

static bool resolve_ahead(struct pattern_tree *tree, const struct pattern_node *node, const struct rest *rest,
                          struct rest *out)
{
    const struct rest anything = {{EXPRESSION_ALL, EXPRESSION_ALL, EXPRESSION_ALL}};
    struct rest ahead;
    if (!resolve_node(tree, tree->children.items[node->first_child], &anything, &ahead))
        return false;
    for (int i = 0; i < N_BEFORE; i++) {
        uint32_t wanted = node->negative ? expression_complement(tree->pool, ahead.of[i]) : ahead.of[i];
        out->of[i] = expression_both(tree->pool, rest->of[i], wanted);
    }
    return true;
}

static bool resolve_repeat(struct pattern_tree *tree, const struct pattern_node *node,
                           const struct rest *rest, struct rest *out)
{
    uint32_t child = tree->children.items[node->first_child];
    if (node->max > UNROLLED_MAX)
        return false;
    struct rest now = *rest; // from the last repetition to the first
    for (uint32_t n = node->max; n > 0; n--) {
        struct rest once;
        if (!resolve_node(tree, child, &now, &once))
            return false;
        for (int i = 0; i < N_BEFORE; i++)
            now.of[i] = n > node->min ? expression_either(tree->pool, once.of[i], rest->of[i]) : once.of[i];
    }
    *out = now;
    return true;
}

static bool resolve_choice(struct pattern_tree *tree, const struct pattern_node *node,
                           const struct rest *rest, struct rest *out)
{
    *out = no_rest;
    for (uint32_t i = 0; i < node->n_children; i++) {
        struct rest one;
        if (!resolve_node(tree, tree->children.items[node->first_child + i], rest, &one))
            return false;
        for (int at = 0; at < N_BEFORE; at++)
            out->of[at] = expression_either(tree->pool, out->of[at], one.of[at]);
    }
    return true;
}

// *out becomes the text from the beginning of the pattern on; `rest` is the text after the pattern.
static bool resolve_node(struct pattern_tree *tree, uint32_t id, const struct rest *rest, struct rest *out)
{
    struct expressions *pool = tree->pool;
    const struct pattern_node node = tree->nodes.items[id];
    *out = no_rest;
    if (++tree->n_steps > STEPS_MAX)
        expressions_fail(pool, GRAMMAR_LIMIT_WORK);
    if (pool->status != STATUS_OK)
        return true;
    switch ((enum pattern_kind)node.kind) {
    case PATTERN_PLAIN:
        *out = plain_rest(pool, node.expression, rest);
        return true;
    case PATTERN_SEQUENCE:
        *out = *rest;
        for (uint32_t i = node.n_children; i > 0; i--) {
            struct rest after = *out;
            if (!resolve_node(tree, tree->children.items[node.first_child + i - 1], &after, out))
                return false;
        }
        return true;
    case PATTERN_CHOICE:
        return resolve_choice(tree, &node, rest, out);
    case PATTERN_REPEAT:
        return resolve_repeat(tree, &node, rest, out);
    case PATTERN_BEGIN:
        out->of[BEFORE_NOTHING] = rest->of[BEFORE_NOTHING];
        return true;
    case PATTERN_END:
        for (int i = 0; i < N_BEFORE; i++)
            out->of[i] = expression_is_nullable(pool, rest->of[i]) ? EXPRESSION_EMPTY : EXPRESSION_NOTHING;
        return true;
    case PATTERN_LINE_END:
        for (int i = 0; i < N_BEFORE; i++)
            out->of[i] = expression_both(pool, rest->of[i],
                                         expression_repeat(pool, expression_literal(pool, TEXT("\n")), 0, 1));
        return true;
    case PATTERN_BOUNDARY:
        *out = boundary_rest(pool, node.negative, rest);
        return true;
    case PATTERN_AHEAD:
        return resolve_ahead(tree, &node, rest, out);
    }
    return false;
}

bool pattern_language(struct pattern_tree *tree, uint32_t root, bool search, uint32_t *expression)
{
    uint32_t after = search ? EXPRESSION_ALL : EXPRESSION_EMPTY;
    struct rest rest = {{after, after, after}}, out;
    if (!resolve_node(tree, root, &rest, &out))
        return false;
    if (search)
        out = plain_rest(tree->pool, EXPRESSION_ALL, &out);
    *expression = tree->pool->status == STATUS_OK ? out.of[BEFORE_NOTHING] : EXPRESSION_NOTHING;
    return true;
}

void pattern_tree_finish(struct pattern_tree *tree)
{
    VECTOR_FINISH(&tree->nodes);
    VECTOR_FINISH(&tree->children);
}
