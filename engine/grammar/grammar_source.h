// Shared by the parsers of grammars: a position in the text, names, and operands. An operand stays an
// expression as long as possible. Internal to engine/grammar/.
#pragma once

#include "engine/grammar/rules_parts.h"
#include "schemas/base/hash_index.h"

struct grammar_source {
    struct rules *rules;
    struct text text;
    size_t at;
    unsigned depth;  // open groups at the position
    unsigned levels; // recursion levels, including definitions that are read because another one uses them
    struct error *error;
};

// Sets an error with the line, "line 3: ...". Returns STATUS_REJECT.
enum status source_refuse(struct grammar_source *source, const char *format, ...) PRINTF_LIKE(2, 3);
enum status source_check(struct grammar_source *source); // the pool's failure
enum status source_enter(struct grammar_source *source); // one level deeper, up to GRAMMAR_LIMIT_DEPTH
void source_leave(struct grammar_source *source);
bool source_take(struct grammar_source *source, const char *string);
bool source_next_is(const struct grammar_source *source, const char *string);
char source_peek(const struct grammar_source *source); // '\0' at the end
// Reads a decimal number, saturating at EXPRESSION_UNBOUNDED - 1. False: no digit follows.
bool source_number(struct grammar_source *source, uint32_t *number);
// Called after '"': appends the text up to the closing quote, with escapes resolved.
enum status source_quoted(struct grammar_source *source, struct buffer *out);
// Reads the longest name: letters, digits, '_' and, with `hyphens`, '-'. It may be empty.
struct text source_name(struct grammar_source *source, bool hyphens);
// Reads a repetition: +, ?, *, {n}, {n,}, {n,m} or {,m}. *found becomes false if none follows.
enum status source_repetition(struct grammar_source *source, bool *found, uint32_t *min, uint32_t *max);

struct grammar_name {
    struct text name;
    uint32_t symbol;
    bool defined;
    // For a definition that is read at its first use.
    size_t body; // position in the text; SIZE_MAX: already read
    bool reading;
    uint32_t expression;
};

struct grammar_names {
    VECTOR(struct grammar_name) items;
    struct hash_index index; // finds `items`; holds index + 1
};

// Finds the name or adds it (then `defined` is false and `symbol` 0). NULL: out of memory. Valid until the
// next call.
struct grammar_name *names_find(struct grammar_names *names, struct text name);
void names_finish(struct grammar_names *names);

struct operand {
    bool is_symbol; // a symbol of the rules; false: an expression
    uint32_t id;
};

struct operands {
    struct operand *items;
    size_t n, capacity;
};

uint32_t operand_symbol(struct rules *rules, struct operand operand);
struct operand operand_sequence(struct rules *rules, const struct operands *parts);
struct operand operand_choice(struct rules *rules, const struct operands *parts);
struct operand operand_repeat(struct rules *rules, struct operand operand, uint32_t min, uint32_t max);
