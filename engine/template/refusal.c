// Finds what certainly fails before a template runs (template_find_refusal).
#include "engine/template/format.h"
#include "engine/template/functions.h"
#include "engine/template/operators.h"
#include "engine/template/parser.h"
#include "engine/template/rendering.h"
#include "engine/unicode/codepoints.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void note(struct parser *parser, uint32_t line, const char *format, ...) PRINTF_LIKE(3, 4);
static void note(struct parser *parser, uint32_t line, const char *format, ...)
{
    struct template_refusal *refusal = &parser->template->refusal;
    va_list arguments;
    if (refusal->text[0])
        return; // only the first refusal is kept
    refusal->line = line;
    va_start(arguments, format);
    vsnprintf(refusal->text, sizeof refusal->text, format, arguments);
    va_end(arguments);
}

static struct text literal_text(const struct expression *expression)
{
    bool is_text =
        expression && expression->kind == EXPRESSION_LITERAL && expression->literal.kind == OBJECT_STRING;
    return is_text ? expression->literal.text : (struct text){0};
}

static unsigned count_parameters(const struct function *function)
{
    unsigned n = 0;
    while (n < FUNCTION_PARAMETERS_MAX && function->parameters[n])
        n++;
    return n;
}

// `n_first` is 1 if the first argument is the input of a filter or the object of a method, else 0.
static void check_arguments(struct parser *parser, uint32_t line, const struct function *function,
                            unsigned n_first, const struct argument_expressions *arguments)
{
    if (function->any_arguments || arguments->unpacked || arguments->unpacked_keywords)
        return;
    unsigned n = count_parameters(function);
    size_t n_given = arguments->positional.n_items + n_first;
    if (n_given > n)
        note(parser, line, "%s() takes at most %u arguments, got %zu", function->name, n - n_first,
             arguments->positional.n_items);
    bool given[FUNCTION_PARAMETERS_MAX] = {0};
    for (size_t i = 0; i < arguments->n_keywords; i++) {
        struct text name = arguments->keywords[i].name;
        unsigned k = 0;
        while (k < n && !text_equals_string(name, function->parameters[k]))
            k++;
        if (k == n || function->positional_only)
            note(parser, line, "%s() got an unexpected keyword argument '%.*s'", function->name,
                 codepoints_cut(name), name.data);
        else
            given[k] = true;
    }
    for (unsigned i = (unsigned)(n_given < n ? n_given : n); i < function->n_required; i++)
        if (!given[i])
            note(parser, line, "%s() misses the argument '%s'", function->name, function->parameters[i]);
}

// Checks the filter or test that map, select, reject and the like get by name.
static void check_named(struct parser *parser, const struct expression *filter)
{
    const struct argument_expressions *arguments = filter->filter.arguments;
    struct text name = filter->filter.name;
    bool is_map = text_equals_string(name, "map");
    bool is_select = text_equals_string(name, "select") || text_equals_string(name, "reject");
    bool of_attribute = text_equals_string(name, "selectattr") || text_equals_string(name, "rejectattr");
    size_t at = of_attribute;
    if ((!is_map && !is_select && !of_attribute) || arguments->positional.n_items <= at)
        return;
    struct text named = literal_text(arguments->positional.items[at]);
    const struct function *function =
        is_map ? functions_find_filter(named) : functions_find(&tests_table, named);
    if (named.data && !function)
        note(parser, filter->line, "no %s named '%.*s'", is_map ? "filter" : "test", codepoints_cut(named),
             named.data);
}

void refusal_check_filter(struct parser *parser, const struct expression *filter)
{
    struct text name = filter->filter.name, input = literal_text(filter->filter.input);
    const char *problem = NULL;
    if (filter->kind == EXPRESSION_FILTER && text_equals_string(name, "format") && input.data)
        problem = format_printf_problem(input);
    if (problem)
        note(parser, filter->line, "%s in '%.*s'", problem, codepoints_cut(input), input.data);
    if (!filter->filter.function)
        note(parser, filter->line, "no %s named '%.*s'",
             filter->kind == EXPRESSION_FILTER ? "filter" : "test", codepoints_cut(name), name.data);
    else
        check_arguments(parser, filter->line, filter->filter.function, 1, filter->filter.arguments);
    if (filter->kind == EXPRESSION_FILTER)
        check_named(parser, filter);
}

void refusal_check_call(struct parser *parser, const struct expression *call)
{
    const struct expression *callee = call->call.callee;
    if (callee->kind == EXPRESSION_NAME &&
        text_equals_string(parser->template->names[callee->name.name], "lipsum"))
        note(parser, call->line, "lipsum: text by chance is not supported in templates");
    if (callee->kind != EXPRESSION_ATTRIBUTE)
        return;
    struct text name = callee->attribute.name, format = literal_text(callee->attribute.owner);
    const struct function *method = functions_find_method(OBJECT_STRING, name);
    const char *problem = NULL;
    if (format.data && text_equals_string(name, "format"))
        problem = format_braces_problem(format);
    if (problem)
        note(parser, call->line, "%s in '%.*s'", problem, codepoints_cut(format), format.data);
    if (functions_is_refused(OBJECT_STRING, name))
        note(parser, call->line, "'%.*s' is not supported in templates", codepoints_cut(name), name.data);
    bool is_of_text_alone = method && !functions_find_method(OBJECT_DICT, name) &&
                            !functions_find_method(OBJECT_LIST, name) &&
                            !functions_find_method(OBJECT_LOOP, name);
    if (is_of_text_alone)
        check_arguments(parser, call->line, method, 1, call->call.arguments);
}

// Evaluates an expression of numbers. False: it contains something else, or an operator that is not
// arithmetic.
static bool calculate(struct rendering *scratch, const struct expression *expression, struct object *number)
{
    struct object left, right;
    switch (expression->kind) {
    case EXPRESSION_LITERAL:
        *number = expression->literal;
        return object_is_number(number);
    case EXPRESSION_NEGATIVE:
    case EXPRESSION_POSITIVE:
        if (!calculate(scratch, expression->binary.left, &left))
            return false;
        *number = operator_sign(scratch, &left, expression->kind == EXPRESSION_NEGATIVE);
        return true;
    case EXPRESSION_BINARY:
        if (!calculate(scratch, expression->binary.left, &left) ||
            !calculate(scratch, expression->binary.right, &right))
            return false;
        *number = operator_arithmetic(scratch, expression->binary.operator, & left, &right);
        return true;
    default:
        return false;
    }
}

// Refuses arithmetic that fails, such as 2**99 or 1 // 0.
static void check_arithmetic(struct parser *parser, const struct expression *binary)
{
    struct error error = {0};
    struct object number;
    struct rendering *scratch = calloc(1, sizeof *scratch);
    if (!scratch)
        return; // found when it runs
    scratch->failing.error = &error;
    scratch->steps_left = TEMPLATE_STEPS_MAX;
    if (setjmp(scratch->failing.target))
        note(parser, binary->line, "%s", error.text);
    else
        (void)calculate(scratch, binary, &number);
    arena_finish(&scratch->arena);
    free(scratch);
}

void refusal_check_binary(struct parser *parser, const struct expression *binary)
{
    struct text format = literal_text(binary->binary.left);
    const char *problem = NULL;
    if (binary->kind == EXPRESSION_BINARY && binary->binary.operator== OPERATOR_MODULO && format.data)
        problem = format_printf_problem(format);
    if (problem)
        note(parser, binary->line, "%s in '%.*s'", problem, codepoints_cut(format), format.data);
    check_arithmetic(parser, binary);
}

// Refuses to print a method of a text, which Python prints as an address. Whether an attribute of a variable
// is a method depends on the variable; a caller that knows the variable finds the name in the mention.
void refusal_check_output(struct parser *parser, const struct expression *output)
{
    if (output->kind == EXPRESSION_CONDITION) {
        refusal_check_output(parser, output->condition.yes);
        if (output->condition.no)
            refusal_check_output(parser, output->condition.no);
    }
    if (output->kind != EXPRESSION_ATTRIBUTE)
        return;
    const struct expression *owner = output->attribute.owner;
    struct text name = output->attribute.name;
    if (literal_text(owner).data && functions_find_method(OBJECT_STRING, name))
        note(parser, output->line, "printing the method '%.*s' is not supported in templates: call it",
             codepoints_cut(name), name.data);
    while (owner->kind == EXPRESSION_ATTRIBUTE || owner->kind == EXPRESSION_SUBSCRIPT)
        owner = owner->kind == EXPRESSION_ATTRIBUTE ? owner->attribute.owner : owner->subscript.owner;
    if (owner->kind == EXPRESSION_NAME && owner->name.mention)
        owner->name.mention->printed = name;
}
