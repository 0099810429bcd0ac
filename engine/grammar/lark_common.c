#include "engine/grammar/lark_parts.h"

// Patterns from the documentation of Lark's library `common`.
#define DIGITS   "[0-9]+"
#define DECIMAL  "([0-9]+\\.[0-9]*|\\.[0-9]+)"
#define EXPONENT "[eE][+-]?[0-9]+"
#define FLOAT    "([0-9]+" EXPONENT "|" DECIMAL "(" EXPONENT ")?)"

static const struct {
    const char *name, *pattern;
} common[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[a-fA-F0-9]"},
    {"INT", DIGITS},
    {"SIGNED_INT", "[+-]?" DIGITS},
    {"DECIMAL", DECIMAL},
    {"FLOAT", FLOAT},
    {"SIGNED_FLOAT", "[+-]?" FLOAT},
    {"NUMBER", "(" FLOAT "|" DIGITS ")"},
    {"SIGNED_NUMBER", "[+-]?(" FLOAT "|" DIGITS ")"},
    {"ESCAPED_STRING", "\"([^\"\\\\\\n]|\\\\[^\\n])*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[a-zA-Z]"},
    {"WORD", "[a-zA-Z]+"},
    {"CNAME", "[_a-zA-Z][_a-zA-Z0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(\\r?\\n)+"},
    {"SH_COMMENT", "#[^\\n]*"},
    {"CPP_COMMENT", "\\/\\/[^\\n]*"},
    {"SQL_COMMENT", "--[^\\n]*"},
    {"C_COMMENT", "\\/\\*([^*]|\\*+[^*/])*\\*+\\/"},
};

const char *lark_common_pattern(struct text name)
{
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        if (text_equals_string(name, common[i].name))
            return common[i].pattern;
    return NULL;
}
