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

static struct object member_of(struct rendering *rendering, const struct object *item,
                               const struct object *index, const struct object *missing)
{
    rendering_spend(rendering, 1);
    struct object value = access_item(rendering, item, index);
    bool has_missing = missing && missing->kind != OBJECT_MISSING && missing->kind != OBJECT_NONE;
    return value.kind == OBJECT_UNDEFINED && has_missing ? *missing : value;
}

struct object sort_attribute(struct rendering *rendering, const struct object *item,
                             const struct object *path, const struct object *missing)
{
    if (path->kind == OBJECT_MISSING || path->kind == OBJECT_NONE)
        return *item;
    if (path->kind != OBJECT_STRING)
        return member_of(rendering, item, path, missing);
    struct object value = *item;
    struct text rest = path->text;
    for (;;) {
        const char *dot = rest.size ? memchr(rest.data, '.', rest.size) : NULL;
        struct text part = {rest.data, dot ? (size_t)(dot - rest.data) : rest.size};
        struct object index = part_index(part);
        value = member_of(rendering, &value, &index, missing);
        if (!dot)
            return value;
        rest = (struct text){dot + 1, rest.size - part.size - 1};
    }
}

static struct object fold_case(struct rendering *rendering, struct object key, bool case_sensitive)
{
    if (case_sensitive || key.kind != OBJECT_STRING)
        return key;
    return text_change_case(rendering, key.text, CASE_LOWER);
}

struct object *sort_keys(struct rendering *rendering, const struct object_sequence *items,
                         const struct object *path, const struct object *missing, bool case_sensitive)
{
    struct object *keys = rendering_allocate_array(rendering, items->n_items + 1, sizeof *keys);
    for (size_t i = 0; i < items->n_items; i++) {
        keys[i] = sort_attribute(rendering, &items->items[i], path, missing);
        keys[i] = fold_case(rendering, keys[i], case_sensitive);
    }
    return keys;
}

static struct object key_of_several(struct rendering *rendering, const struct object *item,
                                    const struct object *path, bool case_sensitive)
{
    struct list_builder list = {0};
    struct text rest = path->kind == OBJECT_STRING ? path->text : (struct text){0};
    const char *comma;
    do {
        comma = rest.size ? memchr(rest.data, ',', rest.size) : NULL;
        struct text part = {rest.data, comma ? (size_t)(comma - rest.data) : rest.size};
        struct object name = path->kind == OBJECT_STRING ? object_string(part) : *path;
        struct object key = sort_attribute(rendering, item, &name, NULL);
        key = fold_case(rendering, key, case_sensitive);
        list_add(rendering, &list, &key);
        rest = (struct text){part.data + part.size + 1, comma ? rest.size - part.size - 1 : 0};
    } while (comma);
    return list_finish(rendering, &list);
}

struct object *sort_keys_of_several(struct rendering *rendering, const struct object_sequence *items,
                                    const struct object *path, bool case_sensitive)
{
    struct object *keys = rendering_allocate_array(rendering, items->n_items + 1, sizeof *keys);
    for (size_t i = 0; i < items->n_items; i++)
        keys[i] = key_of_several(rendering, &items->items[i], path, case_sensitive);
    return keys;
}

// Merges the sorted runs order[0..middle) and order[middle..n), using `spare`.
static void merge_runs(struct rendering *rendering, const struct object *keys, bool reverse, size_t *order,
                       size_t *spare, size_t middle, size_t n)
{
    memcpy(spare, order, middle * sizeof *order);
    size_t left = 0, right = middle, out = 0;
    while (left < middle && right < n) {
        const struct object *a = &keys[spare[left]], *b = &keys[order[right]];
        rendering_spend(rendering, 1);
        int compared = object_compare(rendering, a, b, "<");
        bool take_right = reverse ? compared < 0 : compared > 0;
        order[out++] = take_right ? order[right++] : spare[left++];
    }
    memcpy(order + out, spare + left, (middle - left) * sizeof *order);
}

size_t *sort_order(struct rendering *rendering, const struct object *keys, size_t n, bool reverse)
{
    size_t *positions = rendering_allocate_array(rendering, n + 1, sizeof *positions);
    size_t *spare = rendering_allocate_array(rendering, n + 1, sizeof *spare);
    for (size_t i = 0; i < n; i++)
        positions[i] = i;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t start = 0; start + width < n; start += 2 * width) {
            size_t stop = start + 2 * width < n ? start + 2 * width : n;
            merge_runs(rendering, keys, reverse, positions + start, spare, width, stop - start);
        }
    }
    return positions;
}
