// Statements.
#pragma once

#include "engine/template/call.h"
#include "engine/template/rendering.h"

enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE, FLOW_FAILED };

enum flow execute(struct rendering *rendering, struct activation *activation,
                  const struct statements *statements);
// A body whose text becomes a string: a macro's, a set block's. On anything but FLOW_NEXT the text is
// dropped.
enum flow execute_captured(struct rendering *rendering, struct activation *activation,
                           const struct statements *statements, struct object *string);
