// A grammar in Lark's notation while it is read. Internal to engine/grammar/.
#pragma once

#include "engine/grammar/grammar_source.h"

struct lark {
    struct grammar_source source;
    struct grammar_names names;
    bool in_terminal;        // the definition that is read is a terminal's
    uint32_t ignored;        // a symbol behind every terminal of a rule; SYMBOL_NOTHING: nothing is ignored
    struct operands ignores; // where %ignore says what: places in the text
};

bool lark_is_terminal(struct text name); // upper case
// Blanks and comments; a line's end too in a group, and where the next line begins with '|'.
void lark_skip(struct grammar_source *source);
// Finds all definitions, and reads the directives. Definitions' bodies are left for later (struct
// grammar_name.body).
enum status lark_index(struct lark *lark);
// The pattern of a terminal of Lark's common.lark; NULL: there is none of that name.
const char *lark_common_pattern(struct text name);
// The expression of a terminal, reading its definition when that is due.
enum status lark_terminal(struct lark *lark, struct text name, uint32_t *expression);
// One definition's right side.
enum status lark_read_choice(struct lark *lark, struct operand *operand);
