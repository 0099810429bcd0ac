#include "engine/template/scope.h"
#include "engine/template/parser.h"

// The slot of a name in the innermost open scope that binds the name. `outer` lists the bindings of the name
// in the surrounding scopes.
struct binding {
    struct binding *outer;    // the same name's binding further out
    struct binding *previous; // the scope's previous binding
    const struct scope_draft *draft;
    uint32_t name, slot;
};

struct resolver {
    struct parser *parser;
    struct binding **innermost; // indexed by name
    uint32_t loop_name;
};

// The scope being resolved.
struct open_scope {
    const struct scope_draft *draft;
    struct binding *bindings; // newest first
    struct load *loads;
    size_t n_loads, capacity;
};

struct scope_draft *scope_open(struct parser *parser, struct scope *scope, struct procedure *procedure)
{
    struct scope_draft *draft = parser_allocate(parser, sizeof *draft), *around = parser->scope;
    draft->around = around;
    draft->scope = scope;
    draft->procedure = procedure ? procedure : around->procedure;
    draft->depth = around ? around->depth + (procedure ? 1 : 0) : 0;
    draft->in_loop = around && !procedure && around->in_loop;
    if (procedure)
        procedure->index = parser->template->n_procedures++;
    if (around) {
        around->procedure->has_procedures |= procedure != NULL;
        *(around->last_inside ? &around->last_inside->next : &around->first_inside) = draft;
        around->last_inside = draft;
    }
    return parser->scope = draft;
}

void scope_close(struct parser *parser)
{
    parser->scope = parser->scope->around;
}

void scope_make_procedure(struct parser *parser, struct scope_draft *draft, struct procedure *procedure)
{
    procedure->index = parser->template->n_procedures++;
    draft->around->procedure->has_procedures = true;
    draft->procedure = procedure;
    draft->depth++;
    draft->in_loop = false;
    for (struct scope_draft *inside = draft->first_inside; inside; inside = inside->next) {
        inside->procedure = procedure;
        inside->depth++;
    }
}

void scope_mention(struct parser *parser, struct expression *name, enum mention_kind kind)
{
    struct scope_draft *draft = parser->scope;
    draft->mentions =
        parser_grow(parser, draft->mentions, draft->n_mentions, &draft->capacity, sizeof *draft->mentions);
    if (kind == MENTION_SET && draft->n_branches)
        kind = MENTION_SET_PERHAPS;
    draft->mentions[draft->n_mentions++] = (struct mention){name, kind};
}

void scope_mention_target(struct parser *parser, struct expression *target, enum mention_kind kind)
{
    if (target->kind == EXPRESSION_TUPLE) {
        for (size_t i = 0; i < target->items.n_items; i++)
            scope_mention_target(parser, target->items.items[i], kind);
        return;
    }
    bool is_member = target->kind == EXPRESSION_NAMESPACE_TARGET;
    struct text name = parser->template->names[target->name.name];
    if (!is_member && parser->n_loops && text_equals_string(name, "loop"))
        parser_fail(parser, target->line, "can't assign to the special variable 'loop' in a loop");
    scope_mention(parser, target, is_member ? MENTION_READ : kind);
}

static struct place place_of(const struct scope_draft *from, const struct binding *binding)
{
    return (struct place){from->depth - binding->draft->depth, binding->slot};
}

static struct binding *bind_name(struct resolver *resolver, struct open_scope *open, uint32_t name)
{
    struct binding *binding = parser_allocate(resolver->parser, sizeof *binding);
    *binding = (struct binding){resolver->innermost[name], open->bindings, open->draft, name,
                                open->draft->procedure->n_slots++};
    open->bindings = binding;
    return resolver->innermost[name] = binding;
}

static void bind_loaded(struct resolver *resolver, struct open_scope *open, uint32_t name, struct load load)
{
    load.slot = bind_name(resolver, open, name)->slot;
    load.name = name;
    open->loads = parser_grow(resolver->parser, open->loads, open->n_loads, &open->capacity, sizeof load);
    open->loads[open->n_loads++] = load;
}

static void bind_mention(struct resolver *resolver, struct open_scope *open, const struct mention *mention)
{
    uint32_t name = mention->name->name.name;
    const struct binding *outer = resolver->innermost[name];
    if (outer && (outer->draft == open->draft || mention->kind == MENTION_READ))
        return;
    if (mention->kind == MENTION_DECLARED) {
        bind_name(resolver, open, name);
        return;
    }
    struct load load = {.kind = mention->kind == MENTION_SET ? LOAD_NOTHING : LOAD_GLOBAL};
    if (outer)
        load = (struct load){.kind = LOAD_OUTER, .outer = place_of(open->draft, outer)};
    else if (mention->kind == MENTION_READ)
        resolver->parser->template->is_outside[name] = true;
    bind_loaded(resolver, open, name, load);
}

static void resolve_scope(struct resolver *resolver, const struct scope_draft *draft)
{
    struct open_scope open = {.draft = draft};
    if (draft->loop)
        draft->loop->loop.loop_slot = bind_name(resolver, &open, resolver->loop_name)->slot;
    size_t n = draft->n_mentions;
    for (size_t i = 0; i < 2 * n; i++) { // declarations first: a default may read a later parameter
        const struct mention *mention = &draft->mentions[i % n];
        if (i >= n || mention->kind == MENTION_DECLARED)
            bind_mention(resolver, &open, mention);
    }
    for (size_t i = 0; i < n; i++) {
        struct expression *name = draft->mentions[i].name;
        const struct binding *binding = resolver->innermost[name->name.name];
        name->name.place = place_of(draft, binding);
        if (name->name.name == resolver->loop_name && binding->draft->loop)
            binding->draft->loop->loop.uses_loop = true;
    }
    for (const struct scope_draft *inside = draft->first_inside; inside; inside = inside->next)
        resolve_scope(resolver, inside);
    for (struct binding *binding = open.bindings; binding; binding = binding->previous)
        resolver->innermost[binding->name] = binding->outer;
    *draft->scope = (struct scope){open.loads, (uint32_t)open.n_loads};
}

void scope_resolve(struct parser *parser, struct scope_draft *root)
{
    struct resolver resolver = {.parser = parser, .loop_name = parser_name(parser, TEXT("loop"))};
    uint32_t n_names = parser->template->n_names;
    resolver.innermost = parser_allocate(parser, n_names * sizeof *resolver.innermost);
    parser->template->is_outside = parser_allocate(parser, n_names * sizeof *parser->template->is_outside);
    resolve_scope(&resolver, root);
}

// ---- what a value is read for ----

// The mention of the variable, or of its member named by a literal, that the expression reads; NULL: it is something else.
static struct outside_mention *find_mention(const struct expression *value)
{
    if (value->kind == EXPRESSION_NAME)
        return value->name.mention;
    const struct expression *owner = NULL;
    if (value->kind == EXPRESSION_ATTRIBUTE)
        owner = value->attribute.owner;
    else if (value->kind == EXPRESSION_SUBSCRIPT)
        owner = value->subscript.owner;
    bool is_member = owner && owner->kind == EXPRESSION_NAME && owner->name.mention &&
                     owner->name.mention->member.data != NULL;
    return is_member ? owner->name.mention : NULL;
}

void scope_note_truth(const struct expression *test)
{
    struct outside_mention *mention = find_mention(test);
    if (mention)
        mention->is_condition = true;
    if (test->kind == EXPRESSION_NOT || test->kind == EXPRESSION_AND || test->kind == EXPRESSION_OR)
        scope_note_truth(test->binary.left);
    if (test->kind == EXPRESSION_AND || test->kind == EXPRESSION_OR)
        scope_note_truth(test->binary.right);
}

void scope_note_items(const struct expression *value)
{
    struct outside_mention *mention = find_mention(value);
    if (mention)
        mention->reads_items = true;
    if (value->kind == EXPRESSION_OR) { // tags or []
        scope_note_items(value->binary.left);
        scope_note_items(value->binary.right);
    }
}

static bool is_boolean(const struct expression *value)
{
    return value->kind == EXPRESSION_LITERAL && value->literal.kind == OBJECT_BOOL;
}

void scope_note_comparison(const struct expression *left, enum operator operator,
                           const struct expression * right)
{
    if (operator== OPERATOR_IN || operator== OPERATOR_NOT_IN)
        scope_note_items(right);
    else if (is_boolean(right))
        scope_note_truth(left);
    else if (is_boolean(left))
        scope_note_truth(right);
}

static bool is_one_of(struct text name, const char *const *words, size_t n_words)
{
    for (size_t i = 0; i < n_words; i++)
        if (text_equals_string(name, words[i]))
            return true;
    return false;
}

void scope_note_filter(const struct expression *filter)
{
    static const char *const tests[] = {"true", "false", "boolean"};
    static const char *const filters[] = {"batch", "count",  "first",      "groupby", "join",
                                          "last",  "length", "list",       "map",     "max",
                                          "min",   "reject", "rejectattr", "select",  "selectattr",
                                          "slice", "sort",   "sum",        "unique",  "random"};
    const struct expression *input = filter->filter.input;
    struct text name = filter->filter.name;
    if (!input)
        return;
    if (filter->kind == EXPRESSION_TEST && is_one_of(name, tests, sizeof tests / sizeof *tests))
        scope_note_truth(input);
    if (filter->kind == EXPRESSION_FILTER && is_one_of(name, filters, sizeof filters / sizeof *filters))
        scope_note_items(input);
}
