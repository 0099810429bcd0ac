// Parser of Lark grammars. Internal to engine/grammar/.
#pragma once

#include "engine/grammar/grammar_source.h"

struct lark {
    struct grammar_source source;
    struct grammar_names names;
    bool in_terminal;        // the definition of a terminal is being read
    uint32_t ignored;        // symbol that follows every terminal of a rule; SYMBOL_NOTHING: nothing is
                             // ignored
    struct operands ignores; // positions of the operands of %ignore in the text
};

bool lark_is_terminal(struct text name); // upper case
// Skips blanks and comments. Skips line ends too within a group, or if the next line begins with '|'.
void lark_skip(struct grammar_source *source);
// First pass: finds all definitions and reads the directives. Definitions are read later, from struct
// grammar_name.body.
enum status lark_index(struct lark *lark);
// Returns the pattern of a terminal of Lark's library `common`; NULL: unknown name.
const char *lark_common_pattern(struct text name);
// Finds the expression of a terminal; reads its definition at the first use.
enum status lark_terminal(struct lark *lark, struct text name, uint32_t *expression);
// Reads the right side of a definition.
enum status lark_read_choice(struct lark *lark, struct operand *operand);
