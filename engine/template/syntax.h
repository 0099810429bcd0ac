// A parsed template: statements, expressions, and where each variable lives. Immutable once parsed.
//
// Variables follow jinja's rules of scope, resolved while parsing. A scope is a loop's body, a macro, a block
// that is set; `if` makes none. Every name that a scope sets, or that no scope around it has, gets a slot of
// its own there, loaded on entry: from outside the template, from the slot of the scope around it, or with
// nothing. So what a scope sets is gone when it ends. Scopes run inside a procedure (the template, a macro),
// whose activation holds their slots; a procedure sees the slots of those around it.
#pragma once

#include "engine/template/object.h"
#include "engine/template/template.h"
#include "schemas/arena.h"

struct expression;
struct statement;
struct function;

struct procedure {
    uint32_t index; // among all of the template
    uint32_t n_slots;
    bool has_procedures; // inside: its activations may be needed after it ended
};

struct place {     // of a variable
    uint32_t hops; // procedures outward
    uint32_t slot;
};

enum load_kind { LOAD_GLOBAL, LOAD_OUTER, LOAD_NOTHING };

struct load {
    enum load_kind kind;
    uint32_t slot;
    uint32_t name;      // LOAD_GLOBAL
    struct place outer; // LOAD_OUTER
};

struct scope {
    const struct load *loads;
    uint32_t n_loads;
};

// A namespace target (ns.attribute) is only in `set`, a slice only in a subscript.
enum expression_kind {
    EXPRESSION_LITERAL,
    EXPRESSION_NAME,
    EXPRESSION_NAMESPACE_TARGET,
    EXPRESSION_LIST,
    EXPRESSION_TUPLE,
    EXPRESSION_DICT,
    EXPRESSION_CONCATENATION,
    EXPRESSION_BINARY,
    EXPRESSION_AND,
    EXPRESSION_OR,
    EXPRESSION_NOT,
    EXPRESSION_NEGATIVE,
    EXPRESSION_POSITIVE,
    EXPRESSION_COMPARISON,
    EXPRESSION_CONDITION,
    EXPRESSION_ATTRIBUTE,
    EXPRESSION_SUBSCRIPT,
    EXPRESSION_SLICE,
    EXPRESSION_CALL,
    EXPRESSION_FILTER,
    EXPRESSION_TEST
};

enum operator{
    OPERATOR_ADD,
    OPERATOR_SUBTRACT,
    OPERATOR_MULTIPLY,
    OPERATOR_DIVIDE,
    OPERATOR_FLOOR_DIVIDE,
    OPERATOR_MODULO,
    OPERATOR_POWER,
    OPERATOR_EQUAL,
    OPERATOR_NOT_EQUAL,
    OPERATOR_LESS,
    OPERATOR_LESS_EQUAL,
    OPERATOR_GREATER,
    OPERATOR_GREATER_EQUAL,
    OPERATOR_IN,
    OPERATOR_NOT_IN
};

struct expression_array {
    struct expression **items;
    size_t n_items;
};

struct keyword_expression {
    struct text name;
    struct expression *value;
};

struct argument_expressions {
    struct expression_array positional;
    struct keyword_expression *keywords;
    size_t n_keywords;
    struct expression *unpacked, *unpacked_keywords; // *list and **dict; each may be NULL
};

struct comparison_operand {
    enum operator operator;
    struct expression *operand;
};

struct expression {
    enum expression_kind kind;
    uint32_t line;
    uint32_t height; // of the tree below: bounded by TEMPLATE_NESTING_MAX
    union {
        struct object literal;
        struct {
            uint32_t name;
            struct place place;
            struct text attribute; // of a namespace target
        } name;
        struct expression_array items; // list, tuple, concatenation; of a dict key, value, key, value...
        struct {
            enum operator operator;
            struct expression *left, *right; // an operator of one operand has it in left
        } binary;
        struct {
            struct expression *first;
            struct comparison_operand *operands;
            size_t n_operands;
        } comparison;
        struct {
            struct expression *test, *yes, *no; // no: may be NULL
        } condition;
        struct {
            struct expression *owner;
            struct text name;
            const struct function *dict_method; // methods of that name; a dict has one before any key
            const struct function *string_method;
        } attribute;
        struct {
            struct expression *owner, *index;
        } subscript;
        struct {
            struct expression *start, *stop, *step; // each may be NULL
        } slice;
        struct {
            struct expression *callee;
            const struct argument_expressions *arguments;
        } call;
        struct {
            struct expression *input;        // NULL: the text of the block around it
            const struct function *function; // NULL: no filter or test of that name
            struct text name;
            const struct argument_expressions *arguments;
        } filter; // and test
    };
};

enum statement_kind {
    STATEMENT_OUTPUT,
    STATEMENT_SET,
    STATEMENT_SET_BLOCK,
    STATEMENT_FILTER,
    STATEMENT_IF,
    STATEMENT_FOR,
    STATEMENT_MACRO,
    STATEMENT_CALL,
    STATEMENT_WITH,
    STATEMENT_GENERATION,
    STATEMENT_BREAK,
    STATEMENT_CONTINUE
};

struct statements {
    struct statement **items;
    size_t n_items;
};

struct branch {
    struct expression *test; // NULL: else
    struct statements body;
};

// What Jinja passes to macros that name it.
enum { MACRO_CALLER, MACRO_VARARGS, MACRO_KWARGS, MACRO_HIDDEN };

struct macro_definition {
    struct text name;
    struct expression *target; // where the macro itself is stored; NULL: the body of a call block
    struct expression *hidden[MACRO_HIDDEN]; // names; NULL: not named
    struct expression *call;                 // of a call block: the call that gets the macro as `caller`
    struct expression **parameters;          // names
    size_t n_parameters;
    struct expression **defaults; // of the last ones
    size_t n_defaults;
    struct statements body;
    struct procedure procedure;
    struct scope scope;
};

struct statement {
    enum statement_kind kind;
    uint32_t line;
    union {
        struct expression_array output;
        struct {
            struct expression *target;
            struct expression *value; // set: the value; set block and filter: the filter, or NULL
            struct statements body;   // set block, filter, generation
            struct scope scope;
        } set;
        struct {
            struct branch *branches;
            size_t n_branches;
        } condition;
        struct {
            struct expression *target;
            struct expression *test_target;     // the same target in the filter's own scope
            struct expression *iterable, *test; // test: or NULL
            struct statements body, otherwise;
            bool uses_loop, is_recursive;
            uint32_t loop_slot;
            struct procedure procedure; // of a recursive loop
            struct scope around, scope, test_scope, otherwise_scope;
        } loop;
        struct {
            struct expression **targets, **values;
            size_t n_targets;
            struct statements body;
            struct scope scope;
        } with;
        struct macro_definition *macro;
    };
};

// A name that is read, or `owner.member` of one (member data NULL: the name itself).
struct outside_mention {
    struct outside_mention *next;
    uint32_t name, line;
    struct text member;
};

struct template
{
    struct arena arena;
    struct text *names; // of variables; a name's number is its index
    uint32_t n_names;
    struct text *words; // [n_words] all names and strings of the code, and their parts between dots, sorted
    uint32_t n_words;
    struct outside_mention *first_mention, *last_mention; // in the source's order
    bool *is_outside;                                     // [n_names]: some scope reads it from outside
    struct template_refusal refusal;
    uint32_t n_procedures;
    struct statements body;
    struct procedure procedure;
    struct scope scope;
};
