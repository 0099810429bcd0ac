// First half of resolving variables: which names a scope has. scope.c then finds the place of each use.
#pragma once

#include "engine/template/parser.h"

// A scope while it is resolved. Its names are found first (collect_*), then the places of all names inside it
// and, scope by scope, in those inside it (bind_*).
struct open_scope {
    struct open_procedure *procedure;
    struct binding *bindings; // of this scope, newest first
    struct load *loads;
    size_t n_loads, loads_capacity;
    bool *uses_loop; // of a for statement's body: set when `loop` is read
};

struct open_procedure {
    struct open_procedure *around;
    struct procedure *procedure;
    uint32_t depth;
};

// A name's place in the innermost open scope that has it; those further out follow.
struct binding {
    struct binding *outer;    // of the same name
    struct binding *previous; // of the same scope
    struct open_scope *scope;
    uint32_t name, slot;
};

struct resolver {
    struct parser *parser;
    struct template *template;
    struct binding **innermost; // by name
    struct open_scope *root;
    uint32_t loop_name;
    unsigned n_loops;          // for statements around
    struct statement **blocks; // to be resolved on their own
    size_t n_blocks, blocks_capacity;
};

// Where an expression or statement stands.
struct position {
    struct open_scope *scope;
    bool in_branch; // of an `if` of the same scope
    bool in_loop;   // that break and continue can reach
};

struct place names_place(const struct open_scope *from, const struct binding *binding);
// A name that is set from outside when the scope starts: a loop's target, a parameter. *slot (or NULL): its
// slot.
bool names_declare(struct resolver *resolver, struct open_scope *scope, uint32_t name, uint32_t *slot);
bool names_declare_target(struct resolver *resolver, struct open_scope *scope,
                          const struct expression *target);
// Gives slots to what the expression reads, or the statements read and set, in that scope; not to what is
// inside scopes of their own.
bool names_collect_expression(struct resolver *resolver, struct open_scope *scope,
                              const struct expression *expression);
bool names_collect_list(struct resolver *resolver, struct open_scope *scope, struct expression *const *items,
                        size_t n_items);
bool names_collect(struct resolver *resolver, struct position position, const struct statements *statements);

// The parts of an expression that are plain expressions, at most three; each may be NULL.
size_t names_parts(const struct expression *expression, struct expression *parts[3]);
const struct argument_expressions *names_arguments(const struct expression *expression); // NULL: it has none
