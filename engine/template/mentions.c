#include "engine/template/parser.h"

// The mention of the variable, or of its member named by a literal, that the expression reads; NULL: it is something else.
static struct outside_mention *find_mention(const struct expression *value)
{
    if (value->kind == EXPRESSION_NAME)
        return value->name.mention;
    const struct expression *owner = NULL;
    if (value->kind == EXPRESSION_ATTRIBUTE)
        owner = value->attribute.owner;
    else if (value->kind == EXPRESSION_SUBSCRIPT)
        owner = value->subscript.owner;
    bool is_member = owner && owner->kind == EXPRESSION_NAME && owner->name.mention &&
                     owner->name.mention->member.data != NULL;
    return is_member ? owner->name.mention : NULL;
}

void mentions_note_truth(const struct expression *test)
{
    struct outside_mention *mention = find_mention(test);
    if (mention)
        mention->is_condition = true;
    if (test->kind == EXPRESSION_NOT || test->kind == EXPRESSION_AND || test->kind == EXPRESSION_OR)
        mentions_note_truth(test->binary.left);
    if (test->kind == EXPRESSION_AND || test->kind == EXPRESSION_OR)
        mentions_note_truth(test->binary.right);
}

void mentions_note_items(const struct expression *value)
{
    struct outside_mention *mention = find_mention(value);
    if (mention)
        mention->reads_items = true;
    if (value->kind == EXPRESSION_OR) { // tags or []
        mentions_note_items(value->binary.left);
        mentions_note_items(value->binary.right);
    }
}

static bool is_boolean(const struct expression *value)
{
    return value->kind == EXPRESSION_LITERAL && value->literal.kind == OBJECT_BOOL;
}

void mentions_note_comparison(const struct expression *left, enum operator operator,
                              const struct expression * right)
{
    if (operator== OPERATOR_IN || operator== OPERATOR_NOT_IN)
        mentions_note_items(right);
    else if (is_boolean(right))
        mentions_note_truth(left);
    else if (is_boolean(left))
        mentions_note_truth(right);
}

static bool is_one_of(struct text name, const char *const *words, size_t n_words)
{
    for (size_t i = 0; i < n_words; i++)
        if (text_equals_string(name, words[i]))
            return true;
    return false;
}

void mentions_note_filter(const struct expression *filter)
{
    static const char *const tests[] = {"true", "false", "boolean"};
    static const char *const filters[] = {"batch", "count",  "first",      "groupby", "join",
                                          "last",  "length", "list",       "map",     "max",
                                          "min",   "reject", "rejectattr", "select",  "selectattr",
                                          "slice", "sort",   "sum",        "unique",  "random"};
    const struct expression *input = filter->filter.input;
    struct text name = filter->filter.name;
    if (!input)
        return;
    if (filter->kind == EXPRESSION_TEST && is_one_of(name, tests, sizeof tests / sizeof *tests))
        mentions_note_truth(input);
    if (filter->kind == EXPRESSION_FILTER && is_one_of(name, filters, sizeof filters / sizeof *filters))
        mentions_note_items(input);
}
