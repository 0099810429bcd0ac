#include "engine/json_schema/json_format.h"
#include "engine/json_schema/json_number.h"
#include "engine/json_schema/schema_shape.h"

static bool is_keyword(const struct json_node *keyword, const char *name)
{
    return text_equals_string(keyword->key, name);
}

bool keyword_count(struct schema_compiler *compiler, const struct json_node *keyword, uint32_t *count)
{
    struct decimal decimal;
    *count = 0;
    if (!keyword || keyword->kind != JSON_NUMBER || !decimal_read(keyword->text, compiler->arena, &decimal) ||
        !decimal_to_count(decimal, count)) {
        if (keyword)
            compiler_malformed(compiler, keyword, "a count from 0 to 4294967294");
        return false;
    }
    return true;
}

static bool read_limit(struct schema_compiler *compiler, const struct json_node *keyword,
                       struct decimal *limit)
{
    if (keyword->kind != JSON_NUMBER)
        compiler_malformed(compiler, keyword, "a number");
    else if (!decimal_read(keyword->text, compiler->arena, limit))
        compiler_refuse(compiler, keyword, "a number of more than 400 digits");
    return compiler->status == STATUS_OK;
}

// True if, in draft 4, a boolean beside the keyword makes minimum or maximum exclusive.
static bool exclusive_by_flag(struct schema_compiler *compiler, const struct json_node *keyword,
                              const char *flag)
{
    const struct json_node *found = json_member_named(keyword->parent, flag);
    return compiler->source.draft == SCHEMA_DRAFT_4 && found && found->kind == JSON_TRUE;
}

static bool find_bound(struct schema_compiler *compiler, const struct json_node *keyword,
                       enum number_bound *bound)
{
    bool is_minimum = is_keyword(keyword, "exclusiveMinimum");
    if (is_keyword(keyword, "minimum"))
        *bound = exclusive_by_flag(compiler, keyword, "exclusiveMinimum") ? NUMBER_MORE : NUMBER_AT_LEAST;
    else if (is_keyword(keyword, "maximum"))
        *bound = exclusive_by_flag(compiler, keyword, "exclusiveMaximum") ? NUMBER_LESS : NUMBER_AT_MOST;
    else if (!is_minimum && !is_keyword(keyword, "exclusiveMaximum"))
        return false;
    else if (compiler->source.draft != SCHEMA_DRAFT_4)
        *bound = is_minimum ? NUMBER_MORE : NUMBER_LESS;
    else if (keyword->kind == JSON_TRUE || keyword->kind == JSON_FALSE) {
        return false; // exclusive_by_flag() reads it
    } else {
        compiler_malformed(compiler, keyword, "a boolean, which it is in draft 4");
        return false;
    }
    return true;
}

bool keyword_numbers(struct schema_compiler *compiler, const struct json_node *keyword, uint32_t *set,
                     struct number_form *form)
{
    enum number_bound bound;
    struct decimal limit;
    if (find_bound(compiler, keyword, &bound)) {
        if (!read_limit(compiler, keyword, &limit))
            return false;
        *set = number_bounded(compiler->pool, bound, limit);
        *form = number_form_of_bound(bound, limit);
        return true;
    }
    if (!is_keyword(keyword, "multipleOf") || !read_limit(compiler, keyword, &limit))
        return false;
    if (limit.negative || !limit.digits.size)
        compiler_malformed(compiler, keyword, "a number above 0");
    *form = number_form_of_multiples(limit);
    if (compiler->options->has_zero_fractions && compiler->source.draft == SCHEMA_DRAFT_4)
        form->spelling = NUMBER_DECIMAL;
    if (compiler->status != STATUS_OK)
        return false;
    if (!number_multiple_of(compiler->pool, limit, compiler->arena, set)) {
        if (expressions_status(compiler->pool, NULL) == STATUS_RETRY)
            compiler_no_memory(compiler);
        else
            compiler_refuse(compiler, keyword, "multiples of this number are not built");
    }
    return compiler->status == STATUS_OK;
}

static bool pattern_strings(struct schema_compiler *compiler, const struct json_node *keyword, uint32_t *set)
{
    struct error error = {0};
    if (keyword->kind != JSON_STRING)
        compiler_malformed(compiler, keyword, "a string");
    else if (expression_parse(compiler->pool, keyword->text, PATTERN_SEARCH, set, &error) != STATUS_OK)
        compiler_refuse_pattern(compiler, keyword, &error);
    return compiler->status == STATUS_OK;
}

static bool format_strings(struct schema_compiler *compiler, const struct json_node *keyword, uint32_t *set)
{
    struct error error = {0};
    if (keyword->kind != JSON_STRING)
        return false;
    switch (format_expression(compiler->pool, keyword->text, set, &error)) {
    case FORMAT_UNKNOWN:
        return false;
    case FORMAT_ENFORCED:
        return true;
    case FORMAT_UNENFORCED:
        if (error.text[0])
            compiler_refuse_pattern(compiler, keyword, &error);
        else
            compiler_refuse(compiler, keyword, "this format is not enforced");
        return false;
    }
    return false;
}

bool keyword_strings(struct schema_compiler *compiler, const struct json_node *keyword, uint32_t *set)
{
    uint32_t count;
    if (is_keyword(keyword, "minLength") && keyword_count(compiler, keyword, &count))
        *set = expression_repeat(compiler->pool, EXPRESSION_ANY, count, EXPRESSION_UNBOUNDED);
    else if (is_keyword(keyword, "maxLength") && keyword_count(compiler, keyword, &count))
        *set = expression_repeat(compiler->pool, EXPRESSION_ANY, 0, count);
    else if (is_keyword(keyword, "pattern"))
        return pattern_strings(compiler, keyword, set);
    else if (is_keyword(keyword, "format"))
        return format_strings(compiler, keyword, set);
    else
        return false;
    return compiler->status == STATUS_OK;
}

struct type_set {
    bool null, boolean, integer, number, string, array, object;
};

static bool add_type(struct schema_compiler *compiler, const struct json_node *name,
                     const struct json_node *keyword, struct type_set *types)
{
    static const char *const names[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
    bool *const flags[] = {&types->null,   &types->boolean, &types->integer, &types->number,
                           &types->string, &types->array,   &types->object};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (name->kind == JSON_STRING && text_equals_string(name->text, names[i]))
            return *flags[i] = true;
    compiler_malformed(compiler, keyword,
                       "null, boolean, integer, number, string, array or object, or a list of them");
    return false;
}

static uint32_t integers_formula(struct schema_compiler *compiler, bool are)
{
    bool with_zeros = compiler->source.draft != SCHEMA_DRAFT_4;
    if (are && compiler->numbers.integer == EXPRESSION_NOTHING)
        compiler->numbers.integer = number_integer(compiler->pool, with_zeros);
    if (!are && compiler->numbers.not_integer == EXPRESSION_NOTHING)
        compiler->numbers.not_integer = number_not_integer(compiler->pool, with_zeros);
    return are ? compiler->numbers.integer : compiler->numbers.not_integer;
}

static struct shape types_shape(struct schema_compiler *compiler, const struct type_set *types, bool are)
{
    struct shape shape = shape_any(compiler);
    shape.null = types->null == are;
    shape.yes = shape.no = types->boolean == are;
    if (types->number ? !are : !types->integer && are)
        shape.number = EXPRESSION_NOTHING;
    else if (types->integer && !types->number)
        shape.number = integers_formula(compiler, are);
    if (are && types->integer && !types->number)
        shape.form.spelling = NUMBER_INTEGER;
    if (types->string != are)
        shape.string = EXPRESSION_NOTHING;
    shape.n_arrays = types->array == are;
    shape.n_objects = types->object == are;
    return shape;
}

bool keyword_types(struct schema_compiler *compiler, const struct json_node *keyword, struct shape *allowed,
                   struct shape *others)
{
    struct type_set types = {0};
    if (!is_keyword(keyword, "type"))
        return false;
    if (keyword->kind != JSON_ARRAY && !add_type(compiler, keyword, keyword, &types))
        return false;
    for (const struct json_node *name = keyword->kind == JSON_ARRAY ? keyword->first : NULL; name;
         name = name->next)
        if (!add_type(compiler, name, keyword, &types))
            return false;
    *allowed = types_shape(compiler, &types, true);
    if (others)
        *others = types_shape(compiler, &types, false);
    return true;
}

const struct json_node *keyword_target(struct schema_compiler *compiler, const struct json_node *keyword)
{
    if (keyword->kind != JSON_STRING) {
        compiler_malformed(compiler, keyword, "a URI reference");
        return NULL;
    }
    const struct json_node *target = compiler_resolve(compiler, keyword->parent, keyword->text);
    if (!target)
        compiler_refuse_reference(compiler, keyword);
    else if (!is_keyword(keyword, "$ref") && !schema_source_is_static(&compiler->source, keyword, target))
        compiler_refuse(compiler, keyword, "more than one place can be meant");
    return compiler->status == STATUS_OK ? target : NULL;
}
