// Resolves every variable of a parsed template to its place. See syntax.h for the rules; they are jinja's
// (jinja.palletsprojects.com/templates, "Assignments" and "Scoping Behavior").
#pragma once

#include "engine/template/parser.h"

// Fills the scopes, procedures and places of parser->template. Fails also for filters and tests that do not
// exist (but in an `if`, where they may never run), and for misplaced break, continue and assignments to
// `loop`.
bool scope_resolve(struct parser *parser);
