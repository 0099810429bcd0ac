// Parses the expressions that bind tightest: literals, names, .name [index] (call), |filter, is test.
#include "engine/template/functions.h"
#include "engine/template/parser.h"
#include "engine/unicode/codepoints.h"

#include <string.h>

enum { ARGUMENTS_MAX = 1000 }; // positional arguments; the same limit for keywords

static struct expression *create_literal(struct parser *parser, uint32_t line, struct object value)
{
    struct expression *expression = expression_create(parser, EXPRESSION_LITERAL, line);
    expression->literal = value;
    return expression;
}

static bool is_constant_name(struct text name, struct object *value)
{
    static const struct {
        const char *names[2];
        struct object value;
    } constants[] = {
        {{"true", "True"}, {.kind = OBJECT_BOOL, .boolean = true}},
        {{"false", "False"}, {.kind = OBJECT_BOOL}},
        {{"none", "None"}, {.kind = OBJECT_NONE}},
    };
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        *value = constants[i].value;
        if (text_equals_string(name, constants[i].names[0]) ||
            text_equals_string(name, constants[i].names[1]))
            return true;
    }
    return false;
}

static struct expression *create_name(struct parser *parser, uint32_t line, struct text name)
{
    struct expression *expression = expression_create(parser, EXPRESSION_NAME, line);
    expression->name.name = parser_name(parser, name);
    return expression;
}

struct expression *expression_parse_name_target(struct parser *parser)
{
    struct token token = parser_expect(parser, TOKEN_NAME);
    struct object constant;
    if (is_constant_name(token.text, &constant))
        parser_fail(parser, token.line, "can't assign to '%.*s'", (int)token.text.size, token.text.data);
    return create_name(parser, token.line, token.text);
}

// Jinja passes caller, varargs and kwargs to a macro that uses these names. The first use declares the name
// in the macro.
static void note_hidden_parameter(struct parser *parser, struct text name)
{
    static const char *const names[MACRO_HIDDEN] = {
        [MACRO_CALLER] = "caller", [MACRO_VARARGS] = "varargs", [MACRO_KWARGS] = "kwargs"};
    struct macro_definition *macro = parser->macro;
    for (unsigned i = 0; macro && i < MACRO_HIDDEN; i++) {
        if (!text_equals_string(name, names[i]) || macro->hidden[i])
            continue;
        for (size_t k = 0; k < macro->n_parameters; k++)
            if (text_equal(parser->template->names[macro->parameters[k]->name.name], name)) {
                if (i == MACRO_CALLER && k + macro->n_defaults < macro->n_parameters)
                    parser_fail(parser, parser->token.line,
                                "the parameter 'caller' must be left out or have a default");
                return;
            }
        struct scope_draft *innermost = parser->scope;
        macro->hidden[i] = create_name(parser, parser->token.line, name);
        parser->scope = parser->macro_scope;
        scope_mention(parser, macro->hidden[i], MENTION_DECLARED);
        parser->scope = innermost;
    }
}

// Records for template_mentions that a name is read.
static void note_mention(struct parser *parser, struct expression *name)
{
    struct template *template = parser->template;
    struct outside_mention *mention = parser_allocate(parser, sizeof *mention);
    *mention = (struct outside_mention){.name = name->name.name, .line = name->line};
    *(template->last_mention ? &template->last_mention->next : &template->first_mention) = mention;
    template->last_mention = name->name.mention = mention;
}

// Narrows the mention of `owner` to the one member that is read.
static void note_member(const struct expression *owner, struct text member)
{
    if (owner->name.mention)
        owner->name.mention->member = member;
}

static struct expression *parse_name(struct parser *parser, bool namespaces)
{
    struct token token = parser_advance(parser);
    struct object constant;
    if (is_constant_name(token.text, &constant))
        return create_literal(parser, token.line, constant);
    if (!parser->in_target)
        note_hidden_parameter(parser, token.text);
    struct expression *name = create_name(parser, token.line, token.text);
    if (!parser->in_target) {
        scope_mention(parser, name, MENTION_READ);
        note_mention(parser, name);
    }
    if (namespaces && parser_skip(parser, TOKEN_DOT)) {
        name->kind = EXPRESSION_NAMESPACE_TARGET;
        name->name.attribute = parser_expect(parser, TOKEN_NAME).text;
    }
    return name;
}

static struct expression *parse_string(struct parser *parser)
{
    struct token token = parser_advance(parser);
    while (parser->token.kind == TOKEN_STRING) { // adjacent literals are one string
        struct text next = parser_advance(parser).text;
        char *joined = parser_allocate(parser, token.text.size + next.size + 1);
        memcpy(joined, token.text.data, token.text.size);
        memcpy(joined + token.text.size, next.data, next.size);
        token.text = (struct text){joined, token.text.size + next.size};
    }
    return create_literal(parser, token.line, object_string(token.text));
}

// Parses the items of a list, or of a dict as key, value, key, value...
static struct expression *parse_items(struct parser *parser, enum expression_kind kind,
                                      enum token_kind closing)
{
    uint32_t line = parser_advance(parser).line;
    struct expression_list list = {0};
    while (!parser_skip(parser, closing)) {
        if (list.n_items) {
            parser_expect(parser, TOKEN_COMMA);
            if (parser_skip(parser, closing))
                break;
        }
        expression_list_add(parser, &list, expression_parse_whole(parser));
        if (kind == EXPRESSION_DICT) {
            parser_expect(parser, TOKEN_COLON);
            expression_list_add(parser, &list, expression_parse_whole(parser));
        }
    }
    return expression_create_items(parser, kind, line, &list);
}

static struct expression *parse_parenthesised(struct parser *parser)
{
    parser_advance(parser);
    parser_enter(parser);
    struct expression *inside = expression_parse_tuple(parser, TUPLE_PARENTHESISED);
    parser_leave(parser);
    parser_expect(parser, TOKEN_RIGHT_PARENTHESIS);
    return inside;
}

struct expression *primary_parse(struct parser *parser, bool namespaces)
{
    struct token token = parser->token;
    switch (token.kind) {
    case TOKEN_NAME:
        return parse_name(parser, namespaces);
    case TOKEN_STRING:
        return parse_string(parser);
    case TOKEN_INTEGER:
        parser_advance(parser);
        return create_literal(parser, token.line, object_integer(token.integer));
    case TOKEN_FLOAT:
        parser_advance(parser);
        return create_literal(parser, token.line, object_float(token.number));
    case TOKEN_LEFT_PARENTHESIS:
        return parse_parenthesised(parser);
    case TOKEN_LEFT_BRACKET:
        return parse_items(parser, EXPRESSION_LIST, TOKEN_RIGHT_BRACKET);
    case TOKEN_LEFT_BRACE:
        return parse_items(parser, EXPRESSION_DICT, TOKEN_RIGHT_BRACE);
    default:
        break;
    }
    struct text got = parser_token_text(parser);
    parser_fail(parser, token.line, "unexpected '%.*s'", (int)got.size, got.data);
}

// One part of start:stop:step; NULL: omitted.
static struct expression *parse_slice_part(struct parser *parser, struct expression *slice)
{
    enum token_kind kind = parser->token.kind;
    if (kind == TOKEN_COLON || kind == TOKEN_RIGHT_BRACKET || kind == TOKEN_COMMA)
        return NULL;
    struct expression *part = expression_parse_whole(parser);
    expression_cover(parser, slice, part);
    return part;
}

static struct expression *parse_index(struct parser *parser)
{
    uint32_t line = parser_advance(parser).line, start_line = parser->token.line;
    struct expression *index = NULL;
    if (parser->token.kind != TOKEN_COLON)
        index = expression_parse_whole(parser);
    if (parser->token.kind == TOKEN_COLON) {
        struct expression *slice = expression_create(parser, EXPRESSION_SLICE, start_line);
        expression_cover(parser, slice, index);
        parser_advance(parser);
        slice->slice.start = index;
        slice->slice.stop = parse_slice_part(parser, slice);
        if (parser_skip(parser, TOKEN_COLON))
            slice->slice.step = parse_slice_part(parser, slice);
        index = slice;
    }
    if (parser->token.kind == TOKEN_COMMA)
        parser_fail(parser, line, "several subscripts are not supported");
    parser_expect(parser, TOKEN_RIGHT_BRACKET);
    return index;
}

static struct expression *create_subscript(struct parser *parser, uint32_t line, struct expression *owner,
                                           struct expression *index)
{
    struct expression *expression = expression_create(parser, EXPRESSION_SUBSCRIPT, line);
    expression_cover(parser, expression, owner);
    expression_cover(parser, expression, index);
    expression->subscript.owner = owner;
    expression->subscript.index = index;
    if (owner->kind == EXPRESSION_NAME && index->kind == EXPRESSION_LITERAL &&
        index->literal.kind == OBJECT_STRING)
        note_member(owner, index->literal.text);
    else
        scope_note_items(owner);
    return expression;
}

static struct expression *parse_dot(struct parser *parser, struct expression *owner)
{
    uint32_t line = parser_advance(parser).line;
    struct token token = parser_advance(parser);
    if (token.kind == TOKEN_INTEGER)
        return create_subscript(parser, line, owner,
                                create_literal(parser, token.line, object_integer(token.integer)));
    if (token.kind != TOKEN_NAME)
        parser_fail(parser, token.line, "expected a name or a number behind '.'");
    struct expression *expression = expression_create(parser, EXPRESSION_ATTRIBUTE, line);
    expression_cover(parser, expression, owner);
    expression->attribute.owner = owner;
    expression->attribute.name = token.text;
    expression->attribute.dict_method = functions_find_method(OBJECT_DICT, token.text);
    expression->attribute.string_method = functions_find_method(OBJECT_STRING, token.text);
    if (owner->kind == EXPRESSION_NAME && !expression->attribute.dict_method)
        note_member(owner, token.text);
    return expression;
}

static void check_arguments(struct parser *parser, size_t n, uint32_t line)
{
    if (n == ARGUMENTS_MAX)
        parser_fail_limit(parser, line, "a call with more than %d arguments", ARGUMENTS_MAX);
}

static void parse_keyword(struct parser *parser, struct argument_expressions *arguments, size_t *capacity)
{
    struct token name = parser_advance(parser);
    parser_advance(parser); // =
    check_arguments(parser, arguments->n_keywords, name.line);
    for (size_t i = 0; i < arguments->n_keywords; i++)
        if (text_equal(arguments->keywords[i].name, name.text))
            parser_fail(parser, name.line, "keyword argument repeated: %.*s", (int)name.text.size,
                        name.text.data);
    arguments->keywords = parser_grow(parser, arguments->keywords, arguments->n_keywords, capacity,
                                      sizeof *arguments->keywords);
    arguments->keywords[arguments->n_keywords++] =
        (struct keyword_expression){name.text, expression_parse_whole(parser)};
}

// *list or **dict.
static void parse_unpacked(struct parser *parser, struct argument_expressions *arguments)
{
    struct token token = parser_advance(parser);
    bool is_dict = token.kind == TOKEN_POWER;
    if (arguments->unpacked_keywords || (!is_dict && arguments->unpacked))
        parser_fail(parser, token.line, "invalid syntax for a function call");
    *(is_dict ? &arguments->unpacked_keywords : &arguments->unpacked) = expression_parse_whole(parser);
}

static void parse_argument(struct parser *parser, struct argument_expressions *arguments,
                           struct expression_list *positional, size_t *keywords_capacity)
{
    struct token token = parser->token;
    if (token.kind == TOKEN_MULTIPLY || token.kind == TOKEN_POWER) {
        parse_unpacked(parser, arguments);
        return;
    }
    if (arguments->unpacked_keywords || (arguments->unpacked && token.kind != TOKEN_NAME))
        parser_fail(parser, token.line, "invalid syntax for a function call");
    if (token.kind == TOKEN_NAME)
        parser_look_ahead(parser);
    if (token.kind == TOKEN_NAME && parser->ahead.kind == TOKEN_ASSIGN) {
        parse_keyword(parser, arguments, keywords_capacity);
        return;
    }
    if (arguments->n_keywords || arguments->unpacked)
        parser_fail(parser, token.line, "invalid syntax for a function call");
    check_arguments(parser, positional->n_items, token.line);
    expression_list_add(parser, positional, expression_parse_whole(parser));
}

static struct argument_expressions *create_arguments(struct parser *parser,
                                                     const struct expression_list *positional)
{
    struct argument_expressions *arguments = parser_allocate(parser, sizeof *arguments);
    arguments->positional = (struct expression_array){positional->items, positional->n_items};
    return arguments;
}

static struct argument_expressions *parse_arguments(struct parser *parser)
{
    struct argument_expressions found = {0}, *arguments;
    struct expression_list positional = {0};
    size_t keywords_capacity = 0;
    parser_advance(parser);
    for (bool first = true; !parser_skip(parser, TOKEN_RIGHT_PARENTHESIS); first = false) {
        if (!first) {
            parser_expect(parser, TOKEN_COMMA);
            if (parser_skip(parser, TOKEN_RIGHT_PARENTHESIS))
                break;
        }
        parse_argument(parser, &found, &positional, &keywords_capacity);
    }
    arguments = create_arguments(parser, &positional);
    arguments->keywords = found.keywords;
    arguments->n_keywords = found.n_keywords;
    arguments->unpacked = found.unpacked;
    arguments->unpacked_keywords = found.unpacked_keywords;
    return arguments;
}

static void cover_arguments(struct parser *parser, struct expression *call,
                            const struct argument_expressions *arguments)
{
    for (size_t i = 0; i < arguments->positional.n_items; i++)
        expression_cover(parser, call, arguments->positional.items[i]);
    for (size_t i = 0; i < arguments->n_keywords; i++)
        expression_cover(parser, call, arguments->keywords[i].value);
    expression_cover(parser, call, arguments->unpacked);
    expression_cover(parser, call, arguments->unpacked_keywords);
}

static struct expression *parse_call(struct parser *parser, struct expression *callee)
{
    struct expression *call = expression_create(parser, EXPRESSION_CALL, parser->token.line);
    call->call.callee = callee;
    call->call.arguments = parse_arguments(parser);
    expression_cover(parser, call, callee);
    cover_arguments(parser, call, call->call.arguments);
    refusal_check_call(parser, call);
    return call;
}

static struct expression *parse_postfix(struct parser *parser, struct expression *expression)
{
    for (;;) {
        uint32_t line = parser->token.line;
        if (parser->token.kind == TOKEN_DOT)
            expression = parse_dot(parser, expression);
        else if (parser->token.kind == TOKEN_LEFT_BRACKET)
            expression = create_subscript(parser, line, expression, parse_index(parser));
        else if (parser->token.kind == TOKEN_LEFT_PARENTHESIS)
            expression = parse_call(parser, expression);
        else
            return expression;
    }
}

static const struct argument_expressions no_arguments;

static struct expression *create_filter(struct parser *parser, enum expression_kind kind, uint32_t line,
                                        struct expression *input, struct text name,
                                        const struct argument_expressions *arguments)
{
    struct expression *filter = expression_create(parser, kind, line);
    expression_cover(parser, filter, input);
    cover_arguments(parser, filter, arguments);
    filter->filter.input = input;
    filter->filter.name = name;
    filter->filter.function =
        kind == EXPRESSION_TEST ? functions_find(&tests_table, name) : functions_find_filter(name);
    filter->filter.arguments = arguments;
    if (!filter->filter.function && !parser->scope->n_branches && !parser->unknown)
        parser->unknown = filter;
    refusal_check_filter(parser, filter);
    scope_note_filter(filter);
    return filter;
}

struct expression *expression_parse_filters(struct parser *parser, struct expression *input, bool at_name)
{
    for (; at_name || parser_skip(parser, TOKEN_PIPE); at_name = false) {
        struct token name = parser_expect(parser, TOKEN_NAME);
        const struct argument_expressions *arguments = &no_arguments;
        if (parser->token.kind == TOKEN_LEFT_PARENTHESIS)
            arguments = parse_arguments(parser);
        input = create_filter(parser, EXPRESSION_FILTER, name.line, input, name.text, arguments);
    }
    return input;
}

static bool starts_test_argument(const struct parser *parser)
{
    const uint64_t literals = 1ull << TOKEN_STRING | 1ull << TOKEN_INTEGER | 1ull << TOKEN_FLOAT |
                              1ull << TOKEN_LEFT_BRACKET | 1ull << TOKEN_LEFT_BRACE;
    if (parser->token.kind == TOKEN_NAME)
        return !parser_is_name(parser, "else") && !parser_is_name(parser, "or") &&
               !parser_is_name(parser, "and");
    return literals >> parser->token.kind & 1;
}

// `is divisibleby 3`: a single argument needs no parentheses.
static const struct argument_expressions *parse_test_arguments(struct parser *parser)
{
    if (parser->token.kind == TOKEN_LEFT_PARENTHESIS)
        return parse_arguments(parser);
    if (!starts_test_argument(parser))
        return &no_arguments;
    if (parser_is_name(parser, "is"))
        parser_fail(parser, parser->token.line, "tests with `is` can't be chained");
    struct expression_list positional = {0};
    parser_enter(parser);
    expression_list_add(parser, &positional, parse_postfix(parser, primary_parse(parser, false)));
    parser_leave(parser);
    return create_arguments(parser, &positional);
}

static struct expression *parse_test(struct parser *parser, struct expression *input)
{
    uint32_t line = parser_advance(parser).line;
    bool negated = parser_skip_name(parser, "not");
    struct text name = parser_expect(parser, TOKEN_NAME).text;
    const struct argument_expressions *arguments = parse_test_arguments(parser);
    struct expression *test = create_filter(parser, EXPRESSION_TEST, line, input, name, arguments);
    return negated ? expression_create_binary(parser, EXPRESSION_NOT, 0, line, test, NULL) : test;
}

static struct expression *parse_filters_and_tests(struct parser *parser, struct expression *expression)
{
    for (;;) {
        if (parser->token.kind == TOKEN_PIPE)
            expression = expression_parse_filters(parser, expression, false);
        else if (parser_is_name(parser, "is"))
            expression = parse_test(parser, expression);
        else if (parser->token.kind == TOKEN_LEFT_PARENTHESIS)
            expression = parse_call(parser, expression);
        else
            return expression;
    }
}

struct expression *primary_parse_unary(struct parser *parser, bool with_filters)
{
    uint32_t line = parser->token.line;
    struct expression *expression;
    bool is_negative = parser->token.kind == TOKEN_SUBTRACT;
    if (is_negative || parser->token.kind == TOKEN_ADD) {
        parser_advance(parser);
        parser_enter(parser);
        expression = primary_parse_unary(parser, false);
        parser_leave(parser);
        expression = expression_create_binary(parser, is_negative ? EXPRESSION_NEGATIVE : EXPRESSION_POSITIVE,
                                              0, line, expression, NULL);
    } else {
        expression = primary_parse(parser, false);
    }
    expression = parse_postfix(parser, expression);
    if (with_filters)
        expression = parse_filters_and_tests(parser, expression);
    return expression;
}
