// A parsed template: statements, expressions, and where each variable lives. Immutable once parsed.
//
// Variables follow jinja's scoping rules, resolved at parse time. A loop's body, a macro, and set, filter,
// with and generation blocks are scopes; `if` is not. A scope has a slot for every name that it sets or that
// no surrounding scope has. The slot is loaded on entry: from outside the template, from the surrounding
// scope's slot, or with MISSING. So what a scope sets is gone when it ends. Scopes run inside a procedure
// (the template, a macro, a recursive loop); its activation holds the slots. A procedure also sees the slots
// of the procedures around it.
//
//   {% set y = 0 %}      scope of the template: slots y, and xs (loaded from outside)
//   {% for x in xs %}    scope of the loop: slots x (the target), and y (loaded from the template's y)
//   {% set y = x %}      sets the loop's y
//   {% endfor %}{{ y }}  0: the template's y is unchanged
#pragma once

#include "engine/template/object.h"
#include "engine/template/template.h"
#include "schemas/base/arena.h"

struct expression;
struct outside_mention;
struct statement;
struct function;

struct procedure {
    uint32_t index; // number within the template
    uint32_t n_slots;
    bool has_procedures; // some procedure is defined inside: activations may outlive the call
};

struct place {     // where a variable lives
    uint32_t hops; // procedures to go outward
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

// A namespace target (ns.attribute) occurs only in `set`, a slice only in a subscript.
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
    uint32_t height; // height of the tree below this node; at most TEMPLATE_NESTING_MAX
    union {
        struct object literal;
        struct {
            uint32_t name;
            struct place place;
            struct text attribute;           // for a namespace target
            struct outside_mention *mention; // mention of a name that is read
        } name;
        struct expression_array items; // list, tuple, concatenation; for a dict key, value, key, value...
        struct {
            enum operator operator;
            struct expression *left, *right; // a unary operator has its operand in left
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
            const struct function *dict_method; // methods of that name; a dict's method hides its key
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
            struct expression *input;        // NULL: the text of the surrounding block
            const struct function *function; // NULL: unknown filter or test
            struct text name;
            const struct argument_expressions *arguments;
        } filter; // also tests
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

// Parameters that Jinja passes implicitly to macros that name them.
enum { MACRO_CALLER, MACRO_VARARGS, MACRO_KWARGS, MACRO_HIDDEN };

struct macro_definition {
    struct text name;
    struct expression *target;               // variable for the macro; NULL: body of a call block
    struct expression *hidden[MACRO_HIDDEN]; // names; NULL: not named
    struct expression *call;                 // call of a call block, which gets the macro as `caller`
    struct expression **parameters;          // names
    size_t n_parameters;
    struct expression **defaults; // defaults of the last n_defaults parameters
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
            struct expression *test_target;     // copy of the target, in the filter's own scope
            struct expression *iterable, *test; // `test` may be NULL
            struct statements body, otherwise;
            bool uses_loop, is_recursive;
            uint32_t loop_slot;
            struct procedure procedure; // for a recursive loop
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

// A name that is read, or a member that is read as `owner.member`. member data NULL: the name itself.
struct outside_mention {
    struct outside_mention *next;
    uint32_t name, line;
    struct text member, printed;
    bool is_condition, reads_items;
};

struct template
{
    struct arena arena;
    struct text *names; // [n_names] names of variables; a name's number is its index
    uint32_t n_names;
    struct text *words; // [n_words] sorted: names and strings of the code, and their parts between dots
    uint32_t n_words;
    struct outside_mention *first_mention, *last_mention; // in the order of the source
    bool *is_outside;                                     // [n_names]: some scope reads it from outside
    struct template_refusal refusal;
    uint32_t n_procedures;
    struct statements body;
    struct procedure procedure;
    struct scope scope;
};
