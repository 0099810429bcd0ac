// Attributes of items by name, as `map(attribute="a.b")` and others take them (digits are indices), and stable
// sorting by them, as Python's sorted().
#pragma once

#include "engine/template/object.h"

// `path`: a string, an integer, or MISSING or none for the item itself. `missing` (or MISSING) is the value
// where the attribute is undefined.
struct object sort_attribute(struct rendering *rendering, const struct object *item,
                             const struct object *path, const struct object *missing);
// Keys for all items of a list: attributes, text in lower case unless case_sensitive. `missing` as above, or NULL.
struct object *sort_keys(struct rendering *rendering, const struct object_sequence *items,
                         const struct object *path, const struct object *missing, bool case_sensitive);
// Keys that are lists: of one for each of the attributes that a path "a,b.c" names.
struct object *sort_keys_of_several(struct rendering *rendering, const struct object_sequence *items,
                                    const struct object *path, bool case_sensitive);
// The positions of keys[0..n) in ascending (or, reversed, descending) order; equal keys keep theirs. Fails
// where two keys can't be compared.
size_t *sort_order(struct rendering *rendering, const struct object *keys, size_t n, bool reverse);
