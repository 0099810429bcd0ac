// Statements.
#pragma once

#include "engine/template/call.h"
#include "engine/template/rendering.h"

enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };

enum flow execute(struct rendering *rendering, const struct statements *statements);
