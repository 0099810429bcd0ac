#include "engine/template/evaluate.h"
#include "engine/template/access.h"
#include "engine/template/codepoints.h"
#include "engine/template/iterator.h"
#include "engine/template/operators.h"
#include "engine/template/represent.h"

#include <string.h>

#define NOINLINE __attribute__((noinline)) // keeps the recursive function's stack frame small

enum {
    ARGUMENTS_NEAR = 6,      // so many need no memory of the arena
    CONCATENATE_BYTES = 256, // from here on appending to the first operand may pay; see rendering.h
};

// Names that transformers passes besides the request's: the special tokens, where the tokenizer has them.
// False: undefined.
static bool load_environment(const struct template_environment *environment, struct text name,
                             struct object *global)
{
    const struct {
        const char *name;
        struct text token;
    } tokens[] = {{"bos_token", environment->bos_token},
                  {"eos_token", environment->eos_token},
                  {"pad_token", environment->pad_token},
                  {"unk_token", environment->unk_token}};
    if (text_equals_string(name, "add_generation_prompt")) {
        *global = object_bool(true);
        return true;
    }
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        if (text_equals_string(name, tokens[i].name) && tokens[i].token.data) {
            *global = object_string(tokens[i].token);
            return true;
        }
    return false;
}

static bool load_global(struct rendering *rendering, uint32_t name, struct object *value)
{
    const struct template *template = rendering->template;
    if (!rendering->globals_known[name]) {
        struct object *global = &rendering->globals[name];
        struct text text = template->names[name];
        const struct function *function = functions_find_global(text);
        const struct value *variable = NULL;
        for (size_t i = 0; i < rendering->variables->object.n_members && !variable; i++)
            if (text_equal(rendering->variables->object.members[i].key, text))
                variable = &rendering->variables->object.members[i].value;
        if (variable) {
            if (!object_from_value(rendering, variable, global))
                return false;
        } else if (!load_environment(rendering->environment, text, global) && function &&
                   !call_bind(rendering, function, NULL, global)) {
            return false;
        }
        rendering->globals_known[name] = true;
    }
    *value = rendering->globals[name];
    return true;
}

bool evaluate_enter_scope(struct rendering *rendering, struct activation *activation,
                          const struct scope *scope)
{
    for (uint32_t i = 0; i < scope->n_loads; i++) {
        const struct load *load = &scope->loads[i];
        struct object *slot = &activation->slots[load->slot];
        switch (load->kind) {
        case LOAD_GLOBAL:
            slot->kind = OBJECT_MISSING;
            if (!load_global(rendering, load->name, slot))
                return false;
            break;
        case LOAD_OUTER:
            *slot = *evaluate_place(activation, load->outer);
            break;
        case LOAD_NOTHING:
            slot->kind = OBJECT_MISSING;
            break;
        }
    }
    return true;
}

// Arguments while they are evaluated: near ones on the C stack, many in the arena.
struct argument_space {
    struct object items[ARGUMENTS_NEAR];
    struct keyword_argument keywords[ARGUMENTS_NEAR];
};

static NOINLINE bool evaluate_arguments(struct rendering *rendering, struct activation *activation,
                                        const struct argument_expressions *arguments,
                                        struct argument_space *space, struct call *call)
{
    size_t n_items = arguments->positional.n_items, n_keywords = arguments->n_keywords;
    struct object *items = space->items;
    struct keyword_argument *keywords = space->keywords;
    if (n_items > ARGUMENTS_NEAR)
        items = rendering_allocate_array(rendering, n_items, sizeof *items);
    if (items && n_keywords > ARGUMENTS_NEAR)
        keywords = rendering_allocate_array(rendering, n_keywords, sizeof *keywords);
    if (!items || !keywords)
        return false;
    for (size_t i = 0; i < n_items; i++)
        if (!evaluate(rendering, activation, arguments->positional.items[i], &items[i]))
            return false;
    for (size_t i = 0; i < n_keywords; i++) {
        keywords[i].name = arguments->keywords[i].name;
        if (!evaluate(rendering, activation, arguments->keywords[i].value, &keywords[i].value))
            return false;
    }
    *call = (struct call){items, n_items, keywords, n_keywords};
    return true;
}

static NOINLINE bool evaluate_called(struct rendering *rendering, struct activation *activation,
                                     const struct expression *expression, struct object *value)
{
    struct argument_space space;
    struct call call;
    struct object callee;
    return evaluate(rendering, activation, expression->call.callee, &callee) &&
           evaluate_arguments(rendering, activation, expression->call.arguments, &space, &call) &&
           call_object(rendering, &callee, &call, value);
}

static bool set_line(struct rendering *rendering, const struct expression *expression, bool ok)
{
    if (!ok && !rendering->error_line)
        rendering->error_line = expression->line;
    return ok;
}

static NOINLINE bool filter_input(struct rendering *rendering, struct activation *activation,
                                  const struct expression *filter, const struct object *input,
                                  struct object *value)
{
    static const struct call no_arguments;
    const struct argument_expressions *arguments = filter->filter.arguments;
    struct argument_space space;
    struct call call = no_arguments;
    if (!filter->filter.function)
        return rendering_fail(rendering, "no %s named '%.*s'",
                              filter->kind == EXPRESSION_FILTER ? "filter" : "test",
                              codepoints_cut(filter->filter.name), filter->filter.name.data);
    bool plain = !arguments->positional.n_items && !arguments->n_keywords;
    if (!plain && !evaluate_arguments(rendering, activation, arguments, &space, &call))
        return false;
    return call_function(rendering, filter->filter.function, input, &call, value);
}

bool evaluate_filter(struct rendering *rendering, struct activation *activation,
                     const struct expression *filter, const struct object *input, struct object *value)
{
    struct object first = *input;
    if (filter->filter.input && !evaluate_filter(rendering, activation, filter->filter.input, input, &first))
        return false;
    return set_line(rendering, filter, filter_input(rendering, activation, filter, &first, value));
}

static NOINLINE bool evaluate_filtered(struct rendering *rendering, struct activation *activation,
                                       const struct expression *filter, struct object *value)
{
    struct object input;
    return evaluate(rendering, activation, filter->filter.input, &input) &&
           filter_input(rendering, activation, filter, &input, value);
}

static NOINLINE bool evaluate_items(struct rendering *rendering, struct activation *activation,
                                    const struct expression *expression, struct object *value)
{
    struct object *items;
    enum object_kind kind = expression->kind == EXPRESSION_LIST ? OBJECT_LIST : OBJECT_TUPLE;
    if (!list_allocate(rendering, expression->items.n_items, kind, &items, value))
        return false;
    for (size_t i = 0; i < expression->items.n_items; i++)
        if (!evaluate(rendering, activation, expression->items.items[i], &items[i]))
            return false;
    return true;
}

static NOINLINE bool evaluate_dict(struct rendering *rendering, struct activation *activation,
                                   const struct expression *expression, struct object *value)
{
    struct dict *dict = dict_create(rendering, expression->items.n_items / 2);
    if (!dict)
        return false;
    for (size_t i = 0; i < expression->items.n_items; i += 2) {
        struct object key, item;
        if (!evaluate(rendering, activation, expression->items.items[i], &key) ||
            !evaluate(rendering, activation, expression->items.items[i + 1], &item) ||
            !dict_set(rendering, dict, &key, &item))
            return false;
    }
    *value = dict_object(dict);
    return true;
}

static NOINLINE bool evaluate_concatenation(struct rendering *rendering, struct activation *activation,
                                            const struct expression *expression, struct object *value)
{
    const struct expressions *operands = &expression->items;
    struct object first, operand;
    if (!evaluate(rendering, activation, operands->items[0], &first) ||
        !represent_str(rendering, &first, &first))
        return false;
    size_t start = rendering->text.size;
    bool append = first.text.size >= CONCATENATE_BYTES;
    if (!append)
        rendering_add_text(rendering, first.text);
    for (size_t i = 1; i < operands->n_items; i++)
        if (!evaluate(rendering, activation, operands->items[i], &operand) ||
            !represent_add_str(rendering, &operand))
            return false;
    if (!append)
        return rendering_take(rendering, start, value);
    return rendering_append_tail(rendering, first.text, start, value);
}

static NOINLINE bool evaluate_binary(struct rendering *rendering, struct activation *activation,
                                     const struct expression *expression, struct object *value)
{
    struct object left, right;
    return evaluate(rendering, activation, expression->binary.left, &left) &&
           evaluate(rendering, activation, expression->binary.right, &right) &&
           operator_arithmetic(rendering, expression->binary.operator, & left, &right, value);
}

static NOINLINE bool evaluate_comparison(struct rendering *rendering, struct activation *activation,
                                         const struct expression *expression, struct object *value)
{
    struct object left, right;
    bool holds = true;
    if (!evaluate(rendering, activation, expression->comparison.first, &left))
        return false;
    for (size_t i = 0; holds && i < expression->comparison.n_operands; i++) {
        const struct comparison_operand *operand = &expression->comparison.operands[i];
        if (!evaluate(rendering, activation, operand->operand, &right) ||
            !operator_compare(rendering, operand->operator, & left, &right, &holds))
            return false;
        left = right;
    }
    *value = object_bool(holds);
    return true;
}

static NOINLINE bool evaluate_unary(struct rendering *rendering, struct activation *activation,
                                    const struct expression *expression, struct object *value)
{
    struct object operand;
    if (!evaluate(rendering, activation, expression->binary.left, &operand))
        return false;
    if (expression->kind == EXPRESSION_NEGATIVE)
        return operator_negative(rendering, &operand, value);
    *value = object_bool(!object_truth(&operand));
    return true;
}

static NOINLINE bool evaluate_slice(struct rendering *rendering, struct activation *activation,
                                    const struct object *owner, const struct expression *slice,
                                    struct object *value)
{
    struct object start = {0}, stop = {0}, step = {0};
    if ((slice->slice.start && !evaluate(rendering, activation, slice->slice.start, &start)) ||
        (slice->slice.stop && !evaluate(rendering, activation, slice->slice.stop, &stop)) ||
        (slice->slice.step && !evaluate(rendering, activation, slice->slice.step, &step)))
        return false;
    return access_slice(rendering, owner, &start, &stop, &step, value);
}

static NOINLINE bool evaluate_subscript(struct rendering *rendering, struct activation *activation,
                                        const struct expression *expression, struct object *value)
{
    struct object owner, index;
    if (!evaluate(rendering, activation, expression->subscript.owner, &owner))
        return false;
    if (expression->subscript.index->kind == EXPRESSION_SLICE)
        return evaluate_slice(rendering, activation, &owner, expression->subscript.index, value);
    return evaluate(rendering, activation, expression->subscript.index, &index) &&
           access_item(rendering, &owner, &index, value);
}

static NOINLINE bool evaluate_attribute(struct rendering *rendering, struct activation *activation,
                                        const struct expression *expression, struct object *value)
{
    struct object owner;
    struct text name = expression->attribute.name;
    if (!evaluate(rendering, activation, expression->attribute.owner, &owner))
        return false;
    if (owner.kind == OBJECT_DICT)
        return access_attribute_of_dict(rendering, &owner, name, expression->attribute.dict_method, value);
    if (owner.kind == OBJECT_STRING && expression->attribute.string_method)
        return access_method(rendering, &owner, name, expression->attribute.string_method, value);
    return access_attribute(rendering, &owner, name, value);
}

static NOINLINE bool evaluate_condition(struct rendering *rendering, struct activation *activation,
                                        const struct expression *expression, struct object *value)
{
    struct object test;
    if (!evaluate(rendering, activation, expression->condition.test, &test))
        return false;
    if (object_truth(&test))
        return evaluate(rendering, activation, expression->condition.yes, value);
    if (expression->condition.no)
        return evaluate(rendering, activation, expression->condition.no, value);
    *value =
        object_undefined_hint("the inline if-expression evaluated to false and no else section was defined");
    return true;
}

static bool evaluate_name(struct rendering *rendering, struct activation *activation,
                          const struct expression *expression, struct object *value)
{
    *value = *evaluate_place(activation, expression->name.place);
    if (value->kind == OBJECT_MISSING)
        *value = object_undefined(UNDEFINED_NAME, rendering->template->names[expression->name.name]);
    return true;
}

static bool evaluate_nested(struct rendering *rendering, struct activation *activation,
                            const struct expression *expression, struct object *value)
{
    switch (expression->kind) {
    case EXPRESSION_LIST:
    case EXPRESSION_TUPLE:
        return evaluate_items(rendering, activation, expression, value);
    case EXPRESSION_DICT:
        return evaluate_dict(rendering, activation, expression, value);
    case EXPRESSION_CONCATENATION:
        return evaluate_concatenation(rendering, activation, expression, value);
    case EXPRESSION_BINARY:
        return evaluate_binary(rendering, activation, expression, value);
    case EXPRESSION_AND:
    case EXPRESSION_OR:
        if (!evaluate(rendering, activation, expression->binary.left, value))
            return false;
        if (object_truth(value) == (expression->kind == EXPRESSION_OR))
            return true;
        return evaluate(rendering, activation, expression->binary.right, value);
    case EXPRESSION_NOT:
    case EXPRESSION_NEGATIVE:
        return evaluate_unary(rendering, activation, expression, value);
    case EXPRESSION_COMPARISON:
        return evaluate_comparison(rendering, activation, expression, value);
    case EXPRESSION_CONDITION:
        return evaluate_condition(rendering, activation, expression, value);
    case EXPRESSION_ATTRIBUTE:
        return evaluate_attribute(rendering, activation, expression, value);
    case EXPRESSION_SUBSCRIPT:
        return evaluate_subscript(rendering, activation, expression, value);
    case EXPRESSION_CALL:
        return evaluate_called(rendering, activation, expression, value);
    case EXPRESSION_FILTER:
    case EXPRESSION_TEST:
        return evaluate_filtered(rendering, activation, expression, value);
    default:
        return rendering_fail(rendering, "a slice outside a subscript");
    }
}

bool evaluate(struct rendering *rendering, struct activation *activation, const struct expression *expression,
              struct object *value)
{
    if (expression->kind == EXPRESSION_LITERAL) {
        *value = expression->literal;
        return true;
    }
    if (expression->kind == EXPRESSION_NAME)
        return evaluate_name(rendering, activation, expression, value);
    bool ok = rendering_spend(rendering, 1) && rendering_enter(rendering);
    if (ok) {
        ok = evaluate_nested(rendering, activation, expression, value);
        rendering_leave(rendering);
    }
    return set_line(rendering, expression, ok);
}

bool evaluate_check_target(struct rendering *rendering, struct activation *activation,
                           const struct expression *target)
{
    if (target->kind == EXPRESSION_TUPLE) {
        for (size_t i = 0; i < target->items.n_items; i++)
            if (!evaluate_check_target(rendering, activation, target->items.items[i]))
                return false;
    } else if (target->kind == EXPRESSION_NAMESPACE_TARGET &&
               evaluate_place(activation, target->name.place)->kind != OBJECT_NAMESPACE) {
        rendering_set_error(rendering, "cannot assign attribute on non-namespace object");
        return set_line(rendering, target, false);
    }
    return true;
}

static bool unpack(struct rendering *rendering, struct activation *activation,
                   const struct expression *target, const struct object *value)
{
    size_t n = target->items.n_items;
    struct object list;
    if (!iterator_possible(value))
        return rendering_fail(rendering, "cannot unpack non-iterable %s object", object_type_name(value));
    if (!iterator_collect(rendering, value, OBJECT_LIST, &list))
        return false;
    if (list.sequence->n_items < n)
        return rendering_fail(rendering, "not enough values to unpack (expected %zu, got %zu)", n,
                              list.sequence->n_items);
    if (list.sequence->n_items > n)
        return rendering_fail(rendering, "too many values to unpack (expected %zu)", n);
    for (size_t i = 0; i < n; i++)
        if (!evaluate_assign(rendering, activation, target->items.items[i], &list.sequence->items[i]))
            return false;
    return true;
}

bool evaluate_assign(struct rendering *rendering, struct activation *activation,
                     const struct expression *target, const struct object *value)
{
    if (target->kind == EXPRESSION_TUPLE)
        return set_line(rendering, target, unpack(rendering, activation, target, value));
    struct object *place = evaluate_place(activation, target->name.place);
    if (target->kind == EXPRESSION_NAME) {
        *place = *value;
        return true;
    }
    if (place->kind != OBJECT_NAMESPACE)
        return evaluate_check_target(rendering, activation, target);
    return set_line(rendering, target, dict_set_text(rendering, place->dict, target->name.attribute, value));
}
