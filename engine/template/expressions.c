// Expressions, by jinja's grammar. From the loosest binding: a if b else c; or; and; not; comparisons, in;
// + -; ~; * / // %; unary - +; .name [index] (call); |filter, is test.
#include "engine/template/parser.h"

static struct expression *parse_condition(struct parser *parser);
static struct expression *parse_or(struct parser *parser);

struct expression *expression_create(struct parser *parser, enum expression_kind kind, uint32_t line)
{
    struct expression *expression = parser_allocate(parser, sizeof *expression);
    if (expression) {
        expression->kind = kind;
        expression->line = line;
    }
    return expression;
}

// Long chains like a + b + c... are deep trees: their height is bounded as nesting is.
bool expression_cover(struct parser *parser, struct expression *parent, const struct expression *child)
{
    if (child && child->height + 1 > parent->height)
        parent->height = child->height + 1;
    if (parent->height <= TEMPLATE_NESTING_MAX)
        return true;
    error_set(parser->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
              "line %u: an expression of more than %d levels", parent->line, TEMPLATE_NESTING_MAX);
    return false;
}

bool expression_list_add(struct parser *parser, struct expression_list *list, struct expression *expression)
{
    list->items = parser_grow(parser, list->items, list->n_items, &list->capacity, sizeof *list->items);
    if (!list->items)
        return false;
    list->items[list->n_items++] = expression;
    return true;
}

struct expression *expression_create_items(struct parser *parser, enum expression_kind kind, uint32_t line,
                                           const struct expression_list *list)
{
    struct expression *expression = expression_create(parser, kind, line);
    if (!expression)
        return NULL;
    expression->items = (struct expressions){list->items, list->n_items};
    for (size_t i = 0; i < list->n_items; i++)
        if (!expression_cover(parser, expression, list->items[i]))
            return NULL;
    return expression;
}

struct expression *expression_create_binary(struct parser *parser, enum expression_kind kind,
                                            enum operator operator, uint32_t line, struct expression *left,
                                            struct expression *right)
{
    struct expression *expression = expression_create(parser, kind, line);
    if (!expression || !expression_cover(parser, expression, left) ||
        !expression_cover(parser, expression, right))
        return NULL;
    expression->binary.operator= operator;
    expression->binary.left = left;
    expression->binary.right = right;
    return expression;
}

struct expression *expression_parse_whole(struct parser *parser)
{
    if (!parser_enter(parser))
        return NULL;
    struct expression *expression = parse_condition(parser);
    parser_leave(parser);
    return expression;
}

static bool parse_otherwise(struct parser *parser, struct expression **otherwise)
{
    bool has_else;
    *otherwise = NULL;
    if (!parser_skip_name(parser, "else", &has_else))
        return false;
    if (!has_else)
        return true;
    *otherwise = expression_parse_whole(parser);
    return *otherwise;
}

static struct expression *parse_condition(struct parser *parser)
{
    uint32_t line = parser->token.line;
    const struct expression *unknown = parser->unknown;
    struct expression *value = parse_or(parser);
    while (value) {
        bool has_if;
        if (!parser_skip_name(parser, "if", &has_if))
            return NULL;
        if (!has_if)
            break;
        struct expression *condition = expression_create(parser, EXPRESSION_CONDITION, line);
        if (!condition)
            return NULL;
        parser->unknown = unknown; // what stands behind a condition may never run
        parser->scope->n_branches++;
        condition->condition.yes = value;
        condition->condition.test = parse_or(parser);
        bool ok = condition->condition.test && parse_otherwise(parser, &condition->condition.no);
        parser->scope->n_branches--;
        if (!ok || !expression_cover(parser, condition, value) ||
            !expression_cover(parser, condition, condition->condition.test) ||
            !expression_cover(parser, condition, condition->condition.no))
            return NULL;
        value = condition;
        line = parser->token.line;
    }
    return value;
}

static struct expression *parse_comparison(struct parser *parser);

static struct expression *parse_not(struct parser *parser)
{
    if (!parser_is_name(parser, "not"))
        return parse_comparison(parser);
    uint32_t line = parser->token.line;
    if (!parser_advance(parser) || !parser_enter(parser))
        return NULL;
    struct expression *operand = parse_not(parser);
    parser_leave(parser);
    return operand ? expression_create_binary(parser, EXPRESSION_NOT, 0, line, operand, NULL) : NULL;
}

static struct expression *parse_and(struct parser *parser)
{
    uint32_t line = parser->token.line;
    struct expression *left = parse_not(parser);
    while (left && parser_is_name(parser, "and")) {
        struct expression *right = parser_advance(parser) ? parse_not(parser) : NULL;
        left = right ? expression_create_binary(parser, EXPRESSION_AND, 0, line, left, right) : NULL;
        line = parser->token.line;
    }
    return left;
}

static struct expression *parse_or(struct parser *parser)
{
    uint32_t line = parser->token.line;
    struct expression *left = parse_and(parser);
    while (left && parser_is_name(parser, "or")) {
        struct expression *right = parser_advance(parser) ? parse_and(parser) : NULL;
        left = right ? expression_create_binary(parser, EXPRESSION_OR, 0, line, left, right) : NULL;
        line = parser->token.line;
    }
    return left;
}

static bool product_operator(enum token_kind kind, enum operator* operator)
{
    *operator= kind == TOKEN_MULTIPLY ? OPERATOR_MULTIPLY
    : kind == TOKEN_DIVIDE            ? OPERATOR_DIVIDE
    : kind == TOKEN_FLOOR_DIVIDE      ? OPERATOR_FLOOR_DIVIDE
                                      : OPERATOR_MODULO;
    return kind == TOKEN_MULTIPLY || kind == TOKEN_DIVIDE || kind == TOKEN_FLOOR_DIVIDE ||
           kind == TOKEN_MODULO;
}

static struct expression *parse_product(struct parser *parser)
{
    uint32_t line = parser->token.line;
    struct expression *left = primary_parse_unary(parser, true);
    enum operator operator;
    while (left && product_operator(parser->token.kind, &operator)) {
        struct expression *right = parser_advance(parser) ? primary_parse_unary(parser, true) : NULL;
        left =
            right ? expression_create_binary(parser, EXPRESSION_BINARY, operator, line, left, right) : NULL;
        line = parser->token.line;
    }
    return left;
}

static struct expression *parse_concatenation(struct parser *parser)
{
    uint32_t line = parser->token.line;
    struct expression *first = parse_product(parser);
    if (!first || parser->token.kind != TOKEN_TILDE)
        return first;
    struct expression_list list = {0};
    if (!expression_list_add(parser, &list, first))
        return NULL;
    while (parser->token.kind == TOKEN_TILDE) {
        struct expression *operand = parser_advance(parser) ? parse_product(parser) : NULL;
        if (!operand || !expression_list_add(parser, &list, operand))
            return NULL;
    }
    return expression_create_items(parser, EXPRESSION_CONCATENATION, line, &list);
}

static struct expression *parse_sum(struct parser *parser)
{
    uint32_t line = parser->token.line;
    struct expression *left = parse_concatenation(parser);
    while (left && (parser->token.kind == TOKEN_ADD || parser->token.kind == TOKEN_SUBTRACT)) {
        enum operator operator= parser->token.kind == TOKEN_ADD ? OPERATOR_ADD : OPERATOR_SUBTRACT;
        struct expression *right = parser_advance(parser) ? parse_concatenation(parser) : NULL;
        left =
            right ? expression_create_binary(parser, EXPRESSION_BINARY, operator, line, left, right) : NULL;
        line = parser->token.line;
    }
    return left;
}

// *found: a comparison operator stands here; it is gone then.
static bool parse_comparison_operator(struct parser *parser, enum operator* operator, bool * found)
{
    static const enum operator operators[] = {
        [TOKEN_EQUAL] = OPERATOR_EQUAL,     [TOKEN_NOT_EQUAL] = OPERATOR_NOT_EQUAL,
        [TOKEN_GREATER] = OPERATOR_GREATER, [TOKEN_GREATER_EQUAL] = OPERATOR_GREATER_EQUAL,
        [TOKEN_LESS] = OPERATOR_LESS,       [TOKEN_LESS_EQUAL] = OPERATOR_LESS_EQUAL,
    };
    enum token_kind kind = parser->token.kind;
    *found = kind >= TOKEN_EQUAL && kind <= TOKEN_LESS_EQUAL;
    if (*found) {
        *operator= operators[kind];
    } else if (parser_is_name(parser, "in")) {
        *found = true;
        *operator= OPERATOR_IN;
    } else if (parser_is_name(parser, "not")) {
        if (!parser_look_ahead(parser))
            return false;
        *found = parser->ahead.kind == TOKEN_NAME && text_equals_string(parser->ahead.text, "in");
        *operator= OPERATOR_NOT_IN;
        if (*found && !parser_advance(parser))
            return false;
    }
    return !*found || parser_advance(parser);
}

static struct expression *parse_comparison(struct parser *parser)
{
    uint32_t line = parser->token.line;
    struct expression *first = parse_sum(parser), *comparison = NULL;
    size_t capacity = 0;
    while (first) {
        struct comparison_operand operand;
        bool found;
        if (!parse_comparison_operator(parser, &operand.operator, & found))
            return NULL;
        if (!found)
            return comparison ? comparison : first;
        if (!comparison)
            comparison = expression_create(parser, EXPRESSION_COMPARISON, line);
        operand.operand = parse_sum(parser);
        if (!comparison || !operand.operand || !expression_cover(parser, comparison, first) ||
            !expression_cover(parser, comparison, operand.operand))
            return NULL;
        struct comparison_operand *operands = comparison->comparison.operands;
        size_t n = comparison->comparison.n_operands;
        operands = parser_grow(parser, operands, n, &capacity, sizeof *operands);
        if (!operands)
            return NULL;
        operands[n] = operand;
        comparison->comparison.first = first;
        comparison->comparison.operands = operands;
        comparison->comparison.n_operands = n + 1;
    }
    return NULL;
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
    return how & TUPLE_NO_CONDITION ? parse_or(parser) : expression_parse_whole(parser);
}

struct expression *expression_parse_tuple(struct parser *parser, unsigned how)
{
    struct expression_list list = {0};
    bool is_tuple = false;
    uint32_t line = parser->token.line;
    while (!is_tuple_end(parser, how)) {
        struct expression *element = parse_element(parser, how);
        if (!element || !expression_list_add(parser, &list, element))
            return NULL;
        if (parser->token.kind != TOKEN_COMMA)
            break;
        is_tuple = true;
        line = parser->token.line;
        if (!parser_advance(parser))
            return NULL;
    }
    if (!is_tuple && list.n_items)
        return list.items[0];
    if (!is_tuple && !(how & TUPLE_PARENTHESISED)) {
        struct text got = parser_token_text(parser);
        parser_set_error(parser, parser->token.line, "expected an expression, got '%.*s'", (int)got.size,
                         got.data);
        return NULL;
    }
    return expression_create_items(parser, EXPRESSION_TUPLE, line, &list);
}

static bool check_target(struct parser *parser, const struct expression *target)
{
    if (target->kind == EXPRESSION_NAME || target->kind == EXPRESSION_NAMESPACE_TARGET)
        return true;
    if (target->kind != EXPRESSION_TUPLE)
        return parser_fail(parser, target->line, "can't assign to this expression");
    for (size_t i = 0; i < target->items.n_items; i++)
        if (!check_target(parser, target->items.items[i]))
            return false;
    return true;
}

struct expression *expression_parse_target(struct parser *parser, unsigned how)
{
    parser->in_target = true;
    struct expression *target = expression_parse_tuple(parser, how | TUPLE_SIMPLE);
    parser->in_target = false;
    return target && check_target(parser, target) ? target : NULL;
}
