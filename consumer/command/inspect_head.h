// The classification head of a model, for sheaf inspect. Thread: main.
#pragma once

#include "engine/model/model.h"
#include "schemas/base/text.h"

// Prints what the head computes and its labels; nothing if the model has none.
void inspect_head_print(const struct model *model);
// The same as a JSON member "head", with a comma after it.
void inspect_head_add(const struct model *model, struct buffer *out);
