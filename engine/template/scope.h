// Resolves every variable of a template to its place, by jinja's rules (jinja.palletsprojects.com/templates,
// "Assignments" and "Scoping Behavior"): while parsing, each scope notes which names it mentions and how, in
// order; scope_resolve then gives slots.
#pragma once

#include "engine/template/syntax.h"

struct parser;

enum mention_kind {
    MENTION_READ,
    MENTION_SET,
    MENTION_SET_PERHAPS, // in an `if`: what is outside shows through
    MENTION_DECLARED,    // set from outside when the scope starts: a loop's target, a parameter
};

struct mention {
    struct expression *name;
    enum mention_kind kind;
};

// A scope while its template is parsed. They form a tree.
struct scope_draft {
    struct scope_draft *around, *first_inside, *last_inside, *next;
    struct scope *scope;         // to be filled
    struct procedure *procedure; // whose slots it has
    uint32_t depth;              // of the procedure
    struct statement *loop;      // whose body it is, or NULL
    struct mention *mentions;
    size_t n_mentions, capacity;
    unsigned n_branches; // `if`s that are open in it
    bool in_loop;        // break and continue have a target
};

// `procedure`: NULL for a scope in the procedure around it.
struct scope_draft *scope_open(struct parser *parser, struct scope *scope, struct procedure *procedure);
void scope_close(struct parser *parser);
// Makes the innermost scope, and those that were inside it, one of a procedure of its own. None of them has one.
void scope_make_procedure(struct parser *parser, struct scope_draft *draft, struct procedure *procedure);
void scope_mention(struct parser *parser, struct expression *name, enum mention_kind kind);
// Every name of a target: MENTION_SET or MENTION_DECLARED.
void scope_mention_target(struct parser *parser, struct expression *target, enum mention_kind kind);
// Fills the scopes, procedures and places of the drafts from the root on.
void scope_resolve(struct parser *parser, struct scope_draft *root);
