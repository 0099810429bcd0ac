// JSON as Python's json.dumps writes it: what Hugging Face transformers' `tojson` filter gives.
#pragma once

#include "engine/template/object.h"

struct tojson_style {
    struct text indent; // data NULL: all on one line
    struct text item_separator, key_separator;
    bool ensure_ascii;
};

// Appends to rendering->text. Fails for what Python says is not JSON serializable.
void tojson_add(struct rendering *rendering, const struct object *object, const struct tojson_style *style);
