// Stable sorting by keys, as Python's sorted().
#pragma once

#include "engine/template/object.h"

// *order: the positions of keys[0..n) in ascending (or, reversed, descending) order; equal keys keep theirs.
// Fails where two keys can't be compared.
bool sort_order(struct rendering *rendering, const struct object *keys, size_t n, bool reverse,
                size_t **order);
bool sort_entries_by_key(struct rendering *rendering, const struct dict *dict, size_t **order);
