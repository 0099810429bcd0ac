#include "engine/template/attribute_path.h"
#include "engine/template/access.h"
#include "engine/template/container.h"
#include "engine/template/rendering.h"
#include "engine/template/text_operations.h"

#include <string.h>

static struct object part_index(struct text part)
{
    int64_t index = 0;
    for (size_t i = 0; i < part.size; i++) {
        if (part.data[i] < '0' || part.data[i] > '9' || index > INT32_MAX)
            return object_string(part);
        index = index * 10 + (part.data[i] - '0');
    }
    return part.size ? object_integer(index) : object_string(part);
}

static bool get_part(struct rendering *rendering, const struct object *index, const struct object *missing,
                     struct object *value)
{
    struct object owner = *value;
    if (!rendering_spend(rendering, 1) || !access_item(rendering, &owner, index, value))
        return false;
    if (value->kind == OBJECT_UNDEFINED && missing && missing->kind != OBJECT_MISSING &&
        missing->kind != OBJECT_NONE)
        *value = *missing;
    return true;
}

static struct text next_part(struct text *rest, char separator, bool *more)
{
    const char *found = rest->size ? memchr(rest->data, separator, rest->size) : NULL;
    struct text part = {rest->data, found ? (size_t)(found - rest->data) : rest->size};
    *more = found;
    *rest = (struct text){rest->data + part.size + (found ? 1 : 0), rest->size - part.size - (found ? 1 : 0)};
    return part;
}

bool attribute_path_get(struct rendering *rendering, const struct object *item, const struct object *path,
                        const struct object *missing, struct object *value)
{
    *value = *item;
    if (path->kind == OBJECT_MISSING || path->kind == OBJECT_NONE)
        return true;
    if (path->kind != OBJECT_STRING)
        return get_part(rendering, path, missing, value);
    struct text rest = path->text;
    bool more = true;
    while (more) {
        struct object index = part_index(next_part(&rest, '.', &more));
        if (!get_part(rendering, &index, missing, value))
            return false;
    }
    return true;
}

static bool fold(struct rendering *rendering, bool case_sensitive, struct object *key)
{
    if (case_sensitive || key->kind != OBJECT_STRING)
        return true;
    return text_change_case(rendering, key->text, CASE_LOWER, key);
}

bool attribute_path_key(struct rendering *rendering, const struct object *item, const struct object *path,
                        const struct object *missing, bool case_sensitive, struct object *key)
{
    return attribute_path_get(rendering, item, path, missing, key) && fold(rendering, case_sensitive, key);
}

static bool several_keys(struct rendering *rendering, const struct object *item, const struct object *path,
                         bool case_sensitive, struct object *key)
{
    struct list_builder list = {0};
    struct text rest = path->kind == OBJECT_STRING ? path->text : (struct text){0};
    bool more = true;
    while (more) {
        struct object part = *path, value;
        struct text name = next_part(&rest, ',', &more);
        if (path->kind == OBJECT_STRING)
            part = object_string(name);
        if (!attribute_path_key(rendering, item, &part, NULL, case_sensitive, &value) ||
            !list_add(rendering, &list, &value))
            return false;
    }
    return list_finish(rendering, &list, OBJECT_LIST, key);
}

static bool wrap(struct rendering *rendering, struct object *key)
{
    struct list_builder list = {0};
    return list_add(rendering, &list, key) && list_finish(rendering, &list, OBJECT_LIST, key);
}

bool attribute_path_keys(struct rendering *rendering, const struct sequence *items, const struct object *path,
                         bool several, bool case_sensitive, struct object **keys)
{
    *keys = rendering_allocate_array(rendering, items->n_items + 1, sizeof **keys);
    if (!*keys)
        return false;
    bool plain = !several || path->kind != OBJECT_STRING || !memchr(path->text.data, ',', path->text.size);
    for (size_t i = 0; i < items->n_items; i++) {
        struct object *key = &(*keys)[i];
        if (plain ? !attribute_path_key(rendering, &items->items[i], path, NULL, case_sensitive, key)
                  : !several_keys(rendering, &items->items[i], path, case_sensitive, key))
            return false;
        // Equal keys need no order if they are items of lists.
        if (several && plain && !object_is_number(key) && key->kind != OBJECT_STRING && !wrap(rendering, key))
            return false;
    }
    return true;
}
