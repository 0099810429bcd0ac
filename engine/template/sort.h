// Looks up attributes of items by path, as in `map(attribute="a.b")` (digits are indices), and sorts by them,
// stable like Python's sorted().
#pragma once

#include "engine/template/object.h"

// Returns an attribute. `path` is a string or an integer; MISSING or none means the item itself. If the
// attribute is undefined, returns `missing` (or MISSING).
struct object sort_attribute(struct rendering *rendering, const struct object *item,
                             const struct object *path, const struct object *missing);
// Returns the sort keys of all items of a list: the attributes, with text in lower case unless
// case_sensitive. `missing` as above, or NULL.
struct object *sort_keys(struct rendering *rendering, const struct object_sequence *items,
                         const struct object *path, const struct object *missing, bool case_sensitive);
// Returns sort keys that are lists, with one element for each attribute in the path "a,b.c".
struct object *sort_keys_of_several(struct rendering *rendering, const struct object_sequence *items,
                                    const struct object *path, bool case_sensitive);
// Returns the positions of keys[0..n) in ascending (or, reversed, descending) order. Equal keys keep their
// order. Fails if two keys cannot be compared.
size_t *sort_order(struct rendering *rendering, const struct object *keys, size_t n, bool reverse);
