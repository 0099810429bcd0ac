#include "engine/template/evaluate.h"
#include "engine/template/access.h"
#include "engine/unicode/codepoints.h"
#include "engine/template/iterator.h"
#include "engine/template/operators.h"
#include "engine/template/represent.h"

#include <string.h>

#define NOINLINE __attribute__((noinline)) // keeps the stack frame of the recursive evaluate_expression small

enum {
    ARGUMENTS_NEAR = 6,      // up to this number of arguments need no arena memory
    CONCATENATE_BYTES = 256, // from this size on, append in place if possible; see rendering.h
};

// Returns a variable that transformers passes besides the variables of the request: a special token of the
// tokenizer, if it has one. MISSING: undefined.
static struct object load_environment(const struct template_environment *environment, struct text name)
{
    const struct {
        const char *name;
        struct text token;
    } tokens[] = {{"bos_token", environment->bos_token},
                  {"eos_token", environment->eos_token},
                  {"pad_token", environment->pad_token},
                  {"unk_token", environment->unk_token}};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        if (text_equals_string(name, tokens[i].name) && tokens[i].token.data)
            return object_string(tokens[i].token);
    bool is_prompted = text_equals_string(name, "add_generation_prompt");
    return is_prompted ? object_bool(true) : (struct object){0};
}

static const struct object *load_global(struct rendering *rendering, uint32_t name)
{
    struct object *global = &rendering->scope.globals[name];
    if (rendering->scope.globals_known[name])
        return global;
    struct text text = rendering->template->names[name];
    const struct function *function = functions_find(&globals_table, text);
    const struct value *variable = NULL;
    for (size_t i = 0; i < rendering->variables->object.n_members && !variable; i++)
        if (text_equal(rendering->variables->object.members[i].key, text))
            variable = &rendering->variables->object.members[i].value;
    *global =
        variable ? object_from_value(rendering, variable) : load_environment(rendering->environment, text);
    if (global->kind == OBJECT_MISSING && function)
        *global = call_bind(rendering, function, NULL);
    rendering->scope.globals_known[name] = true;
    return global;
}

void evaluate_enter_scope(struct rendering *rendering, const struct scope *scope)
{
    for (uint32_t i = 0; i < scope->n_loads; i++) {
        const struct load *load = &scope->loads[i];
        struct object *slot = &rendering->scope.activation->slots[load->slot];
        slot->kind = OBJECT_MISSING;
        if (load->kind == LOAD_GLOBAL)
            *slot = *load_global(rendering, load->name);
        else if (load->kind == LOAD_OUTER)
            *slot = *evaluate_place(rendering->scope.activation, load->outer);
    }
}

// Space for evaluated arguments: few are on the C stack, more in the arena.
struct argument_space {
    struct object items[ARGUMENTS_NEAR];
    struct keyword_argument keywords[ARGUMENTS_NEAR];
};

// Expands arguments with *list or **dict, in the arena.
static NOINLINE struct call unpack_arguments(struct rendering *rendering,
                                             const struct argument_expressions *arguments, struct call call)
{
    if (arguments->unpacked) {
        struct object more = evaluate_expression(rendering, arguments->unpacked);
        const struct object_sequence *list = iterator_collect(rendering, &more).sequence;
        struct object *items =
            rendering_allocate_array(rendering, call.n_items + list->n_items + 1, sizeof *items);
        for (size_t i = 0; i < call.n_items + list->n_items; i++)
            items[i] = i < call.n_items ? call.items[i] : list->items[i - call.n_items];
        call.items = items;
        call.n_items += list->n_items;
    }
    if (!arguments->unpacked_keywords)
        return call;
    struct object more = evaluate_expression(rendering, arguments->unpacked_keywords);
    if (more.kind != OBJECT_DICT)
        rendering_fail(rendering, "argument after ** must be a mapping, not %s", object_type_name(&more));
    size_t n = call.n_keywords;
    struct keyword_argument *keywords =
        rendering_allocate_array(rendering, n + more.dict->n_entries + 1, sizeof *keywords);
    memcpy(keywords, call.keywords, n * sizeof *keywords);
    for (uint32_t i = 0; i < more.dict->n_entries; i++) {
        const struct dict_entry *entry = &more.dict->entries[i];
        if (entry->key.kind != OBJECT_STRING)
            rendering_fail(rendering, "keywords must be strings");
        for (size_t k = 0; k < n; k++)
            if (text_equal(keywords[k].name, entry->key.text))
                rendering_fail(rendering, "got multiple values for keyword argument '%.*s'",
                               codepoints_cut(entry->key.text), entry->key.text.data);
        keywords[call.n_keywords++] = (struct keyword_argument){entry->key.text, entry->value};
        rendering_spend(rendering, 1 + n);
    }
    call.keywords = keywords;
    return call;
}

static NOINLINE struct call evaluate_arguments(struct rendering *rendering,
                                               const struct argument_expressions *arguments,
                                               struct argument_space *space)
{
    size_t n_items = arguments->positional.n_items, n_keywords = arguments->n_keywords;
    struct object *items = space->items;
    struct keyword_argument *keywords = space->keywords;
    if (n_items > ARGUMENTS_NEAR)
        items = rendering_allocate_array(rendering, n_items, sizeof *items);
    if (n_keywords > ARGUMENTS_NEAR)
        keywords = rendering_allocate_array(rendering, n_keywords, sizeof *keywords);
    for (size_t i = 0; i < n_items; i++)
        items[i] = evaluate_expression(rendering, arguments->positional.items[i]);
    for (size_t i = 0; i < n_keywords; i++) {
        keywords[i].name = arguments->keywords[i].name;
        keywords[i].value = evaluate_expression(rendering, arguments->keywords[i].value);
    }
    struct call call = {items, n_items, keywords, n_keywords};
    return arguments->unpacked || arguments->unpacked_keywords ? unpack_arguments(rendering, arguments, call)
                                                               : call;
}

static NOINLINE struct object evaluate_called(struct rendering *rendering,
                                              const struct expression *expression)
{
    struct argument_space space;
    struct object callee = evaluate_expression(rendering, expression->call.callee);
    struct call call = evaluate_arguments(rendering, expression->call.arguments, &space);
    return call_object(rendering, &callee, &call);
}

static NOINLINE struct object filter_input(struct rendering *rendering, const struct expression *filter,
                                           const struct object *input)
{
    struct argument_space space;
    if (!filter->filter.function)
        rendering_fail(rendering, "no %s named '%.*s'", filter->kind == EXPRESSION_FILTER ? "filter" : "test",
                       codepoints_cut(filter->filter.name), filter->filter.name.data);
    struct call call = evaluate_arguments(rendering, filter->filter.arguments, &space);
    return call_function(rendering, filter->filter.function, input, &call);
}

struct object evaluate_call_with(struct rendering *rendering, const struct expression *expression,
                                 const struct object *caller)
{
    struct argument_space space;
    struct object callee = evaluate_expression(rendering, expression->call.callee);
    struct call call = evaluate_arguments(rendering, expression->call.arguments, &space);
    struct keyword_argument *keywords =
        rendering_allocate_array(rendering, call.n_keywords + 1, sizeof *keywords);
    memcpy(keywords, call.keywords, call.n_keywords * sizeof *keywords);
    keywords[call.n_keywords++] = (struct keyword_argument){TEXT("caller"), *caller};
    call.keywords = keywords;
    return call_object(rendering, &callee, &call);
}

struct object evaluate_filter(struct rendering *rendering, const struct expression *filter,
                              const struct object *input)
{
    struct object first = *input;
    if (filter->filter.input)
        first = evaluate_filter(rendering, filter->filter.input, input);
    rendering->failing.line = filter->line;
    return filter_input(rendering, filter, &first);
}

static NOINLINE struct object evaluate_filtered(struct rendering *rendering, const struct expression *filter)
{
    struct object input = evaluate_expression(rendering, filter->filter.input);
    return filter_input(rendering, filter, &input);
}

static NOINLINE struct object evaluate_items(struct rendering *rendering, const struct expression *expression)
{
    enum object_kind kind = expression->kind == EXPRESSION_LIST ? OBJECT_LIST : OBJECT_TUPLE;
    struct object *items, list = list_allocate(rendering, expression->items.n_items, kind, &items);
    for (size_t i = 0; i < expression->items.n_items; i++)
        items[i] = evaluate_expression(rendering, expression->items.items[i]);
    return list;
}

static NOINLINE struct object evaluate_dict(struct rendering *rendering, const struct expression *expression)
{
    struct dict *dict = dict_create(rendering, expression->items.n_items / 2);
    for (size_t i = 0; i < expression->items.n_items; i += 2) {
        struct object key = evaluate_expression(rendering, expression->items.items[i]);
        struct object item = evaluate_expression(rendering, expression->items.items[i + 1]);
        dict_set(rendering, dict, &key, &item);
    }
    return dict_object(dict);
}

static NOINLINE struct object evaluate_concatenation(struct rendering *rendering,
                                                     const struct expression *expression)
{
    const struct expression_array *operands = &expression->items;
    struct object operand = evaluate_expression(rendering, operands->items[0]),
                  first = represent_str(rendering, &operand);
    size_t start = rendering->text.size;
    bool append = first.text.size >= CONCATENATE_BYTES;
    if (!append)
        rendering_add_text(rendering, first.text);
    for (size_t i = 1; i < operands->n_items; i++) {
        operand = evaluate_expression(rendering, operands->items[i]);
        represent_add_str(rendering, &operand);
    }
    return append ? rendering_append_tail(rendering, first.text, start) : rendering_take(rendering, start);
}

static NOINLINE struct object evaluate_binary(struct rendering *rendering,
                                              const struct expression *expression)
{
    struct object left = evaluate_expression(rendering, expression->binary.left);
    struct object right = evaluate_expression(rendering, expression->binary.right);
    return operator_arithmetic(rendering, expression->binary.operator, & left, &right);
}

static NOINLINE struct object evaluate_comparison(struct rendering *rendering,
                                                  const struct expression *expression)
{
    struct object left = evaluate_expression(rendering, expression->comparison.first);
    bool holds = true;
    for (size_t i = 0; holds && i < expression->comparison.n_operands; i++) {
        const struct comparison_operand *operand = &expression->comparison.operands[i];
        struct object right = evaluate_expression(rendering, operand->operand);
        holds = operator_compare(rendering, operand->operator, & left, &right);
        left = right;
    }
    return object_bool(holds);
}

static NOINLINE struct object evaluate_unary(struct rendering *rendering, const struct expression *expression)
{
    struct object operand = evaluate_expression(rendering, expression->binary.left);
    return expression->kind == EXPRESSION_NOT
               ? object_bool(!object_truth(&operand))
               : operator_sign(rendering, &operand, expression->kind == EXPRESSION_NEGATIVE);
}

static struct object evaluate_optional(struct rendering *rendering, const struct expression *expression)
{
    return expression ? evaluate_expression(rendering, expression) : (struct object){0};
}

static NOINLINE struct object evaluate_slice(struct rendering *rendering, const struct object *owner,
                                             const struct expression *slice)
{
    struct object start = evaluate_optional(rendering, slice->slice.start);
    struct object stop = evaluate_optional(rendering, slice->slice.stop);
    struct object step = evaluate_optional(rendering, slice->slice.step);
    return access_slice(rendering, owner, &start, &stop, &step);
}

static NOINLINE struct object evaluate_subscript(struct rendering *rendering,
                                                 const struct expression *expression)
{
    struct object owner = evaluate_expression(rendering, expression->subscript.owner);
    if (expression->subscript.index->kind == EXPRESSION_SLICE)
        return evaluate_slice(rendering, &owner, expression->subscript.index);
    struct object index = evaluate_expression(rendering, expression->subscript.index);
    return access_item(rendering, &owner, &index);
}

static NOINLINE struct object evaluate_attribute(struct rendering *rendering,
                                                 const struct expression *expression)
{
    struct text name = expression->attribute.name;
    struct object owner = evaluate_expression(rendering, expression->attribute.owner);
    if (owner.kind == OBJECT_DICT)
        return access_attribute_of_dict(rendering, &owner, name, expression->attribute.dict_method);
    if (owner.kind == OBJECT_STRING && expression->attribute.string_method)
        return access_method(rendering, &owner, name, expression->attribute.string_method);
    return access_attribute(rendering, &owner, name);
}

static NOINLINE struct object evaluate_condition(struct rendering *rendering,
                                                 const struct expression *expression)
{
    struct object test = evaluate_expression(rendering, expression->condition.test);
    if (object_truth(&test))
        return evaluate_expression(rendering, expression->condition.yes);
    if (expression->condition.no)
        return evaluate_expression(rendering, expression->condition.no);
    return object_undefined_hint(
        "the inline if-expression evaluated to false and no else section was defined");
}

static NOINLINE struct object evaluate_logical(struct rendering *rendering,
                                               const struct expression *expression)
{
    struct object left = evaluate_expression(rendering, expression->binary.left);
    if (object_truth(&left) == (expression->kind == EXPRESSION_OR))
        return left;
    return evaluate_expression(rendering, expression->binary.right);
}

static struct object evaluate_nested(struct rendering *rendering, const struct expression *expression)
{
    static struct object (*const functions[])(struct rendering * rendering,
                                              const struct expression *expression) = {
        [EXPRESSION_LIST] = evaluate_items,
        [EXPRESSION_TUPLE] = evaluate_items,
        [EXPRESSION_DICT] = evaluate_dict,
        [EXPRESSION_CONCATENATION] = evaluate_concatenation,
        [EXPRESSION_BINARY] = evaluate_binary,
        [EXPRESSION_AND] = evaluate_logical,
        [EXPRESSION_OR] = evaluate_logical,
        [EXPRESSION_NOT] = evaluate_unary,
        [EXPRESSION_NEGATIVE] = evaluate_unary,
        [EXPRESSION_POSITIVE] = evaluate_unary,
        [EXPRESSION_COMPARISON] = evaluate_comparison,
        [EXPRESSION_CONDITION] = evaluate_condition,
        [EXPRESSION_ATTRIBUTE] = evaluate_attribute,
        [EXPRESSION_SUBSCRIPT] = evaluate_subscript,
        [EXPRESSION_CALL] = evaluate_called,
        [EXPRESSION_FILTER] = evaluate_filtered,
        [EXPRESSION_TEST] = evaluate_filtered};
    return functions[expression->kind](rendering, expression);
}

struct object evaluate_expression(struct rendering *rendering, const struct expression *expression)
{
    if (expression->kind == EXPRESSION_LITERAL)
        return expression->literal;
    if (expression->kind == EXPRESSION_NAME) {
        const struct object *variable = evaluate_place(rendering->scope.activation, expression->name.place);
        if (variable->kind != OBJECT_MISSING)
            return *variable;
        return object_undefined(UNDEFINED_NAME, rendering->template->names[expression->name.name]);
    }
    uint32_t line = rendering->failing.line;
    rendering->failing.line = expression->line;
    rendering_spend(rendering, 1);
    rendering_enter(rendering);
    struct object value = evaluate_nested(rendering, expression);
    rendering_leave(rendering);
    rendering->failing.line = line;
    return value;
}

void evaluate_check_target(struct rendering *rendering, const struct expression *target)
{
    if (target->kind == EXPRESSION_TUPLE) {
        for (size_t i = 0; i < target->items.n_items; i++)
            evaluate_check_target(rendering, target->items.items[i]);
    } else if (target->kind == EXPRESSION_NAMESPACE_TARGET &&
               evaluate_place(rendering->scope.activation, target->name.place)->kind != OBJECT_NAMESPACE) {
        rendering->failing.line = target->line;
        rendering_fail(rendering, "cannot assign attribute on non-namespace object");
    }
}

static void unpack_value(struct rendering *rendering, const struct expression *target,
                         const struct object *value)
{
    size_t n = target->items.n_items;
    if (!iterator_possible(value))
        rendering_fail(rendering, "cannot unpack non-iterable %s object", object_type_name(value));
    const struct object_sequence *list = iterator_collect(rendering, value).sequence;
    if (list->n_items < n)
        rendering_fail(rendering, "not enough values to unpack (expected %zu, got %zu)", n, list->n_items);
    if (list->n_items > n)
        rendering_fail(rendering, "too many values to unpack (expected %zu)", n);
    for (size_t i = 0; i < n; i++)
        evaluate_assign(rendering, target->items.items[i], &list->items[i]);
}

void evaluate_assign(struct rendering *rendering, const struct expression *target, const struct object *value)
{
    if (target->kind == EXPRESSION_NAME) {
        *evaluate_place(rendering->scope.activation, target->name.place) = *value;
        return;
    }
    rendering->failing.line = target->line;
    evaluate_check_target(rendering, target);
    if (target->kind == EXPRESSION_TUPLE)
        unpack_value(rendering, target, value);
    else
        dict_set_text(rendering, evaluate_place(rendering->scope.activation, target->name.place)->dict,
                      target->name.attribute, value);
}
