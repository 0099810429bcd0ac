// Parses expressions by jinja's grammar. Operators from the loosest binding to the tightest: a if b else c;
// or; and; not; comparisons, in; + -; ~; * / // %; **; unary -, +; .name [index] (call); |filter, is test.
#include "engine/template/parser.h"

static struct expression *parse_condition(struct parser *parser);
static struct expression *parse_logical(struct parser *parser, enum expression_kind kind);

struct expression *expression_create(struct parser *parser, enum expression_kind kind, uint32_t line)
{
    struct expression *expression = parser_allocate(parser, sizeof *expression);
    expression->kind = kind;
    expression->line = line;
    return expression;
}

// A long chain like a + b + c... is a deep tree, so its height has the same limit as nesting.
void expression_cover(struct parser *parser, struct expression *parent, const struct expression *child)
{
    if (child && child->height + 1 > parent->height)
        parent->height = child->height + 1;
    if (parent->height > TEMPLATE_NESTING_MAX)
        parser_fail_limit(parser, parent->line, "an expression of more than %d levels", TEMPLATE_NESTING_MAX);
}

void expression_list_add(struct parser *parser, struct expression_list *list, struct expression *expression)
{
    list->items = parser_grow(parser, list->items, list->n_items, &list->capacity, sizeof *list->items);
    list->items[list->n_items++] = expression;
}

struct expression *expression_create_items(struct parser *parser, enum expression_kind kind, uint32_t line,
                                           const struct expression_list *list)
{
    struct expression *expression = expression_create(parser, kind, line);
    expression->items = (struct expression_array){list->items, list->n_items};
    for (size_t i = 0; i < list->n_items; i++)
        expression_cover(parser, expression, list->items[i]);
    return expression;
}

struct expression *expression_create_binary(struct parser *parser, enum expression_kind kind,
                                            enum operator operator, uint32_t line, struct expression *left,
                                            struct expression *right)
{
    struct expression *expression = expression_create(parser, kind, line);
    expression_cover(parser, expression, left);
    expression_cover(parser, expression, right);
    expression->binary.operator= operator;
    expression->binary.left = left;
    expression->binary.right = right;
    refusal_check_binary(parser, expression);
    return expression;
}

struct expression *expression_parse_whole(struct parser *parser)
{
    parser_enter(parser);
    struct expression *expression = parse_condition(parser);
    parser_leave(parser);
    return expression;
}

static struct expression *parse_condition(struct parser *parser)
{
    uint32_t line = parser->token.line;
    const struct expression *unknown = parser->unknown;
    struct expression *value = parse_logical(parser, EXPRESSION_OR);
    while (parser_skip_name(parser, "if")) {
        struct expression *condition = expression_create(parser, EXPRESSION_CONDITION, line);
        parser->unknown = unknown; // an operand of a condition may never run
        parser->scope->n_branches++;
        condition->condition.yes = value;
        condition->condition.test = parse_logical(parser, EXPRESSION_OR);
        scope_note_truth(condition->condition.test);
        if (parser_skip_name(parser, "else"))
            condition->condition.no = expression_parse_whole(parser);
        parser->scope->n_branches--;
        expression_cover(parser, condition, value);
        expression_cover(parser, condition, condition->condition.test);
        expression_cover(parser, condition, condition->condition.no);
        value = condition;
        line = parser->token.line;
    }
    return value;
}

static struct expression *parse_comparison(struct parser *parser);

static struct expression *parse_not(struct parser *parser)
{
    uint32_t line = parser->token.line;
    if (!parser_skip_name(parser, "not"))
        return parse_comparison(parser);
    parser_enter(parser);
    struct expression *operand = parse_not(parser);
    parser_leave(parser);
    return expression_create_binary(parser, EXPRESSION_NOT, 0, line, operand, NULL);
}

static struct expression *parse_logical(struct parser *parser, enum expression_kind kind)
{
    uint32_t line = parser->token.line;
    bool is_or = kind == EXPRESSION_OR;
    struct expression *left = is_or ? parse_logical(parser, EXPRESSION_AND) : parse_not(parser);
    while (parser_skip_name(parser, is_or ? "or" : "and")) {
        struct expression *right = is_or ? parse_logical(parser, EXPRESSION_AND) : parse_not(parser);
        left = expression_create_binary(parser, kind, 0, line, left, right);
        line = parser->token.line;
    }
    return left;
}

static const struct {
    enum operator operator;
    bool is_product;
} arithmetic[TOKEN_COMMA] = {
    [TOKEN_ADD] = {OPERATOR_ADD, false},          [TOKEN_SUBTRACT] = {OPERATOR_SUBTRACT, false},
    [TOKEN_MULTIPLY] = {OPERATOR_MULTIPLY, true}, [TOKEN_DIVIDE] = {OPERATOR_DIVIDE, true},
    [TOKEN_MODULO] = {OPERATOR_MODULO, true},     [TOKEN_FLOOR_DIVIDE] = {OPERATOR_FLOOR_DIVIDE, true},
};

static struct expression *parse_power(struct parser *parser)
{
    uint32_t line = parser->token.line;
    struct expression *left = primary_parse_unary(parser, true);
    while (parser_skip(parser, TOKEN_POWER)) {
        struct expression *right = primary_parse_unary(parser, true);
        left = expression_create_binary(parser, EXPRESSION_BINARY, OPERATOR_POWER, line, left, right);
        line = parser->token.line;
    }
    return left;
}

static struct expression *parse_product(struct parser *parser)
{
    uint32_t line = parser->token.line;
    struct expression *left = parse_power(parser);
    while (parser->token.kind < TOKEN_COMMA && arithmetic[parser->token.kind].is_product) {
        enum operator operator= arithmetic[parser_advance(parser).kind].operator;
        struct expression *right = parse_power(parser);
        left = expression_create_binary(parser, EXPRESSION_BINARY, operator, line, left, right);
        line = parser->token.line;
    }
    return left;
}

static struct expression *parse_concatenation(struct parser *parser)
{
    uint32_t line = parser->token.line;
    struct expression *first = parse_product(parser);
    if (parser->token.kind != TOKEN_TILDE)
        return first;
    struct expression_list list = {0};
    expression_list_add(parser, &list, first);
    while (parser_skip(parser, TOKEN_TILDE))
        expression_list_add(parser, &list, parse_product(parser));
    return expression_create_items(parser, EXPRESSION_CONCATENATION, line, &list);
}

static struct expression *parse_sum(struct parser *parser)
{
    uint32_t line = parser->token.line;
    struct expression *left = parse_concatenation(parser);
    while (parser->token.kind == TOKEN_ADD || parser->token.kind == TOKEN_SUBTRACT) {
        enum operator operator= arithmetic[parser_advance(parser).kind].operator;
        struct expression *right = parse_concatenation(parser);
        left = expression_create_binary(parser, EXPRESSION_BINARY, operator, line, left, right);
        line = parser->token.line;
    }
    return left;
}

// Skips the current token if it is a comparison operator; returns false if it is not.
static bool skip_comparison_operator(struct parser *parser, enum operator* operator)
{
    static const enum operator operators[] = {
        [TOKEN_EQUAL] = OPERATOR_EQUAL,     [TOKEN_NOT_EQUAL] = OPERATOR_NOT_EQUAL,
        [TOKEN_GREATER] = OPERATOR_GREATER, [TOKEN_GREATER_EQUAL] = OPERATOR_GREATER_EQUAL,
        [TOKEN_LESS] = OPERATOR_LESS,       [TOKEN_LESS_EQUAL] = OPERATOR_LESS_EQUAL,
    };
    enum token_kind kind = parser->token.kind;
    if (kind >= TOKEN_EQUAL && kind <= TOKEN_LESS) {
        *operator= operators[kind];
        parser_advance(parser);
        return true;
    }
    *operator= OPERATOR_IN;
    if (parser_is_name(parser, "not")) {
        parser_look_ahead(parser);
        if (parser->ahead.kind != TOKEN_NAME || !text_equals_string(parser->ahead.text, "in"))
            return false;
        parser_advance(parser);
        *operator= OPERATOR_NOT_IN;
    }
    return parser_skip_name(parser, "in");
}

static struct expression *parse_comparison(struct parser *parser)
{
    uint32_t line = parser->token.line;
    struct expression *first = parse_sum(parser), *comparison = NULL;
    struct comparison_operand operand;
    size_t capacity = 0;
    while (skip_comparison_operator(parser, &operand.operator)) {
        if (!comparison) {
            comparison = expression_create(parser, EXPRESSION_COMPARISON, line);
            comparison->comparison.first = first;
            expression_cover(parser, comparison, first);
        }
        operand.operand = parse_sum(parser);
        expression_cover(parser, comparison, operand.operand);
        scope_note_comparison(first, operand.operator, operand.operand);
        struct comparison_operand *operands = comparison->comparison.operands;
        size_t n = comparison->comparison.n_operands++;
        operands = parser_grow(parser, operands, n, &capacity, sizeof *operands);
        operands[n] = operand;
        comparison->comparison.operands = operands;
    }
    return comparison ? comparison : first;
}

static bool is_tuple_end(const struct parser *parser, unsigned how)
{
    enum token_kind kind = parser->token.kind;
    return kind == TOKEN_VARIABLE_END || kind == TOKEN_BLOCK_END || kind == TOKEN_RIGHT_PARENTHESIS ||
           ((how & TUPLE_UNTIL_IN) && parser_is_name(parser, "in"));
}

static struct expression *parse_element(struct parser *parser, unsigned how)
{
    if (how & TUPLE_SIMPLE)
        return primary_parse(parser, how & TUPLE_NAMESPACES);
    return how & TUPLE_NO_CONDITION ? parse_logical(parser, EXPRESSION_OR) : expression_parse_whole(parser);
}

struct expression *expression_parse_tuple(struct parser *parser, unsigned how)
{
    struct expression_list list = {0};
    bool is_tuple = false;
    uint32_t line = parser->token.line;
    while (!is_tuple_end(parser, how)) {
        expression_list_add(parser, &list, parse_element(parser, how));
        if (parser->token.kind != TOKEN_COMMA)
            break;
        is_tuple = true;
        line = parser_advance(parser).line;
    }
    if (!is_tuple && list.n_items)
        return list.items[0];
    if (!is_tuple && !(how & TUPLE_PARENTHESISED)) {
        struct text got = parser_token_text(parser);
        parser_fail(parser, parser->token.line, "expected an expression, got '%.*s'", (int)got.size,
                    got.data);
    }
    return expression_create_items(parser, EXPRESSION_TUPLE, line, &list);
}

static void check_target(struct parser *parser, const struct expression *target)
{
    if (target->kind == EXPRESSION_NAME || target->kind == EXPRESSION_NAMESPACE_TARGET)
        return;
    if (target->kind != EXPRESSION_TUPLE)
        parser_fail(parser, target->line, "can't assign to this expression");
    for (size_t i = 0; i < target->items.n_items; i++)
        check_target(parser, target->items.items[i]);
}

struct expression *expression_parse_target(struct parser *parser, unsigned how)
{
    parser->in_target = true;
    struct expression *target = expression_parse_tuple(parser, how | TUPLE_SIMPLE);
    parser->in_target = false;
    check_target(parser, target);
    return target;
}
