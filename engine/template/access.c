#include "engine/template/access.h"
#include "engine/template/call.h"
#include "engine/template/container.h"
#include "engine/template/loop.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"
#include "engine/template/text_operations.h"
#include "engine/unicode/codepoints.h"

#include <string.h>

static struct object undefined_of(enum undefined_reason reason, const struct object *owner, struct text name)
{
    struct object undefined = object_undefined(reason, name);
    undefined.owner = owner->kind;
    return undefined;
}

struct object access_method(struct rendering *rendering, const struct object *owner, struct text name,
                            const struct function *method)
{
    return method->unsafe ? undefined_of(UNDEFINED_UNSAFE, owner, name) : call_bind(rendering, method, owner);
}

static bool is_dunder(struct text name)
{
    return name.size > 4 && memcmp(name.data, "__", 2) == 0 &&
           memcmp(name.data + name.size - 2, "__", 2) == 0;
}

static struct object no_attribute(const struct object *owner, struct text name)
{
    return undefined_of(is_dunder(name) ? UNDEFINED_UNSAFE : UNDEFINED_ATTRIBUTE, owner, name);
}

struct object access_attribute(struct rendering *rendering, const struct object *owner, struct text name)
{
    if (!is_dunder(name))
        object_check_defined(rendering, owner);
    if (owner->kind == OBJECT_NAMESPACE) {
        const struct object *found = dict_find_text(rendering, owner->dict, name);
        if (found)
            return name.size && name.data[0] == '_' ? undefined_of(UNDEFINED_UNSAFE, owner, name) : *found;
    }
    if (owner->kind == OBJECT_TUPLE && owner->detail == TUPLE_GROUP && text_equals_string(name, "grouper"))
        return owner->sequence->items[0];
    if (owner->kind == OBJECT_TUPLE && owner->detail == TUPLE_GROUP && text_equals_string(name, "list"))
        return owner->sequence->items[1];
    if (owner->kind == OBJECT_CYCLER && text_equals_string(name, "current"))
        return owner->cycle->items[owner->cycle->position];
    struct object value;
    if (owner->kind == OBJECT_LOOP && loop_attribute(rendering, owner->loop, name, &value))
        return value;
    const struct function *method = functions_find_method((enum object_kind)owner->kind, name);
    if (method)
        return access_method(rendering, owner, name, method);
    if (functions_is_refused((enum object_kind)owner->kind, name))
        rendering_fail(rendering, "'%.*s' of '%s' objects is not supported in templates",
                       codepoints_cut(name), name.data, object_type_name(owner));
    return no_attribute(owner, name);
}

struct object access_attribute_of_dict(struct rendering *rendering, const struct object *owner,
                                       struct text name, const struct function *dict_method)
{
    if (dict_method)
        return access_method(rendering, owner, name, dict_method);
    const struct object *found = dict_find_text(rendering, owner->dict, name);
    return found ? *found : no_attribute(owner, name);
}

// Called for a string index if no item exists: returns the attribute of that name, as jinja's x["name"] falls
// back to x.name.
static struct object no_item(struct rendering *rendering, const struct object *owner,
                             const struct object *index)
{
    if (index->kind == OBJECT_STRING)
        return access_attribute(rendering, owner, index->text);
    size_t start = rendering->text.size;
    represent_add_repr(rendering, index);
    return undefined_of(UNDEFINED_ELEMENT, owner, rendering_take(rendering, start).text);
}

// *found becomes false if the text has too few codepoints.
static struct object text_item(struct rendering *rendering, struct text text, int64_t position, bool *found)
{
    size_t start = position < 0 ? codepoints_offset_from_end(text, (size_t)(-(position + 1)))
                                : codepoints_offset(text, (size_t)position);
    size_t stop = start;
    *found = position < 0 ? start > 0 : start < text.size;
    if (position < 0 && *found)
        codepoints_previous(text, &start);
    else if (*found)
        codepoints_next(text, &stop);
    rendering_spend_bytes(rendering, position < 0 ? text.size - start : start);
    return object_string((struct text){text.data + start, stop - start});
}

struct object access_item(struct rendering *rendering, const struct object *owner, const struct object *index)
{
    const struct object *found = NULL;
    object_check_defined(rendering, owner);
    if (owner->kind == OBJECT_DICT) {
        if (index->kind != OBJECT_LIST && index->kind != OBJECT_DICT && index->kind != OBJECT_VIEW)
            found = dict_find(rendering, owner->dict, index);
        return found ? *found : no_item(rendering, owner, index);
    }
    if (!object_is_integral(index))
        return no_item(rendering, owner, index);
    int64_t position = object_to_integer(index);
    if (owner->kind == OBJECT_STRING) {
        bool exists;
        struct object item = text_item(rendering, owner->text, position, &exists);
        return exists ? item : no_item(rendering, owner, index);
    }
    bool indexed = object_is_sequence(owner) || owner->kind == OBJECT_RANGE;
    int64_t length = indexed ? object_length(rendering, owner) : 0;
    if (position < 0)
        position += length;
    if (position < 0 || position >= length)
        return no_item(rendering, owner, index);
    if (owner->kind == OBJECT_RANGE)
        return object_integer(owner->range->start + position * owner->range->step);
    return owner->sequence->items[position];
}

static int64_t slice_bound(struct rendering *rendering, const struct object *part, int64_t missing,
                           int64_t length, int64_t lowest, int64_t highest)
{
    if (part->kind == OBJECT_MISSING || part->kind == OBJECT_NONE)
        return missing;
    if (!object_is_integral(part))
        rendering_fail(rendering, "slice indices must be integers or None or have an __index__ method");
    int64_t value = object_to_integer(part);
    if (value < 0)
        value += length;
    return value < lowest ? lowest : value > highest ? highest : value;
}

static size_t text_bound(struct text text, int64_t position)
{
    if (position < 0)
        return codepoints_offset_from_end(text, (uint64_t) - (position + 1) + 1);
    return codepoints_offset(text, (size_t)position);
}

// Scans only the text before the bounds, or after them if they count from the end.
static struct object slice_text(struct rendering *rendering, struct text text, const struct object *start,
                                const struct object *stop)
{
    int64_t first = slice_bound(rendering, start, 0, 0, INT64_MIN, INT64_MAX);
    int64_t last = slice_bound(rendering, stop, INT64_MAX, 0, INT64_MIN, INT64_MAX);
    size_t from = text_bound(text, first), to = text_bound(text, last);
    size_t walked = first < 0 ? text.size - from : from;
    if (last != INT64_MAX)
        walked += last < 0 ? text.size - to : to;
    rendering_spend_bytes(rendering, walked);
    return object_string((struct text){text.data + from, to > from ? to - from : 0});
}

struct bounds {
    int64_t first, last; // last: one past the end
    size_t n_items;
};

// Source: docs.python.org/3/reference/datamodel.html, slice.indices.
static struct bounds slice_bounds(struct rendering *rendering, int64_t length, const struct object *start,
                                  const struct object *stop, int64_t step)
{
    int64_t stride = step < 0 ? -step : step;
    int64_t lowest = step < 0 ? -1 : 0, highest = step < 0 ? length - 1 : length;
    int64_t first = slice_bound(rendering, start, step < 0 ? highest : lowest, length, lowest, highest);
    int64_t last = slice_bound(rendering, stop, step < 0 ? lowest : highest, length, lowest, highest);
    int64_t distance = step < 0 ? first - last : last - first;
    return (struct bounds){first, last, distance <= 0 ? 0 : (size_t)((distance - 1) / stride + 1)};
}

static struct object slice_sequence(struct rendering *rendering, const struct object *owner,
                                    struct bounds bounds, int64_t step)
{
    const struct object *from = owner->sequence->items;
    enum object_kind kind = (enum object_kind)owner->kind;
    if (step == 1) // shared: items are immutable
        return list_wrap(rendering, from ? from + bounds.first : NULL, bounds.n_items, kind);
    struct object *items, slice = list_allocate(rendering, bounds.n_items, kind, &items);
    for (size_t i = 0; i < bounds.n_items; i++)
        items[i] = from[bounds.first + (int64_t)i * step];
    return slice;
}

static struct object slice_range(struct rendering *rendering, const struct range *from, struct bounds bounds,
                                 int64_t step)
{
    struct range *range = rendering_allocate(rendering, sizeof *range);
    if (__builtin_mul_overflow(from->step, step, &range->step) ||
        __builtin_mul_overflow(bounds.first, from->step, &range->start) ||
        __builtin_add_overflow(range->start, from->start, &range->start) ||
        __builtin_mul_overflow(bounds.last, from->step, &range->stop) ||
        __builtin_add_overflow(range->stop, from->start, &range->stop))
        rendering_fail_limit(rendering, "an integer beyond 64 bits");
    range->n_items = (int64_t)bounds.n_items;
    return (struct object){.kind = OBJECT_RANGE, .range = range};
}

struct object access_slice(struct rendering *rendering, const struct object *owner,
                           const struct object *start, const struct object *stop, const struct object *step)
{
    object_check_defined(rendering, owner);
    if (owner->kind == OBJECT_DICT)
        rendering_fail(rendering, "unhashable type: 'slice'");
    if (!object_is_sequence(owner) && owner->kind != OBJECT_STRING && owner->kind != OBJECT_RANGE)
        rendering_fail(rendering, "'%s' object cannot be sliced", object_type_name(owner));
    int64_t stride = slice_bound(rendering, step, 1, 0, -INT64_MAX, INT64_MAX);
    if (stride == 0)
        rendering_fail(rendering, "slice step cannot be zero");
    if (owner->kind == OBJECT_STRING && stride == 1)
        return slice_text(rendering, owner->text, start, stop);
    struct bounds bounds = slice_bounds(rendering, object_length(rendering, owner), start, stop, stride);
    if (owner->kind == OBJECT_STRING)
        return text_pick(rendering, owner->text, bounds.first, bounds.last, stride);
    return owner->kind == OBJECT_RANGE ? slice_range(rendering, owner->range, bounds, stride)
                                       : slice_sequence(rendering, owner, bounds, stride);
}
