// Attributes, subscripts and slices, as jinja's sandbox allows them.
#pragma once

#include "engine/template/object.h"

// x.name: an attribute, else an item.
bool access_attribute(struct rendering *rendering, const struct object *owner, struct text name,
                      struct object *value);
// The same where functions_find_method has been asked before.
bool access_attribute_of_dict(struct rendering *rendering, const struct object *owner, struct text name,
                              const struct function *dict_method, struct object *value);
bool access_method(struct rendering *rendering, const struct object *owner, struct text name,
                   const struct function *method, struct object *value);
// x[index]: an item, else an attribute.
bool access_item(struct rendering *rendering, const struct object *owner, const struct object *index,
                 struct object *value);
// The attribute alone, for the filter `attr`. Without one the value is undefined.
bool access_attribute_only(struct rendering *rendering, const struct object *owner, struct text name,
                           struct object *value);
// x[start:stop:step]; MISSING parts are left out.
bool access_slice(struct rendering *rendering, const struct object *owner, const struct object *start,
                  const struct object *stop, const struct object *step, struct object *value);
