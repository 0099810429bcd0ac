#include "engine/template/call.h"
#include "engine/template/codepoints.h"
#include "engine/template/evaluate.h"
#include "engine/template/execute.h"
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
    struct call whole = *call;
    whole.variant = function->variant;
    if (!first)
        return function->run(rendering, &whole, result);
    struct object *items = rendering_allocate_array(rendering, call->n_items + 1, sizeof *items);
    if (!items)
        return false;
    items[0] = *first;
    if (call->n_items)
        memcpy(items + 1, call->items, call->n_items * sizeof *items);
    whole.items = items;
    whole.n_items++;
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
    struct call whole = {bound, n_parameters, NULL, 0, function->variant};
    return function->run(rendering, &whole, result);
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

// Given parameters: a default may read any of them.
static bool bind_macro(struct rendering *rendering, const struct macro_definition *macro,
                       const struct call *call, struct activation *activation)
{
    int name_size = codepoints_cut(macro->name);
    if (call->n_items > macro->n_parameters)
        return rendering_fail(rendering, "macro '%.*s' takes not more than %zu argument(s)", name_size,
                              macro->name.data, macro->n_parameters);
    for (size_t i = 0; i < call->n_keywords; i++) {
        struct text keyword = call->keywords[i].name;
        if (!is_parameter(rendering, macro, call->n_items, keyword))
            return rendering_fail(rendering, "macro '%.*s' takes no keyword argument '%.*s'", name_size,
                                  macro->name.data, codepoints_cut(keyword), keyword.data);
    }
    for (size_t i = 0; i < macro->n_parameters; i++) {
        const struct expression *parameter = macro->parameters[i];
        struct object *slot = &activation->slots[parameter->name.place.slot];
        const struct keyword_argument *keyword =
            i < call->n_items ? NULL : find_keyword(call, rendering->template->names[parameter->name.name]);
        if (i < call->n_items)
            *slot = call->items[i];
        else if (keyword)
            *slot = keyword->value;
    }
    return true;
}

static bool bind_defaults(struct rendering *rendering, const struct macro_definition *macro,
                          struct activation *activation)
{
    size_t n_plain = macro->n_parameters - macro->n_defaults;
    for (size_t i = 0; i < macro->n_parameters; i++) {
        uint32_t name = macro->parameters[i]->name.name;
        struct object *slot = &activation->slots[macro->parameters[i]->name.place.slot], value;
        if (slot->kind != OBJECT_MISSING)
            continue;
        value = object_undefined(UNDEFINED_NAME, rendering->template->names[name]);
        if (i >= n_plain && !evaluate(rendering, activation, macro->defaults[i - n_plain], &value))
            return false;
        *slot = value;
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
    rendering->calls++;
    bool ok = evaluate_enter_scope(rendering, activation, &definition->scope) &&
              bind_macro(rendering, definition, call, activation) &&
              bind_defaults(rendering, definition, activation) &&
              execute_captured(rendering, activation, &definition->body, result) == FLOW_NEXT;
    rendering->calls--;
    if (ok)
        call_activation_release(rendering, &definition->procedure, activation);
    return ok;
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
