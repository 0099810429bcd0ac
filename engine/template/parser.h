// A recursive descent parser over the tokens (statements.c, expressions.c, primary.c). All nodes are in the
// template's arena. A function returns only if it succeeds: an error leaves through the lexer's `failure`,
// with the line.
#pragma once

#include "engine/template/lexer.h"
#include "engine/template/scope.h"

struct parser {
    struct lexer lexer;
    struct token token; // the current one
    struct token ahead; // the next token, once parser_look_ahead has read it
    bool has_ahead;
    struct template *template;
    unsigned depth;
    struct scope_draft *scope;        // the innermost open one
    unsigned n_loops;                 // open ones
    struct macro_definition *macro;   // the innermost open one, or NULL
    struct scope_draft *macro_scope;  // its scope
    bool in_target;                   // parsing a target of `set` or `for`: names are written, not read
    const struct expression *unknown; // a missing filter or test in code that certainly runs; NULL: none
    uint32_t *name_index;             // open addressing: name number + 1
    uint32_t name_index_mask, names_capacity;
    size_t words_capacity;
};

// A growing arena array, for a number of items not known in advance.
struct expression_list {
    struct expression **items;
    size_t n_items, capacity;
};

#define parser_fail(parser, line, ...) lexer_fail(&(parser)->lexer, ERROR_TEMPLATE, line, __VA_ARGS__)
#define parser_fail_limit(parser, line, ...)                                                                 \
    lexer_fail(&(parser)->lexer, ERROR_LIMIT_EXCEEDED, line, __VA_ARGS__)
static inline void *parser_allocate(struct parser *parser, size_t size)
{
    return lexer_allocate(&parser->lexer, size);
}
// Call these around every recursion. parser_enter fails beyond TEMPLATE_NESTING_MAX.
void parser_enter(struct parser *parser);
void parser_leave(struct parser *parser);

struct token parser_advance(struct parser *parser); // returns the token that was the current one
void parser_look_ahead(struct parser *parser);      // fills parser->ahead
bool parser_is_name(const struct parser *parser, const char *name);
struct token parser_expect(struct parser *parser, enum token_kind kind);
void parser_expect_name(struct parser *parser, const char *name);
// Skips the current token if it has that kind, or is that name; returns whether it did.
bool parser_skip(struct parser *parser, enum token_kind kind);
bool parser_skip_name(struct parser *parser, const char *name);
// Returns the current token for an error message. Valid until the parser advances.
struct text parser_token_text(const struct parser *parser);
uint32_t parser_name(struct parser *parser, struct text name); // the name's number
// Makes room for one more element of `size` bytes: returns the same array or a larger copy.
void *parser_grow(struct parser *parser, void *items, size_t n_items, size_t *capacity, size_t size);

struct expression *expression_create(struct parser *parser, enum expression_kind kind, uint32_t line);
// Raises the parent's height above the child's (NULL: no child). Fails beyond TEMPLATE_NESTING_MAX.
void expression_cover(struct parser *parser, struct expression *parent, const struct expression *child);
struct expression *expression_create_binary(struct parser *parser, enum expression_kind kind,
                                            enum operator operator, uint32_t line, struct expression *left,
                                            struct expression *right);
void expression_list_add(struct parser *parser, struct expression_list *list, struct expression *expression);
struct expression *expression_create_items(struct parser *parser, enum expression_kind kind, uint32_t line,
                                           const struct expression_list *list);

enum {                       // flags of expression_parse_tuple
    TUPLE_SIMPLE = 1,        // names and literals only
    TUPLE_NO_CONDITION = 2,  // `a if b` is not part of an element
    TUPLE_PARENTHESISED = 4, // may be empty
    TUPLE_NAMESPACES = 8,    // `a if b` ends an element
    TUPLE_UNTIL_IN = 16,     // ends before `in`
};

struct expression *expression_parse_whole(struct parser *parser);
struct expression *expression_parse_tuple(struct parser *parser, unsigned how);
// Parses a target of `set` or `for`, which is not mentioned in the scope yet. `how` is TUPLE_NAMESPACES,
// TUPLE_UNTIL_IN or 0.
struct expression *expression_parse_target(struct parser *parser, unsigned how);
struct expression *expression_parse_name_target(struct parser *parser);
// Parses `|a|b(1)` after `input`. at_name: the current token is the first filter's name. `input` NULL stands
// for the text of a block; then the result is NULL if there is no filter.
struct expression *expression_parse_filters(struct parser *parser, struct expression *input, bool at_name);

struct expression *primary_parse(struct parser *parser, bool namespaces);
struct expression *primary_parse_unary(struct parser *parser, bool with_filters);

// Record expressions that certainly fail if they run, for template_find_refusal (refusal.c).
void refusal_check_filter(struct parser *parser, const struct expression *filter); // also for tests
void refusal_check_call(struct parser *parser, const struct expression *call);
void refusal_check_binary(struct parser *parser, const struct expression *binary); // also unary
void refusal_check_output(struct parser *parser, const struct expression *output); // of {{ }}

void statements_parse_template(struct parser *parser); // also resolves its variables
