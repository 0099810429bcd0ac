#include "engine/template/call.h"
#include "engine/template/container.h"
#include "engine/template/evaluate.h"
#include "engine/template/loop.h"
#include "engine/template/rendering.h"
#include "engine/unicode/codepoints.h"

#include <string.h>

struct activation *call_activation_create(struct rendering *rendering, const struct procedure *procedure,
                                          struct activation *around)
{
    struct activation *activation = rendering->scope.spare_activations[procedure->index];
    if (activation) {
        rendering->scope.spare_activations[procedure->index] = activation->next_spare;
        memset(activation->slots, 0, procedure->n_slots * sizeof *activation->slots);
    } else {
        size_t bytes = sizeof *activation + procedure->n_slots * sizeof *activation->slots;
        activation = rendering_allocate(rendering, bytes);
    }
    activation->around = around;
    return activation;
}

// Keeps the activation for reuse, unless a procedure that was defined inside may still refer to it.
static void release_activation(struct rendering *rendering, const struct procedure *procedure,
                               struct activation *activation)
{
    if (procedure->has_procedures)
        return;
    activation->next_spare = rendering->scope.spare_activations[procedure->index];
    rendering->scope.spare_activations[procedure->index] = activation;
}

static unsigned count_parameters(const struct function *function)
{
    unsigned n = 0;
    while (n < FUNCTION_PARAMETERS_MAX && function->parameters[n])
        n++;
    return n;
}

static void bind_keywords(struct rendering *rendering, const struct function *function,
                          const struct call *call, unsigned n_parameters, struct object *bound)
{
    for (size_t k = 0; k < call->n_keywords; k++) {
        struct text name = call->keywords[k].name;
        unsigned i = 0;
        while (i < n_parameters && !text_equals_string(name, function->parameters[i]))
            i++;
        int size = codepoints_cut(name);
        if (i == n_parameters || function->positional_only)
            rendering_fail(rendering, "%s() got an unexpected keyword argument '%.*s'", function->name, size,
                           name.data);
        if (bound[i].kind != OBJECT_MISSING)
            rendering_fail(rendering, "%s() got multiple values for argument '%.*s'", function->name, size,
                           name.data);
        bound[i] = call->keywords[k].value;
    }
}

static struct object call_unbound(struct rendering *rendering, const struct function *function,
                                  const struct object *first, const struct call *call)
{
    struct call whole = *call;
    whole.variant = function->variant;
    if (!first)
        return function->run(rendering, &whole);
    struct object *items = rendering_allocate_array(rendering, call->n_items + 1, sizeof *items);
    items[0] = *first;
    if (call->n_items)
        memcpy(items + 1, call->items, call->n_items * sizeof *items);
    whole.items = items;
    whole.n_items++;
    return function->run(rendering, &whole);
}

struct object call_function(struct rendering *rendering, const struct function *function,
                            const struct object *first, const struct call *call)
{
    if (function->any_arguments)
        return call_unbound(rendering, function, first, call);
    struct object bound[FUNCTION_PARAMETERS_MAX] = {0};
    unsigned n_parameters = count_parameters(function), n_first = first ? 1 : 0;
    if (call->n_items + n_first > n_parameters)
        rendering_fail(rendering, "%s() takes at most %u arguments, got %zu", function->name,
                       n_parameters - n_first, call->n_items);
    if (first)
        bound[0] = *first;
    if (call->n_items)
        memcpy(bound + n_first, call->items, call->n_items * sizeof *bound);
    bind_keywords(rendering, function, call, n_parameters, bound);
    for (unsigned i = 0; i < function->n_required; i++)
        if (bound[i].kind == OBJECT_MISSING)
            rendering_fail(rendering, "%s() misses the argument '%s'", function->name,
                           function->parameters[i]);
    struct call whole = {bound, n_parameters, NULL, 0, function->variant};
    return function->run(rendering, &whole);
}

static const struct keyword_argument *find_keyword(const struct call *call, struct text name)
{
    for (size_t i = 0; i < call->n_keywords; i++)
        if (text_equal(call->keywords[i].name, name))
            return &call->keywords[i];
    return NULL;
}

static bool is_parameter(const struct rendering *rendering, const struct macro_definition *macro,
                         size_t first, struct text name)
{
    for (size_t i = first; i < macro->n_parameters; i++)
        if (text_equal(rendering->template->names[macro->parameters[i]->name.name], name))
            return true;
    return false;
}

static void bind_hidden(struct rendering *rendering, const struct macro_definition *macro,
                        const struct call *call)
{
    struct object *slots = rendering->scope.activation->slots;
    const struct expression *const *hidden = (const struct expression *const *)macro->hidden;
    const struct keyword_argument *caller = find_keyword(call, TEXT("caller"));
    if (hidden[MACRO_CALLER])
        slots[hidden[MACRO_CALLER]->name.place.slot] =
            caller ? caller->value : object_undefined_hint("No caller defined");
    if (hidden[MACRO_VARARGS]) {
        size_t n = call->n_items > macro->n_parameters ? call->n_items - macro->n_parameters : 0;
        struct object *items, rest = list_allocate(rendering, n, OBJECT_TUPLE, &items);
        for (size_t i = 0; i < n; i++)
            items[i] = call->items[macro->n_parameters + i];
        slots[hidden[MACRO_VARARGS]->name.place.slot] = rest;
    }
    if (!hidden[MACRO_KWARGS])
        return;
    struct dict *rest = dict_create(rendering, call->n_keywords);
    for (size_t i = 0; i < call->n_keywords; i++) {
        struct text name = call->keywords[i].name;
        bool is_caller = hidden[MACRO_CALLER] && text_equals_string(name, "caller");
        if (!is_caller && !is_parameter(rendering, macro, call->n_items, name))
            dict_set_text(rendering, rest, name, &call->keywords[i].value);
    }
    slots[hidden[MACRO_KWARGS]->name.place.slot] = dict_object(rest);
}

static void check_macro_arguments(struct rendering *rendering, const struct macro_definition *macro,
                                  const struct call *call)
{
    int name_size = codepoints_cut(macro->name);
    if (call->n_items > macro->n_parameters && !macro->hidden[MACRO_VARARGS])
        rendering_fail(rendering, "macro '%.*s' takes not more than %zu argument(s)", name_size,
                       macro->name.data, macro->n_parameters);
    for (size_t i = 0; i < call->n_keywords; i++) {
        struct text keyword = call->keywords[i].name;
        bool is_caller = macro->hidden[MACRO_CALLER] && text_equals_string(keyword, "caller");
        if (!is_caller && !macro->hidden[MACRO_KWARGS] &&
            !is_parameter(rendering, macro, call->n_items, keyword))
            rendering_fail(rendering, "macro '%.*s' takes no keyword argument '%.*s'", name_size,
                           macro->name.data, codepoints_cut(keyword), keyword.data);
    }
}

// Binds given parameters before defaults, because a default may read any parameter.
static void bind_macro(struct rendering *rendering, const struct macro_definition *macro,
                       const struct call *call)
{
    struct object *slots = rendering->scope.activation->slots;
    const struct text *names = rendering->template->names;
    check_macro_arguments(rendering, macro, call);
    bind_hidden(rendering, macro, call);
    for (size_t i = 0; i < macro->n_parameters; i++) {
        const struct expression *parameter = macro->parameters[i];
        const struct keyword_argument *keyword = find_keyword(call, names[parameter->name.name]);
        if (i < call->n_items)
            slots[parameter->name.place.slot] = call->items[i];
        else if (keyword)
            slots[parameter->name.place.slot] = keyword->value;
    }
    size_t n_plain = macro->n_parameters - macro->n_defaults;
    for (size_t i = 0; i < macro->n_parameters; i++) {
        const struct expression *parameter = macro->parameters[i];
        struct object *slot = &slots[parameter->name.place.slot];
        if (slot->kind != OBJECT_MISSING)
            continue;
        *slot = i >= n_plain ? evaluate_expression(rendering, macro->defaults[i - n_plain])
                             : object_undefined(UNDEFINED_NAME, names[parameter->name.name]);
    }
}

static struct object call_macro(struct rendering *rendering, const struct macro *macro,
                                const struct call *call)
{
    const struct macro_definition *definition = macro->definition;
    struct activation *caller = rendering->scope.activation;
    if (rendering->calls++ >= TEMPLATE_CALLS_MAX)
        rendering_fail_limit(rendering, "more than %d calls inside one another", TEMPLATE_CALLS_MAX);
    rendering->scope.activation = call_activation_create(rendering, &definition->procedure, macro->around);
    evaluate_enter_scope(rendering, &definition->scope);
    bind_macro(rendering, definition, call);
    size_t start = rendering->text.size;
    execute_statements(rendering, &definition->body);
    struct object text = rendering_take(rendering, start);
    release_activation(rendering, &definition->procedure, rendering->scope.activation);
    rendering->scope.activation = caller;
    rendering->calls--;
    return text;
}

static struct object call_joiner(struct rendering *rendering, struct cycle *joiner, const struct call *call)
{
    if (call->n_items || call->n_keywords)
        rendering_fail(rendering, "a joiner takes no arguments");
    return joiner->position++ ? joiner->items[0] : object_string(TEXT(""));
}

static struct object call_loop(struct rendering *rendering, struct loop *loop, const struct call *call)
{
    if (call->n_items != 1 || call->n_keywords)
        rendering_fail(rendering, "a loop that is called takes one argument, its items");
    if (rendering->calls++ >= TEMPLATE_CALLS_MAX)
        rendering_fail_limit(rendering, "more than %d calls inside one another", TEMPLATE_CALLS_MAX);
    struct object text = loop_recurse(rendering, loop, &call->items[0]);
    rendering->calls--;
    return text;
}

struct object call_object(struct rendering *rendering, const struct object *callee, const struct call *call)
{
    object_check_defined(rendering, callee);
    if (callee->kind == OBJECT_MACRO)
        return call_macro(rendering, callee->macro, call);
    if (callee->kind == OBJECT_JOINER)
        return call_joiner(rendering, callee->cycle, call);
    if (callee->kind == OBJECT_LOOP)
        return call_loop(rendering, callee->loop, call);
    if (callee->kind != OBJECT_FUNCTION)
        rendering_fail(rendering, "'%s' object is not callable", object_type_name(callee));
    const struct object *self = &callee->function->self;
    return call_function(rendering, callee->function->function, self->kind == OBJECT_MISSING ? NULL : self,
                         call);
}

struct object call_bind(struct rendering *rendering, const struct function *function,
                        const struct object *self)
{
    struct bound_function *bound = rendering_allocate(rendering, sizeof *bound);
    bound->function = function;
    if (self)
        bound->self = *self;
    return (struct object){.kind = OBJECT_FUNCTION, .function = bound};
}
