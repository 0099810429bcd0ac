// Resolves every variable of a template to its place, by jinja's rules (jinja.palletsprojects.com/templates,
// "Assignments" and "Scoping Behavior"). While parsing, each scope records which names it mentions and how,
// in order; scope_resolve then assigns slots.
#pragma once

#include "engine/template/syntax.h"

struct parser;

enum mention_kind {
    MENTION_READ,
    MENTION_SET,
    MENTION_SET_PERHAPS, // in an `if`: otherwise the outer value stays visible
    MENTION_DECLARED,    // set from outside on entry: a loop's target, a parameter
};

struct mention {
    struct expression *name;
    enum mention_kind kind;
};

// A scope during parsing. Scopes form a tree.
struct scope_draft {
    struct scope_draft *around, *first_inside, *last_inside, *next;
    struct scope *scope;         // to be filled
    struct procedure *procedure; // the procedure that holds its slots
    uint32_t depth;              // nesting depth of the procedure
    struct statement *loop;      // the loop whose body the scope is, or NULL
    struct mention *mentions;
    size_t n_mentions, capacity;
    unsigned n_branches; // currently open `if`s
    bool in_loop;        // break and continue have a target
};

// `procedure`: NULL if the scope belongs to the surrounding procedure.
struct scope_draft *scope_open(struct parser *parser, struct scope *scope, struct procedure *procedure);
void scope_close(struct parser *parser);
// Makes the innermost scope and the scopes inside it a separate procedure. None of them may be a procedure
// yet.
void scope_make_procedure(struct parser *parser, struct scope_draft *draft, struct procedure *procedure);
void scope_mention(struct parser *parser, struct expression *name, enum mention_kind kind);
// Mentions every name of a target: MENTION_SET or MENTION_DECLARED.
void scope_mention_target(struct parser *parser, struct expression *target, enum mention_kind kind);
// Fills in the scopes, procedures and places of all drafts, beginning at the root.
void scope_resolve(struct parser *parser, struct scope_draft *root);

// Mark in the mentions of template_mentions what a value is read for.
void scope_note_truth(const struct expression *test);  // its value is a condition
void scope_note_items(const struct expression *value); // iterated, counted, indexed
void scope_note_comparison(const struct expression *left, enum operator operator,
                           const struct expression * right);
void scope_note_filter(const struct expression *filter); // also for tests
