// Attributes by name, as `map(attribute="a.b.0")` and others take them: dots go deeper, digits are indices.
#pragma once

#include "engine/template/object.h"

// `path`: a string, an integer, or MISSING or none for the item itself. `missing` (or MISSING) stands in for
// what is undefined on the way.
bool attribute_path_get(struct rendering *rendering, const struct object *item, const struct object *path,
                        const struct object *missing, struct object *value);
// The same, then text in lower case unless case_sensitive.
bool attribute_path_key(struct rendering *rendering, const struct object *item, const struct object *path,
                        const struct object *missing, bool case_sensitive, struct object *key);
// Keys for all items of a list; with `several`, each key is a list, of the comma-separated paths.
bool attribute_path_keys(struct rendering *rendering, const struct sequence *items, const struct object *path,
                         bool several, bool case_sensitive, struct object **keys);
