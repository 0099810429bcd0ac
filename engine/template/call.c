#include "engine/template/call.h"
#include "engine/template/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/evaluate.h"
#include "engine/template/execute.h"
#include "engine/template/loop.h"
#include "engine/template/rendering.h"

#include <string.h>

struct activation *call_activation_create(struct rendering *rendering, const struct procedure *procedure,
                                          struct activation *around)
{
    struct activation *activation = rendering->spare_activations[procedure->index];
    if (activation) {
        rendering->spare_activations[procedure->index] = activation->next_spare;
        memset(activation->slots, 0, procedure->n_slots * sizeof *activation->slots);
    } else {
        size_t bytes = sizeof *activation + procedure->n_slots * sizeof *activation->slots;
        activation = rendering_allocate(rendering, bytes);
    }
    if (activation)
        activation->around = around;
    return activation;
}

void call_activation_release(struct rendering *rendering, const struct procedure *procedure,
                             struct activation *activation)
{
    if (procedure->has_procedures)
        return;
    activation->next_spare = rendering->spare_activations[procedure->index];
    rendering->spare_activations[procedure->index] = activation;
}

static unsigned count_parameters(const struct function *function)
{
    unsigned n = 0;
    while (n < FUNCTION_PARAMETERS_MAX && function->parameters[n])
        n++;
    return n;
}

static bool bind_keywords(struct rendering *rendering, const struct function *function,
                          const struct call *call, unsigned n_parameters, struct object *bound)
{
    for (size_t k = 0; k < call->n_keywords; k++) {
        struct text name = call->keywords[k].name;
        unsigned i = 0;
        while (i < n_parameters && !text_equals_string(name, function->parameters[i]))
            i++;
        int size = codepoints_cut(name);
        if (i == n_parameters || function->positional_only)
            return rendering_fail(rendering, "%s() got an unexpected keyword argument '%.*s'", function->name,
                                  size, name.data);
        if (bound[i].kind != OBJECT_MISSING)
            return rendering_fail(rendering, "%s() got multiple values for argument '%.*s'", function->name,
                                  size, name.data);
        bound[i] = call->keywords[k].value;
    }
    return true;
}

static bool call_unbound(struct rendering *rendering, const struct function *function,
                         const struct object *first, const struct call *call, struct object *result)
{
    if (!first)
        return function->run(rendering, call, result);
    struct object *items = rendering_allocate_array(rendering, call->n_items + 1, sizeof *items);
    if (!items)
        return false;
    items[0] = *first;
    if (call->n_items)
        memcpy(items + 1, call->items, call->n_items * sizeof *items);
    struct call whole = {items, call->n_items + 1, call->keywords, call->n_keywords};
    return function->run(rendering, &whole, result);
}

bool call_function(struct rendering *rendering, const struct function *function, const struct object *first,
                   const struct call *call, struct object *result)
{
    if (function->any_arguments)
        return call_unbound(rendering, function, first, call, result);
    struct object bound[FUNCTION_PARAMETERS_MAX] = {0};
    unsigned n_parameters = count_parameters(function), n_first = first ? 1 : 0;
    if (call->n_items + n_first > n_parameters)
        return rendering_fail(rendering, "%s() takes at most %u arguments, got %zu", function->name,
                              n_parameters - n_first, call->n_items);
    if (first)
        bound[0] = *first;
    if (call->n_items)
        memcpy(bound + n_first, call->items, call->n_items * sizeof *bound);
    if (call->n_keywords && !bind_keywords(rendering, function, call, n_parameters, bound))
        return false;
    for (unsigned i = 0; i < function->n_required; i++)
        if (bound[i].kind == OBJECT_MISSING)
            return rendering_fail(rendering, "%s() misses the argument '%s'", function->name,
                                  function->parameters[i]);
    struct call whole = {bound, n_parameters, NULL, 0};
    return function->run(rendering, &whole, result);
}

static const struct keyword_argument *find_keyword(const struct call *call, struct text name)
{
    for (size_t i = 0; i < call->n_keywords; i++)
        if (text_equal(call->keywords[i].name, name))
            return &call->keywords[i];
    return NULL;
}

// How many of the call's keywords became parameters; the rest is for kwargs.
struct macro_binding {
    struct rendering *rendering;
    const struct macro_definition *definition;
    const struct call *call;
    struct activation *activation;
    size_t n_positional;
    bool found_caller;
};

static bool is_taken(const struct macro_binding *binding, struct text name)
{
    const struct macro_definition *definition = binding->definition;
    struct text *names = binding->rendering->template->names;
    for (size_t i = binding->n_positional; i < definition->n_parameters; i++)
        if (text_equal(names[definition->parameters[i]->name.name], name))
            return true;
    return definition->special[MACRO_CALLER].present && !binding->found_caller &&
           text_equals_string(name, "caller");
}

static bool bind_rest(struct macro_binding *binding)
{
    const struct macro_definition *definition = binding->definition;
    const struct call *call = binding->call;
    struct rendering *rendering = binding->rendering;
    bool wants_kwargs = definition->special[MACRO_KWARGS].present;
    int name_size = codepoints_cut(definition->name);
    const char *name = definition->name.data ? definition->name.data : "";
    struct dict *rest = wants_kwargs ? dict_create(rendering, 0) : NULL;
    if (wants_kwargs && !rest)
        return false;
    for (size_t i = 0; i < call->n_keywords; i++) {
        struct text keyword = call->keywords[i].name;
        if (is_taken(binding, keyword))
            continue;
        if (!wants_kwargs)
            return rendering_fail(rendering, "macro '%.*s' takes no keyword argument '%.*s'", name_size, name,
                                  codepoints_cut(keyword), keyword.data);
        if (!dict_set_text(rendering, rest, keyword, &call->keywords[i].value))
            return false;
    }
    if (wants_kwargs)
        binding->activation->slots[definition->special[MACRO_KWARGS].slot] = dict_object(rest);
    if (definition->special[MACRO_VARARGS].present) {
        size_t n_rest = call->n_items - binding->n_positional;
        struct object *items, *varargs = &binding->activation->slots[definition->special[MACRO_VARARGS].slot];
        if (!list_allocate(rendering, n_rest, OBJECT_TUPLE, &items, varargs))
            return false;
        if (n_rest)
            memcpy(items, call->items + binding->n_positional, n_rest * sizeof *items);
    } else if (call->n_items > definition->n_parameters) {
        return rendering_fail(rendering, "macro '%.*s' takes not more than %zu argument(s)", name_size, name,
                              definition->n_parameters);
    }
    return true;
}

// Given parameters first: a default may read any of them.
static bool bind_macro(struct macro_binding *binding)
{
    const struct macro_definition *definition = binding->definition;
    const struct call *call = binding->call;
    struct text *names = binding->rendering->template->names;
    size_t n = call->n_items < definition->n_parameters ? call->n_items : definition->n_parameters;
    binding->n_positional = n;
    for (size_t i = 0; i < definition->n_parameters; i++) {
        const struct expression *parameter = definition->parameters[i];
        struct object *slot = &binding->activation->slots[parameter->name.place.slot];
        const struct keyword_argument *keyword =
            i < n || !call->n_keywords ? NULL : find_keyword(call, names[parameter->name.name]);
        if (i < n)
            *slot = call->items[i];
        else if (keyword)
            *slot = keyword->value;
        if (parameter->name.name == definition->special[MACRO_CALLER].name)
            binding->found_caller = true;
    }
    if (definition->special[MACRO_CALLER].present && !binding->found_caller) {
        const struct keyword_argument *caller = find_keyword(call, TEXT("caller"));
        binding->activation->slots[definition->special[MACRO_CALLER].slot] =
            caller && caller->value.kind != OBJECT_NONE ? caller->value
                                                        : object_undefined_hint("no caller defined");
    }
    return bind_rest(binding);
}

static bool bind_defaults(struct rendering *rendering, const struct macro_definition *definition,
                          struct activation *activation)
{
    size_t n_plain = definition->n_parameters - definition->n_defaults;
    for (size_t i = 0; i < definition->n_parameters; i++) {
        const struct expression *parameter = definition->parameters[i];
        struct object *slot = &activation->slots[parameter->name.place.slot];
        if (slot->kind != OBJECT_MISSING)
            continue;
        if (i < n_plain) {
            *slot = object_undefined(UNDEFINED_NAME, rendering->template->names[parameter->name.name]);
        } else {
            struct object value;
            if (!evaluate(rendering, activation, definition->defaults[i - n_plain], &value))
                return false;
            *slot = value;
        }
    }
    return true;
}

bool call_macro(struct rendering *rendering, const struct macro *macro, const struct call *call,
                struct object *result)
{
    const struct macro_definition *definition = macro->definition;
    if (rendering->calls >= TEMPLATE_CALLS_MAX)
        return rendering_fail_limit(rendering, "more than %d calls inside one another", TEMPLATE_CALLS_MAX);
    struct activation *activation = call_activation_create(rendering, &definition->procedure, macro->around);
    if (!activation)
        return false;
    struct macro_binding binding = {rendering, definition, call, activation, 0, false};
    rendering->calls++;
    bool ok = evaluate_enter_scope(rendering, activation, &definition->scope) && bind_macro(&binding) &&
              bind_defaults(rendering, definition, activation) &&
              execute_captured(rendering, activation, &definition->body, result) == FLOW_NEXT;
    rendering->calls--;
    if (ok)
        call_activation_release(rendering, &definition->procedure, activation);
    return ok;
}

static bool call_loop(struct rendering *rendering, struct loop *loop, const struct call *call,
                      struct object *result)
{
    if (!loop->recursive)
        return rendering_fail(rendering,
                              "the 'loop' variable is not recursive: the loop must have the 'recursive' "
                              "marker to be called");
    if (call->n_items != 1 || call->n_keywords)
        return rendering_fail(rendering, "loop() takes one argument");
    size_t start = rendering->text.size;
    return execute_recursive_loop(rendering, loop->recursive, loop->activation, &call->items[0],
                                  loop->depth0 + 1) &&
           rendering_take(rendering, start, result);
}

static bool call_joiner(struct joiner *joiner, struct object *result)
{
    *result = joiner->used ? joiner->separator : object_string(TEXT(""));
    joiner->used = true;
    return true;
}

bool call_is_callable(const struct object *object)
{
    return object->kind == OBJECT_FUNCTION || object->kind == OBJECT_MACRO || object->kind == OBJECT_LOOP ||
           object->kind == OBJECT_JOINER || object->kind == OBJECT_UNDEFINED;
}

bool call_object(struct rendering *rendering, const struct object *callee, const struct call *call,
                 struct object *result)
{
    const struct object *self;
    switch ((enum object_kind)callee->kind) {
    case OBJECT_FUNCTION:
        self = &callee->function->self;
        return call_function(rendering, callee->function->function,
                             self->kind == OBJECT_MISSING ? NULL : self, call, result);
    case OBJECT_MACRO:
        return call_macro(rendering, callee->macro, call, result);
    case OBJECT_LOOP:
        return call_loop(rendering, callee->loop, call, result);
    case OBJECT_JOINER:
        return call_joiner(callee->joiner, result);
    case OBJECT_UNDEFINED:
        return object_fail_undefined(rendering, callee);
    default:
        return rendering_fail(rendering, "'%s' object is not callable", object_type_name(callee));
    }
}

bool call_bind(struct rendering *rendering, const struct function *function, const struct object *self,
               struct object *object)
{
    struct bound_function *bound = rendering_allocate(rendering, sizeof *bound);
    if (!bound)
        return false;
    bound->function = function;
    if (self)
        bound->self = *self;
    *object = (struct object){.kind = OBJECT_FUNCTION, .function = bound};
    return true;
}

void call_add_macro_repr(struct buffer *buffer, const struct macro *macro)
{
    struct text name = macro->definition->name;
    if (name.data)
        buffer_add_format(buffer, "<Macro '%.*s'>", (int)name.size, name.data);
    else
        buffer_add_string(buffer, "<Macro anonymous>");
}

bool call_macro_attribute(struct rendering *rendering, const struct macro *macro, struct text name,
                          struct object *value, bool *known)
{
    const struct macro_definition *definition = macro->definition;
    *known = true;
    if (text_equals_string(name, "name")) {
        *value = definition->name.data ? object_string(definition->name) : OBJECT_NONE_VALUE;
    } else if (text_equals_string(name, "arguments")) {
        struct object *items;
        if (!list_allocate(rendering, definition->n_parameters, OBJECT_TUPLE, &items, value))
            return false;
        for (size_t i = 0; i < definition->n_parameters; i++)
            items[i] = object_string(rendering->template->names[definition->parameters[i]->name.name]);
    } else if (text_equals_string(name, "catch_kwargs")) {
        *value = object_bool(definition->special[MACRO_KWARGS].present);
    } else if (text_equals_string(name, "catch_varargs")) {
        *value = object_bool(definition->special[MACRO_VARARGS].present);
    } else if (text_equals_string(name, "caller")) {
        *value = object_bool(definition->special[MACRO_CALLER].present || definition->explicit_caller);
    } else {
        *known = false;
    }
    return true;
}
