// HTML escaping, as markupsafe does it.
#pragma once

#include "engine/template/object.h"

void markup_add_escaped(struct rendering *rendering, struct text text);
// A marked string; one that is marked already stays as it is. Others than strings are printed first.
bool markup_escape(struct rendering *rendering, const struct object *object, struct object *string);
