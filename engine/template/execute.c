#include "engine/template/execute.h"
#include "engine/template/codepoints.h"
#include "engine/template/evaluate.h"
#include "engine/template/loop.h"
#include "engine/template/represent.h"

// The items of a for statement that its `if` lets through.
struct filtered_items {
    struct generator generator;
    const struct statement *statement;
    struct activation *activation;
    struct object iterable;
    struct iterator iterator;
    bool started;
};

static enum flow fail_at(struct rendering *rendering, uint32_t line)
{
    if (!rendering->error_line)
        rendering->error_line = line;
    return FLOW_FAILED;
}

static enum flow execute_output(struct rendering *rendering, struct activation *activation,
                                const struct statement *statement)
{
    for (size_t i = 0; i < statement->output.n_items; i++) {
        const struct expression *expression = statement->output.items[i];
        struct object value;
        if (expression->kind == EXPRESSION_LITERAL && expression->literal.kind == OBJECT_STRING) {
            buffer_add_text(&rendering->text, expression->literal.text);
            if (!rendering_spend(rendering, 1 + expression->literal.text.size / 64) ||
                !rendering_check_text(rendering))
                return fail_at(rendering, expression->line);
            continue;
        }
        if (!evaluate(rendering, activation, expression, &value) || !represent_add_str(rendering, &value) ||
            !rendering_check_text(rendering))
            return fail_at(rendering, expression->line);
    }
    return FLOW_NEXT;
}

enum flow execute_captured(struct rendering *rendering, struct activation *activation,
                           const struct statements *statements, struct object *string)
{
    size_t start = rendering->text.size;
    enum flow flow = execute(rendering, activation, statements);
    if (flow == FLOW_NEXT)
        return rendering_take(rendering, start, string) ? FLOW_NEXT : FLOW_FAILED;
    if (flow != FLOW_FAILED)
        rendering_cut(rendering, start);
    return flow;
}

static enum flow execute_set(struct rendering *rendering, struct activation *activation,
                             const struct statement *statement)
{
    struct object value;
    if (!evaluate_check_target(rendering, activation, statement->set.target) ||
        !evaluate(rendering, activation, statement->set.value, &value) ||
        !evaluate_assign(rendering, activation, statement->set.target, &value))
        return FLOW_FAILED;
    return FLOW_NEXT;
}

static enum flow execute_set_block(struct rendering *rendering, struct activation *activation,
                                   const struct statement *statement)
{
    struct object value;
    if (!evaluate_enter_scope(rendering, activation, &statement->set.scope))
        return FLOW_FAILED;
    enum flow flow = execute_captured(rendering, activation, &statement->set.body, &value);
    if (flow != FLOW_NEXT)
        return flow;
    if ((statement->set.value &&
         !evaluate_filter(rendering, activation, statement->set.value, &value, &value)) ||
        !evaluate_assign(rendering, activation, statement->set.target, &value))
        return FLOW_FAILED;
    return FLOW_NEXT;
}

static enum flow execute_if(struct rendering *rendering, struct activation *activation,
                            const struct statement *statement)
{
    for (size_t i = 0; i < statement->condition.n_branches; i++) {
        const struct branch *branch = &statement->condition.branches[i];
        struct object test;
        if (branch->test) {
            if (!evaluate(rendering, activation, branch->test, &test))
                return FLOW_FAILED;
            if (!object_truth(&test))
                continue;
        }
        return execute(rendering, activation, &branch->body);
    }
    return FLOW_NEXT;
}

// What a target of several names was set to, as a tuple: that is what the filter passes on.
static bool collect_target(struct rendering *rendering, struct activation *activation,
                           const struct expression *target, struct object *item)
{
    if (target->kind != EXPRESSION_TUPLE) {
        *item = *evaluate_place(activation, target->name.place);
        return true;
    }
    struct object *items;
    if (!list_allocate(rendering, target->items.n_items, OBJECT_TUPLE, &items, item))
        return false;
    for (size_t i = 0; i < target->items.n_items; i++)
        if (!collect_target(rendering, activation, target->items.items[i], &items[i]))
            return false;
    return true;
}

static bool next_filtered(struct rendering *rendering, struct generator *generator, struct object *item,
                          bool *more)
{
    struct filtered_items *items = (struct filtered_items *)generator;
    const struct statement *statement = items->statement;
    if (!items->started) {
        items->started = true;
        if (!evaluate_enter_scope(rendering, items->activation, &statement->loop.test_scope) ||
            !iterator_start(rendering, &items->iterable, &items->iterator))
            return false;
    }
    for (;;) {
        struct object test;
        if (!iterator_next(rendering, &items->iterator, item, more))
            return false;
        if (!*more)
            return true;
        if (!evaluate_assign(rendering, items->activation, statement->loop.test_target, item) ||
            !evaluate(rendering, items->activation, statement->loop.test, &test))
            return false;
        if (object_truth(&test))
            return collect_target(rendering, items->activation, statement->loop.test_target, item);
    }
}

static bool filter_items(struct rendering *rendering, struct activation *activation,
                         const struct statement *statement, struct object *iterable)
{
    if (!statement->loop.test)
        return true;
    struct filtered_items *items = rendering_allocate(rendering, sizeof *items);
    if (!items)
        return false;
    items->generator.next = next_filtered;
    items->statement = statement;
    items->activation = activation;
    items->iterable = *iterable;
    *iterable = iterator_generator(&items->generator);
    return true;
}

// `loop` costs memory: without a reader of it, plain iteration does.
static bool next_item(struct rendering *rendering, struct loop *loop, struct iterator *iterator,
                      struct object *item, bool *more)
{
    if (!loop)
        return iterator_next(rendering, iterator, item, more);
    if (!loop_next(rendering, loop, more))
        return false;
    *item = loop->current;
    return true;
}

static enum flow run_loop(struct rendering *rendering, struct activation *activation,
                          const struct statement *statement, struct loop *loop, struct iterator *iterator)
{
    bool ran_through = false; // the body reached its end: a break or continue does not count
    for (;;) {
        struct object item;
        bool more;
        if (!next_item(rendering, loop, iterator, &item, &more))
            return fail_at(rendering, statement->line);
        if (!more)
            break;
        if (loop)
            activation->slots[statement->loop.loop_slot] = (struct object){.kind = OBJECT_LOOP, .loop = loop};
        if (!evaluate_assign(rendering, activation, statement->loop.target, &item) ||
            !evaluate_enter_scope(rendering, activation, &statement->loop.scope))
            return fail_at(rendering, statement->line);
        enum flow flow = execute(rendering, activation, &statement->loop.body);
        if (flow == FLOW_FAILED)
            return flow;
        if (flow == FLOW_BREAK)
            break;
        ran_through = ran_through || flow == FLOW_NEXT;
    }
    if (ran_through || !statement->loop.otherwise.n_items)
        return FLOW_NEXT;
    if (!evaluate_enter_scope(rendering, activation, &statement->loop.otherwise_scope))
        return FLOW_FAILED;
    return execute(rendering, activation, &statement->loop.otherwise);
}

static enum flow loop_over(struct rendering *rendering, struct activation *activation,
                           const struct statement *statement, struct object *iterable, struct loop *recursion)
{
    struct loop *loop = recursion;
    struct iterator iterator = {0};
    if (!filter_items(rendering, activation, statement, iterable))
        return FLOW_FAILED;
    if (!loop && statement->loop.uses_loop) {
        loop = rendering_allocate(rendering, sizeof *loop);
        if (!loop)
            return FLOW_FAILED;
    }
    if (loop) {
        struct loop parameters = *loop;
        if (!loop_start(rendering, loop, iterable))
            return fail_at(rendering, statement->line);
        loop->recursive = parameters.recursive;
        loop->activation = parameters.activation;
        loop->depth0 = parameters.depth0;
    } else if (!iterator_start(rendering, iterable, &iterator)) {
        return fail_at(rendering, statement->line);
    }
    return run_loop(rendering, activation, statement, loop, &iterator);
}

bool execute_recursive_loop(struct rendering *rendering, const struct statement *statement,
                            struct activation *around, const struct object *iterable, int64_t depth0)
{
    if (rendering->calls >= TEMPLATE_CALLS_MAX)
        return rendering_fail_limit(rendering, "more than %d calls inside one another", TEMPLATE_CALLS_MAX);
    struct activation *activation = call_activation_create(rendering, &statement->loop.procedure, around);
    struct loop *loop = rendering_allocate(rendering, sizeof *loop);
    if (!activation || !loop)
        return false;
    *loop = (struct loop){.recursive = statement, .activation = around, .depth0 = depth0};
    struct object items = *iterable;
    rendering->calls++;
    bool ok = loop_over(rendering, activation, statement, &items, loop) == FLOW_NEXT;
    rendering->calls--;
    if (ok && !statement->loop.test) // a filter may still be asked for items, by a `loop` that was kept
        call_activation_release(rendering, &statement->loop.procedure, activation);
    return ok;
}

static enum flow execute_for(struct rendering *rendering, struct activation *activation,
                             const struct statement *statement)
{
    struct object iterable;
    if (!evaluate(rendering, activation, statement->loop.iterable, &iterable))
        return FLOW_FAILED;
    if (!statement->loop.recursive)
        return loop_over(rendering, activation, statement, &iterable, NULL);
    if (!execute_recursive_loop(rendering, statement, activation, &iterable, 0))
        return fail_at(rendering, statement->line);
    return FLOW_NEXT;
}

static bool create_macro(struct rendering *rendering, struct activation *activation,
                         const struct macro_definition *definition, struct object *object)
{
    struct macro *macro = rendering_allocate(rendering, sizeof *macro);
    if (!macro)
        return false;
    *macro = (struct macro){definition, activation};
    *object = (struct object){.kind = OBJECT_MACRO, .macro = macro};
    return true;
}

static enum flow execute_macro(struct rendering *rendering, struct activation *activation,
                               const struct statement *statement)
{
    const struct macro_definition *definition = statement->macro.definition;
    struct object macro;
    if (!create_macro(rendering, activation, definition, &macro))
        return fail_at(rendering, statement->line);
    *evaluate_place(activation, definition->place) = macro;
    return FLOW_NEXT;
}

static enum flow add_text(struct rendering *rendering, const struct object *text, uint32_t line)
{
    if (text->kind != OBJECT_STRING)
        rendering_set_error(rendering, "the block gave a %s where text is needed", object_type_name(text));
    else if (represent_add_str(rendering, text) && rendering_check_text(rendering))
        return FLOW_NEXT;
    return fail_at(rendering, line);
}

static enum flow execute_call(struct rendering *rendering, struct activation *activation,
                              const struct statement *statement)
{
    static const struct call no_arguments;
    struct object caller, text;
    if (!create_macro(rendering, activation, statement->macro.definition, &caller))
        return FLOW_FAILED;
    bool ok = statement->kind == STATEMENT_CALL
                  ? evaluate_call(rendering, activation, statement->macro.call, &caller, &text)
                  : call_macro(rendering, caller.macro, &no_arguments, &text);
    return ok ? add_text(rendering, &text, statement->line) : fail_at(rendering, statement->line);
}

static enum flow execute_filter(struct rendering *rendering, struct activation *activation,
                                const struct statement *statement)
{
    struct object text;
    if (!evaluate_enter_scope(rendering, activation, &statement->filter.scope))
        return FLOW_FAILED;
    enum flow flow = execute_captured(rendering, activation, &statement->filter.body, &text);
    if (flow != FLOW_NEXT)
        return flow;
    if (!evaluate_filter(rendering, activation, statement->filter.filter, &text, &text))
        return FLOW_FAILED;
    return add_text(rendering, &text, statement->line);
}

static enum flow execute_with(struct rendering *rendering, struct activation *activation,
                              const struct statement *statement)
{
    if (!evaluate_enter_scope(rendering, activation, &statement->with.scope))
        return FLOW_FAILED;
    for (size_t i = 0; i < statement->with.n_targets; i++) {
        struct object value;
        if (!evaluate(rendering, activation, statement->with.values[i], &value) ||
            !evaluate_assign(rendering, activation, statement->with.targets[i], &value))
            return FLOW_FAILED;
    }
    return execute(rendering, activation, &statement->with.body);
}

static enum flow execute_autoescape(struct rendering *rendering, struct activation *activation,
                                    const struct statement *statement)
{
    struct object on;
    if (!evaluate_enter_scope(rendering, activation, &statement->with.scope) ||
        !evaluate(rendering, activation, statement->with.autoescape, &on))
        return FLOW_FAILED;
    if (object_truth(&on)) {
        rendering_set_error(rendering, "autoescape is not supported");
        return fail_at(rendering, statement->line);
    }
    return execute(rendering, activation, &statement->with.body);
}

static enum flow execute_block(struct rendering *rendering, struct activation *activation,
                               const struct statement *statement)
{
    if (statement->block.required) {
        rendering_set_error(rendering, "required block '%.*s' not found",
                            codepoints_cut(statement->block.name), statement->block.name.data);
        return fail_at(rendering, statement->line);
    }
    struct activation *own = call_activation_create(rendering, &statement->block.procedure, activation);
    if (!own || !evaluate_enter_scope(rendering, own, &statement->block.scope))
        return FLOW_FAILED;
    enum flow flow = execute(rendering, own, &statement->block.body);
    if (flow == FLOW_NEXT)
        call_activation_release(rendering, &statement->block.procedure, own);
    return flow;
}

static enum flow execute_one(struct rendering *rendering, struct activation *activation,
                             const struct statement *statement)
{
    switch (statement->kind) {
    case STATEMENT_OUTPUT:
        return execute_output(rendering, activation, statement);
    case STATEMENT_SET:
        return execute_set(rendering, activation, statement);
    case STATEMENT_SET_BLOCK:
        return execute_set_block(rendering, activation, statement);
    case STATEMENT_IF:
        return execute_if(rendering, activation, statement);
    case STATEMENT_FOR:
        return execute_for(rendering, activation, statement);
    case STATEMENT_MACRO:
        return execute_macro(rendering, activation, statement);
    case STATEMENT_CALL:
    case STATEMENT_GENERATION:
        return execute_call(rendering, activation, statement);
    case STATEMENT_FILTER:
        return execute_filter(rendering, activation, statement);
    case STATEMENT_WITH:
        return execute_with(rendering, activation, statement);
    case STATEMENT_AUTOESCAPE:
        return execute_autoescape(rendering, activation, statement);
    case STATEMENT_BLOCK:
        return execute_block(rendering, activation, statement);
    case STATEMENT_BREAK:
        return FLOW_BREAK;
    case STATEMENT_CONTINUE:
        return FLOW_CONTINUE;
    case STATEMENT_UNAVAILABLE:
        rendering_set_error(rendering, "no other template can be loaded from a chat template");
        return fail_at(rendering, statement->line);
    }
    return FLOW_NEXT;
}

enum flow execute(struct rendering *rendering, struct activation *activation,
                  const struct statements *statements)
{
    if (!rendering_enter(rendering))
        return FLOW_FAILED;
    enum flow flow = FLOW_NEXT;
    for (size_t i = 0; i < statements->n_items && flow == FLOW_NEXT; i++) {
        if (rendering_spend(rendering, 1))
            flow = execute_one(rendering, activation, statements->items[i]);
        else
            flow = fail_at(rendering, statements->items[i]->line);
    }
    rendering_leave(rendering);
    return flow;
}
