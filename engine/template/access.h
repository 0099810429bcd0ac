// Attributes, subscripts and slices, as jinja's sandbox allows them.
#pragma once

#include "engine/template/object.h"

// Returns x.name: an attribute, else an item; undefined if neither exists. Not for a dict:
struct object access_attribute(struct rendering *rendering, const struct object *owner, struct text name);
// The same for a dict. dict_method is its method of that name, or NULL.
struct object access_attribute_of_dict(struct rendering *rendering, const struct object *owner,
                                       struct text name, const struct function *dict_method);
struct object access_method(struct rendering *rendering, const struct object *owner, struct text name,
                            const struct function *method);
// Returns x[index]: an item, else an attribute.
struct object access_item(struct rendering *rendering, const struct object *owner,
                          const struct object *index);
// Returns x[start:stop:step]; an omitted part is MISSING.
struct object access_slice(struct rendering *rendering, const struct object *owner,
                           const struct object *start, const struct object *stop, const struct object *step);
