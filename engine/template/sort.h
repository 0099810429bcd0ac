// Looks up attributes of items by path, as in `map(attribute="a.b")` (digits are indices), and sorts by them,
// stable like Python's sorted().
#pragma once

#include "engine/template/object.h"

// `path`: a string, an integer; or MISSING or none for the item itself. `missing` (or MISSING) is the value
// where the attribute is undefined.
struct object sort_attribute(struct rendering *rendering, const struct object *item,
                             const struct object *path, const struct object *missing);
// Sort keys of all items of a list: the attributes, text in lower case unless case_sensitive. `missing` as
// above, or NULL.
struct object *sort_keys(struct rendering *rendering, const struct object_sequence *items,
                         const struct object *path, const struct object *missing, bool case_sensitive);
// Sort keys that are lists, with one element for each attribute in the path "a,b.c".
struct object *sort_keys_of_several(struct rendering *rendering, const struct object_sequence *items,
                                    const struct object *path, bool case_sensitive);
// The positions of keys[0..n) in ascending (or, reversed, descending) order; equal keys keep their order.
// Fails if two keys cannot be compared.
size_t *sort_order(struct rendering *rendering, const struct object *keys, size_t n, bool reverse);
