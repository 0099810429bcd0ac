// Python's operators.
#pragma once

#include "engine/template/syntax.h"

// OPERATOR_ADD ... OPERATOR_POWER.
struct object operator_arithmetic(struct rendering *rendering, enum operator operator,
                                  const struct object * a, const struct object *b);
// OPERATOR_EQUAL ... OPERATOR_NOT_IN.
bool operator_compare(struct rendering *rendering, enum operator operator, const struct object * a,
                      const struct object *b);
struct object operator_sign(struct rendering *rendering, const struct object *a, bool is_negative); // -a, +a
// `s * n` for text.
struct object operator_repeat_text(struct rendering *rendering, struct text text, int64_t n);
