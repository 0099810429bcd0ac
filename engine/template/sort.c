#include "engine/template/sort.h"
#include "engine/template/rendering.h"

#include <string.h>

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

bool sort_entries_by_key(struct rendering *rendering, const struct dict *dict, size_t **order)
{
    struct object *keys = rendering_allocate_array(rendering, (size_t)dict->n_entries + 1, sizeof *keys);
    if (!keys)
        return false;
    for (uint32_t i = 0; i < dict->n_entries; i++)
        keys[i] = dict->entries[i].key;
    return sort_order(rendering, keys, dict->n_entries, false, order);
}
