// The vote of a row's draws on one property of a schema. Properties with few values are voted on: an enum, a
// const, a boolean, null, an integer of at most VOTE_INTEGERS_MAX values, and unions of these, by value; an
// array of them member by member. Others (texts, numbers, objects) hardly agree and are not voted on.
// Thread: main.
#pragma once

#include "schemas/arena.h"
#include "schemas/value.h"

enum { VOTE_INTEGERS_MAX = 16 };

enum vote_kind { VOTE_NONE, VOTE_BY_VALUE, VOTE_BY_MEMBER };

struct vote_rule {
    enum vote_kind kind;
    size_t n_items_min, n_items_max; // of an array
};

// `root` has the definitions that the schema's $ref name.
struct vote_rule vote_rule_of(const struct value *root, const struct value *schema);

struct vote_outcome {
    const struct value *winner; // NULL: most draws lack the property
    size_t n_agreeing; // draws with the winner; by member: of the member on which the fewest draws agree
};
// values: [n] of the draws in their order; NULL: the draw lacks the property. Ties go to the value drawn
// first. An array has the members that most draws' arrays have, within n_items_min and n_items_max, in the
// order in which they were first drawn; it is in the arena. False: out of memory.
bool vote_count(const struct vote_rule *rule, const struct value *const *values, size_t n,
                struct arena *arena, struct vote_outcome *outcome);
// Does a draw with `value` agree with the winner? Either may be NULL. Arrays agree with equal members.
bool vote_agrees(const struct vote_rule *rule, const struct value *value, const struct value *winner);
