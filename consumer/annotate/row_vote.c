#include "consumer/annotate/row_vote.h"

#include "consumer/annotate/schema_columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOTE_DEPTH_MAX = 16 };

// ---- the rule of a schema ----

static bool read_number(const struct value *schema, const char *name, double *number)
{
    const struct value *found = value_get(schema, name);
    bool is_number = found && (found->kind == VALUE_INTEGER || found->kind == VALUE_FLOAT);
    if (is_number)
        *number = found->kind == VALUE_INTEGER ? (double)found->integer : found->number;
    return is_number;
}

static bool is_true(const struct value *schema, const char *name)
{
    const struct value *found = value_get(schema, name);
    return found && found->kind == VALUE_BOOL && found->boolean;
}

// In draft 4 exclusiveMinimum is a boolean about minimum; in later drafts it is the bound itself.
static bool has_few_integers(const struct value *schema)
{
    double low = -INFINITY, high = INFINITY, bound, step = 1;
    if (read_number(schema, "minimum", &bound))
        low = is_true(schema, "exclusiveMinimum") ? floor(bound) + 1 : ceil(bound);
    if (read_number(schema, "exclusiveMinimum", &bound))
        low = fmax(low, floor(bound) + 1);
    if (read_number(schema, "maximum", &bound))
        high = is_true(schema, "exclusiveMaximum") ? ceil(bound) - 1 : floor(bound);
    if (read_number(schema, "exclusiveMaximum", &bound))
        high = fmin(high, ceil(bound) - 1);
    if (read_number(schema, "multipleOf", &bound) && bound >= 1 && bound == floor(bound))
        step = bound;
    return floor(high / step) - ceil(low / step) + 1 <= VOTE_INTEGERS_MAX;
}

static bool is_few_type(const struct value *schema, const struct value *type)
{
    if (type->kind != VALUE_STRING)
        return false;
    return text_equals_string(type->text, "boolean") || text_equals_string(type->text, "null") ||
           (text_equals_string(type->text, "integer") && has_few_integers(schema));
}

static bool names_type(const struct value *schema, const char *name)
{
    const struct value *type = value_get(schema, "type");
    if (!type || type->kind != VALUE_ARRAY)
        return type && type->kind == VALUE_STRING && text_equals_string(type->text, name);
    for (size_t i = 0; i < type->array.n_items; i++)
        if (type->array.items[i].kind == VALUE_STRING && text_equals_string(type->array.items[i].text, name))
            return true;
    return false;
}

// Follows $ref, and allOf with one schema, to the schema that applies. NULL: a $ref names nothing, or they
// are nested more than VOTE_DEPTH_MAX deep.
static const struct value *resolve(const struct value *root, const struct value *schema)
{
    for (int depth = 0; schema && schema->kind == VALUE_OBJECT && depth < VOTE_DEPTH_MAX; depth++) {
        const struct value *reference = value_get(schema, "$ref"), *all = value_get(schema, "allOf");
        if (reference && reference->kind == VALUE_STRING)
            schema = value_at_pointer(root, reference->text);
        else if (all && all->kind == VALUE_ARRAY && all->array.n_items == 1)
            schema = &all->array.items[0];
        else
            return schema;
    }
    return NULL;
}

static const struct value *union_of(const struct value *schema)
{
    const struct value *found = value_get(schema, "anyOf");
    found = found ? found : value_get(schema, "oneOf");
    return found && found->kind == VALUE_ARRAY && found->array.n_items ? found : NULL;
}

// Recursive, VOTE_DEPTH_MAX deep.
static bool has_few_values(const struct value *root, const struct value *schema, int depth)
{
    const struct value *found;
    schema = depth < VOTE_DEPTH_MAX ? resolve(root, schema) : NULL;
    if (!schema)
        return false;
    if (value_get(schema, "const") || value_get(schema, "enum"))
        return true;
    if ((found = union_of(schema))) {
        bool is_few = true;
        for (size_t i = 0; is_few && i < found->array.n_items; i++)
            is_few = has_few_values(root, &found->array.items[i], depth + 1);
        return is_few;
    }
    found = value_get(schema, "type");
    if (!found || found->kind != VALUE_ARRAY)
        return found && is_few_type(schema, found);
    bool is_few = found->array.n_items > 0;
    for (size_t i = 0; is_few && i < found->array.n_items; i++)
        is_few = is_few_type(schema, &found->array.items[i]);
    return is_few;
}

static size_t read_count(const struct value *schema, const char *name, size_t otherwise)
{
    double number;
    if (!read_number(schema, name, &number) || number < 0)
        return otherwise;
    return number < (double)INT32_MAX ? (size_t)number : INT32_MAX;
}

// prefixItems and contains constrain single items, which a vote by member might violate.
static bool is_array_of_few(const struct value *root, const struct value *schema)
{
    return names_type(schema, "array") && !value_get(schema, "prefixItems") &&
           !value_get(schema, "contains") && has_few_values(root, value_get(schema, "items"), 0);
}

// Finds the array schema of a property, which may also be null: {"anyOf": [ARRAY, {"type": "null"}]} or a
// list of types.
static const struct value *find_array(const struct value *root, const struct value *schema)
{
    const struct value *found = NULL, *several = union_of(schema);
    for (size_t i = 0; several && i < several->array.n_items; i++) {
        const struct value *one = resolve(root, &several->array.items[i]);
        if (one && is_array_of_few(root, one) && !found)
            found = one;
        else if (!has_few_values(root, one, 0))
            return NULL;
    }
    return several ? found : is_array_of_few(root, schema) ? schema : NULL;
}

struct vote_rule vote_rule_of(const struct value *root, const struct value *schema)
{
    const struct value *resolved = resolve(root, schema), *array;
    if (!resolved)
        return (struct vote_rule){.kind = VOTE_NONE};
    if (has_few_values(root, resolved, 0))
        return (struct vote_rule){.kind = VOTE_BY_VALUE};
    if (!(array = find_array(root, resolved)))
        return (struct vote_rule){.kind = VOTE_NONE};
    return (struct vote_rule){.kind = VOTE_BY_MEMBER,
                              .n_items_min = read_count(array, "minItems", 0),
                              .n_items_max = read_count(array, "maxItems", SIZE_MAX)};
}

// ---- counting ----

static bool is_same(const struct value *a, const struct value *b)
{
    int64_t left, right;
    if (!a || !b)
        return a == b;
    return value_equal(a, b) ||
           (value_whole_number(a, &left) && value_whole_number(b, &right) && left == right);
}

static bool has_member(const struct value *array, const struct value *member)
{
    for (size_t i = 0; i < array->array.n_items; i++)
        if (is_same(&array->array.items[i], member))
            return true;
    return false;
}

static bool has_members(const struct value *array, const struct value *members)
{
    for (size_t i = 0; i < members->array.n_items; i++)
        if (!has_member(array, &members->array.items[i]))
            return false;
    return true;
}

static bool is_array(const struct value *value)
{
    return value && value->kind == VALUE_ARRAY;
}

bool vote_agrees(const struct vote_rule *rule, const struct value *value, const struct value *winner)
{
    if (rule->kind == VOTE_BY_MEMBER && is_array(value) && is_array(winner))
        return has_members(value, winner) && has_members(winner, value);
    return is_same(value, winner);
}

// With VOTE_BY_MEMBER all arrays are one candidate; count_members chooses the members of the winner.
static void count_values(const struct vote_rule *rule, const struct value *const *values, size_t n,
                         struct vote_outcome *outcome)
{
    *outcome = (struct vote_outcome){0};
    for (size_t i = 0; i < n; i++) {
        size_t n_equal = 0;
        for (size_t j = 0; j < n; j++)
            n_equal += (rule->kind == VOTE_BY_MEMBER && is_array(values[i]) && is_array(values[j])) ||
                       is_same(values[i], values[j]);
        if (n_equal > outcome->n_agreeing)
            *outcome = (struct vote_outcome){values[i], n_equal};
    }
}

struct member_count {
    const struct value *member;
    size_t n; // arrays that have it
    size_t place;
    bool is_in;
};

static size_t find_members(const struct value *const *values, size_t n, struct member_count *members)
{
    size_t n_members = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; is_array(values[i]) && j < values[i]->array.n_items; j++) {
            const struct value *item = &values[i]->array.items[j];
            size_t k = 0;
            while (k < n_members && !is_same(members[k].member, item))
                k++;
            if (k < n_members)
                continue;
            members[n_members] = (struct member_count){.member = item, .place = n_members};
            for (size_t l = 0; l < n; l++)
                members[n_members].n += is_array(values[l]) && has_member(values[l], item);
            n_members++;
        }
    return n_members;
}

static int by_count(const void *a, const void *b)
{
    const struct member_count *x = a, *y = b;
    return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : (x->place > y->place) - (x->place < y->place);
}

static int by_place(const void *a, const void *b)
{
    const struct member_count *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

// `first`: the array drawn first. It decides ties: members that exactly half of the arrays have.
static size_t choose_members(const struct vote_rule *rule, const struct value *first, size_t n_arrays,
                             struct member_count *members, size_t n_members)
{
    size_t n_in = 0;
    qsort(members, n_members, sizeof *members, by_count);
    for (size_t i = 0; i < n_members; i++) {
        bool is_majority = 2 * members[i].n > n_arrays ||
                           (2 * members[i].n == n_arrays && has_member(first, members[i].member));
        members[i].is_in = n_in < rule->n_items_min || (is_majority && n_in < rule->n_items_max);
        n_in += members[i].is_in;
    }
    qsort(members, n_members, sizeof *members, by_place);
    return n_in;
}

static bool make_array(const struct member_count *members, size_t n_members, size_t n_in, struct arena *arena,
                       const struct value **array)
{
    struct value *made = arena_allocate(arena, sizeof *made);
    struct value *items = arena_allocate_array(arena, n_in ? n_in : 1, sizeof *items);
    if (!made || !items)
        return false;
    *made = (struct value){.kind = VALUE_ARRAY, .array = {.items = items}};
    for (size_t i = 0; i < n_members; i++)
        if (members[i].is_in)
            items[made->array.n_items++] = *members[i].member;
    *array = made;
    return true;
}

// On entry outcome->winner is the array drawn first, and n_agreeing the number of arrays. If n_items_min
// exceeds the number of distinct members, the first array stays the winner.
static bool count_members(const struct vote_rule *rule, const struct value *const *values, size_t n,
                          struct arena *arena, struct vote_outcome *outcome)
{
    const struct value *first = outcome->winner;
    size_t n_arrays = outcome->n_agreeing, n_items = 0;
    for (size_t i = 0; i < n; i++)
        n_items += is_array(values[i]) ? values[i]->array.n_items : 0;
    struct member_count *members = arena_allocate_array(arena, n_items ? n_items : 1, sizeof *members);
    if (!members)
        return false;
    size_t n_members = find_members(values, n, members);
    size_t n_in = choose_members(rule, first, n_arrays, members, n_members);
    for (size_t i = 0; i < n_members; i++) {
        size_t n_alike = members[i].is_in ? members[i].n : n_arrays - members[i].n;
        outcome->n_agreeing = n_alike < outcome->n_agreeing ? n_alike : outcome->n_agreeing;
    }
    return n_in < rule->n_items_min || make_array(members, n_members, n_in, arena, &outcome->winner);
}

bool vote_count(const struct vote_rule *rule, const struct value *const *values, size_t n,
                struct arena *arena, struct vote_outcome *outcome)
{
    count_values(rule, values, n, outcome);
    return rule->kind != VOTE_BY_MEMBER || !is_array(outcome->winner) ||
           count_members(rule, values, n, arena, outcome);
}
