#include "engine/template/access.h"
#include "engine/template/call.h"
#include "engine/template/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/loop.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"

#include <string.h>

static struct object undefined_of(enum undefined_reason reason, const struct object *owner, struct text name)
{
    struct object undefined = object_undefined(reason, name);
    undefined.owner = owner->kind;
    return undefined;
}

bool access_method(struct rendering *rendering, const struct object *owner, struct text name,
                   const struct function *method, struct object *value)
{
    if (!method->unsafe)
        return call_bind(rendering, method, owner, value);
    *value = undefined_of(UNDEFINED_UNSAFE, owner, name);
    return true;
}

static bool is_dunder(struct text name)
{
    return name.size > 4 && memcmp(name.data, "__", 2) == 0 &&
           memcmp(name.data + name.size - 2, "__", 2) == 0;
}

static bool namespace_attribute(struct rendering *rendering, const struct object *owner, struct text name,
                                struct object *value, bool *known)
{
    const struct object *found;
    if (!dict_find_text(rendering, owner->dict, name, &found))
        return false;
    *known = found;
    if (found)
        *value = name.size && name.data[0] == '_' ? undefined_of(UNDEFINED_UNSAFE, owner, name) : *found;
    return true;
}

bool access_attribute_only(struct rendering *rendering, const struct object *owner, struct text name,
                           struct object *value)
{
    bool known = false;
    if (owner->kind == OBJECT_UNDEFINED && !is_dunder(name))
        return object_fail_undefined(rendering, owner);
    if (owner->kind == OBJECT_NAMESPACE && !namespace_attribute(rendering, owner, name, value, &known))
        return false;
    if (owner->kind == OBJECT_LOOP && !loop_attribute(rendering, owner->loop, name, value, &known))
        return false;
    const struct function *method = known ? NULL : functions_find_method((enum object_kind)owner->kind, name);
    if (method)
        return access_method(rendering, owner, name, method, value);
    if (!known && functions_is_refused((enum object_kind)owner->kind, name))
        return rendering_fail(rendering, "'%.*s' of '%s' objects is not supported in chat templates",
                              codepoints_cut(name), name.data, object_type_name(owner));
    if (!known)
        *value = undefined_of(is_dunder(name) ? UNDEFINED_UNSAFE : UNDEFINED_ATTRIBUTE, owner, name);
    return true;
}

bool access_attribute_of_dict(struct rendering *rendering, const struct object *owner, struct text name,
                              const struct function *dict_method, struct object *value)
{
    if (dict_method)
        return access_method(rendering, owner, name, dict_method, value);
    const struct object *found;
    if (!dict_find_text(rendering, owner->dict, name, &found))
        return false;
    *value =
        found ? *found : undefined_of(is_dunder(name) ? UNDEFINED_UNSAFE : UNDEFINED_ATTRIBUTE, owner, name);
    return true;
}

bool access_attribute(struct rendering *rendering, const struct object *owner, struct text name,
                      struct object *value)
{
    if (owner->kind != OBJECT_DICT)
        return access_attribute_only(rendering, owner, name, value);
    return access_attribute_of_dict(rendering, owner, name, functions_find_method(OBJECT_DICT, name), value);
}

// No such item: an attribute of that name may be meant.
static bool item_fallback(struct rendering *rendering, const struct object *owner, const struct object *index,
                          struct object *value)
{
    if (index->kind == OBJECT_STRING)
        return access_attribute_only(rendering, owner, index->text, value);
    size_t start = rendering->text.size;
    struct object printed;
    if (!represent_add_repr(rendering, index) || !rendering_take(rendering, start, &printed))
        return false;
    *value = undefined_of(UNDEFINED_ELEMENT, owner, printed.text);
    return true;
}

static bool dict_item(struct rendering *rendering, const struct object *owner, const struct object *index,
                      struct object *value)
{
    const struct object *found = NULL;
    bool hashable = index->kind != OBJECT_LIST && index->kind != OBJECT_DICT && index->kind != OBJECT_VIEW;
    if (hashable && !dict_find(rendering, owner->dict, index, &found))
        return false;
    if (!found)
        return item_fallback(rendering, owner, index, value);
    *value = *found;
    return true;
}

// *found is false when there are not that many codepoints.
static bool text_item(struct rendering *rendering, struct text text, int64_t position, struct object *value,
                      bool *found)
{
    size_t start = position < 0 ? codepoints_offset_from_end(text, (size_t)(-(position + 1)))
                                : codepoints_offset(text, (size_t)position);
    size_t stop = start;
    *found = position < 0 ? start > 0 : start < text.size;
    if (position < 0 && *found)
        codepoints_previous(text, &start);
    else if (*found)
        codepoints_next(text, &stop);
    *value = object_string((struct text){text.data + start, stop - start});
    return rendering_spend_bytes(rendering, position < 0 ? text.size - start : start);
}

bool access_item(struct rendering *rendering, const struct object *owner, const struct object *index,
                 struct object *value)
{
    if (owner->kind == OBJECT_DICT)
        return dict_item(rendering, owner, index, value);
    if (owner->kind == OBJECT_UNDEFINED)
        return object_fail_undefined(rendering, owner);
    bool indexed = object_is_sequence(owner) || owner->kind == OBJECT_STRING || owner->kind == OBJECT_RANGE;
    if (!indexed || !object_is_integral(index))
        return item_fallback(rendering, owner, index, value);
    int64_t length, position = object_to_integer(index);
    bool has_length, found;
    if (owner->kind == OBJECT_STRING) {
        if (!text_item(rendering, owner->text, position, value, &found))
            return false;
        return found || item_fallback(rendering, owner, index, value);
    }
    if (!object_length(rendering, owner, &length, &has_length))
        return false;
    if (position < 0)
        position += length;
    if (position < 0 || position >= length)
        return item_fallback(rendering, owner, index, value);
    if (owner->kind == OBJECT_RANGE)
        *value = object_integer(owner->range->start + position * owner->range->step);
    else
        *value = owner->sequence->items[position];
    return true;
}

struct bounds {
    int64_t start, stop, step;
    int64_t count; // of the positions start, start + step, ...
};

static bool bound(struct rendering *rendering, const struct object *part, int64_t missing, int64_t length,
                  int64_t lowest, int64_t highest, int64_t *position)
{
    if (part->kind == OBJECT_MISSING || part->kind == OBJECT_NONE) {
        *position = missing;
        return true;
    }
    if (!object_is_integral(part))
        return rendering_fail(rendering,
                              "slice indices must be integers or None or have an __index__ method");
    int64_t value = object_to_integer(part);
    if (value < 0)
        value += length;
    *position = value < lowest ? lowest : value > highest ? highest : value;
    return true;
}

// docs.python.org/3/reference/datamodel.html, slice.indices.
static bool find_bounds(struct rendering *rendering, const struct object *start, const struct object *stop,
                        const struct object *step, int64_t length, struct bounds *bounds)
{
    if (!bound(rendering, step, 1, 0, INT64_MIN, INT64_MAX, &bounds->step))
        return false;
    if (bounds->step == 0)
        return rendering_fail(rendering, "slice step cannot be zero");
    if (bounds->step < -INT64_MAX)
        bounds->step = -INT64_MAX;
    bool down = bounds->step < 0;
    int64_t lowest = down ? -1 : 0, highest = down ? length - 1 : length;
    if (!bound(rendering, start, down ? highest : lowest, length, lowest, highest, &bounds->start) ||
        !bound(rendering, stop, down ? lowest : highest, length, lowest, highest, &bounds->stop))
        return false;
    int64_t distance = down ? bounds->start - bounds->stop : bounds->stop - bounds->start;
    int64_t stride = down ? -bounds->step : bounds->step;
    bounds->count = distance <= 0 ? 0 : (distance - 1) / stride + 1;
    return true;
}

static size_t text_bound(struct text text, int64_t position)
{
    if (position < 0)
        return codepoints_offset_from_end(text, (uint64_t) - (position + 1) + 1);
    return codepoints_offset(text, (size_t)position);
}

// Without a step only the text before the bounds, or behind them, needs to be walked through.
static bool slice_text(struct rendering *rendering, struct text text, const struct object *start,
                       const struct object *stop, struct object *value)
{
    int64_t first, last;
    if (!bound(rendering, start, 0, 0, INT64_MIN, INT64_MAX, &first) ||
        !bound(rendering, stop, INT64_MAX, 0, INT64_MIN, INT64_MAX, &last))
        return false;
    size_t from = text_bound(text, first), to = text_bound(text, last);
    *value = object_string((struct text){text.data + from, to > from ? to - from : 0});
    size_t walked = (first < 0 ? text.size - from : from) + (last < 0            ? text.size - to
                                                             : last == INT64_MAX ? 0
                                                                                 : to);
    return rendering_spend_bytes(rendering, walked);
}

static bool slice_sequence(struct rendering *rendering, const struct object *owner,
                           const struct bounds *bounds, struct object *value)
{
    const struct object *from = owner->sequence->items;
    struct object *items;
    if (bounds->step == 1) // shared: items are immutable
        return list_wrap(rendering, from ? from + bounds->start : NULL, (size_t)bounds->count,
                         (enum object_kind)owner->kind, value);
    if (!list_allocate(rendering, (size_t)bounds->count, (enum object_kind)owner->kind, &items, value))
        return false;
    for (int64_t i = 0; i < bounds->count; i++)
        items[i] = from[bounds->start + i * bounds->step];
    return true;
}

bool access_slice(struct rendering *rendering, const struct object *owner, const struct object *start,
                  const struct object *stop, const struct object *step, struct object *value)
{
    struct bounds bounds;
    int64_t length;
    bool has_length;
    if (owner->kind == OBJECT_UNDEFINED)
        return object_fail_undefined(rendering, owner);
    if (owner->kind == OBJECT_DICT)
        return rendering_fail(rendering, "unhashable type: 'slice'");
    if (!object_is_sequence(owner) && owner->kind != OBJECT_STRING)
        return rendering_fail(rendering, "'%s' object cannot be sliced", object_type_name(owner));
    bool forward = step->kind == OBJECT_MISSING || step->kind == OBJECT_NONE ||
                   (object_is_integral(step) && object_to_integer(step) == 1);
    if (owner->kind == OBJECT_STRING && forward)
        return slice_text(rendering, owner->text, start, stop, value);
    if (owner->kind == OBJECT_STRING)
        return rendering_fail(rendering, "a step in a slice of text is not supported in chat templates");
    if (!object_length(rendering, owner, &length, &has_length) ||
        !find_bounds(rendering, start, stop, step, length, &bounds))
        return false;
    return slice_sequence(rendering, owner, &bounds, value);
}
