// Attributes of items by name, as `map(attribute="a.b.0")` and others take them (dots go deeper, digits are
// indices), and stable sorting by them, as Python's sorted().
#pragma once

#include "engine/template/object.h"

// `path`: a string, an integer, or MISSING or none for the item itself. `missing` (or MISSING) stands in for
// what is undefined on the way.
bool sort_attribute(struct rendering *rendering, const struct object *item, const struct object *path,
                    const struct object *missing, struct object *value);
// The same, then text in lower case unless case_sensitive.
bool sort_key(struct rendering *rendering, const struct object *item, const struct object *path,
              const struct object *missing, bool case_sensitive, struct object *key);
// Keys for all items of a list; `several`: the filter would take comma-separated paths, which are refused.
bool sort_keys(struct rendering *rendering, const struct sequence *items, const struct object *path,
               bool several, bool case_sensitive, struct object **keys);
// *order: the positions of keys[0..n) in ascending (or, reversed, descending) order; equal keys keep theirs.
// Fails where two keys can't be compared.
bool sort_order(struct rendering *rendering, const struct object *keys, size_t n, bool reverse,
                size_t **order);
