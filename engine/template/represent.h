// str() and repr() as Python prints them, and JSON as json.dumps writes it, which is what transformers'
// `tojson` returns (tojson.c).
#pragma once

#include "engine/template/object.h"

struct object represent_str(struct rendering *rendering, const struct object *object);
void represent_add_str(struct rendering *rendering, const struct object *object); // to rendering->text
void represent_add_repr(struct rendering *rendering, const struct object *object);
// Appends the shortest decimal that reads back as the same double, in Python's layout ("1.0", "1e-05",
// "inf").
void represent_add_float(struct buffer *buffer, double number);

// HTML escaping as markupsafe does it: returns a markup-safe string; such a string is returned unchanged.
// Other kinds are converted to text first.
struct object represent_escape(struct rendering *rendering, const struct object *object);

struct json_style {
    struct text indent; // data NULL: all on one line
    struct text item_separator, key_separator;
    bool ensure_ascii, sorts_keys;
};

// Appends to rendering->text. Fails for objects that json.dumps cannot serialize.
void represent_add_json(struct rendering *rendering, const struct object *object,
                        const struct json_style *style);
