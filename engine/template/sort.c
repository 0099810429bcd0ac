#include "engine/template/sort.h"
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

bool sort_attribute(struct rendering *rendering, const struct object *item, const struct object *path,
                    const struct object *missing, struct object *value)
{
    *value = *item;
    if (path->kind == OBJECT_MISSING || path->kind == OBJECT_NONE)
        return true;
    if (path->kind != OBJECT_STRING)
        return get_part(rendering, path, missing, value);
    if (path->text.size && memchr(path->text.data, '.', path->text.size))
        return rendering_fail(rendering, "attributes of attributes ('a.b') are not supported in filters");
    struct object index = part_index(path->text);
    return get_part(rendering, &index, missing, value);
}

static bool fold(struct rendering *rendering, bool case_sensitive, struct object *key)
{
    if (case_sensitive || key->kind != OBJECT_STRING)
        return true;
    return text_change_case(rendering, key->text, CASE_LOWER, key);
}

bool sort_key(struct rendering *rendering, const struct object *item, const struct object *path,
              const struct object *missing, bool case_sensitive, struct object *key)
{
    return sort_attribute(rendering, item, path, missing, key) && fold(rendering, case_sensitive, key);
}

bool sort_keys(struct rendering *rendering, const struct sequence *items, const struct object *path,
               bool several, bool case_sensitive, struct object **keys)
{
    *keys = rendering_allocate_array(rendering, items->n_items + 1, sizeof **keys);
    if (!*keys)
        return false;
    if (several && path->kind == OBJECT_STRING && memchr(path->text.data, ',', path->text.size))
        return rendering_fail(rendering, "sort: several attributes are not supported");
    for (size_t i = 0; i < items->n_items; i++) {
        struct object *key = &(*keys)[i];
        if (!sort_key(rendering, &items->items[i], path, NULL, case_sensitive, key))
            return false;
    }
    return true;
}

struct sort {
    struct rendering *rendering;
    const struct object *keys;
    bool reverse;
};

// Merges order[0..middle) and order[middle..n), both sorted, through spare.
static bool merge(const struct sort *sort, size_t *order, size_t *spare, size_t middle, size_t n)
{
    memcpy(spare, order, middle * sizeof *order);
    size_t left = 0, right = middle, out = 0;
    while (left < middle && right < n) {
        int compared;
        const struct object *a = &sort->keys[spare[left]], *b = &sort->keys[order[right]];
        if (!rendering_spend(sort->rendering, 1) || !object_compare(sort->rendering, a, b, "<", &compared))
            return false;
        bool take_right = sort->reverse ? compared < 0 : compared > 0;
        order[out++] = take_right ? order[right++] : spare[left++];
    }
    memcpy(order + out, spare + left, (middle - left) * sizeof *order);
    return true;
}

bool sort_order(struct rendering *rendering, const struct object *keys, size_t n, bool reverse,
                size_t **order)
{
    struct sort sort = {rendering, keys, reverse};
    size_t *positions = rendering_allocate_array(rendering, n + 1, sizeof *positions);
    size_t *spare = rendering_allocate_array(rendering, n + 1, sizeof *spare);
    if (!positions || !spare)
        return false;
    for (size_t i = 0; i < n; i++)
        positions[i] = i;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t start = 0; start + width < n; start += 2 * width) {
            size_t stop = start + 2 * width < n ? start + 2 * width : n;
            if (!merge(&sort, positions + start, spare, width, stop - start))
                return false;
        }
    }
    *order = positions;
    return true;
}
