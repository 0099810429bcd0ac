// A context-free grammar whose terminals are expressions. Symbols are ids; a symbol may be used before it is
// defined, any number of times, recursively on any side, and the grammar may be ambiguous. Like the pool, the
// rules remember their first failure, and constructors then return 0, a symbol that derives nothing.
#pragma once

#include "engine/regex/expression.h"

enum terminal_encoding {
    TERMINAL_TEXT,         // code points as UTF-8
    TERMINAL_JSON_STRING,  // '"', each code point as it is or escaped (\n, \/, \u00e9, surrogate pairs), '"'
    TERMINAL_JSON_CONTENT, // the same without the quotes
    TERMINAL_SPECIAL,      // the name of one special token (grammar.h), which is one token and no text
};

// A special token is matched as its name between two of these bytes, which no UTF-8 has.
enum { SPECIAL_QUOTE = 0xFF };

enum { SYMBOL_NOTHING = 0 };

struct rules;

// The rules own a pool of expressions. NULL when memory runs out.
struct rules *rules_create(const struct grammar_limits *limits);
void rules_destroy(struct rules *rules);
struct expressions *rules_expressions(struct rules *rules);
enum status rules_status(const struct rules *rules,
                         struct error *error); // the pool's failure or the rules' own

uint32_t rules_nonterminal(struct rules *rules); // derives nothing until it is defined
void rules_define(struct rules *rules, uint32_t nonterminal, uint32_t symbol); // once
uint32_t rules_terminal(struct rules *rules, uint32_t expression, enum terminal_encoding encoding);
uint32_t rules_literal(struct rules *rules, struct text utf8); // rules_terminal of expression_literal
uint32_t rules_special(struct rules *rules, struct text name); // the special token of this name
uint32_t rules_sequence(struct rules *rules, const uint32_t *symbols, size_t n); // none: ""
uint32_t rules_choice(struct rules *rules, const uint32_t *symbols, size_t n);   // none: nothing
// max EXPRESSION_UNBOUNDED: without end. Counted, not written out: 1 to 1,000,000 costs no more than 1 to 2.
uint32_t rules_repeat(struct rules *rules, uint32_t symbol, uint32_t min, uint32_t max);
