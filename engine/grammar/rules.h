// A context-free grammar whose terminals are regular expressions. A symbol is an id. It may be used before it
// is defined, any number of times, and recursively at any position. The grammar may be ambiguous. The rules
// store their first failure, like the pool of expressions. After a failure constructors return 0, a symbol
// that derives nothing.
#pragma once

#include "engine/regex/expression.h"

enum terminal_encoding {
    TERMINAL_TEXT,         // code points as UTF-8
    TERMINAL_JSON_STRING,  // '"', code points as they are or escaped (\n, \/, \u00e9, surrogate pairs), '"'
    TERMINAL_JSON_CONTENT, // as TERMINAL_JSON_STRING, without the quotes
    TERMINAL_SPECIAL,      // the name of a special token (grammar.h), which is one token and not text
};

// A special token is matched as its name between two of these bytes, which never occur in UTF-8.
enum { SPECIAL_QUOTE = 0xFF };

enum { SYMBOL_NOTHING = 0 };

struct rules;

// Creates rules, which own a pool of expressions. NULL: out of memory.
struct rules *rules_create(const struct grammar_limits *limits);
void rules_destroy(struct rules *rules);
struct expressions *rules_expressions(struct rules *rules);
enum status rules_status(const struct rules *rules,
                         struct error *error); // the failure of the pool, or of the rules

uint32_t rules_nonterminal(struct rules *rules); // derives nothing until it is defined
void rules_define(struct rules *rules, uint32_t nonterminal, uint32_t symbol); // may be called once
uint32_t rules_terminal(struct rules *rules, uint32_t expression, enum terminal_encoding encoding);
uint32_t rules_literal(struct rules *rules, struct text utf8); // a terminal that matches this text
uint32_t rules_special(struct rules *rules, struct text name); // the special token with this name
uint32_t rules_sequence(struct rules *rules, const uint32_t *symbols, size_t n); // n 0: ""
uint32_t rules_choice(struct rules *rules, const uint32_t *symbols, size_t n);   // n 0: derives nothing
// Repeats a symbol. max EXPRESSION_UNBOUNDED means no upper limit. The parser counts repetitions and does not
// expand them, so 1 to 1,000,000 costs no more than 1 to 2.
uint32_t rules_repeat(struct rules *rules, uint32_t symbol, uint32_t min, uint32_t max);
