// Python's operators.
#pragma once

#include "engine/template/syntax.h"

// OPERATOR_ADD ... OPERATOR_MODULO.
bool operator_arithmetic(struct rendering *rendering, enum operator operator, const struct object * a,
                         const struct object *b, struct object *result);
// OPERATOR_EQUAL ... OPERATOR_NOT_IN.
bool operator_compare(struct rendering *rendering, enum operator operator, const struct object * a,
                      const struct object *b, bool *result);
bool operator_contains(struct rendering *rendering, const struct object *item, const struct object *container,
                       bool *result);
bool operator_negative(struct rendering *rendering, const struct object *a, struct object *result);
// `s * n` for text.
bool operator_repeat_text(struct rendering *rendering, struct text text, int64_t n, struct object *result);
